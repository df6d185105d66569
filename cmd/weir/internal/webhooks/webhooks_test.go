package webhooks

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/postgrestest"
)

func root() rulestore.Actor {
	return rulestore.Actor{Name: "root", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}
}

func open(t *testing.T, place string) *rulestore.Store {
	t.Helper()
	s, err := rulestore.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.CreateDomain(t.Context(), root(), rulestore.NewDomain{Name: "shop", Team: "shop"}, "a test"); err != nil {
		t.Fatal(err)
	}
	return s
}

// hook makes a webhook, and gives its secret.
func hook(t *testing.T, s *rulestore.Store, url string, form rulestore.Form) rulestore.Webhook {
	t.Helper()
	w, err := s.SetWebhook(t.Context(), root(), rulestore.Webhook{Team: "shop", URL: url, Form: form}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// happens writes lines into the audit of which webhooks are told.
func happens(t *testing.T, s *rulestore.Store, reasons ...string) {
	t.Helper()
	var list []rulestore.Event
	for _, reason := range reasons {
		list = append(list, rulestore.Event{Actor: "ann", Action: "override.end", Domain: "shop", Team: "shop", Reason: reason, At: time.Now()})
	}
	if err := s.Record(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

// sender is one that looks often, and may send to loopback.
func sender(s *rulestore.Store, log io.Writer) *Sender {
	x := New(Options{Store: func() *rulestore.Store { return s }, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}, Agent: "weir/test", Log: slog.New(slog.NewTextHandler(log, nil))})
	x.every = 5 * time.Millisecond
	return x
}

// keep runs a sender until the end of the test or stop.
func keep(t *testing.T, x *Sender) (stop func()) {
	ctx, end := context.WithCancel(context.Background())
	var g sync.WaitGroup
	g.Go(func() { x.Keep(ctx) })
	stop = func() { end(); g.Wait() }
	t.Cleanup(stop)
	return stop
}

// receiver is a server that keeps what it is sent.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex
	sent   []http.Header
	bodies []string
	status int // of answers; 0: 204
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.sent, r.bodies = append(r.sent, q.Header), append(r.bodies, string(body))
		w.WriteHeader(max(r.status, http.StatusNoContent))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sent)
}

// soon waits until something is so.
func soon(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never happens:", what)
		}
	}
}

// signed is whether a message is signed with a secret, by the words of the specification (standardwebhooks.com) alone.
func signed(h http.Header, body, secret string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.SplitN(secret, "_", 2)[1])
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "." + body))
	for one := range strings.SplitSeq(h.Get("webhook-signature"), " ") {
		if one == "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
			return true
		}
	}
	return false
}

// TestDelivered: messages come in order, each once, signed with the secret and for a day with the one before; also as Slack takes them; and nothing
// secret is logged.
func TestDelivered(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	r, slack := newReceiver(t), newReceiver(t)
	w, other := hook(t, s, r.URL+"/hidden", rulestore.JSON), hook(t, s, slack.URL, rulestore.Slack)
	var log bytes.Buffer
	stop := keep(t, sender(s, &log))
	happens(t, s, "one", "two & <!channel>")
	soon(t, "two messages", func() bool { return r.count() == 2 && slack.count() == 2 })
	again, err := s.RenewWebhook(t.Context(), root(), w.ID, "leaked")
	if err != nil {
		t.Fatal(err)
	}
	happens(t, s, "three")
	soon(t, "a third", func() bool { return r.count() == 3 && slack.count() == 3 })
	stop()
	for i, reason := range []string{"one", "two & <!channel>", "three"} {
		var m rulestore.Message
		if err := json.Unmarshal([]byte(r.bodies[i]), &m); err != nil || m.Reason != reason || m.ID != r.sent[i].Get("webhook-id") || m.Kind != "override" || m.Actor != "ann" {
			t.Errorf("%s %v", r.bodies[i], err)
		}
		if !signed(r.sent[i], r.bodies[i], w.Secret) || signed(r.sent[i], r.bodies[i], again.Secret) != (i == 2) || signed(r.sent[i], r.bodies[i]+" ", w.Secret) || !signed(slack.sent[i], slack.bodies[i], other.Secret) {
			t.Error(i, "is not signed as it must be:", r.sent[i])
		}
	}
	var body struct {
		Text   string
		Blocks []struct{ Text struct{ Type, Text string } }
	}
	if err := json.Unmarshal([]byte(slack.bodies[1]), &body); err != nil || !strings.HasSuffix(body.Text, "two &amp; &lt;!channel&gt;") || body.Blocks[0].Text.Type != "plain_text" {
		t.Error(slack.bodies[1], err)
	}
	for _, secret := range []string{w.Secret, again.Secret, other.Secret, "hidden"} {
		if strings.Contains(log.String(), secret) || strings.Contains(strings.Join(r.bodies, ""), secret) {
			t.Error("a secret is told:", log.String())
		}
	}
}

// TestReceivers: whatever a receiver does, the try ends in time with a reason, and is made again with the same id; it holds up nobody else.
func TestReceivers(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	lies := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it is sent to without trust") }))
	lies.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	t.Cleanup(lies.Close)
	good := newReceiver(t)
	release := make(chan struct{})
	serve := func(f http.HandlerFunc) string {
		server := httptest.NewServer(f)
		t.Cleanup(server.Close)
		return server.URL
	}
	slow := serve(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body) // so that the end of the connection is seen
		select {
		case <-q.Context().Done():
		case <-release:
		}
	})
	t.Cleanup(func() { close(release) })
	_, port, err := net.SplitHostPort(strings.TrimPrefix(good.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	var read int64
	for name, c := range map[string]struct{ url, why string }{
		"500": {serve(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }), "it answers 500"},
		"closes": {serve(func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				err = c.Close()
			}
			if err != nil {
				t.Error(err)
			}
		}), "EOF"},
		"redirects": {serve(func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, good.URL, http.StatusTemporaryRedirect)
		}), "redirections are not followed"},
		"1 GB": {serve(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			for chunk := make([]byte, 1<<20); read < 1<<30; {
				n, err := w.Write(chunk)
				if read += int64(n); err != nil {
					return
				}
			}
		}), "it answers 400"},
		"lies in TLS": {lies.URL, "certificate"},
		"slow":        {slow, "it does not answer within"},
		"nobody":      {"http://127.0.0.1:1/", "refused"},
		"a name":      {"http://localhost:" + port + "/", ""}, // allowed here
	} {
		x := sender(s, io.Discard)
		x.client.tls.Timeout, x.client.plain.Timeout = 500*time.Millisecond, 500*time.Millisecond
		w := hook(t, s, c.url, rulestore.JSON)
		d, err := x.Ping(t.Context(), &w, root())
		if err != nil || !strings.Contains(d.Error, c.why) || (d.Error == "") != (c.why == "") || strings.Contains(d.Error, c.url) {
			t.Errorf("%s: %+v %v", name, d, err)
		}
	}
	if read > 64<<20 {
		t.Error("so much is read of an answer:", read)
	}
	x := sender(s, io.Discard)
	keep(t, x)
	before := good.count()
	happens(t, s, "all are told")
	soon(t, "the good one is told", func() bool { return good.count() > before })
	soon(t, "the bad ones are tried again", func() bool { return x.Stats(time.Now()).Failed > 10 })
}

// TestAddresses: without the operator's leave nothing is sent to addresses that are not public, whatever name leads there, and nothing without TLS.
func TestAddresses(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	r := newReceiver(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(r.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	x := New(Options{Store: func() *rulestore.Store { return s }, Log: slog.New(slog.DiscardHandler)})
	for _, host := range []string{
		"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "10.1.2.3", "192.168.0.1", "172.31.0.1", "100.64.0.1", "169.254.169.254", "[fd00:ec2::254]", "[fe80::1]", "[64:ff9b::7f00:1]", "127.1", "2130706433",
	} {
		for _, scheme := range []string{"http://", "https://"} {
			w, err := s.SetWebhook(t.Context(), root(), rulestore.Webhook{Team: "shop", URL: scheme + host + ":" + port + "/", Form: rulestore.JSON}, "x")
			if err != nil {
				t.Fatal(host, err)
			}
			d, err := x.Ping(t.Context(), &w, root())
			if numbers := strings.Contains("127.1 2130706433", host); err != nil || d.Error == "" || !numbers && !strings.Contains(d.Error, "--webhook-networks") {
				t.Error(host, d, err)
			}
		}
	}
	if r.count() > 0 {
		t.Error("it was sent to")
	}
	for address, want := range map[string]string{"93.184.216.34:443": "", "[2606:2800:220:1::]:443": ""} {
		if err := x.client.check(false)("tcp", address, nil); fmt.Sprint(err) != "<nil>" {
			t.Error(address, err, want)
		}
		if err := x.client.check(true)("tcp", address, nil); err == nil {
			t.Error(address, "is sent to without TLS")
		}
	}
	for text, n := range map[string]int{"10.0.0.0/8, fd00::/8": 2, "127.0.0.1": 1, "": 0, "10.0.0.0/33": -1, "all": -1} {
		list, err := ParseNetworks(text)
		if err != nil && n >= 0 || err == nil && len(list) != n {
			t.Error(text, list, err)
		}
	}
}

// TestOneSends: of two senders at one database one sends, and when it ends the other goes on, with nothing lost and nothing twice.
func TestOneSends(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	at := server.Database(t)
	s := open(t, at)
	r := newReceiver(t)
	hook(t, s, r.URL, rulestore.JSON)
	one, two := sender(s, io.Discard), sender(s, io.Discard)
	stop := keep(t, one)
	happens(t, s, "1")
	soon(t, "the first", func() bool { return r.count() == 1 })
	keep(t, two)
	happens(t, s, "2", "3")
	soon(t, "the second and third", func() bool { return r.count() == 3 })
	if n := two.Stats(time.Now()).Delivered; n != 0 {
		t.Error("both send:", n)
	}
	stop()
	happens(t, s, "4")
	soon(t, "the fourth", func() bool { return r.count() == 4 })
	if n := two.Stats(time.Now()).Delivered; n != 1 {
		t.Error(n)
	}
	seen := map[string]bool{}
	for i, h := range r.sent {
		if seen[h.Get("webhook-id")] || !strings.Contains(r.bodies[i], fmt.Sprintf(`"reason":"%d"`, i+1)) {
			t.Error(i, r.bodies[i])
		}
		seen[h.Get("webhook-id")] = true
	}
}

// TestBackOff: the pauses between tries grow up to a bound, all tries have one id, and after a day the message is given up, which the log and counts tell.
func TestBackOff(t *testing.T) {
	t.Parallel()
	r := newReceiver(t)
	r.status = http.StatusServiceUnavailable
	s := open(t, t.TempDir())
	var log bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		w := hook(t, s, r.URL, rulestore.JSON)
		happens(t, s, "nobody hears it")
		x := sender(s, &log)
		x.every, x.lease = time.Minute, time.Hour
		ctx, stop := context.WithCancel(t.Context())
		var g sync.WaitGroup
		g.Go(func() { x.Keep(ctx) })
		time.Sleep(giveUpAfter - time.Minute)
		tries := x.Stats(time.Now()).Failed
		if got := x.Stats(time.Now()); got.GivenUp != 0 || got.Delivered != 0 || tries < 96 || tries > 400 || got.Oldest < giveUpAfter-time.Hour {
			t.Errorf("before a day: %+v", got)
		}
		time.Sleep(2 * maxPause)
		if got := x.Stats(time.Now()); got.GivenUp != 1 {
			t.Errorf("after a day: %+v", got)
		}
		now, err := s.WebhookToTell(t.Context(), w.ID)
		if err != nil || now.GivenUp != 1 || now.Error != "it answers 503" {
			t.Error(now.GivenUp, now.Error, err)
		}
		happens(t, s, "another")
		time.Sleep(2 * maxPause)
		stop()
		g.Wait()
	})
	ids := map[string]int{}
	for _, h := range r.sent {
		ids[h.Get("webhook-id")]++
	}
	if len(ids) != 2 || !strings.Contains(log.String(), "messages for a webhook are given up") {
		t.Error(ids, log.String())
	}
}

// TestPause: each pause is drawn from nothing up to a bound that doubles, to a bound.
func TestPause(t *testing.T) {
	for failed, most := range map[int64]time.Duration{0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 9: 512 * time.Second, 10: maxPause, 19: maxPause, 20: maxPause, 1 << 40: maxPause} {
		var sum, highest time.Duration
		for range 2000 {
			p := pause(failed)
			if p < 0 || p >= most {
				t.Fatal(failed, p)
			}
			sum, highest = sum+p, max(highest, p)
		}
		if mean := sum / 2000; mean < most*4/10 || mean > most*6/10 || highest < most*9/10 {
			t.Error(failed, mean, highest)
		}
	}
}

// TestReach: a URL is refused when it is written for what it would be refused when a message is sent; a host that nobody knows is not.
func TestReach(t *testing.T) {
	inside := New(Options{Networks: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	for target, why := range map[string]string{
		"https://127.0.0.1/x":              "127.0.0.1 is not public",
		"https://localhost/x":              "is not public",
		"https://10.0.0.1:8443/x":          "10.0.0.1 is not public",
		"https://169.254.169.254/latest":   "169.254.169.254 is not public",
		"https://[::1]/x":                  "::1 is not public",
		"https://[::ffff:127.0.0.1]/x":     "127.0.0.1 is not public",
		"http://93.184.215.14/x":           "without TLS nothing is sent to 93.184.215.14",
		"https://93.184.215.14/x":          "",
		"https://10.1.2.3/x":               "",
		"http://10.1.2.3/x":                "",
		"https://nobody-has-this.invalid/": "",
		"::":                               "",
	} {
		err := inside.Reach(t.Context(), target)
		if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%s: %v; want %q", target, err, why)
		}
	}
}

// TestRetry: what waits behind a failed try is sent at once when somebody asks for it, and not when it would be due.
func TestRetry(t *testing.T) {
	s, r := open(t, t.TempDir()), newReceiver(t)
	w := hook(t, s, r.URL, rulestore.JSON)
	happens(t, s, "one", "two")
	err := s.Undelivered(t.Context(), &w, rulestore.Delivery{Message: "m", Kind: "override", At: time.Now(), Error: "it answers 500"}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	x := sender(s, io.Discard)
	keep(t, x)
	q := &queue{}
	if err := x.empty(t.Context(), w.ID, q); err != nil || r.count() != 0 {
		t.Fatal(err, r.count(), "are sent before they are due")
	}
	by := rulestore.Actor{Name: "eve", Role: rulestore.Publish, Teams: []string{"shop"}}
	if _, err := s.RetryWebhook(t.Context(), by, w.ID, "mine"); !rulestore.IsKind(err, rulestore.Forbidden) {
		t.Error(err)
	}
	if _, err := s.RetryWebhook(t.Context(), root(), w.ID, "it is back"); err != nil {
		t.Fatal(err)
	}
	soon(t, "what waited is sent", func() bool { return r.count() == 2 })
	lines, err := s.Audit(t.Context(), rulestore.Audited{})
	if err != nil || !strings.Contains(fmt.Sprint(lines), "webhook.retry") {
		t.Error(lines, err)
	}
}

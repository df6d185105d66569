package daemon

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/certtest"
)

// safely is a Config with all listeners open and TLS by a certificate of ca.
func safely(t *testing.T, ca *certtest.CA) Config {
	t.Helper()
	c := Config{RESP: "127.0.0.1:0", lookEvery: 10 * time.Millisecond}
	c.TLSCert, c.TLSKey = ca.Issue(t, "weir.test").Files(t)
	return c
}

// caller is a client that keeps its connections.
func caller(t *testing.T, config *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// reply is what came of a request of TLS.
type reply struct {
	status, proto int
	serial        string // of the certificate that the listener showed
	body          string
}

// send sends a request of TLS, with oneToken.
func send(t *testing.T, c *http.Client, method, url, body string) (reply, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	bearer(oneToken)(r)
	response, err := c.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.ProtoMajor, response.TLS.PeerCertificates[0].SerialNumber.String(), string(b)}, err
}

// askGRPC asks the gRPC listener.
func askGRPC(t *testing.T, address string, safe credentials.TransportCredentials) error {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(safe))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &rls.RateLimitRequest{
		Domain: "demo", Descriptors: []*ratelimit.RateLimitDescriptor{{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "client_id", Value: "bob"}}}},
	})
	return err
}

// pings asks the Redis listener.
func pings(t *testing.T, address string, config *tls.Config) error {
	t.Helper()
	c, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	answer := make([]byte, len("+PONG\r\n"))
	_, err = io.WriteString(c, "PING\r\n")
	if err == nil {
		_, err = io.ReadFull(c, answer)
	}
	if err == nil && string(answer) != "+PONG\r\n" {
		return fmt.Errorf("%q", answer)
	}
	return err
}

// everywhere asks each listener and gives what failed, by listener.
func everywhere(t *testing.T, r *running, config *tls.Config) map[string]error {
	t.Helper()
	failed := map[string]error{}
	note := func(door string, err error) {
		if err != nil {
			failed[door] = err
		}
	}
	for door, url := range map[string]string{"http": r.http + "/v1/check", "admin": r.admin + "/v1/explain"} {
		c := caller(t, config)
		got, err := send(t, c, http.MethodPost, "https://"+url, demoCheck)
		if err == nil && got.status != http.StatusOK {
			err = errors.New(got.body)
		}
		note(door, err)
		c.CloseIdleConnections()
	}
	note("grpc", askGRPC(t, r.grpc, credentials.NewTLS(config.Clone())))
	note("resp", pings(t, r.resp, config))
	return failed
}

// TestTLS: all listeners are safe, none answers without, and each speaks what it
// should.
func TestTLS(t *testing.T) {
	ca := certtest.NewCA(t)
	c := safely(t, ca)
	c.goVersion = listen.SafeHTTP2
	r := start(t, c)
	config := &tls.Config{RootCAs: ca.Pool()}
	if failed := everywhere(t, r, config); len(failed) > 0 {
		t.Error(failed)
	}
	if got, err := send(t, caller(t, config), http.MethodGet, "https://"+r.http+"/readyz", ""); err != nil || got.proto != 2 {
		t.Error(got.proto, err)
	}
	old := caller(t, &tls.Config{RootCAs: ca.Pool(), NextProtos: []string{"http/1.1"}})
	old.Transport.(*http.Transport).ForceAttemptHTTP2 = false
	if got, err := send(t, old, http.MethodGet, "https://"+r.http+"/readyz", ""); err != nil || got.proto != 1 {
		t.Error(got.proto, err)
	}

	for door, address := range map[string]string{"http": r.http, "admin": r.admin, "grpc": r.grpc, "resp": r.resp} {
		for name, c := range map[string]*tls.Config{
			"TLS 1.1":             {MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11, InsecureSkipVerify: true},
			"what nobody speaks":  {InsecureSkipVerify: true, NextProtos: []string{"smtp"}},
			"who should not know": {},
		} {
			c, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", address)
			if err == nil {
				t.Errorf("%s: %s passes: %v", door, name, c.Close())
			}
		}
	}
	if status, body := get(t, "http://"+r.http+"/v1/check"); status != http.StatusBadRequest || strings.Contains(body, "problem") {
		t.Error(status, body) // it is net/http that says so
	}
	if err := askGRPC(t, r.grpc, insecure.NewCredentials()); err == nil {
		t.Error("gRPC answers without TLS")
	}
	for _, want := range []string{
		`weir_tls_handshake_failures_total{listener="http"} 4`,
		`weir_tls_handshake_failures_total{listener="admin"} 3`,
		`weir_tls_handshake_failures_total{listener="resp"} 3`,
		`weir_credentials_reload_success{credentials="tls"} 1`,
		"weir_tls_certificate_expiry_timestamp_seconds 1.",
	} {
		told(t, caller(t, config), "https://"+r.admin+"/metrics", want)
	}
}

// told waits until metrics tell want: a failure is counted after its client
// knows of it.
func told(t *testing.T, c *http.Client, url, want string) {
	t.Helper()
	var got reply
	for end := time.Now().Add(patience); time.Now().Before(end); runtime.Gosched() {
		var err error
		if got, err = send(t, c, http.MethodGet, url, ""); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(got.body, "\n"+want) {
			return
		}
	}
	t.Errorf("no %s in\n%s", want, got.body)
}

// TestTryWithTLS: the command that is printed asks, by a name in the certificate.
func TestTryWithTLS(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("SKIPPED ALOUD: there is no curl here, so the try line was not tried with TLS")
	}
	ca := certtest.NewCA(t)
	c := safely(t, ca)
	for _, address := range []string{"127.0.0.1:0", "127.0.0.9:0"} { // the certificate is not for the second
		c.HTTP = address
		r := start(t, c)
		command := strings.TrimPrefix(r.try, "try: ")
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
		if err != nil || !strings.Contains(string(out), `"allowed":true`) {
			t.Errorf("%s: %v %s", command, err, out)
		}
	}
}

// TestMutualTLS: no listener does anything for who shows no certificate of the CA;
// only whether the daemon is alive and ready is told.
func TestMutualTLS(t *testing.T) {
	ca, clients, others := certtest.NewCA(t), certtest.NewCA(t), certtest.NewCA(t)
	c := safely(t, ca)
	c.TLSClientCA = certtest.File(t, "ca.pem", clients.PEM)
	r := start(t, c)

	known := &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{clients.Issue(t).TLS(t)}}
	if failed := everywhere(t, r, known); len(failed) > 0 {
		t.Error(failed)
	}
	nobody := &tls.Config{RootCAs: ca.Pool()}
	failed := everywhere(t, r, nobody)
	if len(failed) != 4 || !strings.Contains(failed["http"].Error(), `"status":403,"detail":"this daemon answers clients with a certificate only`) {
		t.Error(failed)
	}
	for name, pair := range map[string]certtest.Pair{
		"another CA's": others.Issue(t),
		"expired":      clients.IssueFrom(t, time.Now().Add(-2*time.Hour), time.Hour),
		"the server's": ca.Issue(t),
	} {
		own := pair.TLS(t)
		// As an attacker does, who shows it though nobody asks for such a one.
		stranger := &tls.Config{RootCAs: ca.Pool(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }}
		if failed := everywhere(t, r, stranger); len(failed) != 4 {
			t.Error(name, failed)
		}
	}
	certtest.Write(t, c.TLSKey, []byte("broken"))
	r.daemon.Reload()
	for config, want := range map[*tls.Config]string{nobody: "OK\n", known: "OK\nthe active credentials are old (tls)"} {
		if got, err := send(t, caller(t, config), http.MethodGet, "https://"+r.http+"/readyz", ""); err != nil || !strings.HasPrefix(got.body, want) || want == "OK\n" && got.body != want {
			t.Error(got.body, err)
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/healthcheck": 200, "/readyz": 200, "/v1/check": 403, "/auth": 403, "/json": 403, "/v1/settle": 403, "/none": 403, "//healthz": 403, "/healthz/": 403} {
		if got, err := send(t, caller(t, nobody), http.MethodGet, "https://"+r.http+path, ""); err != nil || got.status != want {
			t.Errorf("%s: %d %v", path, got.status, err)
		}
	}
	if !strings.Contains(r.try, " --cert FILE --key FILE ") {
		t.Error(r.try)
	}
}

// shows is the serial number of the certificate that a listener shows.
func shows(t *testing.T, address string, ca *certtest.CA) string {
	t.Helper()
	c, err := (&tls.Dialer{Config: &tls.Config{RootCAs: ca.Pool()}}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func serial(t *testing.T, p certtest.Pair) string {
	t.Helper()
	return p.TLS(t).Leaf.SerialNumber.String()
}

// TestRotation: a new certificate comes into force while connections live, and
// a bad one does not, and says so.
func TestRotation(t *testing.T) {
	ca := certtest.NewCA(t)
	c := safely(t, ca)
	var log *logged
	log, c.Log = newLog()
	r := start(t, c)
	live := caller(t, &tls.Config{RootCAs: ca.Pool()})
	var shown []string
	tell := func(path string) string {
		t.Helper()
		got, err := send(t, live, http.MethodGet, "https://"+r.http+path, "")
		if err != nil || got.status != http.StatusOK {
			t.Fatal(got.status, err)
		}
		shown = append(shown, got.serial)
		return got.body
	}
	tell("/readyz")

	next := ca.Issue(t, "weir.test")
	certtest.Write(t, c.TLSCert, next.Certificate) // its key comes later
	log.until(t, "credentials could not be reloaded", "--tls-key", "it is not the key of the certificate")
	if body := tell("/readyz"); !strings.HasPrefix(body, "OK\nthe active credentials are old (tls) because a reload failed: --tls-key ") {
		t.Error(body)
	}
	if shows(t, r.grpc, ca) == serial(t, next) {
		t.Error("half a pair is in force")
	}
	if got, err := send(t, live, http.MethodGet, "https://"+r.admin+"/metrics", ""); err != nil || !strings.Contains(got.body, `weir_credentials_reload_success{credentials="tls"} 0`) {
		t.Error(err, "no metric tells of it")
	}
	certtest.Write(t, c.TLSKey, next.Key)
	log.until(t, `msg="credentials reloaded" credentials=tls`)
	if body := tell("/readyz"); body != "OK\n" {
		t.Error(body)
	}
	for _, address := range []string{r.http, r.grpc, r.admin, r.resp} {
		if got := shows(t, address, ca); got != serial(t, next) {
			t.Error(address, got)
		}
	}
	for _, number := range shown {
		if number != shown[0] {
			t.Error("the connection did not live on")
		}
	}
	old := ca.IssueFrom(t, time.Now().Add(-2*time.Hour), time.Hour)
	certtest.Write(t, c.TLSKey, old.Key)
	certtest.Write(t, c.TLSCert, old.Certificate)
	log.until(t, "it expired on")
	if got := shows(t, r.http, ca); got != serial(t, next) {
		t.Error("an expired certificate is in force")
	}
}

// TestHangup: SIGHUP reads credentials at once.
func TestHangup(t *testing.T) {
	ca := certtest.NewCA(t)
	c := safely(t, ca)
	c.lookEvery = time.Hour
	r := start(t, c)
	next := ca.Issue(t, "weir.test")
	certtest.Write(t, c.TLSCert, next.Certificate)
	certtest.Write(t, c.TLSKey, next.Key)
	r.daemon.Reload()
	if shows(t, r.http, ca) != serial(t, next) {
		t.Error("the old certificate is in force")
	}
}

// TestRotateClientCA: clients of a CA that is taken away come in no more, not by
// resuming either.
func TestRotateClientCA(t *testing.T) {
	ca, before, after := certtest.NewCA(t), certtest.NewCA(t), certtest.NewCA(t)
	c := safely(t, ca)
	c.TLSClientCA = certtest.File(t, "ca.pem", before.PEM)
	r := start(t, c)
	config := func(of *certtest.CA) *tls.Config {
		return &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{of.Issue(t).TLS(t)}, ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	}
	old := config(before)
	if failed := everywhere(t, r, old); len(failed) > 0 {
		t.Error(failed)
	}
	sessions := config(before) // of the HTTP listener
	resumes := func() (resumed, believed bool) {
		c, err := (&tls.Dialer{Config: sessions}).DialContext(t.Context(), "tcp", r.http)
		if err != nil {
			return false, false
		}
		defer c.Close()
		_, err = io.WriteString(c, "GET /auth HTTP/1.1\r\nHost: weir.test\r\nConnection: close\r\n\r\n")
		answer, _ := io.ReadAll(c) // or it is refused
		return c.(*tls.Conn).ConnectionState().DidResume, err == nil && bytes.HasPrefix(answer, []byte("HTTP/1.1 400 "))
	}
	resumes()
	if resumed, believed := resumes(); !resumed || !believed {
		t.Fatal("nothing to resume", resumed, believed)
	}
	certtest.Write(t, c.TLSClientCA, after.PEM)
	r.daemon.Reload()
	if failed := everywhere(t, r, old); len(failed) != 4 {
		t.Error(failed)
	}
	if _, believed := resumes(); believed {
		t.Error("a session outlives its CA")
	}
	if failed := everywhere(t, r, config(after)); len(failed) > 0 {
		t.Error(failed)
	}
}

// TestExpiredInForce: a certificate that runs out while it is in force is told of.
func TestExpiredInForce(t *testing.T) {
	ca := certtest.NewCA(t)
	c := safely(t, ca)
	d, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if lines := d.keys.detail(time.Now()); len(lines) > 0 {
		t.Error(lines)
	}
	if lines := d.keys.detail(time.Now().Add(2 * time.Hour)); len(lines) != 1 || !strings.HasPrefix(lines[0], "the active certificate expired at 20") {
		t.Error(lines)
	}
}

// TestSlowHandshakes: who says nothing, or nonsense, keeps nobody waiting.
func TestSlowHandshakes(t *testing.T) {
	ca := certtest.NewCA(t)
	r := start(t, safely(t, ca))
	hello := clientHello(t)
	for _, address := range []string{r.http, r.grpc, r.admin, r.resp} {
		for i, text := range [][]byte{nil, hello[:1], hello[:len(hello)-1], []byte("GET / HTTP/1.0\r\n\r\n"), []byte("*1\r\n$4\r\nPING\r\n"), {0x16, 3, 1, 0xff, 0xff}, bytes.Repeat([]byte{0x16, 3, 1, 0, 0}, 1000)} {
			var d net.Dialer
			c, err := d.DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close() // to the end: it is slow
			if _, err := c.Write(text); err != nil && i < 3 {
				t.Error(err)
			}
		}
	}
	if failed := everywhere(t, r, &tls.Config{RootCAs: ca.Pool()}); len(failed) > 0 {
		t.Error(failed)
	}
}

// TestOldSuites: no listener speaks TLS 1.2 with a suite that HTTP/2 forbids.
func TestOldSuites(t *testing.T) {
	ca := certtest.NewCA(t)
	c := safely(t, ca)
	c.RESP = "127.0.0.1:0"
	r := start(t, c)
	for _, address := range []string{r.http, r.grpc, r.admin, r.resp} {
		for suite, want := range map[uint16]bool{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA: false, tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA: false,
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: true, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: true,
		} {
			config := &tls.Config{RootCAs: ca.Pool(), MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}, NextProtos: []string{"h2", "http/1.1", "redis"}}
			nc, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
			if err == nil {
				err = nc.Close()
			}
			if (err == nil) != want {
				t.Errorf("%s, %s: %v", address, tls.CipherSuiteName(suite), err)
			}
		}
	}
}

// TestNoNoise: who does not keep to HTTP/2 is counted. The log has nothing of it:
// neither lines without end, nor addresses and words of clients.
func TestNoNoise(t *testing.T) {
	ca := certtest.NewCA(t)
	c := safely(t, ca)
	c.goVersion = listen.SafeHTTP2
	log, logger := newLog()
	c.Log = logger
	r := start(t, c)
	log.until(t, "msg=ready")
	config := &tls.Config{RootCAs: ca.Pool(), NextProtos: []string{"h2"}}
	const (
		settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
		goAway   = "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"
		noStream = "\x00\x00\x01\x00\x00\x00\x00\x00\x00x"
	)
	for i, says := range []string{"GET /words-of-a-client HTTP/1.1\r\n\r\n", http2.ClientPreface + settings + goAway, http2.ClientPreface + settings + noStream} {
		nc, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", r.http)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := io.WriteString(nc, says); err != nil {
			t.Fatal(err)
		}
		told(t, caller(t, config), "https://"+r.admin+"/metrics", fmt.Sprintf(`weir_calls_total{code="ERR",listener="http",route="protocol"} %d`, i+1))
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if log.text.Len() > 0 {
		t.Error(log.text.String())
	}
}

// clientHello is how a handshake begins.
func clientHello(t *testing.T) []byte {
	t.Helper()
	near, far := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		_ = tls.Client(near, &tls.Config{ServerName: "weir.test", RootCAs: x509.NewCertPool()}).HandshakeContext(ctx) // nobody answers
		close(done)
	}()
	b := make([]byte, 16<<10)
	n, err := far.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	<-done
	return b[:n]
}

// TestDrainUnderTLS: callers that leave when readiness says so lose no call.
func TestDrainUnderTLS(t *testing.T) {
	ca := certtest.NewCA(t)
	c := safely(t, ca)
	c.LameDuck, c.goVersion = 300*time.Millisecond, listen.SafeHTTP2
	r := start(t, c)
	leave := make(chan struct{})
	var calls atomic.Int64
	var g sync.WaitGroup
	for _, two := range []bool{true, true, false, false} {
		client := caller(t, &tls.Config{RootCAs: ca.Pool()})
		client.Transport.(*http.Transport).ForceAttemptHTTP2 = two
		g.Go(func() {
			defer client.CloseIdleConnections()
			for {
				select {
				case <-leave:
					return
				default:
				}
				if _, err := send(t, client, http.MethodPost, "https://"+r.http+"/v1/check", demoCheck); err != nil {
					t.Error("lost a call:", err)
					return
				}
				if calls.Add(1) == 200 {
					r.stop()
				}
			}
		})
	}
	probe := caller(t, &tls.Config{RootCAs: ca.Pool()})
	for status := http.StatusOK; status == http.StatusOK; {
		got, err := send(t, probe, http.MethodGet, "https://"+r.http+"/readyz", "")
		if err != nil {
			t.Error(err)
			break
		}
		status = got.status
	}
	close(leave)
	g.Wait()
	probe.CloseIdleConnections()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
}

// TestRedisCLIWithTLS: the stock client comes in with a certificate.
func TestRedisCLIWithTLS(t *testing.T) {
	path, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("SKIPPED ALOUD: there is no redis-cli here, so the Redis listener was not asked by it over TLS")
	}
	ca := certtest.NewCA(t)
	c := safely(t, ca)
	authorities := certtest.File(t, "ca.pem", ca.PEM)
	c.TLSClientCA = authorities
	r := start(t, c)
	certificate, key := ca.Issue(t).Files(t)
	_, port, err := net.SplitHostPort(r.resp)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-p", port, "--tls", "--cacert", authorities, "--cert", certificate, "--key", key, "CL.THROTTLE", "k", "0", "1", "60"}
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil || string(out) != "0\n1\n0\n-1\n60\n" {
		t.Errorf("%s %v", out, err)
	}
	if out, _ := exec.CommandContext(t.Context(), path, "-p", port, "--tls", "--cacert", authorities, "PING").CombinedOutput(); strings.Contains(string(out), "PONG") {
		t.Errorf("%s", out)
	}
}

// TestCertificateActs: a certificate that stands for somebody opens the rule API
// without a token, for as much as that one may do; no other certificate does.
func TestCertificateActs(t *testing.T) {
	const ci = "spiffe://example.org/ci"
	ca, clients := certtest.NewCA(t), certtest.NewCA(t)
	c := safely(t, ca)
	c.TLSClientCA, c.Data = certtest.File(t, "ca.pem", clients.PEM), t.TempDir()
	r := start(t, c)
	store := r.daemon.feed.Store()
	enforceRules(t, store, domainText("shop", "1/h"))
	k, _, err := store.CreateToken(t.Context(), root(), rulestore.Token{Actor: "ci-shop", Role: rulestore.Propose, Teams: []string{"shop"}, Certificate: ci}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	admin := token(t, r, rulestore.Admin, rulestore.AllTeams)
	ask := func(pair certtest.Pair, method, path, body string, fields ...string) (int, string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, "https://"+r.admin+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(fields); i += 2 {
			q.Header.Set(fields[i], fields[i+1])
		}
		response, err := caller(t, &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{pair.TLS(t)}}).Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	mine := clients.IssueURIs(t, ci)
	const draft, enforced = `{"domain":"shop","text":"- {key: ip, limits: [1/s]}","reason":"x"}`, `{"domain":"shop","text":"- {key: path, limits: [1/s]}","to":"enforced","force":true,"reason":"x"}`
	for name, c := range map[string]struct {
		pair               certtest.Pair
		method, path, body string
		fields             []string
		status             int
		says               string
	}{
		"who it is":          {mine, "GET", "/v1/whoami", "", nil, 200, `{"actor":"ci-shop","role":"propose","teams":["shop"],"token":"` + k.ID + `"}`},
		"what it may do":     {mine, "POST", "/v1/rules", draft, nil, 201, `"author":"ci-shop"`},
		"what it may not":    {mine, "POST", "/v1/rules", enforced, nil, 403, "takes the role publish; ci-shop has propose"},
		"a token goes first": {mine, "GET", "/v1/whoami", "", []string{"Authorization", "Bearer " + admin}, 200, `"actor":"ann","role":"admin"`},
		"a wrong token, too": {mine, "GET", "/v1/whoami", "", []string{"Authorization", "Bearer weir_aaaaaaaaaa_b"}, 401, "no such token"},
		"a page elsewhere":   {mine, "POST", "/v1/rules", draft, []string{"Sec-Fetch-Site", "cross-site"}, 403, "a page of another origin"},
		"a form elsewhere":   {mine, "POST", "/v1/rules", draft, []string{"Origin", "https://evil.example"}, 403, "a page of another origin"},
		"nobody's":           {clients.IssueURIs(t, ci+"/other"), "GET", "/v1/whoami", "", nil, 401, "the certificate " + ci + "/other belongs to no actor"},
		"of two names":       {clients.IssueURIs(t, ci+"/other", ci), "GET", "/v1/whoami", "", nil, 401, "this listener needs a token; send"},
		"of another kind":    {clients.Issue(t, "spiffe", "ci-shop", "example.org"), "GET", "/v1/whoami", "", nil, 401, "this listener needs a token; send"},
	} {
		if status, body := ask(c.pair, c.method, c.path, c.body, c.fields...); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if err := store.RevokeToken(t.Context(), root(), k.ID, "over"); err != nil {
		t.Fatal(err)
	}
	if status, body := ask(mine, "GET", "/v1/whoami", ""); status != 401 || !strings.Contains(body, "the token was revoked") {
		t.Error(status, body)
	}
	events, err := store.Audit(t.Context(), rulestore.Audited{Domain: "shop"})
	if err != nil || !slices.ContainsFunc(events, func(e rulestore.Event) bool {
		return e.Actor == "ci-shop" && e.Token == k.ID && strings.Contains(e.Refused, "takes the role publish")
	}) {
		t.Error(events, err)
	}
}

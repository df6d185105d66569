package httpapi

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/cmd/weir/internal/h1"
	"github.com/weir-limit/weir/cmd/weir/internal/transcripttest"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata; read the diff")

// TestTranscripts replays testdata/*.txt: what is asked, ----, and the whole
// answer, with fields sorted by name. Paragraphs are one of
//
//	rules        and a rule file: a new daemon
//	wait 10s     the time of the transcript goes on
//	METHOD /path and a body, of GET fields; admin:/path is on the admin listener
//
// IDs are written as ID, and receipts as RECEIPT1, RECEIPT2 … in the order in
// which they are given; bodies can send them back so. Likewise DENIAL1 … are the
// ids of denials, for paths. A # in front is a comment.
//
// The answers are the same from the handler alone, from net/http, and from the server of small requests before it.
func TestTranscripts(t *testing.T) {
	for way, ask := range map[string]func(*testing.T, http.Handler, *http.Request) *http.Response{
		"handler": recorded, "net/http": overHTTP, "small requests": overSmall,
	} {
		t.Run(way, func(t *testing.T) {
			transcripttest.Run(t, "testdata/*.txt", *update && way == "handler", func(t *testing.T, text string) string {
				tr := &transcript{t: t, ask: ask}
				return transcripttest.Answer(text, func(lines []string) string {
					return tr.do(strings.TrimSpace(lines[0]), strings.Join(lines[1:], "\n"))
				})
			})
		})
	}
}

func recorded(_ *testing.T, h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if r.Method == http.MethodHead {
		w.Body.Reset() // nobody sends it
	}
	return w.Result()
}

func overHTTP(t *testing.T, h http.Handler, r *http.Request) *http.Response {
	t.Helper()
	web := &http.Server{Handler: h, ReadHeaderTimeout: time.Second}
	return overPipe(t, r, web.Serve, web.Close)
}

func overSmall(t *testing.T, h http.Handler, r *http.Request) *http.Response {
	t.Helper()
	handed := false
	web := &http.Server{Handler: h, ReadHeaderTimeout: time.Second, WriteTimeout: time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	small := h1.New(web, h1.Options{Takes: Small, Here: true, HandedOver: func() { handed = true }})
	response := overPipe(t, r, small.Serve, func() error {
		return errors.Join(web.Close(), small.Stop(t.Context())) // Stop alone has net/http look again each millisecond
	})
	usual := Small(r.Method, r.URL.Path) && r.ContentLength < h1.MaxRequest/2 && (r.ContentLength > 0) == (r.Method == http.MethodPost) &&
		r.Header.Get("Content-Type") == "" && (r.Method == http.MethodGet || r.URL.RawQuery == "")
	if usual && handed {
		t.Errorf("%s %s was handed over", r.Method, r.URL)
	}
	return response
}

// overPipe asks a server that has one connection.
func overPipe(t *testing.T, r *http.Request, serve func(net.Listener) error, end func() error) *http.Response {
	t.Helper()
	client, server := net.Pipe()
	l := &once{conns: make(chan net.Conn, 1)}
	l.conns <- server
	ended := make(chan error, 1)
	go func() { ended <- serve(l) }()
	go func() { _ = r.Write(client) }() // the answer tells
	response, err := http.ReadResponse(bufio.NewReader(client), r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	if err := errors.Join(client.Close(), end()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	for _, name := range []string{"Date", "Content-Length", "Connection"} {
		response.Header.Del(name) // of the connection
	}
	for lower, name := range map[string]string{"Ratelimit": "RateLimit", "Ratelimit-Policy": "RateLimit-Policy"} {
		if v, ok := response.Header[lower]; ok { // as it was read
			response.Header[name] = v
			delete(response.Header, lower)
		}
	}
	return response
}

// once is a listener of one connection.
type once struct {
	conns chan net.Conn
	close sync.Once
}

func (o *once) Accept() (net.Conn, error) {
	if c, ok := <-o.conns; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (o *once) Close() error {
	o.close.Do(func() { close(o.conns) })
	return nil
}

func (o *once) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// transcript is a daemon's listener, and what was learned from it.
type transcript struct {
	t        *testing.T
	ask      func(*testing.T, http.Handler, *http.Request) *http.Response
	door     *API
	admin    http.Handler
	receipts []string
	denials  []string
}

func (tr *transcript) do(command, body string) string {
	verb, rest, _ := strings.Cut(command, " ")
	switch verb {
	case "rules":
		tr.door = newDoor(tr.t, body, Options{})
		limiter := tr.door.limiter.(*rules.Limiter)
		if err := limiter.Remember(rules.NewDenials()); err != nil {
			tr.t.Fatal(err)
		}
		tr.admin = NewAdmin(limiter, readsAll, Options{})
		return ""
	case "wait":
		d, err := time.ParseDuration(rest)
		if err != nil {
			tr.t.Fatal(err)
		}
		time.Sleep(d)
		return ""
	}
	for i, r := range tr.receipts {
		body = strings.ReplaceAll(body, fmt.Sprintf("RECEIPT%d", i+1), r)
	}
	for i, id := range tr.denials {
		rest = strings.ReplaceAll(rest, fmt.Sprintf("DENIAL%d", i+1), id)
	}
	door := http.Handler(tr.door)
	if path, ok := strings.CutPrefix(rest, "admin:"); ok {
		door, rest = tr.admin, path
	}
	r := httptest.NewRequestWithContext(tr.t.Context(), verb, rest, strings.NewReader(body))
	if verb == http.MethodGet {
		r.Body = http.NoBody
		for field := range strings.Lines(body) {
			name, value, _ := strings.Cut(strings.TrimSpace(field), ":")
			r.Header.Add(name, strings.TrimSpace(value))
		}
	}
	return tr.print(tr.ask(tr.t, door, r)) //nolint:bodyclose // it is in memory
}

var (
	idMember      = regexp.MustCompile(`("id":"|"Weir-Denial","value":")[0-9a-f]{16}"`)
	receiptMember = regexp.MustCompile(`"receipt":"([^"]+)"`)
)

func (tr *transcript) print(w *http.Response) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", w.StatusCode, http.StatusText(w.StatusCode))
	for _, name := range slices.Sorted(maps.Keys(w.Header)) {
		value := strings.Join(w.Header[name], ", ")
		if name == envoy.DenialHeader {
			tr.denials = append(tr.denials, value)
			value = fmt.Sprintf("DENIAL%d", len(tr.denials))
		}
		fmt.Fprintf(&b, "%s: %s\n", name, value)
	}
	text, err := io.ReadAll(w.Body)
	if err != nil {
		tr.t.Error(err)
	}
	body := idMember.ReplaceAllString(string(text), `${1}ID"`)
	if m := receiptMember.FindStringSubmatch(body); m != nil {
		tr.receipts = append(tr.receipts, m[1])
		body = strings.ReplaceAll(body, m[1], fmt.Sprintf("RECEIPT%d", len(tr.receipts)))
	}
	b.WriteString(strings.TrimSuffix(body, "\n"))
	return strings.TrimSuffix(b.String(), "\n")
}

// newDoor is a listener to the rules of a file, none of which was used.
func newDoor(t testing.TB, ruleFile string, o Options) *API {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(ruleFile))
	if err != nil {
		t.Fatal(err)
	}
	door, err := New(rules.NewLimiter(memstore.New(memstore.Options{}), set), o)
	if err != nil {
		t.Fatal(err)
	}
	return door
}

package h2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// open opens a server that answers POST /fast with what was sent, on the connection's goroutine, POST /later with
// the same from another, and all else by rest.
func open(t testing.TB, rest http.Handler) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	echo := func(c *Call) {
		c.Answer(&Answer{Status: 200, Head: []Field{{"content-type", "text/plain"}}, Body: c.Body, Trailers: []Field{{"x-status", "0"}}})
	}
	s := NewServer(Config{
		Fast: func(h *Head) func(*Call) {
			switch string(h.Path()) {
			case "/fast":
				return echo
			case "/later":
				return func(c *Call) {
					later, _ := c.Later()
					go echo(later)
				}
			}
			return nil
		},
		Rest: rest, Budget: new(overload.Budget), Refused: func(why string) { t.Log("refused:", why) }, HandshakeFailed: func() {},
		Panicked: func(where string, p any) { t.Errorf("%s panicked: %v", where, p) },
	})
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func TestEchoes(t *testing.T) {
	address := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Trailer", "X-Status")
		w.WriteHeader(201)
		_, _ = w.Write(b)
		w.Header().Set("X-Status", "1")
	}))
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	for _, path := range []string{"/fast", "/later", "/rest?x=1"} {
		for _, size := range []int{0, 1, 1000, MaxBody, MaxBody + 1, 3 << 20} {
			text := strings.Repeat("x", size)
			q, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+address+path, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			r, err := transport.RoundTrip(q)
			if err != nil {
				t.Fatal(path, size, err)
			}
			b, err := io.ReadAll(r.Body)
			_ = r.Body.Close() // it is read
			if string(b) != text || err != nil {
				t.Error(path, size, len(b), err)
			}
			fast := size <= MaxBody && path != "/rest?x=1"
			if got := fmt.Sprint(r.StatusCode, r.Trailer.Get("X-Status")); got != map[bool]string{true: "200 0", false: "201 1"}[fast] && got != map[bool]string{true: "2000", false: "2011"}[fast] {
				t.Error(path, size, got)
			}
		}
	}
}

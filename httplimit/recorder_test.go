package httplimit

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-limit/weir"
)

// can is what a writer can, by its optional interfaces.
func can(w http.ResponseWriter) string {
	var s []string
	if _, ok := w.(http.Flusher); ok {
		s = append(s, "flush")
	}
	if _, ok := w.(http.Hijacker); ok {
		s = append(s, "hijack")
	}
	if _, ok := w.(io.ReaderFrom); ok {
		s = append(s, "read")
	}
	if _, ok := w.(http.Pusher); ok {
		s = append(s, "push")
	}
	return strings.Join(s, " ")
}

// Writers that can this and that.
type (
	plainWriter struct{ http.ResponseWriter }
	flushWriter struct {
		http.ResponseWriter
		http.Flusher
	}
	hijackWriter struct {
		http.ResponseWriter
		http.Hijacker
	}
	routerWriter struct {
		http.ResponseWriter
		http.Flusher
		http.Hijacker
	}
	http1Writer struct {
		http.ResponseWriter
		http.Flusher
		http.Hijacker
		io.ReaderFrom
	}
	http2Writer struct {
		http.ResponseWriter
		http.Flusher
		http.Pusher
	}
)

// TestShownWriters: a handler sees what the writer below can, and no more.
func TestShownWriters(t *testing.T) {
	w := httptest.NewRecorder()
	for _, below := range []http.ResponseWriter{
		plainWriter{w}, flushWriter{w, nil}, hijackWriter{w, nil}, routerWriter{w, nil, nil}, http1Writer{w, nil, nil, nil}, http2Writer{w, nil, nil},
	} {
		rec := &recorder{ResponseWriter: below}
		if got, want := can(rec.shown()), can(below); got != want {
			t.Errorf("%T can %q, and is shown as %q", below, want, got)
		}
	}
}

// TestWritersOfServers: on real servers nothing is lost: the response can be
// flushed, sent from a file, controlled and, of HTTP/1, taken over.
func TestWritersOfServers(t *testing.T) {
	m := middlewareOf(t, []Rule{{Name: "api", Limit: weir.MustParseLimit("9 concurrent")}}, Options{Counts: func(int) bool { return true }})
	for _, two := range []bool{false, true} {
		var direct, shown string
		look := func(at *string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				*at = can(w)
				control := http.NewResponseController(w)
				if err := errors.Join(control.EnableFullDuplex(), control.Flush()); err != nil {
					t.Error(err)
				}
				if n, err := io.Copy(w, strings.NewReader("all of it")); n != 9 || err != nil {
					t.Error(n, err)
				}
			})
		}
		mux := http.NewServeMux()
		mux.Handle("/direct", look(&direct))
		mux.Handle("/shown", m(look(&shown)))
		s := httptest.NewUnstartedServer(mux)
		s.EnableHTTP2 = two
		s.StartTLS()
		for _, path := range []string{"/direct", "/shown"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(response.Body); string(b) != "all of it" || err != nil || (response.ProtoMajor == 2) != two {
				t.Errorf("%s %s: %q %v", response.Proto, path, b, err)
			}
			_ = response.Body.Close()
		}
		s.Close()
		if direct != shown || direct == "" {
			t.Errorf("HTTP/2 %v: %q, shown as %q", two, direct, shown)
		}
	}
}

// TestHijackFails: a connection that can't be taken over is an ordinary response.
func TestHijackFails(t *testing.T) {
	rec := &recorder{ResponseWriter: hijackWriter{httptest.NewRecorder(), refusing{}}, charge: &Charge{}}
	if _, _, err := rec.shown().(http.Hijacker).Hijack(); !errors.Is(err, errRefused) || rec.charge.open || rec.status != 0 {
		t.Errorf("%v %+v", err, rec)
	}
}

var errRefused = errors.New("refused")

type refusing struct{}

func (refusing) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errRefused }

package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// opened is a gate that counts what came through and what did not.
type opened struct {
	http.Handler

	passed  atomic.Int64
	mu      sync.Mutex
	refused map[Refusal]int
}

const rightToken = "0123456789abcdef"

func newGate(o GateOptions) *opened {
	g := &opened{refused: map[Refusal]int{}}
	o.Attempts = weir.NewLimiter(memstore.New(memstore.Options{}), "attempts", weir.MustParseLimit("10/min"))
	o.Log = slog.New(slog.DiscardHandler)
	o.Refused = func(why Refusal) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.refused[why]++
	}
	g.Handler = Gate(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		g.passed.Add(1)
		w.WriteHeader(http.StatusNoContent)
	}), o)
	return g
}

func (g *opened) ask(t *testing.T, change func(*http.Request)) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/reset", nil)
	change(r)
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

// TestGateHost: a page whose name was turned to this machine is not let in, by
// whatever method.
func TestGateHost(t *testing.T) {
	g := newGate(GateOptions{Host: func(host string) bool { return Loopback(host, "weir.local") }})
	for host, passes := range map[string]bool{
		"localhost": true, "localhost:8082": true, "LocalHost:1": true, "127.0.0.1": true, "127.0.0.1:8082": true, "127.9.9.9:1": true,
		"[::1]": true, "[::1]:8082": true, "[::ffff:127.0.0.1]:1": true, "weir.local:8082": true, "WEIR.local": true, "": true,

		"evil.example": false, "evil.example:8082": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"0.0.0.0:8082": false, "[::]:8082": false, "192.0.2.1": false, "localhost@evil.example": false, "127.1": false, "2130706433": false,
		"localhost:8082:evil": false, "[::1%25evil]": true, ":8082": false, "[localhost]:1": true,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
			w := g.ask(t, func(r *http.Request) { r.Method, r.Host = method, host })
			if passes != (w.Code == http.StatusNoContent) || !passes && (w.Code != http.StatusMisdirectedRequest || w.Header().Get("Content-Type") != "application/problem+json") {
				t.Errorf("%s: %d %s", host, w.Code, w.Body)
			}
		}
	}
	if n := g.refused[RefusedHost]; n == 0 || n%3 != 0 || len(g.refused) != 1 {
		t.Error(g.refused)
	}
}

// TestGateOrigin: a page that somebody visits must not change a daemon on the
// same machine, nor make it work.
func TestGateOrigin(t *testing.T) {
	g := newGate(GateOptions{})
	for _, c := range []struct {
		header, value string
		want          int
	}{
		{"X", "", http.StatusNoContent},
		{"Sec-Fetch-Site", "cross-site", http.StatusForbidden},
		{"Origin", "https://elsewhere.example", http.StatusForbidden},
		{"Origin", "null", http.StatusForbidden},
		{"Origin", "http://example.com", http.StatusNoContent}, // httptest asks example.com
	} {
		w := g.ask(t, func(r *http.Request) { r.Header.Set(c.header, c.value) })
		if w.Code != c.want || c.want == http.StatusForbidden && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s: %d %s", c.header, c.value, w.Code, w.Body)
		}
	}
	for _, c := range []struct {
		site, mode, dest string
		want             int
	}{
		{"", "", "", http.StatusNoContent},
		{"none", "navigate", "document", http.StatusNoContent},
		{"same-origin", "cors", "empty", http.StatusNoContent},
		{"cross-site", "navigate", "document", http.StatusNoContent}, // a link
		{"cross-site", "navigate", "iframe", http.StatusForbidden},
		{"cross-site", "no-cors", "image", http.StatusForbidden},
		{"same-site", "cors", "empty", http.StatusForbidden}, // another port of this machine
	} {
		w := g.ask(t, func(r *http.Request) {
			r.Method, r.URL.Path = http.MethodGet, "/debug/pprof/profile"
			for name, value := range map[string]string{"Site": c.site, "Mode": c.mode, "Dest": c.dest} {
				if value != "" {
					r.Header.Set("Sec-Fetch-"+name, value)
				}
			}
		})
		if w.Code != c.want {
			t.Errorf("%+v: %d %s", c, w.Code, w.Body)
		}
	}
	older := g.ask(t, func(r *http.Request) {
		r.Method = http.MethodGet
		r.Header.Set("Origin", "https://elsewhere.example")
	})
	if older.Code != http.StatusForbidden || g.refused[RefusedOrigin] != 7 {
		t.Error(older.Code, g.refused)
	}
}

// TestGateExternal: browsers come by a proxy if the gate knows its URL; else they are told the flag.
func TestGateExternal(t *testing.T) {
	const external, advice = "https://limits.example.com", "start weir serve with --external-url"
	own := func(names ...string) func(string) bool {
		return func(host string) bool { return Loopback(host, "") || slices.Contains(names, host) }
	}
	unknown, known := newGate(GateOptions{Host: own()}), newGate(GateOptions{Host: own("limits.example.com"), External: external})
	for _, c := range []struct {
		host, origin, site string
		unknown, known     int
	}{
		{"127.0.0.1:8082", "http://127.0.0.1:8082", "same-origin", 204, 204},
		{"127.0.0.1:8082", "http://127.0.0.1:8082", "", 204, 204},
		{"127.0.0.1:8082", external, "", 403, 204},
		{"127.0.0.1:8082", external, "same-origin", 403, 204}, // the daemon would not know that the cookie must stay in TLS
		{"limits.example.com", external, "same-origin", 421, 204},
		{"limits.example.com", external, "", 421, 204},
		{"limits.example.com:443", "", "", 421, 204},
		{"limits.example.com", "http://limits.example.com", "", 421, 403},
		{"limits.example.com", "https://evil.example", "cross-site", 421, 403},
		{"127.0.0.1:8082", "https://limits.example.com.evil.example", "", 403, 403},
		{"127.0.0.1:8082", external + ":8443", "", 403, 403},
		{"127.0.0.1:8082", "null", "", 403, 403},
		{"127.0.0.1:8082", "null", "same-origin", 204, 204},
		{"evil.example", external, "", 421, 421},
	} {
		for name, g := range map[string]*opened{"unknown": unknown, "known": known} {
			want, says := c.unknown, advice
			if name == "known" {
				want, says = c.known, "open "+external
			}
			w := g.ask(t, func(r *http.Request) {
				r.Host = c.host
				for field, value := range map[string]string{"Origin": c.origin, "Sec-Fetch-Site": c.site} {
					if value != "" {
						r.Header.Set(field, value)
					}
				}
			})
			if w.Code != want || want >= 400 && !strings.Contains(w.Body.String(), says) {
				t.Errorf("%s: %+v: %d %s", name, c, w.Code, w.Body)
			}
		}
	}
}

func secret() GateOptions {
	return GateOptions{Token: func(r *http.Request, token []byte) (*http.Request, error) {
		if string(token) != rightToken {
			return nil, errors.New("the token is none of ours; send one that is")
		}
		return r, nil
	}}
}

// bearer sends a token from an address.
func bearer(address, token string) func(*http.Request) {
	return func(r *http.Request) {
		r.RemoteAddr = address
		r.Header.Set("Authorization", "Bearer "+token)
	}
}

func TestGateToken(t *testing.T) {
	g := newGate(secret())
	for _, c := range []struct {
		authorization string
		want          int
		says          string
	}{
		{"Bearer " + rightToken, 204, ""},
		{"bearer  " + rightToken + " ", 204, ""},
		{"", 401, `Bearer realm="weir"`},
		{"Bearer", 401, `Bearer realm="weir"`},
		{"Basic " + rightToken, 401, `Bearer realm="weir"`},
		{"Bearer ", 401, `Bearer realm="weir", error="invalid_token"`},
		{"Bearer " + rightToken[1:], 401, `Bearer realm="weir", error="invalid_token"`},
		{rightToken, 401, `Bearer realm="weir"`},
	} {
		w := g.ask(t, func(r *http.Request) { r.Header.Set("Authorization", c.authorization) })
		if w.Code != c.want || w.Header().Get("WWW-Authenticate") != c.says || (w.Header().Get("Connection") == "close") != (w.Code != 204) || strings.Contains(w.Body.String(), "0123") {
			t.Errorf("%q: %d %v %s", c.authorization, w.Code, w.Header(), w.Body)
		}
	}
	// Two do not make one: what is read is what is checked.
	w := g.ask(t, func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer wrong", "Bearer " + rightToken} })
	if w.Code != 401 {
		t.Error(w.Code)
	}
	if g.passed.Load() != 2 || g.refused[RefusedMissing] != 4 || g.refused[RefusedWrong] != 3 {
		t.Error(g.passed.Load(), g.refused)
	}
}

// TestShut: a token that is not wrong, but opens nothing now or here, is no guess: its
// address does not wait for it.
func TestShut(t *testing.T) {
	for refusal, want := range map[Refusal]int{RefusedRole: 403, RefusedAway: 503} {
		shut := &Shut{refusal, "ask somebody else"}
		o := GateOptions{
			Token:       func(*http.Request, []byte) (*http.Request, error) { return nil, shut },
			Certificate: func(*http.Request) (*http.Request, error) { return nil, shut },
		}
		g := newGate(o)
		for range 50 {
			for _, as := range []func(*http.Request){bearer("192.0.2.1:1", rightToken), func(*http.Request) {}} { // and by a certificate
				if w := g.ask(t, as); w.Code != want || !strings.Contains(w.Body.String(), "ask somebody else") || w.Header().Get("WWW-Authenticate") != "" {
					t.Fatal(w.Code, w.Header(), w.Body)
				}
			}
		}
		if g.refused[refusal] != 100 || g.passed.Load() != 0 {
			t.Error(g.refused, g.passed.Load())
		}
	}
}

// TestBruteForce: an address that guesses is told to wait soon, and who has a right
// token does not suffer for it, from wherever.
func TestBruteForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(secret())
		for i := range 10 {
			if w := g.ask(t, bearer(fmt.Sprintf("192.0.2.1:%d", 1000+i), fmt.Sprint(i))); w.Code != 401 {
				t.Fatal(i, w.Code)
			}
		}
		for _, address := range []string{"192.0.2.1:5", "[::ffff:192.0.2.1]:5"} {
			w := g.ask(t, bearer(address, "guess"))
			if w.Code != 429 || w.Header().Get("Retry-After") != "6" || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s: %d %v %s", address, w.Code, w.Header(), w.Body)
			}
			if w := g.ask(t, bearer(address, rightToken)); w.Code != 204 {
				t.Errorf("a right one from %s: %d %s", address, w.Code, w.Body)
			}
		}
		if w := g.ask(t, bearer("192.0.2.2:1", "guess")); w.Code != 401 {
			t.Error("another address:", w.Code)
		}
		time.Sleep(6 * time.Second)
		if w := g.ask(t, bearer("192.0.2.1:5", "guess")); w.Code != 401 {
			t.Error(w.Code)
		}
		if w := g.ask(t, func(r *http.Request) { r.RemoteAddr = "192.0.2.1:5" }); w.Code != 401 {
			t.Error("without a token there is nothing to guess:", w.Code)
		}
	})
}

// TestBruteForceBySubnet: the addresses of a /64 are one client's.
func TestBruteForceBySubnet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(secret())
		for i := range 100 {
			g.ask(t, bearer(fmt.Sprintf("[2001:db8:1:2:%x::1]:9", i), "guess"))
		}
		if g.refused[RefusedWrong] != 10 || g.refused[RefusedLimit] != 90 {
			t.Error(g.refused)
		}
		if w := g.ask(t, bearer("[2001:db8:1:3::1]:9", rightToken)); w.Code != 204 {
			t.Error(w.Code)
		}
	})
}

// TestParallelGuesses: many at once learn of no more tokens than one by one.
func TestParallelGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(secret())
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() { g.ask(t, bearer("192.0.2.1:1", fmt.Sprint(i))) })
		}
		all.Wait()
		if g.refused[RefusedWrong] != 10 || g.refused[RefusedLimit] != 990 {
			t.Error(g.refused)
		}
	})
}

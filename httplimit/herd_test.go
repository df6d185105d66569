package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/httplimit"
)

// TestB18ResetHerd: 10,000 clients that were denied together, and told the same
// time, come back spread over the jitter window, and what passes is the limit.
func TestB18ResetHerd(t *testing.T) {
	const (
		clients = 10_000
		limit   = 2000 // a minute, for all
		window  = time.Minute
	)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Now().Truncate(window).Add(window))) // a window begins
		counts := ownLimit("2000/min fixed-window")
		passed := map[time.Duration]int{} // by the beginning of the window
		s := serve(nil)
		s.answer = func(_ int, req *http.Request) *reply {
			a, err := counts.Take(req.Context(), "all", 1)
			if err != nil {
				panic(err)
			}
			if a.Outcome != weir.Allowed {
				return says(429, "Retry-After", strconv.FormatInt(ceil(a.RetryAfter), 10))
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			passed[time.Since(s.began).Truncate(window)]++
			return says(200)
		}
		var all sync.WaitGroup
		var served atomic.Int64
		for range clients {
			tr := transport(t, s, httplimit.TransportOptions{MaxWait: 10 * time.Minute})
			all.Go(func() {
				if code, err := send(t.Context(), tr); err != nil {
					t.Error(err)
				} else if code == 200 {
					served.Add(1)
				}
			})
		}
		all.Wait()

		// Tries 1 to 4 are in the first four minutes; the fifth client in line gives up.
		for minute := range 4 {
			if n := passed[time.Duration(minute)*window]; n != limit {
				t.Errorf("minute %d: %d passed, the limit is %d", minute, n, limit)
			}
		}
		if n := served.Load(); n != 4*limit {
			t.Errorf("%d clients were served", n)
		}
		jitter := window / 10
		for minute, back := range []int{8000, 6000, 4000} {
			from := time.Duration(minute+1) * window
			spread(t, s.came, from, jitter, back)
		}
	})
}

// spread fails unless n came in the minute after from, none in a heap: no tenth of
// the jitter window had more than its share. Retry-After is in whole seconds, so
// that the last may come a second after the window.
func spread(t *testing.T, came []time.Duration, from, jitter time.Duration, n int) {
	t.Helper()
	var tenths [10]int
	within, total := 0, 0
	for _, d := range came {
		if d < from || d >= from+time.Minute {
			continue
		}
		total++
		if d < from+jitter {
			tenths[(d-from)*10/jitter]++
		}
		if d < from+jitter+time.Second {
			within++
		}
	}
	if total != n || within != n {
		t.Errorf("%d came back after %v, %d in the jitter window, want %d", total, from, within, n)
	}
	for i, m := range tenths {
		// Six standard deviations of an even spread are less than a quarter of a tenth.
		if m > n/10*5/4 {
			t.Errorf("after %v, tenth %d of the jitter window: %d of %d came: %v", from, i, m, n, tenths)
		}
	}
}

// TestHerdAtAServer: the same with net/http on both sides, and fewer.
func TestHerdAtAServer(t *testing.T) {
	const clients, limit = 60, 20
	counts := ownLimit("20/s sliding-log")
	var passed, denied atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		a, err := counts.Take(req.Context(), "all", 1)
		switch {
		case err != nil:
			w.WriteHeader(http.StatusInternalServerError)
		case a.Outcome != weir.Allowed:
			denied.Add(1)
			w.Header().Set("Retry-After", strconv.FormatInt(ceil(a.RetryAfter), 10))
			http.Error(w, "too many", http.StatusTooManyRequests)
		default:
			passed.Add(1)
			_, _ = fmt.Fprint(w, "well")
		}
	}))
	defer server.Close()
	base := &http.Transport{MaxIdleConnsPerHost: clients}
	defer base.CloseIdleConnections()
	var all sync.WaitGroup
	for range clients {
		tr, err := httplimit.NewTransport(httplimit.TransportOptions{Base: base, MaxTries: 20})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if code, err := sendTo(t.Context(), tr, server.URL); code != 200 || err != nil {
				t.Error(code, err)
			}
		})
	}
	all.Wait()
	// The first 20 pass, and the others when these have left the log.
	if passed.Load() != clients || denied.Load() < clients-limit {
		t.Errorf("%d passed, %d were denied", passed.Load(), denied.Load())
	}
}

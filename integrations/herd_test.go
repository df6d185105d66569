package integrations

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/httplimit"
	"github.com/weir-limit/weir/memstore"
)

// arrivals is when clients come to a server, and when those that it denied were
// told to come again.
type arrivals struct {
	mu     sync.Mutex
	begin  time.Time
	told   map[string]time.Time
	early  int
	again  map[int64]int // by second, of those who were denied before
	passed int
}

func (a *arrivals) watch(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, now := r.Header.Get("Client"), time.Now()
		a.mu.Lock()
		if told, denied := a.told[client]; denied {
			a.again[int64(now.Sub(a.begin)/time.Second)]++
			if now.Before(told) {
				a.early++
			}
		}
		a.mu.Unlock()
		next.ServeHTTP(w, r)
		seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
		a.mu.Lock()
		defer a.mu.Unlock()
		if err == nil {
			a.told[client] = now.Add(time.Duration(seconds) * time.Second)
		} else {
			a.passed++
		}
	})
}

// TestHerdBehindNginx: 10,000 clients that are denied together obey a chi server
// behind nginx: nobody comes back before it was told, and what passes is the
// limit. That they come back apart, TestB18ResetHerd of httplimit holds them to by
// the clock of a simulation; a real one is only told of here.
func TestHerdBehindNginx(t *testing.T) {
	const clients, limit, window = 10_000, 500, 10 * time.Second
	m, err := httplimit.New(memstore.New(memstore.Options{}), []httplimit.Rule{
		{Name: "all", Limit: weir.MustParseLimit("500/10s fixed-window")},
	}, httplimit.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := &arrivals{begin: time.Now(), told: map[string]time.Time{}, again: map[int64]int{}}
	r := chi.NewRouter()
	r.Use(a.watch, m)
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	url := nginx(t, s.URL)

	base := &http.Transport{MaxConnsPerHost: 128, MaxIdleConnsPerHost: 128}
	t.Cleanup(base.CloseIdleConnections)
	statuses := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range clients {
		transport, err := httplimit.NewTransport(httplimit.TransportOptions{
			Base: base, MaxTries: 2, Backoff: weir.Backoff{First: 5 * time.Second},
		})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			response, err := send(t.Context(), &http.Client{Transport: transport}, url, "Client", strconv.Itoa(i))
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			statuses[response.StatusCode]++
		})
	}
	all.Wait()
	windows := int(time.Since(a.begin)/window) + 2 // that some of it may have been in
	if a.early > 0 || a.passed > windows*limit || a.passed < 2*limit {
		t.Errorf("%d came too early; %d passed in up to %d windows of %d", a.early, a.passed, windows, limit)
	}
	if statuses[200] != a.passed || statuses[200]+statuses[429] != clients {
		t.Errorf("%v, and %d passed", statuses, a.passed)
	}
	t.Logf("by second, those who came again: %v", a.again)
}

package integrations

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/httplimit"
	"github.com/weir-limit/weir/memstore"
)

// TestHerdBehindNginx: 10,000 clients with a Transport each ask a chi server behind
// nginx at once, which lets a fourth pass. The others come back when they may, and
// all are served. How they are spread is tested where time can be counted, by
// TestB18ResetHerd.
func TestHerdBehindNginx(t *testing.T) {
	const clients, limit = 10_000, 2500
	var passed, denied atomic.Int64
	around, err := httplimit.New(memstore.New(memstore.Options{}), []httplimit.Rule{
		{Name: "all", Limit: weir.MustParseLimit("2500/2s sliding-log")},
	}, httplimit.Options{OnDenied: func(*http.Request, *httplimit.Denial) { denied.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	r.With(around).Get("/", func(http.ResponseWriter, *http.Request) { passed.Add(1) })
	s := httptest.NewServer(r)
	defer s.Close()
	url := nginx(t, s.URL)

	base := &http.Transport{MaxConnsPerHost: 64, MaxIdleConnsPerHost: 64}
	defer base.CloseIdleConnections()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			transport, err := httplimit.NewTransport(httplimit.TransportOptions{Base: base, MaxTries: 50, RetryPercent: 100})
			if err != nil {
				t.Error(err)
				return
			}
			response, err := send(t.Context(), &http.Client{Transport: transport}, url)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("status %d", response.StatusCode)
			}
		})
	}
	all.Wait()
	t.Logf("%d were denied on the way", denied.Load())
	if passed.Load() != clients || denied.Load() < clients/10 {
		t.Errorf("%d passed, %d were denied, of a limit of %d", passed.Load(), denied.Load(), limit)
	}
}

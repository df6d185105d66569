package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/httplimit"
	"github.com/weir-limit/weir/memstore"
)

// TestBothSides: a client of a server that has this middleware, whatever fields it
// writes, slows down in time and is never denied, however many requests it makes
// at once.
func TestBothSides(t *testing.T) {
	for fields, name := range map[httplimit.Fields]string{
		httplimit.Draft10: "drafts 8 to 10", httplimit.Draft7: "draft 7", httplimit.Draft6: "draft 6",
		httplimit.Envoy03: "Envoy", httplimit.XRateLimit: "X-RateLimit", httplimit.Draft10 | httplimit.XRateLimit: "two kinds",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The clock of a bubble begins in 2000, when seconds since 1970 were fewer
				// than 10⁹, which no server writes any more.
				time.Sleep(time.Until(time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)))
				limit, err := httplimit.New(memstore.New(memstore.Options{}), []httplimit.Rule{
					{Name: "second", Limit: weir.MustParseLimit("20/s burst 40")},
					{Name: "minute", Limit: weir.MustParseLimit("600/min fixed-window")},
				}, httplimit.Options{Fields: fields})
				if err != nil {
					t.Fatal(err)
				}
				var passed atomic.Int64
				handler := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed.Add(1) }))
				var denied atomic.Int64
				tr := transport(t, serve(func(_ int, req *http.Request) *reply {
					w := httptest.NewRecorder()
					handler.ServeHTTP(w, req)
					if w.Code != http.StatusOK {
						denied.Add(1)
					}
					time.Sleep(10 * time.Millisecond)
					return &reply{StatusCode: w.Code, Header: w.Header()}
				}), httplimit.TransportOptions{MaxWait: time.Hour})
				_, _ = send(t.Context(), tr) // who has never asked knows nothing
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() {
						for range 120 {
							if code, err := send(t.Context(), tr); code != 200 || err != nil {
								t.Error(code, err)
							}
						}
					})
				}
				began := time.Now()
				all.Wait()
				if denied.Load() > 0 || passed.Load() != 1201 {
					t.Errorf("%d passed, %d were denied", passed.Load(), denied.Load())
				}
				// Two minutes are what the limits need; the third is for caution.
				if took := time.Since(began); took > 3*time.Minute {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

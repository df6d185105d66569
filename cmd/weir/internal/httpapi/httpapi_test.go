package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/fields"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// fakeLimiter answers what it is told to.
type fakeLimiter struct {
	answer  *rules.Answer
	err     error
	panics  bool
	settled []*weir.Receipt
}

func (l *fakeLimiter) Check(context.Context, *rules.Request) (*rules.Answer, error) {
	if l.panics {
		panic("at the disco")
	}
	return l.answer, l.err
}

func (l *fakeLimiter) CheckInto(ctx context.Context, r *rules.Request, to *rules.Answer) error {
	a, err := l.Check(ctx, r)
	if a != nil {
		*to = *a
	}
	return err
}

func (l *fakeLimiter) Settle(_ context.Context, receipts []*weir.Receipt, used []int64, _ bool) ([]int64, error) {
	l.settled = append(l.settled, receipts...)
	return used, l.err
}

// TestSeconds: "Seconds are rounded up to the µs", as JSON numbers without the
// error of a float.
func TestSeconds(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0"},
		{1, "0.000001"},
		{999, "0.000001"},
		{time.Microsecond, "0.000001"},
		{time.Microsecond + 1, "0.000002"},
		{720 * time.Millisecond, "0.72"},
		{time.Second, "1"},
		{18333333400, "18.333334"},
		{100 * time.Millisecond, "0.1"},
		{time.Minute + 500*time.Microsecond, "60.0005"},
		{71 * 365 * 24 * time.Hour, "2239056000"},
		{math.MaxInt64 / 1000 * 1000, "9223372036.854775"},
	} {
		if got := string(appendSeconds(nil, c.d)); got != c.want {
			t.Errorf("%d ns: %s, want %s", c.d, got, c.want)
		}
	}
}

func TestStrings(t *testing.T) {
	for _, s := range []string{"", "plain", `"\/`, "\x00\x1f\x7f\n\t", "ünï \U0001F600 \u2028<>&", "%2F"} {
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil || got != s {
			t.Errorf("%q: %q %v", s, got, err)
		}
	}
	if got := string(appendString(nil, "a\xff")); got != "\"a\ufffd\"" {
		t.Error(got)
	}
}

// TestLongFields: what gets too long is left out whole.
func TestLongFields(t *testing.T) {
	a := &rules.Answer{Allowed: true}
	for i := range 100 {
		a.Decisions = append(a.Decisions, rules.Decision{
			Rule:     &rules.Rule{Name: fmt.Sprintf("%s/%d", strings.Repeat("n", 1000), i), Limit: weir.MustParseLimit("5/s")},
			Decision: weir.Decision{Outcome: weir.Allowed, Remaining: 4},
		})
	}
	h := http.Header{}
	describe(h, a)
	for name, end := range map[string]string{policyField: ";w=1", rateLimitField: ";r=4"} {
		text := h[name][0]
		items := strings.Split(text, ", ")
		last := items[len(items)-1]
		if len(text) > fields.MaxField || len(items) < 30 || len(items) == 100 || !strings.HasSuffix(last, end) {
			t.Errorf("%s: %d bytes, %d items, the last %s", name, len(text), len(items), last)
		}
	}
}

// TestNoRules: "503 when … no rules are loaded"; "ready: 503 before rules".
func TestNoRules(t *testing.T) {
	limiter := rules.NewLimiter(memstore.New(memstore.Options{}), nil)
	door, err := New(limiter, Options{Ready: func() bool { return limiter.Set() != nil }})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/check", "/json"} {
		if w := ask(t, door, path, check("}]}")); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "no rules are loaded") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	get := func(path string) int {
		w := httptest.NewRecorder()
		door.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code
	}
	if get("/healthz") != 200 || get("/healthcheck") != 200 || get("/readyz") != 503 {
		t.Errorf("alive %d %d, ready %d", get("/healthz"), get("/healthcheck"), get("/readyz"))
	}
	limiter.Replace(rules.Demo())
	if get("/readyz") != 200 {
		t.Error("not ready with rules")
	}
}

// TestReadyDetail: a reload that failed is told beside yes, and only there.
func TestReadyDetail(t *testing.T) {
	detail := "rules.yaml:3:5: error: text"
	door, err := New(&fakeLimiter{}, Options{Detail: func() string { return detail }})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) string {
		w := httptest.NewRecorder()
		door.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return fmt.Sprint(w.Code, " ", w.Body)
	}
	if got := get("/readyz"); got != "200 OK\n"+detail+"\n" {
		t.Error(got)
	}
	if got := get("/healthz"); got != "200 OK\n" {
		t.Error(got)
	}
	detail = ""
	if got := get("/readyz"); got != "200 OK\n" {
		t.Error(got)
	}
}

// TestOwnFaults: a call that goes wrong is logged once and told little, a panic
// is counted, and the listener goes on.
func TestOwnFaults(t *testing.T) {
	var log bytes.Buffer
	panics := 0
	limiter := &fakeLimiter{err: errors.New("secret: the store is away")}
	door, err := New(limiter, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Panicked: func() { panics++ }})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/check", "/json"} {
		w := ask(t, door, path, check("}]}"))
		if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if n := strings.Count(log.String(), "the store is away"); n != 2 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
	limiter.panics = true
	if w := ask(t, door, "/v1/check", check("}]}")); w.Code != http.StatusInternalServerError || panics != 1 || !strings.Contains(log.String(), "at the disco") {
		t.Errorf("status %d, %d panics, log %s", w.Code, panics, log.String())
	}

	for err, want := range map[error]int{
		context.Canceled:      http.StatusServiceUnavailable,
		weir.ErrFull:          http.StatusServiceUnavailable,
		weir.ErrAway:          http.StatusServiceUnavailable,
		weir.ErrBusy:          http.StatusServiceUnavailable,
		weir.ErrSettled:       http.StatusConflict,
		weir.ErrExpired:       http.StatusConflict,
		weir.ErrNoPermit:      http.StatusBadRequest,
		rules.ErrNoRules:      http.StatusServiceUnavailable,
		errors.ErrUnsupported: http.StatusInternalServerError,
	} {
		if p := problemOf(fmt.Errorf("settle: %w", err)); p.Status != want {
			t.Errorf("%v: %d, want %d", err, p.Status, want)
		}
	}
}

// TestObserved: every call is told with its route, never with the path that the
// client made up.
func TestObserved(t *testing.T) {
	got := map[string]int{}
	door := newDoor(t, dayRules, Options{Observe: func(route string, status int, _ time.Duration) { got[fmt.Sprint(route, " ", status)]++ }})
	ask(t, door, "/v1/check", check("}]}"))
	ask(t, door, "/v1/check", "")
	ask(t, door, "/secret", "")
	ask(t, door, "/healthz", "")
	for _, want := range []string{"/v1/check 200", "/v1/check 400", "other 404", "/healthz 405"} {
		if got[want] != 1 {
			t.Errorf("%s: %d times in %v", want, got[want], got)
		}
	}
}

// TestTogether: many callers at once get no more than the limit, over real
// connections.
func TestTogether(t *testing.T) {
	server := httptest.NewServer(newDoor(t, `domain: t
descriptors:
  - key: k
    limits: [1000/day fixed-window anchored]
`, Options{}))
	defer server.Close()
	var allowed, denied atomic.Int64
	var g sync.WaitGroup
	for range 8 {
		g.Go(func() {
			for range 200 {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/check", strings.NewReader(check("}]}")))
				if err != nil {
					t.Error(err)
					return
				}
				response, err := server.Client().Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				var a struct{ Allowed bool }
				if err := errors.Join(json.NewDecoder(response.Body).Decode(&a), response.Body.Close()); err != nil {
					t.Error(err)
				}
				switch {
				case response.StatusCode == 200 && a.Allowed:
					allowed.Add(1)
				case response.StatusCode == 429 && !a.Allowed:
					denied.Add(1)
				default:
					t.Errorf("status %d, allowed %v", response.StatusCode, a.Allowed)
				}
			}
		})
	}
	g.Wait()
	if allowed.Load() != 1000 || denied.Load() != 600 {
		t.Errorf("%d allowed, %d denied", allowed.Load(), denied.Load())
	}
}

// TestFieldNames: the fields are spelled as in the draft on the wire.
func TestFieldNames(t *testing.T) {
	w := ask(t, newDoor(t, dayRules, Options{}), "/v1/check", check("}]}"))
	var wire bytes.Buffer
	if err := w.Header().Write(&wire); err != nil || !strings.Contains(wire.String(), "RateLimit-Policy: \"t/k\";q=1000000000;w=86400\r\n") {
		t.Error(err, wire.String())
	}
}

func BenchmarkCheck(b *testing.B) {
	door := newDoor(b, dayRules, Options{})
	body := check("}]}")
	b.ReportAllocs()
	for b.Loop() {
		if w := ask(b, door, "/v1/check", body); w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
	}
}

func BenchmarkReadCheck(b *testing.B) {
	body := check("}]}")
	var q rules.Request
	b.ReportAllocs()
	for b.Loop() {
		if err := readCheck(body, &q); err != nil {
			b.Fatal(err)
		}
	}
}

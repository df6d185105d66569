package httplimit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// middleware is one that must be right.
func middlewareOf(t testing.TB, all []Rule, o Options) func(http.Handler) http.Handler {
	t.Helper()
	m, err := New(memstore.New(memstore.Options{}), all, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// limited is a handler that answers "ok" behind one rule.
func limited(t testing.TB, limit string, o Options) http.Handler {
	t.Helper()
	return middlewareOf(t, []Rule{{Name: "api", Limit: weir.MustParseLimit(limit), Key: Peer}}, o)(ok)
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })

// asked is a request as a server gets it, from 192.0.2.1.
func asked(method, target string) *http.Request {
	return httptest.NewRequestWithContext(context.Background(), method, target, nil)
}

func get(h http.Handler, fields ...string) *httptest.ResponseRecorder {
	r := asked(http.MethodGet, "/")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return do(h, r)
}

func do(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestAllOrNothing: what one rule denies, the others do not count.
func TestAllOrNothing(t *testing.T) {
	h := middlewareOf(t, []Rule{
		{Name: "all", Limit: weir.MustParseLimit("10/h")},
		{Name: "each", Limit: weir.MustParseLimit("2/h"), Key: Header("User")},
	}, Options{})(ok)
	for i, c := range []struct {
		user, left string
		status     int
	}{
		{"ann", `"all";r=9, "each";r=1`, 200},
		{"ann", `"all";r=8, "each";r=0;t=1800`, 200},
		{"ann", `"all";r=8, "each";r=0;t=1800`, 429},
		{"bob", `"all";r=7, "each";r=1`, 200},
	} {
		w := get(h, "User", c.user)
		if w.Code != c.status || w.Header().Get("RateLimit") != c.left {
			t.Errorf("%d: %d %v, want %d %s", i, w.Code, w.Header(), c.status, c.left)
		}
	}
}

// TestB12RetryAfter: who waits for Retry-After passes, and it is never less than a
// second.
func TestB12RetryAfter(t *testing.T) {
	for _, limit := range []string{"1/s", "1000/s burst 1", "7/3s", "3/min fixed-window", "2/10s sliding-log", "5/1500ms sliding-window"} {
		synctest.Test(t, func(t *testing.T) {
			h := limited(t, limit, Options{})
			for range 5 {
				w := get(h)
				for w.Code == http.StatusOK {
					w = get(h)
				}
				seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
				if err != nil || seconds < 1 {
					t.Fatalf("%s: Retry-After %q", limit, w.Header().Get("Retry-After"))
				}
				time.Sleep(time.Duration(seconds) * time.Second)
				if w := get(h); w.Code != http.StatusOK {
					t.Fatalf("%s: %d after %d s", limit, w.Code, seconds)
				}
			}
		})
	}
}

// TestB18Herd: those who are denied together are told to come back apart, and none
// of them too early.
func TestB18Herd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, jitter = 10_000, 60
		h := limited(t, "100/h fixed-window", Options{Jitter: jitter * time.Second})
		next := time.Now().Truncate(time.Hour).Add(time.Hour)
		at := map[int64]int{}
		for i := range clients + 100 {
			w := get(h)
			if i < 100 {
				continue
			}
			seconds, err := strconv.Atoi(w.Header().Get("Retry-After"))
			if err != nil || w.Code != http.StatusTooManyRequests {
				t.Fatal(w.Code, w.Header())
			}
			late := time.Now().Add(time.Duration(seconds) * time.Second).Sub(next)
			if late < 0 || late > (jitter+1)*time.Second {
				t.Fatalf("%v after the limit is as never used", late)
			}
			at[int64(late/time.Second)]++
		}
		for second := range int64(jitter) {
			if n := at[second]; n > clients/jitter*2 {
				t.Errorf("%d of %d come back in second %d", n, clients, second)
			}
		}
	})
}

// TestB22Costs: 0 asks, less is refused, more than the limit can never pass, and
// nothing of it breaks anything.
func TestB22Costs(t *testing.T) {
	limit := weir.MustParseLimit("5/h")
	for _, l := range []*weir.Limit{limit, weir.MustParseLimit("5/h fixed-window")} {
		h := middlewareOf(t, []Rule{{Name: "api", Limit: l, Cost: func(r *http.Request) int64 { return r.ContentLength }}}, Options{})(ok)
		post := func(length int64) *httptest.ResponseRecorder {
			r := asked(http.MethodPost, "/")
			r.ContentLength = length
			return do(h, r)
		}
		for _, c := range []struct {
			cost   int64
			status int
			retry  bool
		}{
			{-1, 400, false},
			{0, 200, false},
			{6, 429, false},
			{weir.MaxCount, 429, false},
			{weir.MaxCount + 1, 429, false},
			{1<<63 - 1, 429, false},
			{-1 << 63, 400, false},
			{5, 200, false}, // so all of it left it as it was
			{0, 200, false},
			{1, 429, true},
		} {
			w := post(c.cost)
			if w.Code != c.status || (w.Header().Get("Retry-After") != "") != c.retry {
				t.Errorf("%s, cost %d: %d %v", l, c.cost, w.Code, w.Header())
			}
		}
	}
	if w := get(limited(t, "0/h", Options{})); w.Code != http.StatusTooManyRequests {
		t.Errorf("0/h answers %d", w.Code)
	}
}

// TestB23WhoDenies: an answer names all rules that deny.
func TestB23WhoDenies(t *testing.T) {
	var heard *Denial
	h := middlewareOf(t, []Rule{
		{Name: "minute", Limit: weir.MustParseLimit("1/min")},
		{Name: "many", Limit: weir.MustParseLimit("100/min")},
		{Name: "hour", Limit: weir.MustParseLimit("1/h")},
	}, Options{OnDenied: func(_ *http.Request, d *Denial) { heard = d }})(ok)
	get(h)
	w := get(h)
	var problem struct {
		Status   int
		Violated []string `json:"violated-policies"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
		t.Fatal(err)
	}
	if want := []string{"minute", "hour"}; !slices.Equal(problem.Violated, want) || problem.Status != 429 || !slices.Equal(heard.Rules, want) {
		t.Errorf("%s and %+v", w.Body, heard)
	}
}

// TestB23WhoDeniesInAllFields: also where the fields can't tell of a rule.
func TestB23WhoDeniesInAllFields(t *testing.T) {
	for _, kinds := range []Fields{Draft10, NoFields, Draft7, Draft6, Envoy03, XRateLimit} {
		var heard *Denial
		var h http.Handler
		h = middlewareOf(t, []Rule{
			{Name: "hour", Limit: weir.MustParseLimit("100/h")},
			{Name: "permits", Limit: weir.MustParseLimit("1 concurrent")},
		}, Options{Fields: kinds, OnDenied: func(_ *http.Request, d *Denial) { heard = d }})(
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) { get(h) }))
		get(h)
		if heard == nil || !slices.Equal(heard.Rules, []string{"permits"}) {
			t.Errorf("%d: %+v", kinds, heard)
		}
	}
}

// TestB24AppliedTwice: it is said once, be the two around each other or with
// handlers in between, with fields or without.
func TestB24AppliedTwice(t *testing.T) {
	for _, o := range []Options{
		{},
		{Fields: NoFields},
		{Fields: Draft7, Settle: true},
		{Fields: Draft7},
		{Fields: Draft6},
		{Fields: Envoy03},
		{Fields: XRateLimit},
		{Fields: Draft10 | XRateLimit},
	} {
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		m := middlewareOf(t, []Rule{{Name: "api", Limit: weir.MustParseLimit("100/h")}}, o)
		other := middlewareOf(t, []Rule{{Name: "other", Limit: weir.MustParseLimit("100/h")}}, o)
		mux := http.NewServeMux()
		mux.Handle("/", m(ok))
		get(m(other(ok)))
		get(other(m(ok)))
		if log.Len() > 0 {
			t.Errorf("%+v: applied once, and told %s", o, &log)
		}
		for range 3 {
			get(m(other(mux)))
		}
		if n := strings.Count(log.String(), "applied twice"); n != 1 {
			t.Errorf("%+v: told %d times: %s", o, n, &log)
		}
	}
}

// TestB24TwoMiddlewares: two that are meant tell of both.
func TestB24TwoMiddlewares(t *testing.T) {
	for kinds, want := range map[Fields]http.Header{
		Draft10: {
			"Ratelimit-Policy": {`"outer";q=9;w=3600, "inner";q=5;w=60`},
			"Ratelimit":        {`"outer";r=8, "inner";r=4`},
		},
		Draft6: {
			"Ratelimit-Policy": {"9;w=3600, 5;w=60"}, "Ratelimit-Limit": {"5"}, "Ratelimit-Remaining": {"4"}, "Ratelimit-Reset": {"12"},
		},
	} {
		outer := middlewareOf(t, []Rule{{Name: "outer", Limit: weir.MustParseLimit("9/h")}}, Options{Fields: kinds})
		inner := middlewareOf(t, []Rule{{Name: "inner", Limit: weir.MustParseLimit("5/min")}}, Options{Fields: kinds})
		w := get(outer(inner(ok)))
		w.Header().Del("Content-Type")
		if d := cmp.Diff(want, w.Header()); d != "" {
			t.Errorf("%d:\n%s", kinds, d)
		}
	}
}

// TestA7GiantKeys: a key of a megabyte is limited as any other.
func TestA7GiantKeys(t *testing.T) {
	h := middlewareOf(t, []Rule{{Name: "api", Limit: weir.MustParseLimit("1/h"), Key: Header("K")}}, Options{})(ok)
	for _, key := range []string{"k", strings.Repeat("k", 65_536), strings.Repeat("k", 1<<20)} {
		if first, second := get(h, "K", key).Code, get(h, "K", key).Code; first != 200 || second != 429 {
			t.Errorf("%d bytes: %d %d", len(key), first, second)
		}
	}
}

// TestA8ManyKeys: a flood of keys costs bounded memory, and A9: frees nobody who is
// denied, and locks nobody out who comes alone.
func TestA8A9ManyKeys(t *testing.T) {
	store := memstore.New(memstore.Options{MaxKeys: 1000})
	m, err := New(store, []Rule{{Name: "api", Limit: weir.MustParseLimit("2/h"), Key: Header("K")}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := m(ok)
	for range 3 {
		get(h, "K", "attacker")
	}
	for i := range 20_000 {
		get(h, "K", strconv.Itoa(i))
	}
	if code := get(h, "K", "attacker").Code; code != http.StatusTooManyRequests {
		t.Errorf("the flood has freed the attacker: %d", code)
	}
	if s := store.Stats(); s.Slots > 10_000 {
		t.Errorf("%d places for 1,000 keys", s.Slots)
	}
}

// TestNobody: a request without a key is refused, unless the rule may be left out.
func TestNobody(t *testing.T) {
	limit := weir.MustParseLimit("1/h")
	strict := middlewareOf(t, []Rule{{Name: "user", Limit: limit, Key: Header("User")}}, Options{})(ok)
	lax := middlewareOf(t, []Rule{{Name: "user", Limit: limit, Key: Header("User"), Optional: true}}, Options{})(ok)
	for range 2 {
		if w := get(strict); w.Code != http.StatusBadRequest || w.Header().Get("Retry-After") != "" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		if w := get(lax); w.Code != http.StatusOK || w.Header().Get("RateLimit") != "" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
	twice := asked(http.MethodGet, "/")
	twice.Header["User"] = []string{"ann", "bob"}
	if w := do(lax, twice); w.Code != http.StatusBadRequest {
		t.Errorf("who tells two users gets around the rule: %d", w.Code)
	}
	if get(lax, "User", "ann").Code != 200 || get(lax, "User", "ann").Code != 429 {
		t.Error("who has a key is not limited")
	}
}

func TestSkipAndDeny(t *testing.T) {
	skip, err := From(Source{}, prefixes("10.0.0.0/8")...)
	if err != nil {
		t.Fatal(err)
	}
	deny, err := From(Source{}, prefixes("10.6.6.0/24")...)
	if err != nil {
		t.Fatal(err)
	}
	h := limited(t, "1/h", Options{Skip: skip, Deny: deny})
	for peer, want := range map[string][2]int{"10.1.1.1:1": {200, 200}, "10.6.6.6:1": {403, 403}, "192.0.2.9:1": {200, 429}} {
		for _, status := range want {
			r := asked(http.MethodGet, "/")
			r.RemoteAddr = peer
			if w := do(h, r); w.Code != status {
				t.Errorf("%s: %d, want %d", peer, w.Code, status)
			}
		}
	}
}

// TestPlan: each plan has its own counts, and its own policy.
func TestPlan(t *testing.T) {
	plans := map[string]*weir.Limit{"pro": weir.MustParseLimit("3/h"), "team": weir.MustParseLimit("4/h")}
	h := middlewareOf(t, []Rule{{Name: "api", Limit: weir.MustParseLimit("1/h"), Key: Header("User"), Plan: func(r *http.Request) *weir.Limit {
		return plans[r.Header.Get("Plan")]
	}}}, Options{})(ok)
	for i, c := range []struct {
		plan, policy string
		status       int
	}{
		{"free", `"api";q=1;w=3600`, 200},
		{"free", `"api";q=1;w=3600`, 429},
		{"pro", `"api";q=3;w=3600`, 200},
		{"pro", `"api";q=3;w=3600`, 200},
		{"pro", `"api";q=3;w=3600`, 200},
		{"pro", `"api";q=3;w=3600`, 429},
		{"team", `"api";q=4;w=3600`, 200},
		{"team", `"api";q=4;w=3600`, 200},
		{"free", `"api";q=1;w=3600`, 429},
	} {
		w := get(h, "User", "ann", "Plan", c.plan)
		if w.Code != c.status || w.Header().Get("RateLimit-Policy") != c.policy {
			t.Errorf("%d: %d %v", i, w.Code, w.Header())
		}
	}
}

// TestShadow: a rule in shadow denies nobody, tells clients nothing, and is heard of.
func TestShadow(t *testing.T) {
	var heard []string
	h := middlewareOf(t, []Rule{
		{Name: "old", Limit: weir.MustParseLimit("3/h")},
		{Name: "new", Limit: weir.MustParseLimit("1/h"), Shadow: true},
	}, Options{OnDenied: func(_ *http.Request, d *Denial) {
		heard = append(heard, fmt.Sprint(d.Rules, d.Shadow, d.Passed))
	}})(ok)
	for i, want := range []int{200, 200, 200, 429} {
		w := get(h)
		if policy := w.Header().Get("RateLimit-Policy"); w.Code != want || policy != `"old";q=3;w=3600` {
			t.Errorf("%d: %d, %s", i, w.Code, policy)
		}
	}
	if want := []string{"[new] true true", "[new] true true", "[new] true false", "[old] false false"}; !slices.Equal(heard, want) {
		t.Errorf("%q, want %q", heard, want)
	}
}

// failing is a store that fails with an error.
type failing struct {
	weir.Store

	err error
}

func (f failing) Take(context.Context, []weir.Ask, []weir.Decision) error { return f.err }

func (failing) Traits() weir.Traits { return weir.Traits{} }

// TestStoreFails: 503 and come back soon, or let pass, as was chosen; and it is
// heard of.
func TestStoreFails(t *testing.T) {
	for _, err := range []error{weir.ErrAway, weir.ErrBusy, weir.ErrFull, errors.New("disk on fire")} {
		for _, open := range []bool{false, true} {
			var heard *Denial
			m, fault := New(failing{err: err}, []Rule{{Name: "api", Limit: weir.MustParseLimit("1/h")}},
				Options{FailOpen: open, OnDenied: func(_ *http.Request, d *Denial) { heard = d }})
			if fault != nil {
				t.Fatal(fault)
			}
			w := get(m(ok))
			if want := map[bool]int{false: 503, true: 200}[open]; w.Code != want || heard == nil || !errors.Is(heard.Err, err) || heard.Passed != open {
				t.Errorf("%v, open %v: %d, %+v", err, open, w.Code, heard)
			}
			if !open && (w.Header().Get("Retry-After") != "1" || w.Header().Get("Cache-Control") != "no-store" || strings.Contains(w.Body.String(), err.Error())) {
				t.Errorf("%v: %v %s", err, w.Header(), w.Body)
			}
			if open && w.Header().Get("RateLimit") != "" {
				t.Errorf("%v: %v", err, w.Header())
			}
		}
	}
}

// degraded is a store whose fallback denies.
type degraded struct{ weir.Store }

func (degraded) Take(_ context.Context, asks []weir.Ask, out []weir.Decision) error {
	for i := range asks {
		out[i] = weir.Decision{Outcome: weir.Denied, Degraded: weir.FallbackClosed, RetryAfter: time.Second}
	}
	return nil
}

func (degraded) Traits() weir.Traits { return weir.Traits{} }

// TestClosedFallback: what only a fallback denies is no fault of the client's.
func TestClosedFallback(t *testing.T) {
	m, err := New(degraded{}, []Rule{{Name: "api", Limit: weir.MustParseLimit("1/h")}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w := get(m(ok)); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "temporary-reduced-capacity") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestHold: a queue holds requests for their slot, in order, and lets go of those
// whose client leaves, whose slot goes to others.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := limited(t, "1/s leaky-queue queue 2", Options{})
		begin := time.Now()
		var mu sync.Mutex
		var went []time.Duration
		ask := func(ctx context.Context) {
			w := do(h, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			mu.Lock()
			defer mu.Unlock()
			if w.Code == http.StatusOK {
				went = append(went, time.Since(begin))
			}
		}
		leaving, leave := context.WithCancel(t.Context())
		for range 2 {
			go ask(t.Context())
			synctest.Wait()
		}
		go ask(leaving)
		synctest.Wait()
		if w := get(h); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
			t.Errorf("the queue is full: %d %v", w.Code, w.Header())
		}
		leave()
		synctest.Wait()
		go ask(t.Context()) // in the slot that came back
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if want := []time.Duration{0, time.Second, 2 * time.Second}; !slices.Equal(went, want) {
			t.Errorf("%v, want %v", went, want)
		}
	})
}

// TestMaxHold: a bucket may hold requests, too, for so long and no longer.
func TestMaxHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := middlewareOf(t, []Rule{{Name: "api", Limit: weir.MustParseLimit("1/s burst 1"), MaxHold: 2 * time.Second}}, Options{})(ok)
		begin := time.Now()
		var held sync.WaitGroup
		for range 3 {
			held.Go(func() {
				if w := get(h); w.Code != http.StatusOK {
					t.Error(w.Code)
				}
			})
			synctest.Wait()
		}
		if w := get(h); w.Code != http.StatusTooManyRequests {
			t.Errorf("%d: a fourth would wait for 3 s", w.Code)
		}
		held.Wait()
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("%v", took)
		}
	})
}

// TestBadConfiguration: all faults are told at once, with what to write instead.
func TestBadConfiguration(t *testing.T) {
	l := weir.MustParseLimit("1/s")
	for _, c := range []struct {
		all  []Rule
		o    Options
		want []string
	}{
		{nil, Options{}, []string{"there are no rules"}},
		{[]Rule{{}}, Options{}, []string{"a name has 1…128", "no Limit; write"}},
		{[]Rule{{Name: "ä#", Limit: l}}, Options{}, []string{`rule 0, "ä#": a name has`}},
		{[]Rule{{Name: "a", Limit: l}, {Name: "a", Limit: l}}, Options{}, []string{"two rules have the name a"}},
		{[]Rule{{Name: "a", Limit: l, Unit: "ü"}}, Options{}, []string{"printable ASCII"}},
		{[]Rule{{Name: "a", Limit: l, MaxHold: -1}}, Options{}, []string{"MaxHold is -1ns; it must be 0…24h0m0s"}},
		{[]Rule{{Name: "a", Limit: l, MaxHold: 1}, {Name: "b", Limit: l}}, Options{}, []string{"use it with one rule"}},
		{[]Rule{{Name: "a", Limit: weir.MustParseLimit("1/s fixed-window"), MaxHold: 1}}, Options{}, []string{"not for fixed-window"}},
		{[]Rule{{Name: "a", Limit: l}}, Options{Fields: NoFields | Draft10}, []string{"leave one of them out"}},
		{[]Rule{{Name: "a", Limit: l}}, Options{Fields: Draft6 | Draft10}, []string{"several drafts"}},
		{[]Rule{{Name: "a", Limit: l}}, Options{Fields: Envoy03 | XRateLimit}, []string{"Envoy03 and XRateLimit"}},
		{[]Rule{{Name: "a", Limit: l}}, Options{Fields: 128, Jitter: -1}, []string{"kinds that there are not", "Jitter is -1ns"}},
	} {
		_, err := New(memstore.New(memstore.Options{}), c.all, c.o)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v %+v: %v, want %q", c.all, c.o, err, want)
			}
		}
	}
	if _, err := NewFromRules(rules.NewLimiter(memstore.New(memstore.Options{}), nil), "", nil, Options{Fields: 128}); err == nil || strings.Count(err.Error(), "httplimit: ") != 3 {
		t.Error(err)
	}
}

// noWarmUp is a store that can't keep a limit.
type noWarmUp struct{ *memstore.Store }

func (noWarmUp) Traits() weir.Traits {
	return weir.Traits{Unfit: func(l *weir.Limit) string {
		if l.Algorithm() == weir.WarmUp {
			return "take gcra"
		}
		return ""
	}}
}

// TestFoundWhenMade: what would fail each request is told when the middleware is made.
func TestFoundWhenMade(t *testing.T) {
	set, err := rules.Parse("shop.yaml", []byte("domain: shop\ndescriptors: [{key: user, limits: [10/s warm-up 1s]}]"))
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(memstore.Options{})
	program := func(store weir.Store) error {
		_, err := New(store, []Rule{{Name: "a", Limit: weir.MustParseLimit("10/s warm-up 1s")}}, Options{})
		return err
	}
	file := func(limiter *rules.Limiter, domain string) error {
		describe := func(_ *http.Request, all []rules.Descriptor) []rules.Descriptor { return all }
		_, err := NewFromRules(limiter, domain, describe, Options{})
		return err
	}
	for i, c := range []struct {
		err  error
		want string // empty: it is made
	}{
		{program(store), ""},
		{program(nil), "httplimit: the store is nil; pass one, such as memstore.New"},
		{program(noWarmUp{store}), `httplimit: rule 0, "a": the store can't keep "10/s warm-up 1s": take gcra`},
		{file(rules.NewLimiter(store, set), "shop"), ""},
		{file(rules.NewLimiter(store, nil), "later"), ""},
		{file(nil, "shop"), "httplimit: the limiter is nil; pass one, such as rules.NewLimiter"},
		{file(rules.NewLimiter(store, set), "shpo"), `httplimit: there is no domain "shpo"; did you mean shop?`},
		{file(rules.NewLimiter(noWarmUp{store}, set), "shop"), `shop.yaml:2:36: error: the store can't keep "10/s warm-up 1s": take gcra (rule shop/user)`},
	} {
		if (c.err == nil) != (c.want == "") || c.err != nil && !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%d: %v, want %q", i, c.err, c.want)
		}
	}
}

// TestFromRules: rules of a file decide, with their names, and what they can't
// read is a bad request.
func TestFromRules(t *testing.T) {
	set, err := rules.Parse("shop.yaml", []byte(`domain: shop
descriptors:
  - {key: user, limits: [2/h]}
  - {key: path, value: /export, name: exports, limits: [1 concurrent]}
  - {key: trial, shadow_mode: true, limits: [0/h]}
  - {key: free, rate_limit: {unlimited: true}}
`))
	if err != nil {
		t.Fatal(err)
	}
	var heard []string
	limiter := rules.NewLimiter(memstore.New(memstore.Options{}), nil)
	m, err := NewFromRules(limiter, "shop", func(r *http.Request, all []rules.Descriptor) []rules.Descriptor {
		for _, key := range []string{"User", "Free", "Trial"} {
			if v := r.Header.Get(key); v != "" {
				all = append(all, rules.Descriptor{Entries: []rules.Entry{{Key: strings.ToLower(key), Value: v}}, Cost: 1})
			}
		}
		return all
	}, Options{OnDenied: func(_ *http.Request, d *Denial) { heard = append(heard, fmt.Sprint(d.Rules, d.Status, d.Shadow)) }})
	if err != nil {
		t.Fatal(err)
	}
	h := m(ok)
	if w := get(h, "User", "ann"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without rules: %d", w.Code)
	}
	limiter.Replace(set)
	for i, c := range []struct {
		fields []string
		status int
		left   string
	}{
		{nil, 200, ""},
		{[]string{"User", "ann"}, 200, `"shop/user";r=1`},
		{[]string{"User", "ann", "Trial", "x"}, 200, `"shop/user";r=0;t=1800`},
		{[]string{"User", "ann"}, 429, `"shop/user";r=0;t=1800`},
		{[]string{"Free", "ann"}, 200, ""},
		{[]string{"User", strings.Repeat("x", rules.MaxWord+1)}, 400, ""},
	} {
		w := get(h, c.fields...)
		if w.Code != c.status || w.Header().Get("RateLimit") != c.left {
			t.Errorf("%d: %d %v", i, w.Code, w.Header())
		}
	}
	if want := []string{"[] 503 false", "[shop/trial] 429 true", "[shop/user] 429 false", "[] 400 false"}; !slices.Equal(heard, want) {
		t.Errorf("%q", heard)
	}
}

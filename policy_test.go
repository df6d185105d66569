package weir_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// listening is a store that keeps the policies that it was asked with.
type listening struct {
	weir.Store

	bare bool
	told []weir.Policy
}

func (s *listening) Traits() weir.Traits {
	return weir.Traits{Shared: true, Bare: s.bare, Unfit: func(l *weir.Limit) string {
		if l.Algorithm() == weir.WarmUp {
			return "take gcra"
		}
		return ""
	}}
}

func (s *listening) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	for i := range asks {
		s.told = append(s.told, asks[i].Policy)
	}
	return s.Store.Take(ctx, asks, out)
}

// TestLimiterWith: each ask of a limiter has its policy, also of one whose store takes one
// limit without an ask, and the limiter that it was made of has none.
func TestLimiterWith(t *testing.T) {
	store := &listening{Store: memstore.New(memstore.Options{})}
	p := weir.Policy{Fallback: weir.FallbackClosed, Nodes: 3, Sync: time.Second}
	plain := weir.NewLimiter(store, "r", weir.MustParseLimit("1/min"), weir.MustParseLimit("5/h"))
	l, err := plain.With(p)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range []*weir.Limiter{l, plain} {
		if a, err := l.Take(t.Context(), "k", 1); err != nil || (a.Outcome == weir.Allowed) != (i == 0) {
			t.Errorf("%+v, %v: they share their counts", a, err)
		}
	}
	if want := []weir.Policy{p, p, {}, {}}; len(store.told) != 4 || [4]weir.Policy(store.told) != [4]weir.Policy(want) {
		t.Errorf("%+v, want %+v", store.told, want)
	}
	alone, err := weir.NewLimiter(memstore.New(memstore.Options{}), "r", weir.MustParseLimit("1/min")).With(p)
	if err != nil {
		t.Fatal(err)
	}
	if a, err := alone.Take(t.Context(), "k", 1); err != nil || a.Outcome != weir.Allowed {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestPolicyIsRefused: a policy that would have no effect is refused when the limiter is
// made.
func TestPolicyIsRefused(t *testing.T) {
	for _, c := range []struct {
		limit, why string
		bare       bool
		policy     weir.Policy
	}{
		{"1/s", "", true, weir.Policy{}},
		{"1/s", "", true, weir.Policy{Fallback: weir.FallbackLocal, Nodes: 1}}, // as a rule that says nothing
		{"1/s", "fallback: open has no effect", true, weir.Policy{Fallback: weir.FallbackOpen}},
		{"1/s", "nodes: 2 has no effect", true, weir.Policy{Nodes: 2}},
		{"1/s", "sync: 1s has no effect", true, weir.Policy{Sync: time.Second}},
		{"1/s", "", false, weir.Policy{Sync: time.Second}},
		{"5/s warm-up 1s", `the store can't keep "5/s warm-up 1s": take gcra`, false, weir.Policy{}},
		{"5/s sliding-log", "sync is impossible for sliding-log", false, weir.Policy{Sync: time.Second}},
		{"5 concurrent", "sync is impossible for concurrent", false, weir.Policy{Sync: time.Second}},
		{"1/s", "lease: 1s has no effect", true, weir.Policy{Lease: time.Second}},
		{"1/s", "", false, weir.Policy{Lease: time.Second}},
		{"5/s sliding-log", "lease is impossible for sliding-log", false, weir.Policy{Lease: time.Second}},
		{"1/s", "lease and sync exclude each other", false, weir.Policy{Lease: time.Second, Sync: time.Second}},
		{"1/s", "below 0", false, weir.Policy{Lease: -1}},
		{"1/s", "below 0", false, weir.Policy{Nodes: -1}},
		{"1/s", `"shut" is none`, false, weir.Policy{Fallback: "shut"}},
		{"1/s", "cluster", false, weir.Policy{Sharing: weir.SharingMesh}},
	} {
		l, err := weir.NewLimiter(&listening{bare: c.bare}, "r", weir.MustParseLimit(c.limit)).With(c.policy)
		if c.why == "" && (err != nil || l == nil) || c.why != "" && (err == nil || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%s with %+v: %v, want %q", c.limit, c.policy, err, c.why)
		}
	}
}

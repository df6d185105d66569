package admission

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

func remaining(t *testing.T, store weir.Store, r *Rule) int64 {
	t.Helper()
	out := make([]weir.Decision, 1)
	if err := store.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: r.state, Key: "k"}, Limit: r.Limit}}, out); err != nil {
		t.Fatal(err)
	}
	return out[0].Remaining
}

// charge is what c was charged, about which something has to be done.
func charge(t *testing.T, g *Gate, c *Call) *Charge {
	t.Helper()
	if !g.Charges(c) {
		t.Fatal("nothing is to be done about the charge")
	}
	charge := new(Charge)
	g.Charge(t.Context(), c, charge)
	return charge
}

// TestCharge: of a request that is done, permits are freed, what was told is what it
// cost, and all else stays charged; of one that does not count, all goes back.
func TestCharge(t *testing.T) {
	g := &Gate{Store: memstore.New(memstore.Options{}), Settles: true}
	slots := NewRule("slots", weir.MustParseLimit("3 concurrent"), false, "")
	tokens := NewRule("tokens", weir.MustParseLimit("100/day fixed-window"), false, "tokens")
	calls := NewRule("calls", weir.MustParseLimit("10/day fixed-window"), false, "")
	admit := func() *Charge {
		var c Call
		c.Ask(slots, slots.Limit, "k", 1, 0)
		c.Ask(tokens, tokens.Limit, "k", 30, 0)
		c.Ask(calls, calls.Limit, "k", 1, 0)
		if err := g.Decide(t.Context(), &c); err != nil || !c.Allowed {
			t.Fatal(c.Verdict, err)
		}
		return charge(t, g, &c)
	}
	left := func() [3]int64 {
		return [3]int64{remaining(t, g.Store, slots), remaining(t, g.Store, tokens), remaining(t, g.Store, calls)}
	}
	done := admit()
	if !done.Use("tokens", 20) || done.Use("tokens", 20) || !done.Use("others", 1) {
		t.Error("something is left of 30 until 40 are used")
	}
	if charged, used, found := done.Cost("tokens"); charged != 30 || used != 40 || !found {
		t.Error(charged, used, found)
	}
	for range 2 { // the second is without effect
		done.End(true)
	}
	if got := left(); got != [3]int64{3, 60, 9} {
		t.Errorf("after a request that is done remain %v", got)
	}
	admit().End(false)
	if got := left(); got != [3]int64{3, 60, 9} {
		t.Errorf("after a request that does not count remain %v", got)
	}
	var none *Charge
	none.GiveBack()
	if _, _, found := none.Cost("calls"); found || !none.Use("calls", 1) {
		t.Error("a charge of nothing has something")
	}
}

type unsettled struct{ weir.Store }

func (unsettled) Settle(context.Context, []weir.Settlement) error { return weir.ErrAway }

// TestUnsettled: that a charge stays is told.
func TestUnsettled(t *testing.T) {
	var heard error
	g := &Gate{Store: unsettled{memstore.New(memstore.Options{})}, Unsettled: func(_ context.Context, err error) { heard = err }}
	r := NewRule("slots", weir.MustParseLimit("3 concurrent"), false, "")
	var c Call
	c.Ask(r, r.Limit, "k", 1, 0)
	if err := g.Decide(t.Context(), &c); err != nil {
		t.Fatal(err)
	}
	charge(t, g, &c).End(true)
	if !errors.Is(heard, weir.ErrAway) {
		t.Errorf("heard of %v", heard)
	}
}

// outage is a store that is away until some time: it settles nothing.
type outage struct {
	weir.Store
	from, until time.Time
	failed      int
}

func (o *outage) Settle(ctx context.Context, all []weir.Settlement) error {
	if now := time.Now(); now.After(o.from) && now.Before(o.until) {
		o.failed++
		return weir.ErrAway
	}
	return o.Store.Settle(ctx, all)
}

// TestRenewInOutage: permits outlast an outage of half their ttl, whenever it begins, and
// a longer one costs no more tries than it has to.
func TestRenewInOutage(t *testing.T) {
	const ttl = 3 * time.Second
	r := NewRule("slots", weir.MustParseLimit("1 concurrent ttl 3s"), false, "")
	// held is whether the permit of a request of some length was held throughout.
	held := func(t *testing.T, store *outage, length time.Duration) bool {
		g := &Gate{Store: store}
		var c Call
		c.Ask(r, r.Limit, "k", 1, 0)
		if err := g.Decide(t.Context(), &c); err != nil || !c.Allowed {
			t.Fatal(c.Verdict, err)
		}
		charge, all := charge(t, g, &c), true
		for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(ttl / 100) {
			all = all && remaining(t, store, r) == 0
		}
		charge.End(true)
		if left := remaining(t, store, r); left != 1 {
			t.Errorf("%d left after the request", left)
		}
		failed := store.failed
		if time.Sleep(2 * ttl); store.failed > failed {
			t.Error("renewed after the request")
		}
		return all
	}
	away := func(after, length time.Duration) *outage {
		from := time.Now().Add(after)
		return &outage{Store: memstore.New(memstore.Options{}), from: from, until: from.Add(length)}
	}
	for after := range 20 {
		synctest.Test(t, func(t *testing.T) {
			if !held(t, away(ttl*time.Duration(after)/20, ttl/2), 3*ttl) {
				t.Errorf("a permit was lost in an outage after %d 20ths of its ttl", after)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		store := away(0, 100*ttl)
		if held(t, store, 101*ttl) {
			t.Error("a permit outlasts its store")
		}
		if store.failed > 320 { // three for each ttl, and more in the first
			t.Errorf("%d tries in an outage of 100 times the ttl", store.failed)
		}
	})
}

// TestDenials: a cost that no limit passes is denied beside one that may pass later, and
// a rule that denies for two keys is named once.
func TestDenials(t *testing.T) {
	g := &Gate{Store: memstore.New(memstore.Options{})}
	small, dark := NewRule("small", weir.MustParseLimit("0/s"), false, ""), NewRule("dark", weir.MustParseLimit("9/s"), true, "")
	var c Call
	for range 2 { // its memory is used again
		c.Clear()
		c.Ask(small, weir.MustParseLimit("7/s"), "k", weir.MaxCount+1, 0)
		c.Ask(dark, dark.Limit, "k", weir.MaxCount+1, 0)
		if err := g.Decide(t.Context(), &c); err != nil {
			t.Fatal(err)
		}
		if c.Allowed || !c.Never || !c.TooLarge || len(c.Denials) != 1 || c.Denials[0].Limit.String() != "7/s" || len(c.Standings) != 1 {
			t.Errorf("%+v", c)
		}
		if d := cmp.Diff([]string{"dark"}, c.Shadows); d != "" {
			t.Error(d)
		}
	}
	set, findings := rules.Parse("f", []byte("domain: shop\ndescriptors: [{key: user, limits: [0/s]}]"))
	if set == nil {
		t.Fatal(findings)
	}
	g = &Gate{Limiter: rules.NewLimiter(memstore.New(memstore.Options{}), set), Domain: "shop"}
	user := func(name string) rules.Descriptor {
		return rules.Descriptor{Entries: []rules.Entry{{Key: "user", Value: name}}, Cost: 1}
	}
	c.Clear()
	if err := g.Check(t.Context(), &c, []rules.Descriptor{user("a"), user("b")}); err != nil || len(c.Denials) != 1 || c.Denials[0].Rule != "shop/user" {
		t.Errorf("%v, %+v", err, c.Denials)
	}
	if err := g.Check(t.Context(), &c, make([]rules.Descriptor, 1)); !Malformed(err) {
		t.Errorf("a descriptor without entries: %v", err)
	}
}

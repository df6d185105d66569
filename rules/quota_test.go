package rules_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// quotaText is the rules of the tests of quota_mode.
const quotaText = `
domain: shop
descriptors:
- {key: q1, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: q2, quota_mode: true, rate_limit: {unit: hour, requests_per_unit: 2}}
- {key: dark, quota_mode: true, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
- {key: u, limits: [10/h]}
- {key: one, limits: [1/h]}
- {key: done, charge: after, limits: [10/h]}
`

// A request of quota limits is denied only when all of them deny.
func TestQuotaMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, quotaText)
		q1, q2, u := descriptor("q1=x"), descriptor("q2=x"), descriptor("u=x")
		withReceipt := ask(q1, q2, u, descriptor("done=x"))
		withReceipt.Receipt = true
		for i, s := range []struct {
			r    *rules.Request
			want string
		}{
			{ask(q1, u), "true 0 | 0 shop/q1 allowed 1+ 0 | 1 shop/u allowed 1+ 9"},
			{ask(q1, u), "false 0 | 0 shop/q1 denied 1 0 | 1 shop/u allowed 1 9"}, // alone it is like any other
			{ask(q1, q2, u), "true 1 | 0 shop/q1 denied 1 0 | 1 shop/q2 allowed 1+ 1 | 2 shop/u allowed 1+ 8"},
			{ask(q1, q2, descriptor("one=x")), "true 1 | 0 shop/q1 denied 1 0 | 1 shop/q2 allowed 1+ 0 | 2 shop/one allowed 1+ 0"},
			{ask(q1, q2, u), "false 0 | 0 shop/q1 denied 1 0 | 1 shop/q2 denied 1 0 | 2 shop/u allowed 1 8"},
			{ask(q1, q2, descriptor("dark=x"), u), "true 3 | 0 shop/q1 denied 1 0 | 1 shop/q2 denied 1 0 | 2 shop/dark allowed 1+ 0 | 3 shop/u allowed 1+ 7"},
			{ask(q1, descriptor("dark=x")), "true -1 | 0 shop/q1 denied 1 0 | 1 shop/dark denied 1 0"},
			{withReceipt, "false 0 | 0 shop/q1 denied 1 0 | 1 shop/q2 denied 1 0 | 2 shop/u allowed 1 7 | 3 shop/done allowed 1+ 9"},
			// Another limit denies: the quotas are not charged either.
			{ask(descriptor("q1=y"), descriptor("q2=y"), descriptor("one=x")), "false 2 | 0 shop/q1 allowed 1 1 | 1 shop/q2 allowed 1 2 | 2 shop/one denied 1 0"},
			{ask(u), "true 0 | 0 shop/u allowed 1+ 6"},
		} {
			a := check(t, l, s.r)
			if got := brief(a); got != s.want {
				t.Errorf("step %d:\n got %s\nwant %s", i, got, s.want)
			}
			if retry, ok := a.RetryAfter(); ok == a.Allowed || ok && retry == 0 {
				t.Errorf("step %d: retry after %v, %v", i, retry, ok)
			}
			if r := a.Receipts(); r != nil {
				t.Errorf("step %d: receipts %v", i, r)
			}
		}
		passes := ask(descriptor("q1=z"), descriptor("q2=z"), u)
		passes.Receipt = true
		if r := check(t, l, passes).Receipts(); len(r) != 3 {
			t.Errorf("receipts %v, want 3", r)
		}
	})
}

// A quota that can never fit denies only itself: beside one that allows it has no
// say, and hard limits are charged. A hard limit that can never fit charges nothing.
func TestQuotaThatNeverFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, quotaText)
		huge := func(d rules.Descriptor) rules.Descriptor { return costs(d, weir.MaxCount+1) }
		q1, q2, u, one := descriptor("q1=x"), descriptor("q2=x"), descriptor("u=x"), descriptor("one=x")
		for i, s := range []struct {
			r    *rules.Request
			want string
		}{
			{ask(huge(q1), q2, one), "true 2 | 0 shop/q1 impossible 1073741825 1 | 1 shop/q2 allowed 1+ 1 | 2 shop/one allowed 1+ 0"},
			{ask(huge(q1), q2, one), "false 2 | 0 shop/q1 impossible 1073741825 1 | 1 shop/q2 allowed 1 1 | 2 shop/one denied 1 0"},
			{ask(huge(q1), u), "false 0 | 0 shop/q1 impossible 1073741825 1 | 1 shop/u allowed 1 10"},
			{ask(huge(u), q2), "false 0 | 0 shop/u impossible 1073741825 10 | 1 shop/q2 allowed 1 1"},
			{ask(huge(u), u, q2), "false 0 | 0 shop/u impossible 1073741825 10 | 1 shop/u impossible 1 10 | 2 shop/q2 allowed 1 1"},
			{ask(huge(descriptor("dark=x")), u), "true 1 | 0 shop/dark impossible 1073741825 1 | 1 shop/u allowed 1+ 9"},
			{ask(huge(descriptor("done=x")), u), "false 0 | 0 shop/done denied 1073741825+ 0 | 1 shop/u allowed 1 9"},
		} {
			s.r.AnyCost = true
			if got := brief(check(t, l, s.r)); got != s.want {
				t.Errorf("step %d:\n got %s\nwant %s", i, got, s.want)
			}
		}
	})
}

// broken is a store that can do nothing, or nothing but take.
type broken struct{ take weir.Store }

var errAway = errors.New("the store is away")

func (b broken) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if b.take == nil {
		return errAway
	}
	return b.take.Take(ctx, asks, out)
}
func (b broken) Settle(context.Context, []weir.Settlement) error { return errAway }
func (b broken) Reset(context.Context, []weir.StateKey) error    { return errAway }
func (b broken) Traits() weir.Traits                             { return weir.Traits{} }

func TestStoreFails(t *testing.T) {
	set := parse(t, quotaText)
	l := rules.NewLimiter(broken{}, set)
	if a, err := l.Check(t.Context(), ask(descriptor("u=x"))); !errors.Is(err, errAway) || a != nil {
		t.Errorf("%v, %v", a, err)
	}
	if a := check(t, l, ask(descriptor("nothing=x"))); !a.Allowed {
		t.Error("what no rule meets needs no store")
	}
	l = rules.NewLimiter(broken{memstore.New(memstore.Options{})}, set)
	r := ask(descriptor("q1=x"), descriptor("q2=x"), descriptor("u=x"))
	for range 2 {
		if a, err := l.Check(t.Context(), r); err != nil || !a.Allowed {
			t.Errorf("%v, %v", a, err)
		}
	}
	// When all quotas deny, nothing is charged and nothing has to go back.
	if a, err := l.Check(t.Context(), r); err != nil || a.Allowed {
		t.Errorf("%v, %v", a, err)
	}
}

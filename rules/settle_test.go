package rules_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, `
domain: shop
descriptors:
- {key: s, limits: [1/s]}
- {key: h, limits: [1/h]}
- {key: slot, limits: [1 concurrent]}
- {key: dark, shadow_mode: true, limits: [1/day]}
- {key: queue, limits: [1/s leaky-queue]}
- {key: darkqueue, shadow_mode: true, limits: [1/min leaky-queue]}
`)
		all := []rules.Descriptor{descriptor("s=x"), descriptor("h=x"), descriptor("slot=x"), descriptor("dark=x")}
		a := check(t, l, ask(all...))
		if _, ok := a.RetryAfter(); ok || !a.Allowed {
			t.Error("an allowed request has a time to retry")
		}
		if retry, ok := check(t, l, ask(all...)).RetryAfter(); !ok || retry != time.Hour {
			t.Errorf("retry after %v, %v; want the longest that is enforced", retry, ok)
		}
		if retry, ok := check(t, l, ask(all[2])).RetryAfter(); !ok || retry != 0 {
			t.Errorf("retry after %v, %v; of a permit nothing is known", retry, ok)
		}
		if _, ok := check(t, l, ask(all[1], costs(all[0], 2))).RetryAfter(); ok {
			t.Error("what can never pass has a time to retry")
		}
		for i := range 2 {
			if hold, want := check(t, l, ask(descriptor("queue=x"), descriptor("darkqueue=x"))).Hold(), time.Duration(i)*time.Second; hold != want {
				t.Errorf("hold %v, want %v", hold, want)
			}
		}
	})
}

func TestUnlimited(t *testing.T) {
	l := newLimiter(t, `
domain: shop
descriptors:
- {key: free, rate_limit: {unlimited: true, name: free}}
- {key: a, rate_limit: {unit: second, requests_per_unit: 5, replaces: [{name: free}]}} # to no effect
`)
	a := check(t, l, ask(descriptor("a=x"), descriptor("free=x"), descriptor("none=x"), descriptor("free=y")))
	if d := cmp.Diff([]int{1, 3}, a.Unlimited); d != "" || len(a.Decisions) != 1 {
		t.Errorf("unlimited (-want +got):\n%s, %d decisions", d, len(a.Decisions))
	}
}

func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, `
domain: shop
descriptors:
- {key: a, limits: [10/h, 100/day]}
- {key: b, limits: [10/h]}
- {key: slot, limits: [1 concurrent ttl 1min]}
- {key: done, charge: after, limits: [10/h]}
`)
		take := func(d ...rules.Descriptor) *rules.Answer {
			r := ask(d...)
			r.Receipt = true
			return check(t, l, r)
		}
		a := take(costs(descriptor("a=x"), 5), costs(descriptor("b=x"), 4), costs(descriptor("a=x"), 2), descriptor("done=x"), costs(descriptor("b=y"), 0))
		receipts := a.Receipts()
		if len(receipts) != 3 || receipts[0].Cost != 7 || receipts[1].Cost != 7 || receipts[2].Cost != 4 ||
			receipts[0].ID == 0 || receipts[0].ID != receipts[2].ID || a.Decisions[3].Receipt != receipts[0] {
			t.Fatalf("%d receipts: %+v", len(receipts), receipts)
		}
		if charged, err := l.Settle(t.Context(), receipts, []int64{1, 2, 9}, false); err != nil || !slices.Equal(charged, []int64{1, 2, 9}) {
			t.Fatal(charged, err)
		}
		r := ask(descriptor("a=x"), descriptor("b=x"))
		r.Peek = true
		if got, want := brief(check(t, l, r)), "true 2 | 0 shop/a#1 allowed 1 9 | 0 shop/a#2 allowed 1 98 | 1 shop/b allowed 1 1"; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
		if _, err := l.Settle(t.Context(), receipts, []int64{1, 2, 9}, false); !errors.Is(err, weir.ErrSettled) {
			t.Errorf("twice: %v", err)
		}

		slot := take(descriptor("slot=x"), descriptor("b=x")).Receipts()
		time.Sleep(40 * time.Second)
		if _, err := l.Settle(t.Context(), slot, nil, true); err != nil {
			t.Fatal("renew:", err)
		}
		time.Sleep(40 * time.Second)
		if take(descriptor("slot=x")).Allowed {
			t.Error("the permit was renewed, and yet is free")
		}
		if _, err := l.Settle(t.Context(), slot, []int64{0, 0}, false); err != nil {
			t.Fatal(err)
		}
		if !take(descriptor("slot=x")).Allowed {
			t.Error("the permit was given back, and yet is not free")
		}

		for want, bad := range map[string][]int64{
			"used: there are 1, for 3 receipts":                  {1},
			"used: is -1; it must be 0…1099511627776":            {1, -1, 1},
			"used: is 1099511627777; it must be 0…1099511627776": {1, 1, weir.MaxCost + 1},
		} {
			_, err := l.Settle(t.Context(), receipts, bad, false)
			if _, ok := errors.AsType[*rules.RequestError](err); !ok || err.Error() != want {
				t.Errorf("%v, want a RequestError: %s", err, want)
			}
		}
		if _, err := l.Settle(t.Context(), receipts, nil, true); !errors.Is(err, weir.ErrNoPermit) {
			t.Error(err)
		}
		if _, err := l.Settle(t.Context(), nil, nil, false); err != nil {
			t.Error(err)
		}
	})
}

// TestTellSettled: what is settled of the active rules is told once, with what came of it, and
// what fails is not.
func TestTellSettled(t *testing.T) {
	set, err := rules.Parse("test.yaml", []byte("domain: d\ndescriptors:\n  - {key: k, limits: [10/h sliding-log]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	l := rules.NewLimiter(memstore.New(memstore.Options{}), set)
	var got []string
	l.TellSettled(func(all []weir.Settlement) {
		for _, s := range all {
			got = append(got, fmt.Sprintf("%s %s: %d, %d stay", s.Receipt.State.Rule, s.Receipt.State.Key, s.Receipt.Cost, s.Charged))
		}
	})
	ask := func(d rules.Descriptor) *rules.Answer {
		d.Entries = []rules.Entry{{"k", "ann"}}
		a, err := l.Check(t.Context(), &rules.Request{Domain: "d", Descriptors: []rules.Descriptor{d}, Receipt: !d.GiveBack})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := ask(rules.Descriptor{Cost: 5})
	for range 2 { // the second time it is settled already
		_, _ = l.Settle(t.Context(), a.Receipts(), []int64{2}, false)
	}
	if d := ask(rules.Descriptor{Cost: 4, GiveBack: true}).Decisions[0]; d.Cost != 0 || d.Charged {
		t.Errorf("what gives back is counted as a request of %d events", d.Cost)
	}
	place := set.Rules()[0].State("").Rule
	want := []string{place + " ann: 5, 2 stay", place + " ann: 4, 2 stay"}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

// sundered settles receipts of several descriptors one after the other, and fails when it is told to.
type sundered struct {
	*memstore.Store

	fails int // at this call
}

func (s *sundered) Settle(ctx context.Context, settlements []weir.Settlement) error {
	return record.SettleApart(settlements, record.PlaceOf, func(part []weir.Settlement) error {
		if s.fails--; s.fails == 0 {
			return weir.ErrAway
		}
		own := slices.Clone(part)
		for i := range own { // memstore knows all receipts of a take by one id
			r := *own[i].Receipt
			r.ID += uint64(len(r.State.Rule))
			own[i].Receipt = &r
		}
		err := s.Store.Settle(ctx, own)
		for i := range own {
			part[i].Charged = own[i].Charged
		}
		return err
	})
}

// TestTellSettledApart: where a store settles some receipts of a take and then fails, what came of these
// is told at once, and not again when the others are settled later.
func TestTellSettledApart(t *testing.T) {
	set, err := rules.Parse("test.yaml", []byte("domain: d\ndescriptors:\n  - {key: k, limits: [10/h]}\n  - {key: long, limits: [10/h]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	l := rules.NewLimiter(&sundered{memstore.New(memstore.Options{}), 2}, set)
	var got []string
	l.TellSettled(func(all []weir.Settlement) {
		for _, s := range all {
			got = append(got, fmt.Sprintf("%s: %d, %d stay", s.Receipt.State.Rule, s.Receipt.Cost, s.Charged))
		}
	})
	a, err := l.Check(t.Context(), &rules.Request{Domain: "d", Receipt: true, Descriptors: []rules.Descriptor{
		{Entries: []rules.Entry{{"k", "ann"}}, Cost: 5}, {Entries: []rules.Entry{{"long", "ann"}}, Cost: 4},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Settle(t.Context(), a.Receipts(), []int64{2, 1}, false); !errors.Is(err, weir.ErrAway) {
		t.Errorf("the store fails, and settling: %v", err)
	}
	if _, err := l.Settle(t.Context(), a.Receipts(), []int64{2, 1}, false); err != nil {
		t.Error(err)
	}
	all := set.Rules()
	want := []string{all[0].State("").Rule + ": 5, 2 stay", all[1].State("").Rule + ": 4, 1 stay"}
	if !slices.Equal(got, want) {
		t.Errorf("told %q, want %q", got, want)
	}
}

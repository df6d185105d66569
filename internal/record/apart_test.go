package record_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/memstore"
)

// TestOnceOfSeveral: a take of several placements that was given back would pass,
// uncharged, when it comes again. So it is refused, and one that may be charged
// again is charged.
func TestOnceOfSeveral(t *testing.T) {
	stores := map[string]*memstore.Store{"a": memstore.New(memstore.Options{}), "b": memstore.New(memstore.Options{})}
	apart := record.Apart{
		Take: func(asks []weir.Ask, out []weir.Decision) error {
			return stores[asks[0].State.Rule].Take(t.Context(), asks, out)
		},
		Settle: func(ctx context.Context, all []weir.Settlement) error {
			return stores[all[0].Receipt.State.Rule].Settle(ctx, all)
		},
	}
	for _, once := range []bool{true, false} {
		asks := []weir.Ask{
			{State: weir.StateKey{Rule: "a"}, Limit: weir.MustParseLimit("10/day"), Cost: 1, Receipt: 7, Once: once},
			{State: weir.StateKey{Rule: "b"}, Limit: weir.MustParseLimit("1/day"), Cost: 1, Receipt: 7, Once: once},
		}
		out := make([]weir.Decision, len(asks))
		if err := apart.TakeAll(t.Context(), asks, out); (err != nil) != once {
			t.Errorf("once %v: %v", once, err)
		}
		want := int64(10)
		if !once {
			want = 9
		}
		peek := []weir.Ask{{State: asks[0].State, Limit: asks[0].Limit, Cost: 1, Peek: true}}
		if err := stores["a"].Take(t.Context(), peek, out[:1]); err != nil || out[0].Remaining != want {
			t.Errorf("once %v: %d remain, want %d; %v", once, out[0].Remaining, want, err)
		}
	}
}

// TestQuotaLost: another take has the last event of a quota between the look and the charge. The take passes where another quota
// has room, and is charged there; where none has, it is denied, and charged nothing: never allowed uncharged.
func TestQuotaLost(t *testing.T) {
	for _, room := range []bool{true, false} {
		stores := map[string]*memstore.Store{}
		for _, name := range []string{"hard", "lost", "other"} {
			stores[name] = memstore.New(memstore.Options{})
		}
		charge := func(asks []weir.Ask) []weir.Decision {
			out := make([]weir.Decision, len(asks))
			if err := stores[asks[0].State.Rule].Take(t.Context(), asks, out); err != nil {
				t.Fatal(err)
			}
			return out
		}
		one := func(rule string, quota bool) weir.Ask {
			return weir.Ask{State: weir.StateKey{Rule: rule}, Limit: weir.MustParseLimit("1/day"), Cost: 1, Quota: quota}
		}
		if !room {
			charge([]weir.Ask{one("other", true)})
		}
		apart := record.Apart{
			Take: func(asks []weir.Ask, out []weir.Decision) error {
				if rule := asks[0].State.Rule; rule == "lost" && !asks[0].Peek {
					charge([]weir.Ask{one(rule, true)})
				}
				copy(out, charge(asks))
				return nil
			},
			Settle: func(ctx context.Context, all []weir.Settlement) error {
				return stores[all[0].Receipt.State.Rule].Settle(ctx, all)
			},
		}
		asks := []weir.Ask{one("hard", false), one("lost", true), one("other", true)}
		out := make([]weir.Decision, len(asks))
		if err := apart.TakeAll(t.Context(), asks, out); err != nil {
			t.Fatal(err)
		}
		if told := weir.QuotaPasses(asks, out) && out[0].Outcome == weir.Allowed; told != room || out[0].Charged != room || out[2].Charged != room || out[1].Charged {
			t.Errorf("another quota has room %v: %+v", room, out)
		}
		left := charge([]weir.Ask{{State: asks[0].State, Limit: asks[0].Limit, Cost: 1, Peek: true}})[0].Remaining
		if room != (left == 0) {
			t.Errorf("another quota has room %v: the other limit has %d left", room, left)
		}
	}
}

// TestReportBesideOthers: a report of work that leaves no room for a next event denies the
// whole take, and nothing else is charged.
func TestReportBesideOthers(t *testing.T) {
	stores := map[string]*memstore.Store{"a": memstore.New(memstore.Options{}), "b": memstore.New(memstore.Options{})}
	apart := record.Apart{
		Take: func(asks []weir.Ask, out []weir.Decision) error {
			return stores[asks[0].State.Rule].Take(t.Context(), asks, out)
		},
		Settle: func(ctx context.Context, all []weir.Settlement) error {
			return stores[all[0].Receipt.State.Rule].Settle(ctx, all)
		},
	}
	asks := []weir.Ask{
		{State: weir.StateKey{Rule: "a"}, Limit: weir.MustParseLimit("10/day"), Cost: 1},
		{State: weir.StateKey{Rule: "b"}, Limit: weir.MustParseLimit("5/day fixed-window"), Cost: 5, After: true},
	}
	out := make([]weir.Decision, len(asks))
	if err := apart.TakeAll(t.Context(), asks, out); err != nil {
		t.Fatal(err)
	}
	if out[0].Charged || out[0].Remaining != 10 || !out[1].Charged || out[1].Outcome != weir.Denied {
		t.Errorf("%+v", out)
	}
}

// TestSettleApart: a take is settled when a part of it is; else it says why none was, and a
// failure of the store ends it. What stays charged is told of those parts alone that were settled.
func TestSettleApart(t *testing.T) {
	away := errors.New("away")
	for name, c := range map[string]struct {
		parts []error // what settling each part comes to
		want  error
		calls int
	}{
		"all":                  {[]error{nil, nil}, nil, 2},
		"one now, one before":  {[]error{weir.ErrSettled, nil}, nil, 2},
		"all before":           {[]error{weir.ErrSettled, weir.ErrSettled}, weir.ErrSettled, 2},
		"an expired one":       {[]error{weir.ErrNoPermit, weir.ErrExpired, weir.ErrNoPermit}, weir.ErrExpired, 3},
		"a store that is away": {[]error{nil, away, nil}, away, 2},
		"no receipts":          {nil, nil, 0},
	} {
		var all []weir.Settlement
		for i := range c.parts {
			all = append(all, weir.Settlement{Receipt: &weir.Receipt{State: weir.StateKey{Rule: strconv.Itoa(i)}}})
		}
		calls := 0
		err := record.SettleApart(all, record.PlaceOf, func(part []weir.Settlement) error {
			return record.SettleCopy(part, func(part []weir.Settlement) error {
				err := c.parts[calls]
				part[0].Charged = 7
				calls++
				return err
			})
		})
		if !errors.Is(err, c.want) || calls != c.calls {
			t.Errorf("%s: %v after %d calls, want %v after %d", name, err, calls, c.want, c.calls)
		}
		for i := range all[:calls] {
			if want := map[bool]int64{true: 7}[c.parts[i] == nil]; all[i].Charged != want {
				t.Errorf("%s: part %d has %d charged, want %d", name, i, all[i].Charged, want)
			}
		}
	}
}

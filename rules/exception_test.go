package rules_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

const exceptedFile = `domain: shop
descriptors:
  - key: user
    limits: [10/day]
  - key: tier
    limits: [{name: fast, limit: 10/min}, {name: day, limit: 100/day}]
  - key: path
    value: /export*
    descriptors:
      - {key: user, limits: [5/day]}
  - {key: vip, rate_limit: {unlimited: true}}
  - {key: leased, lease: 1s, limits: [10/s]}
`

// granted is a limiter with exceptions.
func granted(t testing.TB, file string) (*rules.Limiter, *rules.Exceptions) {
	l, x := newLimiter(t, file), new(rules.Exceptions)
	l.Except(x, func(_ context.Context, at weir.StateKey) (rules.Grant, error) {
		if at.Key == "nobody" {
			return rules.Grant{}, errors.New("away")
		}
		return rules.Grant{Author: "ann", Reason: "a launch"}, nil
	})
	return l, x
}

// grant gives a limit to the requests of words.
func grant(t testing.TB, l *rules.Limiter, x *rules.Exceptions, limit, of string, words ...string) rules.Exception {
	t.Helper()
	r, key, err := l.Set().Grantable("shop", descriptor(words...).Entries, of)
	if err != nil {
		t.Fatal(err)
	}
	e := rules.Exception{State: r.State(key), Limit: weir.MustParseLimit(limit), Until: weir.InstantOf(time.Now().Add(time.Hour))}
	x.Change([]rules.Exception{e}, false, weir.InstantOf(time.Now()))
	return e
}

func costing(cost int64, words ...string) *rules.Request {
	d := descriptor(words...)
	d.Cost = cost
	return ask(d)
}

// TestException: one client has a limit of its own, on the same count, and others do not.
func TestException(t *testing.T) {
	l, x := granted(t, exceptedFile)
	check(t, l, costing(8, "user=4711"))
	e := grant(t, l, x, "100/day", "", "user=4711")
	a := check(t, l, costing(42, "user=4711"))
	if d := a.Decisions[0]; !a.Allowed || d.Remaining != 50 || d.Rule.Limit.String() != "100/day" || d.Rule.Usual.Limit.String() != "10/day" || d.Rule.Name != "shop/user" {
		t.Errorf("%+v", d)
	}
	if a := check(t, l, costing(11, "user=4712")); a.Allowed {
		t.Error("another client has it, too")
	}
	e.Limit = nil
	x.Change([]rules.Exception{e}, false, weir.InstantOf(time.Now()))
	if a := check(t, l, costing(1, "user=4711")); a.Allowed {
		t.Error("it is not held to 10 afterwards")
	}
}

// TestExceptionOfOne: of several limits only the one that is named is another, and the way below a pattern counts.
func TestExceptionOfOne(t *testing.T) {
	l, x := granted(t, exceptedFile)
	grant(t, l, x, "1000/day", "day", "tier=a")
	a := check(t, l, costing(1, "tier=a"))
	if a.Decisions[0].Rule.Usual != nil || a.Decisions[1].Rule.Limit.String() != "1000/day" {
		t.Errorf("%v, %v", a.Decisions[0].Rule.Limit, a.Decisions[1].Rule.Limit)
	}
	grant(t, l, x, "50/day", "", "path=/export/a", "user=ann")
	if a := check(t, l, costing(40, "path=/export/a", "user=ann")); !a.Allowed {
		t.Error("denied")
	}
	if a := check(t, l, costing(40, "path=/export/b", "user=ann")); a.Allowed {
		t.Error("on another path, too")
	}
	if set := l.Set().Rules(); set[1].Limit.String() != "10/min" || set[2].Limit.String() != "100/day" {
		t.Error("the rules were changed")
	}
}

// TestGrantable: what can have no exception is refused, with what to do instead.
func TestGrantable(t *testing.T) {
	set := parse(t, exceptedFile)
	for _, c := range []struct{ domain, of, words, want string }{
		{"nowhere", "", "user=a", "no active rules"},
		{"shop", "", "usr=a", "did you mean user"},
		{"shop", "", "tier=a", `has 2 limits; name the one that is meant, of "fast", "day"`},
		{"shop", "month", "tier=a", `has no limit "month"; name one of "fast", "day"`},
		{"shop", "", "path=/export/a", "has no limit of its own"},
		{"shop", "", "user=a more=b", "there is nothing for the second"},
	} {
		_, _, err := set.Grantable(c.domain, descriptor(strings.Fields(c.words)...).Entries, c.of)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.words, err)
		}
	}
	for _, c := range []struct{ words, limit, want string }{
		{"vip=a", "10/s", "is unlimited"},
		{"leased=a", "10/s sliding-log count-denied", "lease"},
		{"user=a", "10 concurrent", "permits are not events"},
		{"user=a", "0/s", ""},
	} {
		r, _, err := set.Grantable("shop", descriptor(c.words).Entries, "")
		if err == nil {
			err = r.Bears(weir.MustParseLimit(c.limit))
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s of %s: %v", c.limit, c.words, err)
		}
	}
}

// TestExceptionTightened: what an operator tightens or opens holds for exceptions, too.
func TestExceptionTightened(t *testing.T) {
	for _, c := range []struct {
		percent int64
		limit   string
		cost    int64
		allowed bool
	}{{50, "5/min burst 10", 21, true}, {50, "5/min burst 10", 26, false}, {0, "10/min burst 20", 100, true}} {
		file := heldFile
		if c.percent == 0 {
			file = strings.Replace(file, "key: user", "key: user\n    shadow_mode: true", 1)
		}
		set := parse(t, fmt.Sprintf(file, c.limit))
		held := rules.Temporary{Percent: c.percent, Until: time.Now().Add(time.Hour), Author: "bob", Reason: "a flood"}
		err := set.Tell(parse(t, fmt.Sprintf(heldFile, "10/min burst 20")), func(item string) *rules.Temporary {
			if item != "user" {
				return nil
			}
			return &held
		})
		if err != nil {
			t.Fatal(err)
		}
		l, x := granted(t, exceptedFile)
		l.Replace(set)
		grant(t, l, x, "30/min burst 50", "", "user=ann") // 25 pass at once of it, tightened to 50 %
		if a := check(t, l, costing(c.cost, "user=ann")); a.Allowed != c.allowed {
			t.Errorf("%d %%, a cost of %d: allowed %v by %v", c.percent, c.cost, a.Allowed, a.Decisions[0].Rule.Limit)
		}
	}
}

// TestExceptionExplained: an explanation says by whom, why, until when, and what the rule would say; of now and of a denial afterwards.
func TestExceptionExplained(t *testing.T) {
	store := memstore.New(memstore.Options{})
	l, x := rules.NewLimiter(store, parse(t, exceptedFile)), new(rules.Exceptions)
	l.Except(x, func(context.Context, weir.StateKey) (rules.Grant, error) {
		return rules.Grant{Author: "ann", Reason: "a launch"}, nil
	})
	if err := l.Remember(rules.NewDenials()); err != nil {
		t.Fatal(err)
	}
	e := grant(t, l, x, "100/day", "", "user=4711")
	until := e.Until.Time().Format("2006-01-02 15:04 MST")
	at := explain(t, l, costing(20, "user=4711"))
	want := "an exception of this key alone until " + until + ", by ann, in place of 10/day: a launch; without it, the rule would not allow this now"
	if !slices.Contains(at.Limits[0].Notes, want) || at.Limits[0].Grant.Author != "ann" {
		t.Errorf("%q", at.Limits[0].Notes)
	}
	if all := check(t, l, costing(101, "user=4711")); all.Allowed {
		t.Fatal("more than the limit was allowed")
	}
	if all := check(t, l, costing(100, "user=4711")); !all.Allowed {
		t.Fatal("denied")
	}
	denied := check(t, l, costing(5, "user=4711"))
	if denied.Allowed {
		t.Fatal("allowed")
	}
	e.Limit = nil
	x.Change([]rules.Exception{e}, false, weir.InstantOf(time.Now()))
	then, err := l.Recall(t.Context(), denied.ID())
	if err != nil || then.Answer.Decisions[0].Rule.Limit.String() != "100/day" || then.Answer.Allowed {
		t.Errorf("%v: %+v", err, then)
	}
	// A denial by the rule is not told as one by the exception that came later.
	if denied = check(t, l, costing(10, "user=x")); !denied.Allowed {
		t.Fatal("denied")
	}
	denied = check(t, l, costing(1, "user=x"))
	grant(t, l, x, "100/day", "", "user=x")
	then, err = l.Recall(t.Context(), denied.ID())
	if err != nil || then.Answer.Decisions[0].Rule.Limit.String() != "10/day" || then.Answer.Allowed {
		t.Errorf("%v: %+v", err, then)
	}
}

// manyExceptions are a million of values of 16 bytes.
func manyExceptions(t testing.TB, n int) []rules.Exception {
	set := parse(t, exceptedFile)
	limits := []*weir.Limit{weir.MustParseLimit("100/day"), weir.MustParseLimit("1000/day"), weir.MustParseLimit("5/s")}
	place := set.Rules()[0].State("").Rule
	until := weir.InstantOf(time.Now().Add(time.Hour))
	all := make([]rules.Exception, n)
	for i := range all {
		all[i] = rules.Exception{State: weir.StateKey{Rule: place, Key: fmt.Sprintf("customer-%07d", i)}, Limit: limits[i%len(limits)], Until: until}
	}
	return all
}

// TestExceptionMemory: each takes no more than 100 bytes.
func TestExceptionMemory(t *testing.T) {
	const n = 200_000
	all := manyExceptions(t, n)
	x := new(rules.Exceptions)
	before := liveHeap()
	x.Change(all, true, weir.InstantOf(time.Now()))
	if each := (liveHeap() - before) / n; each > 100 {
		t.Errorf("%d bytes each", each)
	} else {
		t.Logf("%d bytes each", each)
	}
	runtime.KeepAlive(all)
	runtime.KeepAlive(x)
}

func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkExceptions is a check of a key, beside a million exceptions and none.
func BenchmarkExceptions(b *testing.B) {
	all := manyExceptions(b, 1_000_000)
	for _, c := range []struct {
		name string
		n    int
		word string
	}{{"none", 0, "user=customer-0500000"}, {"other-rule", 1_000_000, "tier=a"}, {"beside", 1_000_000, "user=somebody"}, {"excepted", 1_000_000, ""}} {
		b.Run(c.name, func(b *testing.B) {
			l, x := rules.NewLimiter(free{}, parse(b, exceptedFile)), new(rules.Exceptions)
			l.Except(x, nil)
			x.Change(all[:c.n], true, weir.InstantOf(time.Now()))
			requests := make([]*rules.Request, 1<<16)
			for i := range requests {
				word := c.word
				if word == "" {
					word = "user=" + all[(i*7919)%len(all)].State.Key
				}
				requests[i] = costing(1, word)
			}
			var a rules.Answer
			took := make([]time.Duration, 0, 1<<16)
			for _, r := range requests { // the first of each is of a cold cache, which a benchmark of some seconds is not about
				if err := l.CheckInto(b.Context(), r, &a); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				if err := l.CheckInto(b.Context(), requests[i&(1<<16-1)], &a); err != nil {
					b.Fatal(err)
				}
				if len(took) < cap(took) {
					took = append(took, time.Since(began))
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2]), "ns-p50")
			b.ReportMetric(float64(took[len(took)*99/100]), "ns-p99")
		})
	}
}

// free is a store that allows all.
type free struct{}

func (free) Take(_ context.Context, asks []weir.Ask, out []weir.Decision) error {
	for i := range asks {
		out[i] = weir.Decision{Outcome: weir.Allowed}
	}
	return nil
}

func (free) Settle(context.Context, []weir.Settlement) error { return nil }
func (free) Reset(context.Context, []weir.StateKey) error    { return nil }
func (free) Traits() weir.Traits                             { return weir.Traits{Atomic: true} }

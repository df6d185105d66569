package rules_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// clocked is a memory store whose time is set by hand.
type clocked struct {
	*memstore.Store

	now weir.Instant
}

func (c *clocked) Take(_ context.Context, asks []weir.Ask, out []weir.Decision) error {
	return c.TakeAt(c.now, asks, out)
}

func (c *clocked) Settle(_ context.Context, s []weir.Settlement) error { return c.SettleAt(c.now, s) }

func (c *clocked) Look(_ context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	states, err := c.LookAt(c.now, asks)
	return c.now, states, err
}

// start is 2000-01-01T00:00:00Z.
const start weir.Instant = 946_684_800_000_000

func newClocked(t testing.TB, text string) (*rules.Limiter, *clocked) {
	t.Helper()
	c := &clocked{memstore.New(memstore.Options{MaxKeys: 1000}), start}
	return rules.NewLimiter(c, parse(t, text)), c
}

func explain(t testing.TB, l *rules.Limiter, r *rules.Request) *rules.Explanation {
	t.Helper()
	e, err := l.Explain(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const explainRules = `
domain: shop
descriptors:
  - {key: user, limits: [5/s burst 10, 1000/day fixed-window]}
  - {key: user, value: bot*, limits: [1/min]}
  - {key: user, value: bot7, limits: [3/min sliding-log count-denied]}
  - {key: dark, shadow_mode: true, limits: [1/h]}
  - {key: slot, limits: [2 concurrent]}
  - {key: queue, limits: [60/min leaky-queue queue 1]}
  - {key: done, charge: after, limits: [3/h]}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: zero, limits: [0/s]}
  - {key: new, limits: [10/s initial 0]}
  - key: path
    value: /export
    limits: [6/min]
    descriptors:
      - {key: user, limits: [1/h]}
  - key: path
    descriptors:
      - {key: user, limits: [2/h]}
  - {key: q1, quota_mode: true, limits: [1/min]}
  - {key: q2, quota_mode: true, limits: [1/h]}
  - {key: named, rate_limit: {name: base, unit: hour, requests_per_unit: 1}}
  - {key: vip, rate_limit: {unit: hour, requests_per_unit: 9, replaces: [{name: base}]}}
`

// TestExplainLimits tells of what was asked before what Explain says then: the
// summary, and of each limit when it passes, what fits, what would be enough,
// how it stands before and after, and its notes.
func TestExplainLimits(t *testing.T) {
	many := func(n int, r *rules.Request) (list []*rules.Request) {
		for range n {
			list = append(list, r)
		}
		return list
	}
	ann := ask(descriptor("user=ann"))
	for _, c := range []struct {
		name   string
		before []*rules.Request
		r      *rules.Request
		want   string
	}{
		{"fresh", nil, ann, `
passes: all enforced limits allow it; shop/user#1 decides, because the fewest remain there, 9
now together=true
shop/user#1 allowed now fits 1 most 14: 0/10/0s -> 1/9/200ms
shop/user#2 allowed now fits 1 most 2000: 0/1000/0s -> 1/999/24h0m0s
`},
		{"denied", many(10, ann), ask(costs(descriptor("user=ann"), 3)), `
denied: shop/user#1 decides, because it denies; the request would pass in 600ms, if no other request comes
later 600ms together=true
shop/user#1 denied later 600ms fits 0 most 14: 10/0/2s -> 10/0/2s
  a burst of at least 13 would let this pass now: 5/s burst 13
shop/user#2 allowed now fits 3 most 2000: 10/990/24h0m0s -> 10/990/24h0m0s
  it allows, and would not be charged, because another limit denies
`},
		{"some fit", many(8, ann), ask(costs(descriptor("user=ann"), 4)), `
denied: shop/user#1 decides, because it denies; the request would pass in 400ms, if no other request comes
later 400ms together=true
shop/user#1 denied later 400ms fits 2 most 14: 8/2/1.6s -> 8/2/1.6s
  a cost of at most 2 would pass now
  a burst of at least 12 would let this pass now: 5/s burst 12
shop/user#2 allowed now fits 4 most 2000: 8/992/24h0m0s -> 8/992/24h0m0s
  it allows, and would not be charged, because another limit denies
`},
		{"impossible", nil, ask(costs(descriptor("user=bot1"), 2)), `
can never pass: a cost of 2 is more than shop/user=bot* ever lets pass at once
never together=true
shop/user=bot* impossible never fits 1 most 1: 0/1/0s -> 0/1/0s
  a cost of at most 1 would pass now
  a burst of at least 2 would let this pass now: 1/min burst 2
`},
		{"count-denied", many(3, ask(descriptor("user=bot7"))), ask(descriptor("user=bot7")), `
denied: shop/user=bot7 decides, because it denies; the request would pass in 1m0s, if no other request comes
later 1m0s together=true
shop/user=bot7 denied later 1m0s fits 0 most 3: 3/0/1m0s -> 3/0/1m0s
  a count of at least 4 would let this pass now: 4/min sliding-log count-denied
  a request now is counted although it is denied, and then has to wait 1m0s
`},
		{"shadow", many(1, ask(descriptor("dark=a"))), ask(descriptor("dark=a")), `
passes: none of its limits is enforced
now together=true
shop/dark denied later 1h0m0s fits 0 most 1: 1/0/1h0m0s -> 1/0/1h0m0s (not enforced)
  a burst of at least 2 would let this pass now: 1/h burst 2
  it is in shadow: decided, not enforced
`},
		{"permits", many(2, ask(descriptor("slot=a"))), ask(descriptor("slot=a")), `
denied: shop/slot decides, because it denies; it is not known when the request would pass
unknown together=true
shop/slot denied unknown fits 0 most 9223372036854775807: 2/0/1m0s -> 2/0/1m0s
  a count of at least 3 would let this pass now: 3 concurrent
  a permit must come back first; at the latest in 1m0s all are free, unless they are renewed
`},
		{"queue", many(1, ask(descriptor("queue=a"))), ask(descriptor("queue=a")), `
passes: shop/queue allows it
now together=true
shop/queue allowed now fits 1 most 60: 1/1/1s -> 2/0/2s
  the caller has to wait 1s before it goes
`},
		{"queue full", many(2, ask(descriptor("queue=a"))), ask(descriptor("queue=a")), `
denied: shop/queue decides, because it denies; the request would pass in 1s, if no other request comes
later 1s together=true
shop/queue denied later 1s fits 0 most 60: 2/0/2s -> 2/0/2s
  a queue of at least 2 would let this pass now: 60/min leaky-queue queue 2
`},
		{"reported after", many(1, ask(costs(descriptor("done=a"), 2))), ask(descriptor("done=a")), `
denied: shop/done decides, because it denies; the request would pass in 20m0s, if no other request comes
later 20m0s together=true
shop/done denied later 20m0s fits 0 most 5: 2/1/40m0s -> 3/0/1h0m0s
  it reports work that is done: that is always charged, and the outcome is whether a next event would pass
`},
		{"denies all", nil, ask(descriptor("zero=a")), `
can never pass: a cost of 1 is more than shop/zero ever lets pass at once
never together=true
shop/zero impossible never fits 0 most 0: 0/0/0s -> 0/0/0s
  a count of 0 denies all
`},
		{"never seen", nil, ask(descriptor("new=a")), `
denied: shop/new decides, because it denies; the request would pass in 100ms, if no other request comes
later 100ms together=true
shop/new denied later 100ms fits 0 most 19: 10/0/0s -> 10/0/2s
  this key has had no request yet: its time begins with the first
`},
		{"unlimited", nil, ask(descriptor("free=a")), "\npasses: its rules are unlimited\nnow together=true\n"},
		{"no rule", nil, ask(descriptor("nobody=a")), "\npasses: no limit is for it\nnow together=true\n"},
		{"same count twice", nil, ask(costs(descriptor("user=ann"), 3), descriptor("user=bot1"), costs(descriptor("user=ann"), 0)), `
passes: all enforced limits allow it; shop/user=bot* decides, because the fewest remain there, 0
now together=true
shop/user#1 allowed now fits 3 most 14: 0/10/0s -> 3/7/600ms
  descriptors 0, 2 have the same count: their costs are added up
shop/user#2 allowed now fits 3 most 2000: 0/1000/0s -> 3/997/24h0m0s
  descriptors 0, 2 have the same count: their costs are added up
shop/user=bot* allowed now fits 1 most 1: 0/1/0s -> 1/0/1m0s
shop/user#1 allowed now fits 3 most 14: 0/10/0s -> 3/7/600ms
  a cost of 0 charges nothing
  descriptors 0, 2 have the same count: their costs are added up
shop/user#2 allowed now fits 3 most 2000: 0/1000/0s -> 3/997/24h0m0s
  a cost of 0 charges nothing
  descriptors 0, 2 have the same count: their costs are added up
`},
		{"quotas: one is enough", many(1, ask(descriptor("q1=a"), descriptor("q2=a"))), ask(descriptor("q1=a"), descriptor("q2=a")), `
denied: shop/q2 decides, because of 2 limits that deny, it does so the longest; the request would pass in 1m0s, if no other request comes
later 1m0s together=true
shop/q1 denied later 1m0s fits 0 most 1: 1/0/1m0s -> 1/0/1m0s
  a burst of at least 2 would let this pass now: 1/min burst 2
  it is one of 2 quota limits, which deny only when all of them do
shop/q2 denied later 1h0m0s fits 0 most 1: 1/0/1h0m0s -> 1/0/1h0m0s
  a burst of at least 2 would let this pass now: 1/h burst 2
  it is one of 2 quota limits, which deny only when all of them do
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, _ := newClocked(t, explainRules)
			for _, r := range c.before {
				check(t, l, r)
			}
			if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), briefly(explain(t, l, c.r))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func briefly(e *rules.Explanation) string {
	var b strings.Builder
	passing := func(p rules.Passing) string {
		if p.When == rules.PassesLater {
			return fmt.Sprintf("%s %v", p.When, p.After)
		}
		return string(p.When)
	}
	fmt.Fprintf(&b, "%s\n%s together=%v\n", e.Summary, passing(e.Passing), e.Together)
	for i, x := range e.Limits {
		d := e.Answer.Decisions[i]
		fmt.Fprintf(&b, "%s %s %s fits %d most %d: %d/%d/%v -> %d/%d/%v", d.Rule.Name, d.Outcome, passing(x.Passing), x.Fits, x.Most,
			x.Before.Used, x.Before.Remaining, x.Before.ResetAfter, x.After.Used, x.After.Remaining, x.After.ResetAfter)
		if !x.Enforced {
			b.WriteString(" (not enforced)")
		}
		b.WriteByte('\n')
		for _, n := range x.Notes {
			fmt.Fprintf(&b, "  %s\n", n)
		}
	}
	return b.String()
}

// TestExplainMatch tells the way of a descriptor through the rules.
func TestExplainMatch(t *testing.T) {
	l, _ := newClocked(t, explainRules)
	for _, c := range []struct{ domain, entries, want string }{
		{"shop", "user=bot7", `
user=bot7 (rules.yaml:6) has 1 limit
user=bot7 -> user=bot7: the key and value are exactly these, which comes before patterns and keys alone; over user:4 user=bot*:5
`},
		{"shop", "user=bot8", `
user=bot* (rules.yaml:5) has 1 limit
user=bot8 -> user=bot*: the pattern fits, the first of the file that does; a pattern comes before a key alone; over user:4
`},
		{"shop", "user=ann", `
user (rules.yaml:4) has 2 limits
user=ann -> user: the key alone: any value fits
`},
		{"shop", "free=x", `
free (rules.yaml:11) is unlimited
free=x -> free: the key alone: any value fits
`},
		{"shop", "usr=ann", `
no descriptor here has the key "usr"; did you mean user?
usr=ann -> nothing: no descriptor here has the key "usr"; did you mean user?; there user:4 user=bot*:5 user=bot7:6 dark:7 slot:8 queue:9 done:10 free:11 and 8 more
`},
		{"shop", "path=/export user=ann ip=x", `
the request has 3 entries, and below user (rules.yaml:18) there is nothing for the third; a limit applies only if the request's entry count equals the depth; with the first 2 alone it would meet shop/path=/export/user
path=/export -> path=/export: the key and value are exactly these, which comes before patterns and keys alone; over path:19
user=ann -> user: the key alone: any value fits
`},
		{"shop", "path=/export usr=ann", `
no descriptor here has the key "usr"; did you mean user?; nothing is tried twice, so path (rules.yaml:19), passed over for path=/export, is not tried
path=/export -> path=/export: the key and value are exactly these, which comes before patterns and keys alone; over path:19
usr=ann -> nothing: no descriptor here has the key "usr"; did you mean user?; there user:18
`},
		{"shop", "user=ann path=/export", `
the request has 2 entries, and below user (rules.yaml:4) there is nothing for the second; a limit applies only if the request's entry count equals the depth; with the first alone it would meet shop/user#1; entries count in their order, and in the order path, user they would meet shop/path=/export/user
user=ann -> user: the key alone: any value fits
`},
		{"shop", "path=/home", `
path (rules.yaml:19) has no limit of its own, only descriptors below it, as user (rules.yaml:21); a limit applies only if the request's entry count equals the depth
path=/home -> path: the key alone: any value fits
`},
		{"shpo", "user=ann", "\nthere is no domain \"shpo\"; did you mean shop?\n"},
		{"elsewhere", "user=ann", "\nthere is no domain \"elsewhere\"; there is shop\n"},
	} {
		d := descriptor(strings.Fields(c.entries)...)
		e := explain(t, l, &rules.Request{Domain: c.domain, Descriptors: []rules.Descriptor{d}})
		if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n"), way(&e.Descriptors[0])); diff != "" {
			t.Errorf("%s %s: -want +got\n%s", c.domain, c.entries, diff)
		}
	}
}

func way(d *rules.DescriptorTrace) string {
	var b strings.Builder
	b.WriteString(d.Summary + "\n")
	list := func(word string, places []rules.Place) {
		for i, p := range places {
			if i == 0 {
				b.WriteString("; " + word)
			}
			fmt.Fprintf(&b, " %s:%d", p, p.Line)
		}
	}
	for _, l := range d.Levels {
		met := "nothing"
		if l.Met != nil {
			met = l.Met.String()
		}
		fmt.Fprintf(&b, "%s=%s -> %s: %s", l.Entry.Key, l.Entry.Value, met, l.Why)
		list("over", l.Passed)
		list("there", l.There)
		if l.Omitted > 0 {
			fmt.Fprintf(&b, " and %d more", l.Omitted)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// TestExplainReplaced: a rule that another one of the request replaces is not
// met, and the trace says so.
func TestExplainReplaced(t *testing.T) {
	l, _ := newClocked(t, explainRules)
	e := explain(t, l, ask(descriptor("named=a"), descriptor("vip=a")))
	if got, want := e.Descriptors[0].Summary, "named (rules.yaml:24) has 1 limit, but another rule of the request replaces base"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if len(e.Limits) != 1 || e.Answer.Decisions[0].Rule.Name != "shop/vip" {
		t.Error(brief(e.Answer))
	}
}

// TestExplainErrors: it fails as Check does, and where a store can't be seen.
func TestExplainErrors(t *testing.T) {
	set := parse(t, explainRules)
	ann := ask(descriptor("user=ann"))
	if _, err := rules.NewLimiter(memstore.New(memstore.Options{}), nil).Explain(t.Context(), ann); !errors.Is(err, rules.ErrNoRules) {
		t.Error(err)
	}
	blind := rules.NewLimiter(struct{ weir.Store }{memstore.New(memstore.Options{})}, set)
	if _, err := blind.Explain(t.Context(), ann); !errors.Is(err, rules.ErrNoLook) {
		t.Error(err)
	}
	if _, err := blind.Explain(t.Context(), &rules.Request{}); err == nil {
		t.Error("an empty request was explained")
	}
}

// TestExplainHuge: costs that no store may be asked for can never pass.
func TestExplainHuge(t *testing.T) {
	l, _ := newClocked(t, explainRules)
	e := explain(t, l, ask(costs(descriptor("user=ann"), weir.MaxCount), costs(descriptor("user=ann"), weir.MaxCount)))
	if e.Passing.When != rules.PassesNever || e.Limits[0].Enough != nil {
		t.Error(briefly(e))
	}
	if e.Limits[0].Most == math.MaxInt64 {
		t.Error("a rate without a bound")
	}
}

func TestReset(t *testing.T) {
	l, _ := newClocked(t, explainRules)
	r := ask(costs(descriptor("user=ann"), 10), descriptor("nobody=x"), descriptor("user=bot1"))
	check(t, l, r)
	one := ask(descriptor("user=ann"), descriptor("user=bob"))
	peek := *one
	peek.Peek = true
	for _, c := range []struct {
		r    *rules.Request
		left int64
	}{{&peek, 0}, {one, 10}} {
		forgot, err := l.Reset(t.Context(), c.r)
		if err != nil || len(forgot) != 4 || forgot[0].Name != "shop/user#1" {
			t.Error(forgot, err)
		}
		if got := explain(t, l, ask(descriptor("user=ann"))).Limits[0].Before.Remaining; got != c.left {
			t.Errorf("%d remain, want %d", got, c.left)
		}
	}
	if got := explain(t, l, ask(descriptor("user=bot1"))).Limits[0].Before.Remaining; got != 0 {
		t.Error("a count was reset that nobody spoke of")
	}
}

// TestExplainIsCheck holds Explain to Check, on random rules and requests: the
// same answer follows; explaining changes nothing; the time is exact at which a
// denied request passes; and so are the largest cost and the least limit. What
// Recall says of a denial is what Explain said just before.
func TestExplainIsCheck(t *testing.T) {
	limits := []string{
		"5/s burst 10", "3/min", "7/h burst 2 debt 5", "10/s initial 0", "10/s initial 3 burst 4", "10/s strict burst 3",
		"60/min leaky-queue queue 2", "5/min fixed-window", "5/min fixed-window anchored", "3/day fixed-window zone Asia/Tokyo",
		"4/min sliding-log", "9/min sliding-window", "9/min sliding-window 6", "9/min sliding-window 6 relaxed", "9/min sliding-window 6 conservative",
		"100/s warm-up 10s", "2 concurrent", "3/7s sliding-log count-denied", "5/s fixed-window count-denied", "0/s",
	}
	rapid.Check(t, func(rt *rapid.T) {
		var text strings.Builder
		text.WriteString("domain: shop\ndescriptors:\n")
		keys := []string{"a", "b", "c", "d"}
		for _, key := range keys {
			var list []string
			for range rapid.IntRange(1, 3).Draw(rt, "limits") {
				limit := rapid.SampledFrom(limits).Draw(rt, "limit")
				if !slices.Contains(list, limit) {
					list = append(list, limit)
				}
			}
			fmt.Fprintf(&text, "- {key: %s, limits: [%s], shadow_mode: %v, quota_mode: %v}\n", key, strings.Join(list, ", "),
				rapid.IntRange(0, 5).Draw(rt, "shadow") == 0, rapid.IntRange(0, 2).Draw(rt, "quota") == 0)
		}
		l, clock := newClocked(t, text.String())
		remember(t, l)
		clock.now += weir.Instant(rapid.Int64Range(0, 86_400e6).Draw(rt, "start"))
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			clock.now += weir.Instant(rapid.Int64Range(0, 3e6).Draw(rt, "later"))
			r := ask()
			for range rapid.IntRange(1, 3).Draw(rt, "descriptors") {
				d := descriptor(rapid.SampledFrom(keys).Draw(rt, "key") + "=x")
				r.Descriptors = append(r.Descriptors, costs(d, rapid.Int64Range(0, 4).Draw(rt, "cost")))
			}
			r.Peek = rapid.IntRange(0, 4).Draw(rt, "peek") == 0
			first, second := explain(t, l, r), explain(t, l, r)
			if diff := cmp.Diff(briefly(first), briefly(second)); diff != "" {
				rt.Fatalf("explaining left a trace\n%s", diff)
			}
			counts, starts := false, false
			for _, d := range first.Answer.Decisions {
				spec := d.Rule.Limit.Spec()
				counts = counts || spec.CountDenied
				starts = starts || spec.Initial != nil && *spec.Initial < spec.Burst
			}
			// To ask starts the clock of a new key, but a denial may count: of a
			// request that meets both, no time is told that holds for both.
			later := first.Passing.When == rules.PassesLater && (!counts || !starts)
			if later && counts {
				exact(rt, t, l, clock, r, first.Passing)
			}
			a := check(t, l, r)
			if diff := cmp.Diff(brief(a), brief(first.Answer)); diff != "" {
				rt.Fatalf("-check +explain\n%s\n%s", diff, text.String())
			}
			if !a.Allowed {
				if diff := cmp.Diff(whole(first), whole(recall(t, l, a.ID()))); diff != "" {
					rt.Fatalf("-explained +recalled\n%s\n%s", diff, text.String())
				}
			}
			now := explain(t, l, r)
			for i := range now.Limits {
				if got, want := now.Limits[i].Before, first.Limits[i].After; got != want {
					rt.Fatalf("%s stands at %+v, and not at %+v", a.Decisions[i].Rule.Limit, got, want)
				}
			}
			if later && !counts {
				exact(rt, t, l, clock, r, first.Passing)
			}
			if first.Passing.When == rules.PassesNow != a.Allowed {
				rt.Fatalf("passes %s, but %s", first.Passing.When, brief(a))
			}
		}
	})
}

// exact asks at the time that was told, and a microsecond before.
func exact(rt *rapid.T, t *testing.T, l *rules.Limiter, clock *clocked, r *rules.Request, p rules.Passing) {
	now, peek := clock.now, *r
	peek.Peek = true
	clock.now += weir.Instant(p.After.Microseconds())
	at := check(t, l, &peek)
	clock.now--
	before := check(t, l, &peek)
	clock.now = now
	if !at.Allowed || before.Allowed {
		rt.Fatalf("passes in %v: then %s, a microsecond earlier %s", p.After, brief(at), brief(before))
	}
}

// TestEnough: the limit that is told lets the request pass, and one that is
// smaller by one does not.
func TestEnough(t *testing.T) {
	for _, limit := range []string{
		"5/s burst 10", "7/h burst 2 debt 5", "10/s strict burst 3", "60/min leaky-queue queue 2", "5/min fixed-window", "5/min fixed-window anchored",
		"4/min sliding-log", "9/min sliding-window", "9/min sliding-window 6 relaxed", "2 concurrent", "3/day fixed-window zone Asia/Tokyo", "1/407day burst 50",
	} {
		for cost := int64(1); cost < 40; cost += 3 {
			l, _ := newClocked(t, "domain: shop\ndescriptors: [{key: a, limits: ["+limit+"]}]")
			r := ask(costs(descriptor("a=x"), cost))
			for check(t, l, r).Allowed && cost < 10 {
			}
			check(t, l, ask(descriptor("a=x")))
			enough := explain(t, l, r).Limits[0].Enough
			if enough == nil {
				if strings.Contains(limit, "strict") || strings.Contains(limit, "407day") || explain(t, l, r).Answer.Allowed {
					continue
				}
				t.Errorf("%s: nothing is enough for %d", limit, cost)
				continue
			}
			passes := func(limit string) bool {
				l.Replace(parse(t, "domain: shop\ndescriptors: [{key: a, limits: ["+limit+"]}]"))
				return explain(t, l, r).Answer.Allowed
			}
			if !passes(enough.String()) {
				t.Errorf("%s: %s is not enough for %d", limit, enough, cost)
			}
			less := enough.Spec()
			switch less.Algorithm {
			case weir.GCRA, weir.TokenBucket, weir.LeakyBucket:
				if less.Burst--; *less.Initial == less.Burst+1 {
					less.Initial = nil
				}
			case weir.LeakyQueue:
				*less.Queue--
			default:
				if less.Count--; less.Calendar != weir.NoCalendar {
					less.Period = 0
				}
			}
			smaller, err := less.Limit()
			if err != nil {
				t.Fatal(err)
			}
			if passes(smaller.String()) {
				t.Errorf("%s: %s is enough for %d, and %s is not the least", limit, smaller, cost, enough)
			}
		}
	}
}

package rules_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

func remember(t testing.TB, l *rules.Limiter) *rules.Denials {
	t.Helper()
	d := rules.NewDenials()
	if err := l.Remember(d); err != nil {
		t.Fatal(err)
	}
	return d
}

func recall(t testing.TB, l *rules.Limiter, id string) *rules.Explanation {
	t.Helper()
	e, err := l.Recall(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if e.ID != id || e.Answer.ID() != id {
		t.Errorf("asked for %s, and it is %s %s", id, e.ID, e.Answer.ID())
	}
	return e
}

// whole is all that there is to read of an explanation.
func whole(e *rules.Explanation) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %d\n%s\n%s", e.Domain, e.At, brief(e.Answer), briefly(e))
	for i := range e.Descriptors {
		fmt.Fprintf(&text, "%v %d\n%s", e.Descriptors[i].Entries, e.Descriptors[i].Cost, way(&e.Descriptors[i]))
	}
	return text.String()
}

// forgotten wants that nothing is kept by id, for this reason.
func forgotten(t testing.TB, l *rules.Limiter, id, why string) {
	t.Helper()
	e, err := l.Recall(t.Context(), id)
	if !errors.Is(err, rules.ErrForgotten) || !strings.Contains(err.Error(), why) {
		t.Errorf("%v %v, want %q", e, err, why)
	}
}

// TestRecall: whatever happens after a denial, what it stood on is told: the
// count goes on, is reset, and the rules change.
func TestRecall(t *testing.T) {
	for _, c := range []struct {
		name string
		r    *rules.Request
	}{
		{"one", ask(descriptor("zero=a"))},
		{"several, one of them denied", ask(descriptor("user=ann"), descriptor("slot=x"), descriptor("dark=y"), descriptor("bot=z"), descriptor("user=bot7", "x=y"))},
		{"bytes", ask(descriptor("user=\xff\x00", "zero=x"), descriptor("zero=\xff\x00"))},
		{"peek", &rules.Request{Domain: "shop", Peek: true, Descriptors: []rules.Descriptor{descriptor("zero=a")}}},
		{"receipt", &rules.Request{Domain: "shop", Receipt: true, Descriptors: []rules.Descriptor{descriptor("user=ann"), descriptor("zero=a")}}},
		{"more than any limit", &rules.Request{Domain: "shop", AnyCost: true, Descriptors: []rules.Descriptor{costs(descriptor("wide=a"), weir.MaxCount+1)}}},
		{"override", &rules.Request{Domain: "shop", Descriptors: []rules.Descriptor{
			descriptor("user=ann"), {Entries: descriptor("user=bob").Entries, Cost: 3, Override: weir.MustParseLimit("2/h fixed-window")},
		}}},
		{"report", ask(costs(descriptor("done=a"), 5), descriptor("slot=x"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, clock := newClocked(t, explainRules+"  - {key: wide, limits: [4000000000/day fixed-window]}\n")
			remember(t, l)
			check(t, l, ask(descriptor("slot=x")))
			check(t, l, ask(descriptor("slot=x")))
			check(t, l, ask(costs(descriptor("done=a"), 4)))
			before := explain(t, l, c.r)
			a := check(t, l, c.r)
			if a.Allowed {
				t.Fatal("it was allowed")
			}
			clock.now += 1e6
			check(t, l, ask(descriptor("user=ann")))
			if _, err := l.Reset(t.Context(), c.r); err != nil {
				t.Fatal(err)
			}
			l.Replace(parse(t, "domain: other\ndescriptors: []"))
			for range 2 {
				if diff := cmp.Diff(whole(before), whole(recall(t, l, a.ID()))); diff != "" {
					t.Errorf("-explained +recalled\n%s", diff)
				}
			}
		})
	}
}

// TestForgotten: an id by which nothing is kept, and why.
func TestForgotten(t *testing.T) {
	l, clock := newClocked(t, explainRules)
	denied := ask(descriptor("zero=a"))
	if _, err := l.Recall(t.Context(), "0123456789abcdef"); !errors.Is(err, rules.ErrNoLook) {
		t.Error("nothing is remembered:", err)
	}
	d := remember(t, l)
	for _, id := range []string{"", "x", "0123456789abcdeg", "0123456789abcdef0"} {
		if _, err := l.Recall(t.Context(), id); !isRequestError(err) {
			t.Errorf("%q: %v", id, err)
		}
	}
	forgotten(t, l, "0123456789abcdef", "another process")
	forgotten(t, l, check(t, l, ask(descriptor("user=ann"))).ID(), "the request was allowed")

	large := ask(descriptor("zero=" + strings.Repeat("x", 4000)))
	large.Descriptors = append(large.Descriptors, large.Descriptors[0], large.Descriptors[0])
	forgotten(t, l, check(t, l, large).ID(), "more than the 8192 bytes")

	old := check(t, l, denied).ID()
	for i := range rules.MaxVersions {
		if i < rules.MaxVersions-1 {
			l.Replace(parse(t, explainRules))
			recall(t, l, old)
		}
	}
	l.Replace(parse(t, explainRules))
	forgotten(t, l, old, "replaced 4 times")

	late := check(t, l, denied).ID()
	clock.now += weir.Instant(rules.DenialLife / time.Microsecond)
	recall(t, l, late)
	clock.now++
	forgotten(t, l, late, "denied at 2000-01-01T00:00:00Z")
	if s := d.Stats(); s.Kept != 2 || s.Large != 1 {
		t.Errorf("%+v", s)
	}
	d.Sweep(clock.now.Time())
	forgotten(t, l, late, "kept for 15 minutes")
	if s := d.Stats(); s.Kept != 0 {
		t.Errorf("%+v", s)
	}
	blind := rules.NewLimiter(&elsewhere{Store: memstore.New(memstore.Options{})}, nil)
	if err := blind.Remember(rules.NewDenials()); !errors.Is(err, rules.ErrNoLook) {
		t.Error(err)
	}
}

func isRequestError(err error) bool {
	_, ok := errors.AsType[*rules.RequestError](err)
	return ok
}

// TestLostOnce: a denial is counted as lost for one reason, and as kept for none
// of it.
func TestLostOnce(t *testing.T) {
	l, _ := newClocked(t, explainRules)
	d := remember(t, l)
	large := ask(descriptor("zero=" + strings.Repeat("x", 4000)))
	large.Descriptors = append(large.Descriptors, large.Descriptors[0], large.Descriptors[0])
	const denials = 100
	for range denials {
		check(t, l, large)
	}
	if s := d.Stats(); s != (rules.DenialStats{Large: denials}) {
		t.Errorf("%+v", s)
	}
}

// TestSweepRules: old rules are let go when their denials are.
func TestSweepRules(t *testing.T) {
	l := rules.NewLimiter(memstore.New(memstore.Options{}), parse(t, explainRules))
	d := remember(t, l)
	id := check(t, l, ask(descriptor("zero=a"))).ID()
	l.Replace(parse(t, explainRules))
	d.Sweep(time.Now())
	recall(t, l, id)
	d.Sweep(time.Now().Add(rules.DenialLife + time.Second))
	forgotten(t, l, id, "denied at")
	recall(t, l, check(t, l, ask(descriptor("zero=a"))).ID()) // the rules in force stay
}

// TestDenialFlood: one who is denied all the time, and a flood of keys of one
// rule, and of limits that come with requests, leave the denials of others.
func TestDenialFlood(t *testing.T) {
	const others = 100
	for name, flood := range map[string]func(i int) rules.Descriptor{
		"one key":  func(int) rules.Descriptor { return descriptor("zero=flood") },
		"one rule": func(i int) rules.Descriptor { return descriptor(fmt.Sprintf("zero=flood-%d", i)) },
		"two rules": func(i int) rules.Descriptor {
			return descriptor(fmt.Sprintf("%s=flood-%d", []string{"zero", "none"}[i%2], i))
		},
		"overrides": func(i int) rules.Descriptor {
			d := descriptor(fmt.Sprintf("zero=flood-%d", i))
			d.Override = weir.MustParseLimit(fmt.Sprintf("0/%dmin", i%500+1))
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := newClocked(t, explainRules+"  - {key: none, limits: [0/h]}\n  - {key: nix, limits: [0/h]}\n")
			d := remember(t, l)
			var ids []string
			for i := range others {
				ids = append(ids, check(t, l, ask(descriptor(fmt.Sprintf("nix=%d", i)))).ID())
			}
			var last string
			for i := range 5 * rules.MaxDenials {
				last = check(t, l, ask(flood(i))).ID()
			}
			recall(t, l, last)
			lost := 0
			for _, id := range ids {
				if _, err := l.Recall(t.Context(), id); err != nil {
					lost++
				}
			}
			if lost > 0 && name != "one key" || lost > 5 {
				t.Errorf("%d of %d denials of others are lost", lost, others)
			}
			s := d.Stats()
			if s.Kept > rules.MaxDenials || s.Overwritten != int64(5*rules.MaxDenials+others-s.Kept) || s.Missed != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestDenialsAtOnce: all that many deny at once is kept, or counted as not.
func TestDenialsAtOnce(t *testing.T) {
	l := rules.NewLimiter(memstore.New(memstore.Options{}), parse(t, explainRules))
	d := remember(t, l)
	const callers, each = 8, 100
	var mu sync.Mutex
	var ids []string
	var g sync.WaitGroup
	for c := range callers {
		g.Go(func() {
			for i := range each {
				a := check(t, l, ask(descriptor(fmt.Sprintf("zero=%d", c*each+i))))
				mu.Lock()
				ids = append(ids, a.ID())
				mu.Unlock()
				if i%10 == 0 {
					d.Sweep(time.Now())
				}
				if i == each/2 {
					l.Replace(parse(t, explainRules))
				}
			}
		})
	}
	g.Wait()
	found := 0
	for _, id := range ids {
		if _, err := l.Recall(t.Context(), id); err == nil {
			found++
		}
	}
	s := d.Stats()
	if s.Kept+int(s.Missed)+int(s.Overwritten) != callers*each || found > s.Kept || found < each {
		t.Errorf("%d found, %+v", found, s)
	}
}

// TestRecallOverflow: where keys share what a full store has left, a denial is
// never told to be none.
func TestRecallOverflow(t *testing.T) {
	var told, forgot int
	for range 10 { // stores, which share by chance
		c := &clocked{memstore.New(memstore.Options{MaxKeys: 1}), start}
		l := rules.NewLimiter(c, parse(t, "domain: shop\ndescriptors: [{key: user, limits: [2/day]}]"))
		remember(t, l)
		for i := range 400 {
			r := ask()
			for j := range 4 - 3*(i/200) { // four keys of a take share what is left; one spends it
				r.Descriptors = append(r.Descriptors, costs(descriptor(fmt.Sprintf("user=%d-%d", i, j)), 2))
			}
			a := check(t, l, r)
			if a.Allowed {
				continue
			}
			switch e, err := l.Recall(t.Context(), a.ID()); {
			case errors.Is(err, rules.ErrForgotten):
				forgot++
			case err != nil || e.Answer.Allowed:
				t.Fatal(e, err)
			default:
				told++
			}
		}
	}
	if told == 0 || forgot == 0 {
		t.Errorf("%d told, %d forgotten: the test tests nothing", told, forgot)
	}
}

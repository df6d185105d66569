package rules_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

func newLimiter(t testing.TB, text string) *rules.Limiter {
	t.Helper()
	return rules.NewLimiter(strict{memstore.New(memstore.Options{MaxKeys: 1000}), t}, parse(t, text))
}

// strict is a store that is asked only what the contract of weir.Store allows.
type strict struct {
	weir.Store

	t testing.TB
}

func (s strict) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if len(asks) == 0 || len(out) != len(asks) {
		s.t.Errorf("%d asks, %d decisions", len(asks), len(out))
	}
	for i := range asks {
		if a := &asks[i]; a.Cost < 0 || a.Cost > 1<<40 || a.Limit == nil || a.State.Rule == "" {
			s.t.Errorf("ask %+v", *a)
		}
		for j := range i {
			if asks[i].State == asks[j].State {
				s.t.Errorf("two asks of %+v", asks[i].State)
			}
		}
	}
	return s.Store.Take(ctx, asks, out)
}

// ask is a request of the domain shop.
func ask(d ...rules.Descriptor) *rules.Request {
	return &rules.Request{Domain: "shop", Descriptors: d}
}

func check(t testing.TB, l *rules.Limiter, r *rules.Request) *rules.Answer {
	t.Helper()
	a, err := l.Check(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// brief is what an answer says: yes or no, the decisive one, and of each
// decision its descriptor, rule, outcome, cost with + when charged, and what
// remains.
func brief(a *rules.Answer) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%v %d", a.Allowed, a.Decisive)
	for _, d := range a.Decisions {
		charged := ""
		if d.Charged {
			charged = "+"
		}
		fmt.Fprintf(&s, " | %d %s %s %d%s %d", d.Descriptor, d.Rule.Name, d.Outcome, d.Cost, charged, d.Remaining)
	}
	return s.String()
}

// costs gives d another cost.
func costs(d rules.Descriptor, cost int64) rules.Descriptor {
	d.Cost = cost
	return d
}

func TestCheckSeries(t *testing.T) {
	const text = `
domain: shop
descriptors:
- {key: u, limits: [3/h]}
- {key: two, limits: [3/h, 5/min fixed-window]}
- {key: dark, shadow_mode: true, limits: [1/h]}
- {key: done, charge: after, limits: [3/h]}
- {key: free, rate_limit: {unlimited: true}}
- {key: zero, limits: [0/s]}
- {key: exempt}
- {key: wide, limits: [4294967295/day fixed-window]}
- {key: darkwide, shadow_mode: true, limits: [4294967295/day fixed-window]}
`
	u, two, dark := descriptor("u=x"), descriptor("two=x"), descriptor("dark=x")
	type step struct {
		r    *rules.Request
		want string
	}
	peek := func(r *rules.Request) *rules.Request { r.Peek = true; return r }
	anyCost := func(r *rules.Request) *rules.Request { r.AnyCost = true; return r }
	for name, steps := range map[string][]step{
		"one limit": {
			{ask(u), "true 0 | 0 shop/u allowed 1+ 2"},
			{ask(costs(u, 2)), "true 0 | 0 shop/u allowed 2+ 0"},
			{ask(u), "false 0 | 0 shop/u denied 1 0"},
			{ask(descriptor("u=y")), "true 0 | 0 shop/u allowed 1+ 2"},
			{ask(costs(u, 4)), "false 0 | 0 shop/u impossible 4 0"},
		},
		"order is descriptor, then file": {
			{ask(two, u, two), "true 0 | 0 shop/two#1 allowed 1+ 1 | 0 shop/two#2 allowed 1+ 3 | 1 shop/u allowed 1+ 2 | 2 shop/two#1 allowed 1+ 1 | 2 shop/two#2 allowed 1+ 3"},
		},
		"all or nothing": {
			{ask(costs(u, 3)), "true 0 | 0 shop/u allowed 3+ 0"},
			{ask(two, u), "false 2 | 0 shop/two#1 allowed 1 3 | 0 shop/two#2 allowed 1 5 | 1 shop/u denied 1 0"},
			{ask(two), "true 0 | 0 shop/two#1 allowed 1+ 2 | 0 shop/two#2 allowed 1+ 4"},
		},
		"the first impossible is decisive": {
			{ask(costs(u, 3)), "true 0 | 0 shop/u allowed 3+ 0"},
			{ask(u, costs(two, 4), descriptor("zero=x")), "false 1 | 0 shop/u denied 1 0 | 1 shop/two#1 impossible 4 3 | 1 shop/two#2 allowed 4 5 | 2 shop/zero impossible 1 0"},
		},
		"a peek charges nothing": {
			{peek(ask(u, dark)), "true 0 | 0 shop/u allowed 1 3 | 1 shop/dark allowed 1 1"},
			{ask(costs(u, 0)), "true 0 | 0 shop/u allowed 0 3"},
			{ask(u), "true 0 | 0 shop/u allowed 1+ 2"},
		},
		"shadow has no say": {
			{ask(dark), "true -1 | 0 shop/dark allowed 1+ 0"},
			{ask(dark, u), "true 1 | 0 shop/dark denied 1 0 | 1 shop/u allowed 1+ 2"},
			{ask(costs(u, 3), descriptor("dark=y")), "false 0 | 0 shop/u denied 3 2 | 1 shop/dark allowed 1 1"},
		},
		"work that is done is charged": {
			{ask(costs(descriptor("done=x"), 2)), "true 0 | 0 shop/done allowed 2+ 1"},
			{ask(descriptor("done=x")), "false 0 | 0 shop/done denied 1+ 0"},
			{ask(descriptor("done=x"), u), "false 0 | 0 shop/done denied 1+ 0 | 1 shop/u allowed 1 3"},
			{peek(ask(descriptor("done=x"))), "false 0 | 0 shop/done denied 1 0"},
		},
		"no decision": {
			{ask(descriptor("free=x"), descriptor("exempt=x"), descriptor("nothing=x")), "true -1"},
			{ask(descriptor("free=x"), u), "true 0 | 1 shop/u allowed 1+ 2"},
			{&rules.Request{Domain: "store", Descriptors: []rules.Descriptor{u}}, "true -1"},
		},
		"equal counts are added up": {
			{ask(costs(u, 1), dark, costs(u, 2), costs(u, 0)), "true 0 | 0 shop/u allowed 1+ 0 | 1 shop/dark allowed 1+ 0 | 2 shop/u allowed 2+ 0 | 3 shop/u allowed 0 0"},
			{ask(descriptor("u=a"), costs(descriptor("u=b"), 2)), "true 1 | 0 shop/u allowed 1+ 2 | 1 shop/u allowed 2+ 1"},
			{ask(costs(descriptor("u=y"), 2), costs(descriptor("u=y"), 2)), "false 0 | 0 shop/u impossible 2 3 | 1 shop/u impossible 2 3"},
		},
		"sums beyond all limits": {
			{
				ask(costs(descriptor("wide=x"), weir.MaxCount), u, costs(descriptor("wide=x"), weir.MaxCount)),
				"true 1 | 0 shop/wide allowed 1073741824+ 2147483647 | 1 shop/u allowed 1+ 2 | 2 shop/wide allowed 1073741824+ 2147483647",
			},
			{anyCost(ask(costs(descriptor("wide=x"), math.MaxInt64), costs(descriptor("wide=x"), math.MaxInt64))), "false 0 | 0 shop/wide impossible 9223372036854775807 2147483647 | 1 shop/wide impossible 9223372036854775807 2147483647"},
			{anyCost(ask(u, costs(descriptor("darkwide=x"), math.MaxInt64))), "true 0 | 0 shop/u allowed 1+ 1 | 1 shop/darkwide impossible 9223372036854775807 4294967295"},
			{
				anyCost(ask(costs(descriptor("wide=x"), math.MaxInt64), costs(descriptor("done=y"), 2))),
				"false 0 | 0 shop/wide impossible 9223372036854775807 2147483647 | 1 shop/done allowed 2+ 1",
			},
			{anyCost(ask(costs(descriptor("done=x"), math.MaxInt64))), "false 0 | 0 shop/done denied 9223372036854775807+ 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, text)
				for i, s := range steps {
					if got := brief(check(t, l, s.r)); got != s.want {
						t.Errorf("step %d:\n got %s\nwant %s", i, got, s.want)
					}
				}
			})
		})
	}
}

func TestCheckOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "domain: shop\ndescriptors: [{key: a, shadow_mode: true, limits: [1/h]}]")
		with := func(limit string, words ...string) rules.Descriptor {
			d := descriptor(words...)
			d.Override = weir.MustParseLimit(limit)
			return d
		}
		for i, s := range []struct {
			r    *rules.Request
			want string
		}{
			{ask(with("2/h", "a=x")), "true 0 | 0 shop#override allowed 1+ 1"},
			{ask(with("3/h", "a=x")), "true 0 | 0 shop#override allowed 1+ 2"}, // another limit counts by itself
			{ask(with("2/h", "a=x")), "true 0 | 0 shop#override allowed 1+ 0"},
			{ask(with("2/h", "a=x")), "false 0 | 0 shop#override denied 1 0"},
			{ask(descriptor("a=x")), "true -1 | 0 shop/a allowed 1+ 0"},
			{ask(with("2/h", "b=x"), with("9/h", "b=x")), "true 0 | 0 shop#override allowed 1+ 1 | 1 shop#override allowed 1+ 8"},
			{ask(with("1/h", "c=x"), with("2/h", "c=x"), with("1/h", "c=x")), "false 0 | 0 shop#override impossible 1 1 | 1 shop#override allowed 1 2 | 2 shop#override impossible 1 1"},
			{&rules.Request{Domain: "store", Descriptors: []rules.Descriptor{with("2/h", "a=x")}}, "true -1"},
		} {
			if got := brief(check(t, l, s.r)); got != s.want {
				t.Errorf("step %d:\n got %s\nwant %s", i, got, s.want)
			}
		}
	})
}

func TestReplaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, `
domain: shop
descriptors:
- {key: usual, rate_limit: {unit: hour, requests_per_unit: 1, name: usual}}
- {key: also, rate_limit: {unit: hour, requests_per_unit: 1, name: usual}}
- {key: better, rate_limit: {unit: hour, requests_per_unit: 5, name: better, replaces: [{name: usual}, {name: other}]}}
- {key: vip, rate_limit: {unlimited: true, name: vip, replaces: [{name: better}]}}
`)
		for i, s := range []struct {
			r    *rules.Request
			want string
		}{
			{ask(descriptor("usual=x"), descriptor("better=x"), descriptor("also=x")), "true 0 | 1 shop/better allowed 1+ 4"},
			// One that is replaced, or unlimited, replaces all the same.
			{ask(descriptor("vip=x"), descriptor("usual=x"), descriptor("better=x")), "true -1"},
			{ask(descriptor("usual=x")), "true 0 | 0 shop/usual allowed 1+ 0"},
		} {
			if got := brief(check(t, l, s.r)); got != s.want {
				t.Errorf("step %d:\n got %s\nwant %s", i, got, s.want)
			}
		}
	})
}

func TestBadRequests(t *testing.T) {
	l := rules.NewLimiter(memstore.New(memstore.Options{}), rules.Demo())
	long := strings.Repeat("x", rules.MaxWord)
	good := rules.Entry{Key: long, Value: long}
	entries := func(e ...rules.Entry) []rules.Descriptor { return []rules.Descriptor{{Entries: e, Cost: 1}} }
	cost := func(n int64) []rules.Descriptor {
		return []rules.Descriptor{descriptor("a"), costs(descriptor("a"), n)}
	}
	for _, c := range []struct {
		want        string // nothing: it is fine
		descriptors []rules.Descriptor
		anyCost     bool
	}{
		{"descriptors: there are 0; there must be 1…100", nil, false},
		{"descriptors: there are 101; there must be 1…100", slices.Repeat(entries(good), 101), false},
		{"descriptors[0].entries: there are 0; there must be 1…16", entries(), false},
		{"descriptors[0].entries: there are 17; there must be 1…16", entries(slices.Repeat([]rules.Entry{good}, 17)...), false},
		{"", slices.Repeat(entries(slices.Repeat([]rules.Entry{good}, 16)...), 100), false},
		{"descriptors[0].entries[1].key: is empty", entries(good, rules.Entry{Value: "x"}), false},
		{"descriptors[0].entries[0].key: has 4097 bytes; there may be 4096", entries(rules.Entry{Key: long + "x"}), false},
		{"descriptors[0].entries[0].value: has 4097 bytes; there may be 4096", entries(rules.Entry{Key: "x", Value: long + "x"}), false},
		{"", entries(rules.Entry{Key: "x"}), false},
		{"descriptors[1].cost: is -1; it must be 0…1073741824", cost(-1), false},
		{"descriptors[1].cost: is -1; it must be 0…1073741824", cost(-1), true},
		{"descriptors[1].cost: is 1073741825; it must be 0…1073741824", cost(weir.MaxCount + 1), false},
		{"", cost(weir.MaxCount + 1), true},
		{"", cost(weir.MaxCount), false},
	} {
		_, err := l.Check(t.Context(), &rules.Request{Domain: "demo", Descriptors: c.descriptors, AnyCost: c.anyCost})
		if c.want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if e, ok := errors.AsType[*rules.RequestError](err); !ok || e.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if _, err := l.Check(t.Context(), &rules.Request{Descriptors: entries(good)}); err == nil || err.Error() != "domain: is empty" {
		t.Error(err)
	}
}

func TestNoRules(t *testing.T) {
	l := rules.NewLimiter(memstore.New(memstore.Options{}), nil)
	if _, err := l.Check(t.Context(), ask(descriptor("a=x"))); !errors.Is(err, rules.ErrNoRules) {
		t.Error(err)
	}
	if l.Set() != nil {
		t.Error("there are rules")
	}
	l.Replace(rules.Demo())
	if _, err := l.Check(t.Context(), ask(descriptor("a=x"))); err != nil || l.Set() == nil {
		t.Error(err)
	}
}

// Rules that are replaced keep their counts, by place.
func TestReplaceKeepsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "domain: shop\ndescriptors: [{key: a, limits: [10/h]}]")
		check(t, l, ask(costs(descriptor("a=x"), 8)))
		l.Replace(parse(t, "domain: shop\ndescriptors: [{key: a, name: changed, limits: [20/h]}]"))
		if got, want := brief(check(t, l, ask(descriptor("a=x")))), "true 0 | 0 changed allowed 1+ 11"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// What is used goes over to another algorithm where the limit has a name; else it is another
// limit. docs/algorithms.md says so.
func TestReplaceOfAnAlgorithm(t *testing.T) {
	for limits, left := range map[string]int{"{name: day, limit: %s}": 11, "%s": 19} {
		synctest.Test(t, func(t *testing.T) {
			text := "domain: shop\ndescriptors: [{key: a, name: r, limits: [" + limits + "]}]"
			l := newLimiter(t, fmt.Sprintf(text, "10/day"))
			check(t, l, ask(costs(descriptor("a=x"), 8)))
			l.Replace(parse(t, fmt.Sprintf(text, "20/day fixed-window")))
			if got, want := brief(check(t, l, ask(descriptor("a=x")))), fmt.Sprintf(" allowed 1+ %d", left); !strings.HasSuffix(got, want) {
				t.Errorf("%s: %s, want %s", limits, got, want)
			}
		})
	}
}

// Many callers and reloads at once; the race detector watches.
func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, "domain: shop\ndescriptors: [{key: a, limits: [100/day]}]")
		other := parse(t, "domain: shop\ndescriptors: [{key: a, limits: [100/day, 1000/day fixed-window]}]")
		var wg sync.WaitGroup
		var mu sync.Mutex
		passed, ids := 0, map[string]bool{}
		for range 8 {
			wg.Go(func() {
				for i := range 50 {
					a := check(t, l, ask(descriptor("a=x")))
					mu.Lock()
					if ids[a.ID()] = true; a.Allowed {
						passed++
					}
					mu.Unlock()
					if i == 25 {
						l.Replace(other)
					}
				}
			})
		}
		wg.Wait()
		if passed != 100 || len(ids) != 400 {
			t.Errorf("%d passed, want 100; %d ids, want 400", passed, len(ids))
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	l := newLimiter(b, many(10_000))
	for _, c := range []struct {
		name string
		r    *rules.Request
	}{
		{"1", ask(descriptor("user=user-7"))},
		{"3", ask(descriptor("user=user-7"), descriptor("path=/api/v1/7/x"), descriptor("team=team-7", "user=x"))},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Check(b.Context(), c.r); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+" into", func(b *testing.B) {
			b.ReportAllocs()
			var a rules.Answer
			for b.Loop() {
				if err := l.CheckInto(b.Context(), c.r, &a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

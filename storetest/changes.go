package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// A family is limits that one rule has by turns.
type family struct {
	name string
	draw func(t *rapid.T) []string
	// larger tells that no stretch of time passes more than the largest bound of them.
	// For other limits the bounds add up, once for each.
	larger bool
}

// sorted draws two to four numbers, the smallest first.
func sorted(t *rapid.T, label string) []int64 {
	all := rapid.SliceOfN(rapid.Int64Range(1, 20), 4, 4).Draw(t, label)
	slices.Sort(all)
	return all
}

func counts(form string) func(t *rapid.T) []string {
	return func(t *rapid.T) (texts []string) {
		for _, n := range sorted(t, "counts") {
			texts = append(texts, fmt.Sprintf(form, n))
		}
		return texts
	}
}

// buckets are such that the faster have the larger bursts. A bucket that is slower and
// larger than another begins full where that had recovered.
func buckets(t *rapid.T) (texts []string) {
	counts, bursts := sorted(t, "counts"), sorted(t, "bursts")
	for i := range counts {
		texts = append(texts, fmt.Sprintf("%d/10s burst %d", counts[i], bursts[i]))
	}
	return texts
}

var mixed = [...]string{
	"%d/10s", "%d/3s", "%d/10s burst 3", "%d/20s burst 9 debt 4", "%d/10s strict", "%d/20s leaky-queue", "%d/7s leaky-queue queue 2",
	"%d/10s fixed-window", "%d/15s fixed-window", "%d/10s fixed-window anchored", "%d/10s sliding-log", "%d/25s sliding-log",
	"%d/10s sliding-window", "%d/10s sliding-window 5", "%d/24s sliding-window 2 conservative", "0/s",
}

var families = []family{
	{"buckets", buckets, true},
	{"queues", counts("%d/10s leaky-queue"), true},
	{"windows", func(t *rapid.T) []string {
		return counts(rapid.SampledFrom([]string{
			"%d/10s fixed-window", "%d/10s fixed-window anchored", "%d/10s sliding-window", "%d/12s sliding-window 3",
		}).Draw(t, "form"))(t)
	}, true},
	{"logs", counts("%d/10s sliding-log"), true},
	{"all", func(t *rapid.T) (texts []string) {
		for range rapid.IntRange(2, weir.MaxVersions+2).Draw(t, "limits") {
			texts = append(texts, rapid.SampledFrom(mixed[:]).Draw(t, "limit"))
		}
		for i := range texts {
			if texts[i] != "0/s" {
				texts[i] = fmt.Sprintf(texts[i], rapid.IntRange(1, 20).Draw(t, "count"))
			}
		}
		return texts
	}, false},
}

// runChanges: whatever is edited, how often, by how many processes at different moments,
// no stretch of time passes more than the bounds of the limits that were asked in it, and
// nobody is denied for longer than the slowest of them takes to recover, where nothing is
// set aside for others.
func runChanges(t *testing.T, open Open, patient bool) {
	trial := 0
	one := func(rt *rapid.T, f family) {
		trial++
		name := fmt.Sprint("changes ", f.name, trial)
		h := history{t: rt, stores: []Clocked{open(t, name)}, larger: f.larger, patient: patient, counts: map[string][]pass{}}
		if h.stores[0].Traits().Shared {
			h.stores = append(h.stores, open(t, name))
		}
		for _, text := range f.draw(rt) {
			if l := weir.MustParseLimit(text); fits(h.stores[0], l) {
				h.limits = append(h.limits, l)
			}
		}
		if len(h.limits) > 0 {
			h.run()
		}
	}
	if open(t, "changes").Traits().Shared { // each ask is a call to a server, so the families share the histories
		rapid.Check(t, func(rt *rapid.T) { one(rt, rapid.SampledFrom(families).Draw(rt, "family")) })
		return
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) { rapid.Check(t, func(rt *rapid.T) { one(rt, f) }) })
	}
}

// history is what passed of a rule whose limit was changed all the time.
type history struct {
	t      *rapid.T
	stores []Clocked
	limits []*weir.Limit
	larger bool
	now    weir.Instant
	counts map[string][]pass

	patient bool
}

// pass is an ask, and how many events it let pass.
type pass struct {
	limit  *weir.Limit
	at     weir.Instant // when they went
	events int64
}

const largestCost = 3

func (h *history) run() {
	h.now = 1_800_000_000_000_000 + weir.Instant(rapid.Int64Range(0, 20_000_000).Draw(h.t, "start"))
	longest := rapid.SampledFrom([]int64{1, 100_000, 2_000_000, 30_000_000}).Draw(h.t, "longest step")
	limit := h.limits[0]
	turn := rapid.SampledFrom([]int{0, 1, 5, 20}).Draw(h.t, "asks of one version")
	for n := range 60 {
		if turn == 0 || n%turn == 0 {
			limit = rapid.SampledFrom(h.limits).Draw(h.t, "limit")
		}
		h.ask(limit)
		h.now += weir.Instant(rapid.Int64Range(0, longest).Draw(h.t, "step"))
	}
	for _, asks := range h.counts {
		h.check(asks)
	}
}

func (h *history) ask(limit *weir.Limit) {
	key := rapid.SampledFrom([]string{"x", "x", "x", "y"}).Draw(h.t, "key")
	a := weir.Ask{
		State: weir.StateKey{Rule: "r", Key: key}, Limit: limit, Cost: 1,
		Peek: rapid.IntRange(0, 7).Draw(h.t, "peek") == 0,
	}
	if limit.Algorithm() != weir.LeakyQueue {
		a.Cost = rapid.Int64Range(1, largestCost).Draw(h.t, "cost")
	}
	store := h.stores[rapid.IntRange(0, len(h.stores)-1).Draw(h.t, "store")]
	var out [1]weir.Decision
	if err := store.TakeAt(h.now, []weir.Ask{a}, out[:]); err != nil {
		h.t.Fatal(err)
	}
	var patience time.Duration
	for _, l := range h.limits {
		patience = max(patience, l.Recovers(h.now))
	}
	if d := out[0]; h.patient && d.RetryAfter > patience {
		h.t.Fatalf("at %d, %s denies for %v; no limit of the rule takes longer than %v to recover", h.now, limit, d.RetryAfter, patience)
	}
	if out[0].Charged == a.Peek && a.Peek {
		h.t.Fatalf("a peek charged: %+v", out[0])
	}
	if !a.Peek {
		p := pass{limit: limit, at: h.now + weir.Instant(out[0].Hold/time.Microsecond)}
		if out[0].Charged {
			p.events = out[0].Cost
		}
		h.counts[key] = append(h.counts[key], p)
	}
}

// check holds each stretch to its bound.
func (h *history) check(asks []pass) {
	slices.SortStableFunc(asks, func(a, b pass) int { return cmp.Compare(a.at, b.at) })
	for i := range asks {
		if asks[i].events == 0 {
			continue
		}
		passed := int64(0)
		for j := i; j < len(asks); j++ {
			if passed += asks[j].events; asks[j].events == 0 {
				continue
			}
			width := (asks[j].at - asks[i].at + 1).Duration()
			if most := h.bound(asks, i, j, width); passed > most {
				h.t.Fatalf("%d passed in %v, want at most %d; the limits are %v", passed, width, most, h.limits)
			}
		}
	}
}

// bound is the most that may pass of a width, from one ask to another.
func (h *history) bound(asks []pass, from, to int, width time.Duration) int64 {
	most := int64(0)
	for _, l := range h.limits {
		if b := l.Bound(width, largestCost); h.larger {
			most = max(most, b)
		} else {
			most += b * h.runs(asks, from, to, l)
		}
	}
	return most
}

// runs is how often a limit may have begun anew, as others let it: at first, and when it
// was not asked for as long as it takes to recover.
func (h *history) runs(asks []pass, from, to int, l *weir.Limit) int64 {
	runs, last := int64(1), weir.Instant(0)
	for _, p := range asks[from : to+1] {
		if p.limit != l {
			continue
		}
		if last > 0 && (p.at-last).Duration() >= l.Recovers(last) {
			runs++
		}
		last = p.at
	}
	return runs
}

package clustertest

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// passed is one event that a node let pass, at some time between that it was asked and
// that it answered.
type passed struct{ sent, received time.Duration }

// excess is how many events too many passed of a limit of rate a second and a burst, in
// whichever interval that is worst. It counts an event to an interval only if it was
// asked for and answered within: so it is never more than what really was too much, however
// long answers were on their way. It shares no code with limits.
//
// The interval from s to t is too full by its events − burst − rate·(t − s). Events
// are gone through by when they were answered, t; for each s, a tree keeps how many
// were asked for at s or later, + rate·s. It takes O(n log n) where one who
// knew the instant of each event would need O(n).
func excess(events []passed, rate, burst float64) float64 {
	starts := make([]time.Duration, 0, len(events))
	for _, e := range events {
		starts = append(starts, e.sent)
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	events = slices.Clone(events)
	slices.SortFunc(events, func(a, b passed) int { return cmp.Compare(a.received, b.received) })
	const some = 1 << 32 // an interval with events is above all without
	tree, begun, worst := newHighest(len(starts)), 0, 0.0
	for _, e := range events {
		at, _ := slices.BinarySearch(starts, e.sent)
		for ; begun <= at; begun++ {
			tree.add(begun, begun+1, some+rate*starts[begun].Seconds())
		}
		tree.add(0, at+1, 1)
		worst = max(worst, tree.top()-some-burst-rate*e.received.Seconds())
	}
	return worst
}

// highest is numbers, of which ranges are raised, and the highest of all is asked for: a
// tree of ranges, in which each node has the highest below it.
type highest struct {
	size         int
	most, raised []float64
}

func newHighest(size int) *highest {
	wide := 1
	for wide < size {
		wide *= 2
	}
	return &highest{size: wide, most: make([]float64, 2*wide), raised: make([]float64, 2*wide)}
}

func (h *highest) add(from, to int, by float64) { h.raise(1, 0, h.size, from, to, by) }

func (h *highest) raise(node, low, high, from, to int, by float64) {
	switch {
	case to <= low || high <= from:
		return
	case from <= low && high <= to:
		h.raised[node] += by
		h.most[node] += by
		return
	}
	middle := (low + high) / 2
	h.raise(2*node, low, middle, from, to, by)
	h.raise(2*node+1, middle, high, from, to, by)
	h.most[node] = h.raised[node] + max(h.most[2*node], h.most[2*node+1])
}

func (h *highest) top() float64 { return h.most[1] }

// TestExcess holds the checker to its definition, and to a run that is too much.
func TestExcess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const rate, burst = 10.0, 3.0
		var events []passed
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			sent := time.Duration(rapid.IntRange(0, 3000).Draw(t, "sent")) * time.Millisecond
			took := time.Duration(rapid.IntRange(0, 300).Draw(t, "took")) * time.Millisecond
			events = append(events, passed{sent, sent + took})
		}
		want := 0.0
		for _, first := range events {
			for _, last := range events {
				within := 0
				for _, e := range events {
					if e.sent >= first.sent && e.received <= last.received {
						within++
					}
				}
				if within > 0 {
					want = max(want, float64(within)-burst-rate*(last.received-first.sent).Seconds())
				}
			}
		}
		if got := excess(events, rate, burst); math.Abs(got-want) > 1e-3 {
			t.Errorf("%.4f too many, want %.4f", got, want)
		}
	})
	var events []passed
	for i := range 100 { // 20/s of 10/s
		at := time.Duration(i) * 50 * time.Millisecond
		events = append(events, passed{at, at + time.Millisecond})
	}
	if got := excess(events, 10, 10); got < 40 || got > 41 {
		t.Errorf("%v too many of 100 at twice the rate", got)
	}
}

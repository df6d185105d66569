package memstore

import (
	"testing"

	"github.com/weir-limit/weir"
)

// ask is a take of one event of fingerprint f, as takePlain does it.
func (t *table) ask(f uint64, limit *weir.Limit, now weir.Instant) (d weir.Decision) {
	a := weir.Ask{Limit: limit, Cost: 1}
	sg := t.lock(f)
	defer sg.unlock()
	sg.keep(limit, now)
	if i := sg.cells.find(f); i >= 0 {
		sg.set(i, limit.Take(sg.state(i), now, 1, &d))
	} else {
		sg.admit(f, now, &a, &d)
	}
	return d
}

// intact fails when the slots of t break a rule that finding relies on.
func (t *table) intact(fail func(format string, args ...any)) {
	seen := map[uint64]bool{}
	for sg := range t.each {
		c := &sg.cells
		for b := uint32(0); b < c.buckets*c.stride; b += c.stride {
			empty := false
			for i := range c.each {
				f := c.words[b+i*c.slot]
				switch {
				case f == 0:
					empty = true
					continue
				case empty:
					fail("a slot is empty before %x", f)
				case seen[f]:
					fail("%x has two slots", f)
				case c.find(f) != int(b+i*c.slot):
					fail("%x is at %d and found at %d", f, b+i*c.slot, c.find(f))
				case !sg.holds(f):
					fail("%x is in a segment of others", f)
				}
				seen[f] = true
			}
		}
	}
}

const hour = weir.Instant(3_600_000_000)

// TestSlotLife tries all sequences of a few steps on a small table that is nearly
// full: takes of keys that meet in the same buckets, and hours that pass. However
// slots are claimed, given up, reused, moved, laid out anew, converted and split,
// every key gets exactly its limit; where the table is full, nobody gets more,
// and who is denied stays denied.
func TestSlotLife(t *testing.T) {
	for _, c := range []struct {
		name, text string
		bound      bound
		before     int // keys that were there
		exact      bool
	}{
		{"grows", "2/h fixed-window", bound{depth: 0, slots: 256, early: 256}, 4, true},
		{"splits", "2/h fixed-window", bound{depth: 2, slots: 64, early: 10}, 9, true},
		{"lays out anew", "2/h fixed-window", bound{depth: 0, slots: 64, early: 256}, 13, true},
		{"states that grow", "2/h sliding-log", bound{depth: 2, slots: 64, early: 4}, 7, true},
		{"states that grow move", "2/h sliding-log", bound{depth: 0, slots: 64, early: 256}, 22, true},
		{"long states", "2/h sliding-window 12 conservative", bound{depth: 2, slots: 64, early: 4}, 7, true},
		{"grows up to its bound", "1/h fixed-window", bound{depth: 0, slots: 20, early: 256}, 3, false},
		{"grows up to its bound, long", "1/h sliding-window 12", bound{depth: 0, slots: 16, early: 256}, 8, false},
		{"full", "2/h fixed-window", bound{depth: 0, slots: 16}, 14, false},
		{"full of denied", "1/h fixed-window", bound{depth: 0, slots: 16}, 15, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &lives{T: t, limit: weir.MustParseLimit(c.text), bound: c.bound, before: c.before, exact: c.exact}
			l.try(nil)
			t.Logf("%d sequences", l.tried)
		})
	}
}

type lives struct {
	*testing.T

	limit  *weir.Limit
	bound  bound
	before int
	exact  bool
	tried  int
}

// steps are takes of four keys, and an hour that passes.
const (
	lifeKeys  = 4
	lifeSteps = lifeKeys + 1
	lifeDepth = 6
)

func (l *lives) try(steps []int) {
	if len(steps) == lifeDepth {
		l.run(steps)
		return
	}
	for s := range lifeSteps {
		l.try(append(steps, s))
	}
}

// crowded are fingerprints whose buckets are both the second of a few.
var crowded = func() (prints []uint64) {
	for f := uint64(1); len(prints) < lifeKeys+3; f += 0x9e3779b97f4a7c15 {
		three, four := cells{buckets: 3, stride: 1}, cells{buckets: 4, stride: 1}
		if three.first(f) == 1 && three.second(f) == 1 && four.first(f) == 1 && four.second(f) == 1 {
			prints = append(prints, f)
		}
	}
	return prints
}()

// lifePrint is the fingerprint of key n. The first, those of the steps among
// them, crowd each other.
func lifePrint(n int) uint64 {
	if n < len(crowded) {
		return crowded[n]
	}
	return uint64(n)*0x9e3779b97f4a7c15 | 1
}

func (l *lives) run(steps []int) {
	l.tried++
	table := newTable("r", 1, &hasher{}, l.bound)
	now := 1003 * hour
	for n := range l.before {
		table.ask(lifePrint(lifeKeys+n), l.limit, now)
	}
	count := l.limit.Spec().Count
	var used [lifeKeys]int64
	var denied [lifeKeys]bool
	for at, s := range steps {
		if s == lifeKeys {
			now += 2 * hour // past all windows of before
			used, denied = [lifeKeys]int64{}, [lifeKeys]bool{}
			continue
		}
		d := table.ask(lifePrint(s), l.limit, now)
		passed, fits := d.Outcome == weir.Allowed, used[s] < count
		if passed {
			used[s]++
		}
		switch {
		case l.exact && (passed != fits || d.Remaining != count-used[s]):
			l.Fatalf("%v: step %d is %+v, %d used", steps, at, d, used[s])
		case passed && denied[s]:
			l.Fatalf("%v: step %d passes after a denial", steps, at)
		}
		denied[s] = denied[s] || !passed
		table.intact(func(format string, args ...any) {
			l.Helper()
			l.Fatalf("%v, step %d: "+format, append([]any{steps, at}, args...)...)
		})
	}
}

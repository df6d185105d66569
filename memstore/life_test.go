package memstore

import (
	"math/bits"
	"testing"
	"unsafe"

	"github.com/weir-limit/weir"
)

// ask is a take of one event of fingerprint f, as takePlain does it.
func (t *table) ask(f uint64, limit *weir.Limit, now weir.Instant) (d weir.Decision) {
	a := weir.Ask{Limit: limit, Cost: 1}
	sg := t.lock(f)
	defer sg.unlock()
	sg.keep(limit)
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

// TestSegmentLines: segments, which the allocator aligns by their size, share no
// cache line.
func TestSegmentLines(t *testing.T) {
	var sg segment
	if size, second := unsafe.Sizeof(sg), unsafe.Offsetof(sg.start); bits.UintSize == 64 && (size != 256 || second != 8*line) {
		t.Errorf("a segment has %d bytes, and its second line begins at %d", size, second)
	}
}

const hour = weir.Instant(3_600_000_000)

// events are what may happen to slots while steps are taken.
type events struct{ grown, split, evicted, shared bool }

// TestSlotLife tries all sequences of a few steps on a small table that is nearly
// full: takes of keys that meet in the same buckets, and hours that pass. However slots are
// claimed, given up, reused, moved, laid out anew and split, every key gets exactly its limit; where the table is full,
// nobody gets more, and who is denied stays denied.
func TestSlotLife(t *testing.T) {
	const window, log = "2/h fixed-window", "2/h sliding-log"
	for _, c := range []struct {
		name   string
		text   string // the limit
		bound  bound
		before int // keys that were there
		exact  bool
		want   events // each of them in some sequence
	}{
		{"grows", window, bound{depth: 0, slots: 256, early: 256}, 4, true, events{grown: true}},
		{"splits", window, bound{depth: 2, slots: 64, early: 10}, 5, true, events{split: true}},
		{"lays out anew", window, bound{depth: 0, slots: 64, early: 256}, 13, true, events{grown: true}},
		{"states that grow", log, bound{depth: 2, slots: 64, early: 10}, 4, true, events{split: true}},
		{"states that grow move", log, bound{depth: 0, slots: 64, early: 256}, 18, true, events{grown: true}},
		{"long states", "2/h sliding-window 12 conservative", bound{depth: 2, slots: 64, early: 10}, 4, true, events{split: true}},
		{"grows up to its bound", "1/h fixed-window", bound{depth: 0, slots: 20, early: 256}, 3, false, events{grown: true}},
		{"grows up to its bound, long", "1/h sliding-window 12", bound{depth: 0, slots: 16, early: 256}, 7, false, events{grown: true}},
		{"full", window, bound{depth: 0, slots: 16}, 14, false, events{evicted: true}},
		{"full of denied", "1/h fixed-window", bound{depth: 0, slots: 16}, 15, false, events{shared: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &lives{T: t, limit: weir.MustParseLimit(c.text), bound: c.bound, before: c.before, exact: c.exact}
			l.try(nil)
			t.Logf("%d sequences", l.tried)
			if got := l.seen.and(c.want); got != c.want {
				t.Errorf("of %+v only %+v happened", c.want, got)
			}
		})
	}
}

func (e events) and(o events) events {
	return events{e.grown && o.grown, e.split && o.split, e.evicted && o.evicted, e.shared && o.shared}
}

type lives struct {
	*testing.T

	limit  *weir.Limit
	bound  bound
	before int
	exact  bool
	tried  int
	seen   events
}

// steps are takes of four keys, and an hour that passes.
const (
	lifeKeys  = 4
	lifeDepth = 6
	passes    = lifeKeys
)

func (l *lives) try(steps []int) {
	if len(steps) == lifeDepth {
		l.run(steps)
		return
	}
	for s := range lifeKeys + 1 {
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
	table, limit, now := newTable("r", 1, &hasher{}, l.bound), l.limit, 1003*hour
	for n := range l.before {
		table.ask(lifePrint(lifeKeys+n), limit, now)
	}
	count := limit.Spec().Count
	var used [lifeKeys]int64
	var denied [lifeKeys]bool
	var before Stats
	table.stats(&before)
	segments := len(table.dir.Load().segments)
	for at, s := range steps {
		switch s {
		case passes:
			now += 2 * hour // past all windows of before
			used, denied = [lifeKeys]int64{}, [lifeKeys]bool{}
			continue
		}
		d := table.ask(lifePrint(s), limit, now)
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
	var after Stats
	table.stats(&after)
	l.seen.split = l.seen.split || len(table.dir.Load().segments) > segments
	l.seen.grown = l.seen.grown || after.Slots > before.Slots
	l.seen.evicted = l.seen.evicted || after.Evicted > before.Evicted
	l.seen.shared = l.seen.shared || after.Overflow > before.Overflow
}

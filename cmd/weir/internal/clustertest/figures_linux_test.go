package clustertest

import (
	"fmt"
	"slices"
	"time"
)

// limit is the one in force: so many a second, and as many at once.
const limit = 20

// overload is how many times the limit is asked for.
const overload = 10

// figures are what came of a fault.
type figures struct {
	over     float64       // events too many, of one key, in the worst interval
	during   float64       // of 1: what passed from the fault's begin to its end, of what the limit lets pass
	after    float64       // of 1: the same, for three seconds that begin two sync periods after its end
	detected time.Duration // until the first node said that another is silent; 0: it did not
	recovers time.Duration // from the end until the keys pass 95 % of their limit for half a second
	blackout time.Duration // the longest in which some key passed nowhere
	messages float64       // that node 0 sent a second meanwhile
	errors   int           // answers of nodes that ran and were not stopped, but said neither yes nor no
}

// period is how often nodes tell each other.
const period = 100 * time.Millisecond

func (f *figures) row(name string) string {
	detected := "–"
	if f.detected > 0 {
		detected = seconds(f.detected)
	}
	return fmt.Sprintf("| %s | %.1f | %+.1f | %+.1f | %s | %s | %.0f | %.0f | %d |",
		name, 100*f.over/limit, 100*f.during-100, 100*f.after-100, detected, seconds(f.recovers), f.blackout.Seconds()*1000, f.messages, f.errors)
}

const figuresHead = "| fault | over, peak % | net %, during | net %, after | seconds to detect | to recover | blackout, ms | messages/s per node | errors |\n|---|---|---|---|---|---|---|---|---|"

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

// span is from one moment of a history to another.
type span struct{ from, to time.Duration }

// always is as long as a test may take.
var always = span{0, time.Hour}

// rates works out what passed of keys, whose fault lasted so long.
func (h *history) rates(keys []key, fault span) (f figures) {
	var all []time.Duration
	for _, k := range keys {
		events := h.of(k, always)
		f.over = max(f.over, excess(events, limit, limit))
		at := make([]time.Duration, 0, len(events))
		for _, e := range events {
			at = append(at, e.received)
		}
		slices.Sort(at)
		f.blackout = max(f.blackout, gap(at, span{fault.from, fault.to + 3*time.Second}))
		all = append(all, at...)
	}
	slices.Sort(all)
	due := float64(limit * len(keys))
	begin := fault.to + 2*period
	f.during = float64(count(all, fault)) / (due * (fault.to - fault.from).Seconds())
	f.after = float64(count(all, span{begin, begin + 3*time.Second})) / (due * 3)
	f.recovers = -1
	for at := fault.to; at < fault.to+5*time.Second; at += 10 * time.Millisecond {
		if float64(count(all, span{at, at + time.Second/2})) >= 0.95*due/2 {
			f.recovers = at - fault.to
			break
		}
	}
	return f
}

// count is how many instants, which are in order, are within.
func count(at []time.Duration, within span) int {
	from, _ := slices.BinarySearch(at, within.from)
	to, _ := slices.BinarySearch(at, within.to)
	return max(to-from, 0)
}

// gap is the longest time within, in which there is no instant.
func gap(at []time.Duration, within span) (longest time.Duration) {
	before := within.from
	for _, t := range at {
		if t < within.from || t > within.to {
			continue
		}
		longest, before = max(longest, t-before), t
	}
	return max(longest, within.to-before)
}

package replay

import (
	"time"

	"github.com/weir-limit/weir"
)

// maxBins is how many stretches of time a timeline tells apart. When there are
// more, each is made longer.
const maxBins = 60

// steps are how long the stretches of a timeline may be. Each is a multiple of the one
// before.
var steps = [...]time.Duration{
	time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour,
	24 * time.Hour, 10 * 24 * time.Hour, 100 * 24 * time.Hour, 1000 * 24 * time.Hour, 10_000 * 24 * time.Hour, 100_000 * 24 * time.Hour,
}

// difference counts the requests that two sets of rules treat differently.
type difference struct {
	only  [2]side // by which rules deny
	both  int64
	bins  []bin
	scale int // of bins, in steps
}

// side is the requests that one set of rules alone denies.
type side struct {
	lines       int64
	first, last weir.Instant
}

// bin is a stretch of the timeline in which something differed.
type bin struct {
	number int64
	only   [2]int64
}

// compare notes what both judges said of a request.
func (d *difference) compare(at weir.Instant, rules, against *judge) {
	switch {
	case rules.passed && against.passed:
		return
	case !rules.passed && !against.passed:
		d.both++
		return
	}
	which, denied := 0, rules.denied
	if rules.passed {
		which, denied = 1, against.denied
	}
	s := &d.only[which]
	if s.lines == 0 {
		s.first = at
	}
	s.lines++
	s.last = at
	for _, n := range denied {
		n.tally.countOnly(n.key)
	}
	d.bin(at).only[which]++
}

// bin is the stretch at is in. Times never run backwards.
func (d *difference) bin(at weir.Instant) *bin {
	number := d.number(at)
	if last := len(d.bins) - 1; last >= 0 && d.bins[last].number == number {
		return &d.bins[last]
	}
	for len(d.bins) == maxBins && d.scale < len(steps)-1 {
		d.widen()
		number = d.number(at)
		if last := len(d.bins) - 1; d.bins[last].number == number {
			return &d.bins[last]
		}
	}
	d.bins = append(d.bins, bin{number: number})
	return &d.bins[len(d.bins)-1]
}

func (d *difference) number(at weir.Instant) int64 {
	return floorDiv(int64(at), steps[d.scale].Microseconds())
}

// widen makes the stretches longer by a step.
func (d *difference) widen() {
	times := int64(steps[d.scale+1] / steps[d.scale])
	d.scale++
	wider := d.bins[:0]
	for _, b := range d.bins {
		b.number = floorDiv(b.number, times)
		if last := len(wider) - 1; last >= 0 && wider[last].number == b.number {
			wider[last].only[0] += b.only[0]
			wider[last].only[1] += b.only[1]
			continue
		}
		wider = append(wider, b)
	}
	d.bins = wider
}

// floorDiv is a/b, rounded down.
func floorDiv(a, b int64) int64 { return (a - (a%b+b)%b) / b }

// report is what was counted.
func (d *difference) report(rules, against *judge) *WhatIf {
	w := &WhatIf{Against: against.report(), Both: d.both}
	for i, j := range [...]*judge{rules, against} {
		o := Only{Denied: sides[i], Lines: d.only[i].lines, Rules: []OnlyRule{}}
		if o.Lines > 0 {
			o.First, o.Last = new(Time(d.only[i].first)), new(Time(d.only[i].last))
		}
		for _, t := range j.tallies {
			if t.only > 0 {
				o.Rules = append(o.Rules, OnlyRule{Rule: t.rule.Name, Lines: t.only, Keys: t.keys(differences), Top: t.top(differences)})
			}
		}
		w.Only[i] = o
	}
	step := steps[d.scale]
	for _, b := range d.bins {
		w.Timeline = append(w.Timeline, Stretch{
			From: Time(b.number * step.Microseconds()), Seconds: int64(step / time.Second), OnlyRules: b.only[0], OnlyAgainst: b.only[1],
		})
	}
	return w
}

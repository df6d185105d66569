package simulation

import (
	"math"

	"github.com/weir-limit/weir"
)

// auditor sees what passes, in the order of time, and tells by how much it was too
// much. It shares no code with what it audits.
type auditor interface {
	pass(now weir.Instant, events int64)
	over() int64
}

// debtAuditor finds the largest excess over burst + pace·t in any interval, in one
// run: it is the deepest debt of a bucket that may go below nothing. Levels are in
// parts of an event, of which each microsecond brings so many.
type debtAuditor struct {
	brings, event, full int64
	level, lowest       int64
	last                weir.Instant
}

func (a *debtAuditor) pass(now weir.Instant, events int64) {
	if since := int64(now - a.last); since >= a.full/a.brings+1 {
		a.level = max(a.level, a.full)
	} else {
		a.level = min(a.level+since*a.brings, a.full)
	}
	a.last = now
	a.level -= a.event * events
	a.lowest = min(a.lowest, a.level)
}

func (a *debtAuditor) over() int64 { return (-a.lowest + a.event - 1) / a.event }

// spanAuditor counts what passes in any span of a period.
type spanAuditor struct {
	most, period int64
	passed       []passed
	sum, worst   int64
}

type passed struct {
	at     weir.Instant
	events int64
}

func (a *spanAuditor) pass(now weir.Instant, events int64) {
	old := 0
	for old < len(a.passed) && int64(now-a.passed[old].at) >= a.period {
		a.sum -= a.passed[old].events
		old++
	}
	a.passed = append(a.passed[old:], passed{now, events})
	a.sum += events
	a.worst = max(a.worst, a.sum-a.most)
}

func (a *spanAuditor) over() int64 { return a.worst }

// windowAuditor counts what passes in each window. The clocks of nodes agree then.
type windowAuditor struct {
	most, period          int64
	window, passed, worst int64
}

func (a *windowAuditor) pass(now weir.Instant, events int64) {
	if window := int64(now) / a.period; window != a.window {
		a.window, a.passed = window, 0
	}
	a.passed += events
	a.worst = max(a.worst, a.passed-a.most)
}

func (a *windowAuditor) over() int64 { return a.worst }

// audit is an auditor of what l promises by clocks that run up to so many millionths too
// fast. For windows that is their bound.
func audit(l *weir.Limit, drift int64) auditor {
	s := l.Spec()
	period := s.Period.Microseconds()
	fast := period - period*drift/1e6 - count(drift > 0)
	switch {
	case s.Algorithm == weir.GCRA && s.Mode == weir.Strict:
		return &spanAuditor{most: s.Count, period: fast}
	case s.Algorithm == weir.GCRA:
		parts := int64(1_000_000)
		for s.Burst > math.MaxInt64/2/parts/period { // a bucket that takes months to fill
			parts /= 10
		}
		full, each := s.Burst*period*parts, 1_000_000/parts
		brings := s.Count*parts + (s.Count*drift+each-1)/each
		return &debtAuditor{brings: brings, event: period * parts, full: full, level: full}
	case s.Algorithm == weir.FixedWindow:
		return &windowAuditor{most: s.Count, period: period}
	}
	return &spanAuditor{most: l.Bound(s.Period, 1), period: fast}
}

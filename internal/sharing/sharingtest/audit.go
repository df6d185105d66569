package sharingtest

import "github.com/weir-limit/weir"

// auditor sees what passes, in the order of time, and tells by how much it was too
// much. It shares no code with what it audits.
type auditor interface {
	pass(now weir.Instant)
	over() int64
}

// debtAuditor finds the largest excess over burst + pace·t in any interval, in one
// run: it is the deepest debt of a bucket that may go below nothing. Levels are in
// parts of an event, a period of them each, so that a microsecond brings count.
type debtAuditor struct {
	count, period, full int64
	level, lowest       int64
	last                weir.Instant
}

func (a *debtAuditor) pass(now weir.Instant) {
	if since := int64(now - a.last); since >= a.full/a.count+1 {
		a.level = max(a.level, a.full)
	} else {
		a.level = min(a.level+since*a.count, a.full)
	}
	a.last = now
	a.level -= a.period
	a.lowest = min(a.lowest, a.level)
}

func (a *debtAuditor) over() int64 { return (-a.lowest + a.period - 1) / a.period }

// windowAuditor counts what passes in each aligned window.
type windowAuditor struct {
	count, period, window int64
	passed, worst         int64
}

func (a *windowAuditor) pass(now weir.Instant) {
	if w := int64(now) / a.period; w != a.window {
		a.window, a.passed = w, 0
	}
	a.passed++
	a.worst = max(a.worst, a.passed-a.count)
}

func (a *windowAuditor) over() int64 { return a.worst }

// spanAuditor counts what passes in any span of a period.
type spanAuditor struct {
	most, period int64
	passed       []weir.Instant
	worst        int64
}

func (a *spanAuditor) pass(now weir.Instant) {
	old := 0
	for old < len(a.passed) && int64(now-a.passed[old]) >= a.period {
		old++
	}
	a.passed = append(a.passed[old:], now)
	a.worst = max(a.worst, int64(len(a.passed))-a.most)
}

func (a *spanAuditor) over() int64 { return a.worst }

// audit is an auditor of what l promises. Of a sliding window, which estimates, that is
// its bound.
func audit(l *weir.Limit) auditor {
	s := l.Spec()
	period := s.Period.Microseconds()
	if s.Algorithm == weir.GCRA && s.Mode == weir.Strict {
		return &spanAuditor{most: s.Count, period: period}
	}
	switch s.Algorithm {
	case weir.FixedWindow:
		return &windowAuditor{count: s.Count, period: period}
	case weir.SlidingLog, weir.SlidingWindow:
		return &spanAuditor{most: l.Bound(s.Period, 1), period: period}
	default:
		full := s.Burst * period
		return &debtAuditor{count: s.Count, period: period, full: full, level: full}
	}
}

package offenders

import (
	"context"
	"time"
)

// Chart is what all nodes have counted of a rule, or of all rules of a domain, for a span of time until now: a point for each step.
type Chart struct {
	Step time.Duration
	// Enforced is while the rule was enforced, Shadow while it was not; nil: it always was. Of a domain all is in Enforced.
	Enforced, Shadow []Point
}

// Charts reads the chart of a rule, or without one that of a domain.
type Charts func(ctx context.Context, of Filter, span time.Duration) (Chart, error)

// Spans are those of charts, by what they are called.
func Spans() []Span {
	const day = 24 * time.Hour
	return []Span{{"15m", 15 * time.Minute}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"24h", day}, {"7d", 7 * day}, {"30d", 30 * day}}
}

// UsualSpan is the one that people see first.
const UsualSpan = "1h"

// Span is how much time a chart has.
type Span struct {
	Name string
	Of   time.Duration
}

// SpanOf is the one with a name; no: there is none.
func SpanOf(name string) (span Span, ok bool) {
	for _, s := range Spans() {
		if s.Name == name {
			return s, true
		}
	}
	return Span{}, false
}

package webui

import (
	"html/template"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/plot"
)

const (
	samples = 240 // instants at which a picture asks
	// maxLog is the most events of a sliding log that a picture keeps.
	maxLog = 4096
	// maxSpan is the longest time that a picture shows.
	maxSpan = 5 * 366 * 24 * time.Hour
)

// asked is when pictures begin to ask: an edge of windows of every length up to a
// day.
const asked weir.Instant = 1_704_067_200_000_000 // 2024-01-01T00:00:00Z

// picture shows what passes when somebody asks for as much as a limit gives, and
// the most that passes in any time as long. It is empty for limits that time does
// not refill.
func picture(name string, l *weir.Limit) template.HTML {
	s := l.Spec()
	if s.Algorithm == weir.Concurrent || s.Period <= 0 || s.Period > maxSpan/3 {
		return ""
	}
	span := max(s.Period*5/2, s.WarmUp+s.Period)
	lines := plot.Lines{
		X: plot.Axis{Name: "time since the first request", Unit: plot.Micros, Max: span.Microseconds()},
		Y: plot.Axis{Name: "events passed", Unit: plot.Events},
	}
	var asks []plot.Point
	if s.Algorithm != weir.SlidingLog || s.Count <= maxLog {
		asks = greedy(l, span)
		lines.Lines = append(lines.Lines, plot.Line{Name: "from rest", Points: asks, Steps: true})
	}
	if bound := bounds(l, span); bound != nil && !slices.Equal(bound, asks) {
		lines.Lines = append(lines.Lines, plot.Line{Name: "the most", Points: bound, Steps: true, Truth: true})
	}
	if len(lines.Lines) == 0 {
		return ""
	}
	words, _ := mostOf(l)
	p := plot.Picture{
		Name: name, Title: "What " + l.String() + " lets pass", Drawing: lines,
		Description: "The events that pass for one key that takes all it can after a rest, added up over time, and the most that can pass in any time as long. " + words,
	}
	return template.HTML(p.Inline()) //nolint:gosec // plot escapes all texts
}

// greedy is what passes in all of somebody who takes what there is, again and
// again.
func greedy(l *weir.Limit, span time.Duration) []plot.Point {
	var state weir.State
	var sum int64
	points := make([]plot.Point, 0, samples+1)
	for i := range int64(samples + 1) {
		after := span.Microseconds() * i / samples
		now := asked + weir.Instant(after)
		for n, _ := l.Standing(state, now); n > 0; n /= 2 {
			var d weir.Decision
			state = l.Take(state, now, n, &d)
			if d.Outcome == weir.Allowed {
				sum += n
				break
			}
		}
		points = append(points, plot.Point{X: after, Y: sum})
	}
	return points
}

// bounds is the most that passes in any time, by its length; nil: nothing is
// promised.
func bounds(l *weir.Limit, span time.Duration) []plot.Point {
	points := make([]plot.Point, 0, samples+1)
	for i := range int64(samples + 1) {
		width := span.Microseconds() * i / samples
		most := l.Bound(time.Duration(width+1)*time.Microsecond, 1) // both ends count
		if most >= weir.MaxCount {
			return nil
		}
		points = append(points, plot.Point{X: width, Y: most})
	}
	return points
}

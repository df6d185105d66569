// Package report shows people what a simulation has found: as pictures, and as a
// page that says in plain words which limit was how wrong. The page needs no
// network and no script.
package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/plot"
	"github.com/weir-limit/weir/sim"
)

// Report is what there is to show. The same report gives the same bytes.
type Report struct {
	Command string        // what made it, for a shell
	Result  *sim.Result   // of at least one contender
	Sizes   []*sim.Trial  // the same traffic on sliding windows of ever more sub-windows, and a log; may be empty
	Attacks []*sim.Attack // the worst traffic found for its limits; may be empty
}

// Save writes pictures as SVG into a folder, which it makes if there is none.
func Save(folder string, pictures ...plot.Picture) error {
	err := os.MkdirAll(folder, 0o755)
	for _, p := range pictures {
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, p.Name+".svg"), p.SVG(), 0o644)
		}
	}
	if err != nil {
		return fmt.Errorf("save pictures: %w", err)
	}
	return nil
}

// attack is the worst traffic found for a trial's limit, or nil.
func (r Report) attack(t *sim.Trial) *sim.Attack {
	if t.Naive != "" {
		return nil
	}
	for _, a := range r.Attacks {
		if a.Limit.String() == t.Limit.String() {
			return a
		}
	}
	return nil
}

// common is the count and period that all trials share.
func (r Report) common() (count int64, period time.Duration, yes bool) {
	first := r.Result.Trials[0].Limit.Spec()
	return first.Count, first.Period, Alike(r.Result)
}

// Alike is whether all trials have one count and period.
func Alike(r *sim.Result) bool {
	first := r.Trials[0].Limit.Spec()
	for _, t := range r.Trials {
		if s := t.Limit.Spec(); s.Count != first.Count || s.Period != first.Period || s.Calendar != first.Calendar {
			return false
		}
	}
	return true
}

// name is what a trial is called beside the others: its limit, without the count
// and period when all share them.
func (r Report) name(t *sim.Trial) string {
	if _, _, same := r.common(); !same || t.Naive != "" || len(r.Result.Trials) == 1 {
		return t.Name
	}
	_, words, _ := strings.Cut(t.Name, " ")
	switch first, _, _ := strings.Cut(words, " "); {
	case words == "":
		return weir.GCRA.String()
	case t.Limit.Algorithm() == weir.GCRA && first != weir.GCRA.String():
		return weir.GCRA.String() + " " + words
	}
	return words
}

// period is what comes after "in any": "minute", or "period" when trials differ.
func (r Report) period() string {
	if _, d, same := r.common(); same {
		return stretch(d)
	}
	return "period"
}

// stretch is d as what follows "any": "minute", or "15 minutes".
func stretch(d time.Duration) string {
	n, unit := sim.Units(d)
	unit = map[string]string{"day": "day", "h": "hour", "min": "minute", "s": "second", "ms": "millisecond", "us": "microsecond"}[unit]
	if unit == "day" && n%7 == 0 {
		n, unit = n/7, "week"
	}
	if n == 1 {
		return unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}

// spell is d as "1 minute" or "15 minutes", or as about so many seconds where that
// says enough.
func spell(d time.Duration) string {
	if d > time.Minute && d%time.Second != 0 {
		return "about " + spell(d.Round(time.Second))
	}
	text := stretch(d)
	if text[0] >= '0' && text[0] <= '9' {
		return text
	}
	return "1 " + text
}

// whose is whose events a series speaks of: with several clients that of the first.
func (r Report) whose() string {
	if r.Result.Clients > 1 && !r.Result.Shared {
		return "events of the first client"
	}
	return "events"
}

// believers are the trials that keep a count of the last period.
func (r Report) believers() []*sim.Trial {
	return slices.DeleteFunc(slices.Clone(r.Result.Trials), func(t *sim.Trial) bool { return !t.Figures.Believes || t.Series.Believed == nil })
}

// points are a series over time, in microseconds from its start. The last value
// holds to the end.
func (r Report) points(values []int64) []plot.Point {
	var out []plot.Point
	step := r.Result.Step.Microseconds()
	for i, v := range values {
		out = append(out, plot.Point{X: int64(i) * step, Y: v})
	}
	if len(out) > 0 {
		out = append(out, plot.Point{X: r.Result.Duration.Microseconds(), Y: values[len(values)-1]})
	}
	return out
}

func (r Report) axis() plot.Axis {
	return plot.Axis{Name: "time", Unit: plot.Micros, Max: r.Result.Duration.Microseconds()}
}

// edges are where windows by the clock begin, when they are few.
func (r Report) edges() []int64 {
	_, period, same := r.common()
	if !same || r.Result.Duration/period > 20 {
		return nil
	}
	var out []int64
	us := weir.Instant(period.Microseconds())
	for at := us - r.Result.Start%us; at < weir.Instant(r.Result.Duration.Microseconds()); at += us {
		out = append(out, int64(at))
	}
	return out
}

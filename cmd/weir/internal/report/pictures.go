package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/lesson"
	"github.com/weir-limit/weir/cmd/weir/internal/plot"
	"github.com/weir-limit/weir/sim"
)

// Pictures are what there is to see of the simulation.
func (r Report) Pictures() []plot.Picture {
	var out []plot.Picture
	for _, draw := range []func() (plot.Picture, bool){r.believed, r.errors, r.decided, r.within, r.periods, r.memory, r.attacks} {
		if p, ok := draw(); ok {
			p.Command = r.Command
			out = append(out, p)
		}
	}
	return out
}

// Lessons are how the algorithms of the trials decide, each once.
func (r Report) Lessons() []plot.Picture {
	var out []plot.Picture
	for _, t := range r.Result.Trials {
		if t.Naive != "" {
			continue
		}
		for _, p := range lesson.Pictures(t.Limit.Algorithm()) {
			if slices.ContainsFunc(out, func(o plot.Picture) bool { return o.Name == p.Name }) {
				continue
			}
			p.Command = r.Command
			out = append(out, p)
		}
	}
	return out
}

// together is how many limits a page tells of in a sentence below each picture.
const together = 4

// believed is the count of the last period that was true, and that was believed.
func (r Report) believed() (plot.Picture, bool) {
	trials := r.believers()
	if len(trials) == 0 {
		return plot.Picture{}, false
	}
	p := plot.Picture{
		Name: "believed", Title: fmt.Sprintf("The last %s: what was asked, and what each believes", r.period()),
		Description: "The area is how many " + r.whose() + " were asked for in the last " + r.period() +
			", at each moment; the lines are how many each algorithm believes that to be. " + r.worstErrors(trials),
	}
	panels := plot.Panels{X: r.axis(), Y: plot.Axis{Name: r.whose() + " in the last " + r.period()}, Over: "believed", Under: "true count", Edges: r.edges()}
	for _, t := range trials {
		panels.Panels = append(panels.Panels, plot.Panel{
			Name: r.name(t), Note: fmt.Sprintf("off by %d at worst", t.Figures.WorstError),
			Under: r.points(t.Series.True), Over: r.points(t.Series.Believed),
		})
	}
	p.Drawing = panels
	return p, true
}

// errors is how far what was believed is from what was true.
func (r Report) errors() (plot.Picture, bool) {
	trials := r.believers()
	if !slices.ContainsFunc(trials, func(t *sim.Trial) bool { return t.Figures.WorstError > 0 }) {
		return plot.Picture{}, false
	}
	panels := plot.Panels{
		X: r.axis(), Y: plot.Axis{Name: r.whose() + " too many, or too few"}, Levels: []plot.Level{{Name: "right"}}, Over: "off by", Edges: r.edges(),
	}
	for _, t := range trials {
		off := make([]int64, len(t.Series.True))
		for i := range off {
			off[i] = t.Series.Believed[i] - t.Series.True[i]
		}
		panels.Panels = append(panels.Panels, plot.Panel{Name: r.name(t), Note: tenths(t.Figures.MeanError) + " on average", Over: r.points(off)})
	}
	return plot.Picture{
		Name: "errors", Drawing: panels, Title: fmt.Sprintf("How far each belief of the last %s is off", r.period()),
		Description: "What each algorithm believes of the last " + r.period() + ", less what is true: above 0 it believes too much, below it too little. " + r.worstErrors(trials),
	}, true
}

func (r Report) worstErrors(trials []*sim.Trial) string {
	var parts []string
	for _, t := range trials {
		parts = append(parts, fmt.Sprintf("%s was off by %s on average and by %s at worst", r.name(t), tenths(t.Figures.MeanError), number(t.Figures.WorstError)))
	}
	return list(parts) + "."
}

// maxBars is how many stretches of time decided shows, about.
const maxBars = 60

// sums is a series in coarser steps.
func (r Report) sums(values []int64, steps int) []plot.Point {
	var out []plot.Point
	for i, v := range values {
		if i%steps == 0 {
			out = append(out, plot.Point{X: int64(i) * r.Result.Step.Microseconds()})
		}
		out[len(out)-1].Y += v
	}
	return append(out, plot.Point{X: r.Result.Duration.Microseconds(), Y: out[len(out)-1].Y})
}

// decided is what was asked, passed and denied in each step.
func (r Report) decided() (plot.Picture, bool) {
	steps := max(len(r.Result.Trials[0].Series.Asked)/maxBars, 1)
	each := short(time.Duration(steps) * r.Result.Step)
	panels := plot.Panels{
		X: r.axis(), Y: plot.Axis{Name: "requests in each " + each},
		Over: "asked", Under: "passed", Hatch: "denied",
	}
	var parts []string
	for _, t := range r.Result.Trials {
		f := t.Figures
		panels.Panels = append(panels.Panels, plot.Panel{
			Name: r.name(t), Note: percent(f.Denied, f.Asked) + " denied", Hatched: true,
			Under: r.sums(t.Series.Passed, steps), Over: r.sums(t.Series.Asked, steps),
		})
		parts = append(parts, fmt.Sprintf("%s denied %s of %s", r.name(t), number(f.Denied), number(f.Asked)))
	}
	return plot.Picture{
		Name: "decided", Title: "What passed, and what was denied", Drawing: panels,
		Description: "Of each limit, the requests that came in each " + each + ": the area is those that passed, hatched are those that were denied. " + list(parts) + ".",
	}, true
}

// within is how many events went in the last period, beside the count.
func (r Report) within() (plot.Picture, bool) {
	count, _, same := r.common()
	if !same {
		return plot.Picture{}, false
	}
	panels := plot.Panels{
		X: r.axis(), Y: plot.Axis{Name: r.whose() + " that went in the last " + r.period()},
		Over: "went", Levels: []plot.Level{{Name: "limit: " + number(count), Value: count}}, Edges: r.edges(),
	}
	var parts []string
	for _, t := range r.Result.Trials {
		note := "never more than the limit"
		if t.Figures.Excess > 0 {
			note = fmt.Sprintf("at most %s: %s over", number(t.Figures.WorstPeriod), number(t.Figures.Excess))
			parts = append(parts, fmt.Sprintf("%s let up to %s go, %s too many", r.name(t), number(t.Figures.WorstPeriod), number(t.Figures.Excess)))
		}
		panels.Panels = append(panels.Panels, plot.Panel{Name: r.name(t), Note: note, Over: r.points(t.Series.Within)})
	}
	what := "none let more go than " + number(count) + "."
	if len(parts) > 0 {
		what = list(parts) + "."
	}
	return plot.Picture{
		Name: "within", Title: fmt.Sprintf("Events that went in the last %s, beside the limit", r.period()), Drawing: panels,
		Description: fmt.Sprintf("At each moment, how many %s went in the %s before, beside the limit of %s. In any %s, wherever it begins, of all keys: %s",
			r.whose(), r.period(), number(count), r.period(), what),
	}, true
}

// periods is the most in any period, beside what a search found and the proof.
func (r Report) periods() (plot.Picture, bool) {
	ranges := plot.Ranges{
		X:    plot.Axis{Name: "events of one key in one " + r.period()},
		Seen: "in this traffic", Bound: "proved bound",
	}
	if count, _, same := r.common(); same {
		ranges.Levels = []plot.Level{{Name: "limit: " + number(count), Value: count}}
	}
	var parts []string
	for _, t := range r.Result.Trials {
		row := plot.Range{Name: r.name(t), Seen: t.Figures.WorstPeriod, Found: -1, Bound: -1}
		part := fmt.Sprintf("%s let %s go in this traffic", r.name(t), number(t.Figures.WorstPeriod))
		if a := r.attack(t); a != nil {
			ranges.Found = "worst traffic found"
			row.Found = a.Found
			part += ", " + number(a.Found) + " in the worst found"
		}
		if t.Figures.Bound > 0 {
			row.Bound = t.Figures.Bound
			part += ", " + number(row.Bound) + " at most by proof"
		}
		ranges.Ranges = append(ranges.Ranges, row)
		parts = append(parts, part)
	}
	return plot.Picture{
		Name: "periods", Title: fmt.Sprintf("The most in any %s, wherever it begins, and the proved bound", r.period()), Drawing: ranges,
		Description: "The most events of one key that went in any " + r.period() + ", beside the most that can by proof, which no traffic passes. " + list(parts) + ".",
	}, true
}

// memory is the bytes of a key's state beside the share of requests that an exact log treats
// otherwise. It tells those that count the last period from those that keep a pace: for these
// that is their purpose. A queue that lets requests wait would look as right as a log if only its
// denials were counted and what went too much, for it judges a request when its turn has come; so
// requests that had to wait count, too.
func (r Report) memory() (plot.Picture, bool) {
	cloud := plot.Cloud{
		X:     plot.Axis{Name: "bytes of state a key", Base: 2},
		Y:     plot.Axis{Name: "requests treated otherwise than by a log", Unit: plot.Millionths, Base: 10},
		Solid: "counts the last " + r.period(),
	}
	trail := plot.Trail{Name: "sliding-window"}
	var parts []string
	tell := func(t *sim.Trial, name string) (plot.Dot, bool) {
		f := t.Figures
		if f.StateBytes == 0 || f.Asked == 0 {
			return plot.Dot{}, false
		}
		parts = append(parts, fmt.Sprintf("%s takes %d bytes and treats %s otherwise", r.name(t), f.StateBytes, percent(f.Otherwise(), f.Asked)))
		return plot.Dot{Name: name, X: f.StateBytes, Y: f.Otherwise() * 1_000_000 / f.Asked, Hollow: pace(t.Limit)}, true
	}
	sized := map[string]bool{}
	for _, t := range r.Sizes {
		name := ""
		if n := t.Limit.Spec().SubWindows; slices.Contains([]int64{1, 4, 10, 60}, n) {
			name = fmt.Sprint(n)
		}
		if t.Limit.Algorithm() == weir.SlidingLog {
			name = r.name(t)
		}
		dot, ok := tell(t, name)
		if !ok {
			continue
		}
		sized[t.Limit.String()] = true
		if t.Limit.Algorithm() == weir.SlidingLog {
			cloud.Dots = append(cloud.Dots, dot)
		} else {
			trail.Dots = append(trail.Dots, dot)
		}
	}
	if len(trail.Dots) > 0 {
		cloud.Trails = []plot.Trail{trail}
	}
	for _, t := range r.Result.Trials {
		if t.Naive == "" && sized[t.Limit.String()] {
			continue
		}
		if dot, ok := tell(t, r.name(t)); ok {
			cloud.Dots = append(cloud.Dots, dot)
			if dot.Hollow {
				cloud.Hollow = "keeps a pace: otherwise by design"
			}
		}
	}
	return plot.Picture{
		Name: "memory", Title: "Memory against accuracy", Drawing: cloud,
		Description: "The further down, the less is treated otherwise than by an exact log: passed, denied, or made to wait; the further left, the less a key takes. " +
			"The line is sliding windows of 1 to 60 sub-windows. A bucket, a queue and a warm-up keep a pace and not a count: what they treat otherwise is no mistake of theirs. " + list(parts) + ".",
	}, len(cloud.Dots)+len(trail.Dots) > 1
}

// attacks is the traffic that breaks promises worst.
func (r Report) attacks() (plot.Picture, bool) {
	count, period, same := r.common()
	if !same {
		return plot.Picture{}, false
	}
	panels := plot.Panels{
		X: plot.Axis{Name: "time from the beginning of the worst " + r.period(), Unit: plot.Micros},
		Y: plot.Axis{Name: "events in the last " + r.period()}, Over: "went", Bound: "proved bound",
	}
	panels.Levels = []plot.Level{{Name: "limit: " + number(count), Value: count}}
	panels.Edges = []int64{0, period.Microseconds()}
	panels.X.Max = period.Microseconds() * 11 / 10
	var parts []string
	for _, t := range r.Result.Trials {
		a := r.attack(t)
		if a == nil || a.Found <= count {
			continue
		}
		over := running(a, period)
		panels.X.Min = min(panels.X.Min, over[0].X)
		panels.Panels = append(panels.Panels, plot.Panel{
			Name: r.name(t), Note: fmt.Sprintf("%s, bound %s", number(a.Found), number(a.Bound)), Over: over, Bound: a.Bound,
		})
		parts = append(parts, fmt.Sprintf("%s lets %s go, of %s at most by proof", r.name(t), number(a.Found), number(a.Bound)))
	}
	return plot.Picture{
		Name: "attacks", Title: "The worst traffic that a search found", Drawing: panels,
		Description: "How many events went in the last " + r.period() + " under the traffic that breaks each promise worst; between the two upright lines is the worst " +
			r.period() + ". " + list(parts) + ".",
	}, len(panels.Panels) > 0
}

// running is how many of an attack's events lie in the last period, at each time
// that this changes, from the beginning of its worst period.
func running(a *sim.Attack, period time.Duration) []plot.Point {
	us := weir.Instant(period.Microseconds())
	var out []plot.Point
	var sum int64
	old := 0
	step := func(at weir.Instant) { out = append(out, plot.Point{X: int64(at - a.From), Y: sum}) }
	gone := func(until weir.Instant) {
		for ; old < len(a.Requests) && a.Requests[old].At+us <= until; old++ {
			sum -= a.Requests[old].Cost
			step(a.Requests[old].At + us)
		}
	}
	step(a.Requests[0].At - us/20)
	for _, q := range a.Requests {
		gone(q.At)
		sum += q.Cost
		step(q.At)
	}
	gone(a.From + us*11/10)
	step(max(a.From+us*11/10, a.Requests[len(a.Requests)-1].At))
	return out
}

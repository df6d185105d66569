// Package lesson draws how algorithms decide: each picture is made from what the
// product itself answers to a few requests.
package lesson

import (
	"fmt"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/plot"
)

// start is when lessons begin: an edge of windows of every length up to a day.
const start weir.Instant = 1_704_067_200_000_000 // 2024-01-01T00:00:00Z

// Pictures are the lessons about an algorithm. Fixed windows and logs have none:
// how they decide is what their names say.
func Pictures(a weir.Algorithm) []plot.Picture {
	switch a {
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket:
		return []plot.Picture{bucket(), gcra()}
	case weir.SlidingWindow:
		return []plot.Picture{subWindows()}
	case weir.LeakyQueue:
		return []plot.Picture{queue()}
	case weir.WarmUp:
		return []plot.Picture{warmUp()}
	case weir.Concurrent:
		return []plot.Picture{permits()}
	case weir.FixedWindow, weir.SlidingLog:
	}
	return nil
}

// student asks a limit about one key.
type student struct {
	limit *weir.Limit
	state weir.State
	asked uint64
}

func ask(limit string) *student { return &student{limit: weir.MustParseLimit(limit)} }

// take asks for so many events at a time after the start, and charges them if
// they pass.
func (s *student) take(after time.Duration, cost int64) weir.Decision {
	now := start + weir.Instant(after.Microseconds())
	s.asked++
	asks := []weir.Ask{{Limit: s.limit, Cost: cost, Receipt: s.asked}}
	out := []weir.Decision{s.limit.Decide(s.state, now, &asks[0])}
	weir.Resolve(asks, out)
	s.state = s.limit.Commit(s.state, now, &asks[0], &out[0])
	return out[0]
}

// free gives a permit back.
func (s *student) free(after time.Duration, r *weir.Receipt) {
	state, err := s.limit.Settle(s.state, start+weir.Instant(us(after)), start, &weir.Settlement{Receipt: r})
	if err != nil {
		panic("lesson: a permit that was just given is not taken back: " + err.Error())
	}
	s.state = state
}

// left is how many events would pass then.
func (s *student) left(after time.Duration) int64 {
	remaining, _ := s.limit.Standing(s.state, start+weir.Instant(after.Microseconds()))
	return remaining
}

// times as axes have them, from the start on.
func us(d time.Duration) int64 { return d.Microseconds() }

func timeAxis(from, to time.Duration) plot.Axis {
	return plot.Axis{Name: "time", Unit: plot.Micros, Min: us(from), Max: us(to)}
}

// wait is d to a tenth of a second.
func wait(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }

// gcra is requests held against the theoretical arrival time.
func gcra() plot.Picture {
	const text = "1/s burst 3"
	s := ask(text)
	span, _, _ := s.limit.Span(s.limit.Spec().Burst)
	p := plot.Turns{X: timeAxis(-2500*time.Millisecond, 5*time.Second), From: "TAT − burst", To: "TAT"}
	for i, after := range []time.Duration{0, 0, 200 * time.Millisecond, 600 * time.Millisecond, time.Second, 1400 * time.Millisecond} {
		d := s.take(after, 1)
		turn := plot.Turn{Name: fmt.Sprintf("request %d", i+1), At: us(after), Denied: d.Outcome != weir.Allowed}
		if turn.Denied {
			turn.From = us(after + d.RetryAfter)
			turn.To = turn.From + span
			turn.Note = "denied, " + wait(d.RetryAfter) + " too early"
		} else {
			turn.To = us(after + d.ResetAfter)
			turn.From = turn.To - span
			turn.Note = "allowed"
		}
		p.Turns = append(p.Turns, turn)
	}
	return plot.Picture{
		Name: "lesson-gcra", Title: "GCRA keeps one instant: " + text, Drawing: p,
		Description: "Six requests below each other. The bar of each ends where the theoretical arrival time, TAT, would be if it passed, and begins a burst of three seconds earlier. " +
			"A request within its bar is allowed and moves the next bar on by a second; one before its bar is denied and moves nothing. It may come back when its bar begins.",
	}
}

// bucket is how many tokens a bucket holds, in millionths of one.
func bucket() plot.Picture {
	const text = "1/s burst 5"
	s := ask(text)
	span, _, _ := s.limit.Span(1) // of one token
	full := s.limit.Spec().Burst * token
	level := []plot.Point{{X: us(-time.Second), Y: full}}
	p := plot.Lines{
		X: timeAxis(-time.Second, 12*time.Second), Y: plot.Axis{Name: "tokens in the bucket", Unit: plot.Fractions, Max: full},
		Notes: "numbers: tokens that a request asks for", Passed: "allowed", Denied: "denied",
	}
	at := func(after time.Duration) int64 {
		_, reset := s.limit.Standing(s.state, start+weir.Instant(us(after)))
		return full - us(reset)*token/span
	}
	filled := time.Duration(0) // when it is full again
	for _, take := range asksOfBucket() {
		if filled < take.after {
			level = append(level, plot.Point{X: us(filled), Y: full})
		}
		before := at(take.after)
		d := s.take(take.after, take.cost)
		p.Events = append(p.Events, plot.Event{
			Point: plot.Point{X: us(take.after), Y: at(take.after)}, Denied: d.Outcome != weir.Allowed, Note: fmt.Sprint(take.cost),
		})
		level = append(level, plot.Point{X: us(take.after), Y: before}, plot.Point{X: us(take.after), Y: at(take.after)})
		filled = take.after + d.ResetAfter
	}
	p.Lines = []plot.Line{{Points: append(level, plot.Point{X: us(12 * time.Second), Y: at(12 * time.Second)})}}
	return plot.Picture{
		Name: "lesson-bucket", Title: "A bucket gives what it holds, and fills at a pace: " + text, Drawing: p,
		Description: "The level of a bucket of five tokens over twelve seconds, and above it how many tokens each request asks for. A request that is allowed, a disc, takes them at once; " +
			"in between the level rises by one token a second until the bucket is full. One that asks for 2 tokens when there are 1.6, a cross, is denied and takes nothing.",
	}
}

// token is one, in the millionths that the axis counts.
const token = 1_000_000

// asking is a request of a lesson.
type asking struct {
	after time.Duration
	cost  int64
}

func asksOfBucket() []asking {
	return []asking{
		{0, 3},
		{time.Second, 2},
		{1600 * time.Millisecond, 2},
		{2500 * time.Millisecond, 2},
		{9 * time.Second, 4},
		{10 * time.Second, 1},
	}
}

// subWindows is what a period is made of at one instant.
func subWindows() plot.Picture {
	const text = "100/min sliding-window 4"
	s := ask(text)
	const sub, now = 15 * time.Second, 70 * time.Second
	counts := []int64{24, 18, 27, 12, 6}
	p := plot.Windows{
		X: timeAxis(0, 5*sub), Y: plot.Axis{Name: "events counted in each sub-window"},
		From: us(now - time.Minute), To: us(now), Span: "the last minute",
	}
	for i, n := range counts {
		begin := time.Duration(i) * sub
		s.take(begin+5*time.Second, n)
		p.Bars = append(p.Bars, plot.SubWindow{From: us(begin), To: us(begin + sub), Count: n, Note: fmt.Sprint(n)})
	}
	p.Bars[0].Note = fmt.Sprintf("%d × 1/3", counts[0])
	p.Sum = fmt.Sprintf("%d × 1/3 + %d + %d + %d + %d = %d of 100: %d more pass now",
		counts[0], counts[1], counts[2], counts[3], counts[4], 100-s.left(now), s.left(now))
	return plot.Picture{
		Name: "lesson-sub-windows", Title: "How sub-windows make a minute: " + text, Drawing: p,
		Description: "Five counters of 15 seconds each. The last minute covers four of them whole, and a third of the oldest, which counts by a third, as if its events were spread evenly. " + p.Sum + ".",
	}
}

// queue is requests that wait in line.
func queue() plot.Picture {
	const text = "1/s leaky-queue queue 3"
	s := ask(text)
	p := plot.Turns{X: timeAxis(0, 6*time.Second), From: "comes", To: "goes"}
	for i, after := range []time.Duration{0, 0, 0, 0, 0, 2500 * time.Millisecond} {
		d := s.take(after, 1)
		turn := plot.Turn{
			Name: fmt.Sprintf("request %d", i+1), Note: "goes at once", At: us(after), From: us(after), To: us(after + d.Hold),
			Denied: d.Outcome != weir.Allowed,
		}
		switch {
		case turn.Denied:
			turn.Note = "denied, the line is full"
		case d.Hold > 0:
			turn.Note = "waits " + wait(d.Hold)
		}
		p.Turns = append(p.Turns, turn)
	}
	return plot.Picture{
		Name: "lesson-queue", Title: "A leaky queue lets requests wait: " + text, Drawing: p,
		Description: "Five requests at once and one later. The first goes at once, the next three wait in line and go one a second, " +
			"the fifth finds the line full and is denied. A bar is how long a request waits.",
	}
}

// warmUp is how much passes in each second after a rest.
func warmUp() plot.Picture {
	const text = "20/s warm-up 10s"
	s := ask(text)
	const length = 16
	cold := make([]plot.Point, length+1)
	warm := ask("20/s burst 1")
	paced := make([]plot.Point, length+1)
	for i := range cold {
		cold[i].X, paced[i].X = us(time.Duration(i)*time.Second), us(time.Duration(i)*time.Second)
		for step := range int64(1000) {
			after := time.Duration(i)*time.Second + time.Duration(step)*time.Millisecond
			if s.take(after, 1).Outcome == weir.Allowed {
				cold[i].Y++
			}
			if warm.take(after, 1).Outcome == weir.Allowed {
				paced[i].Y++
			}
		}
	}
	return plot.Picture{
		Name: "lesson-warm-up", Title: "A warm-up spares what is cold: " + text,
		Drawing: plot.Lines{
			X: timeAxis(0, length*time.Second), Y: plot.Axis{Name: "events that pass in each second"},
			Lines: []plot.Line{{Name: text, Points: cold, Steps: true}, {Name: "20/s burst 1", Points: paced, Steps: true}},
		},
		Description: "More is asked for than may pass, after a rest. With a warm-up of ten seconds a third of the pace passes at first, and more in each " +
			"second until the whole pace is reached; without one the whole pace passes from the beginning.",
	}
}

// permits is requests that hold a permit as long as they run.
func permits() plot.Picture {
	const text = "2 concurrent"
	s := ask(text)
	p := plot.Turns{X: timeAxis(0, 6*time.Second), From: "starts", To: "is done"}
	run := func(from, to time.Duration) *weir.Receipt {
		d := s.take(from, 1)
		turn := plot.Turn{
			Name: fmt.Sprintf("request %d", len(p.Turns)+1), Note: "runs for " + wait(to-from),
			At: us(from), From: us(from), To: us(to), Denied: d.Outcome != weir.Allowed,
		}
		if turn.Denied {
			turn.Note, turn.To = "denied, both permits are out", turn.From
		}
		p.Turns = append(p.Turns, turn)
		return d.Receipt
	}
	first := run(0, 3*time.Second)
	run(time.Second, 5*time.Second)
	run(2*time.Second, 4*time.Second)
	s.free(3*time.Second, first)
	run(3500*time.Millisecond, 5500*time.Millisecond)
	return plot.Picture{
		Name: "lesson-permits", Title: "Permits bound what runs at a time: " + text, Drawing: p,
		Description: "Four requests. The first two run beside each other, the third comes while both run and is denied, " +
			"the fourth comes when the first has given its permit back.",
	}
}

package sim

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weir-limit/weir"
)

// The bounds of a run. A run beyond them is refused with the reason.
const (
	// MaxContenders is how many contenders a run may have.
	MaxContenders = 100
	// MaxRequests is how many requests a contender may be asked about. Where a rate
	// changes, the moments count at which one could have come at its highest.
	//
	// It bounds the time that a run takes.
	MaxRequests = 100_000_000
	// MaxSteps is how many steps a series may have.
	MaxSteps = 100_000
)

// Options of a run.
//
// All but Seed, Duration and Shared change only how a run is told, and none of its figures.
type Options struct {
	// Seed is what all chance comes from. 0 is a seed like any other.
	Seed uint64
	// Duration is for how long requests come. 0: what suits the workload.
	Duration time.Duration
	// Step is that of the series. 0: a round time that makes 200…500 of them; fewer
	// where they would be shorter than a microsecond, more beyond a year.
	Step time.Duration
	// Shared makes all clients share one count, instead of one for each.
	//
	// A shared count has one key for all clients. LongestWait and Jain are still by client: they
	// tell how clients fare that share it.
	Shared bool
	// Progress, if not nil, is told now and then how much of the simulated time of
	// all contenders is over.
	Progress func(done, total time.Duration)
}

// Run asks each contender about the requests of a workload. It fails when something
// is beyond its bound, or when ctx ends.
func Run(ctx context.Context, w *Workload, contenders []Contender, o Options) (*Result, error) {
	if n := len(contenders); n == 0 || n > MaxContenders {
		return nil, inputf("%d contenders; there must be 1…%d", n, MaxContenders)
	}
	if o.Duration == 0 {
		o.Duration = w.Duration()
	}
	if o.Duration < time.Microsecond || o.Duration > MaxDuration {
		return nil, inputf("the duration is %v; it must be 1us…407day", o.Duration)
	}
	if o.Step == 0 {
		o.Step = roundStep(o.Duration)
	}
	if o.Step < time.Microsecond || o.Step%time.Microsecond != 0 {
		return nil, inputf("the step is %v; it must be at least 1us, in whole microseconds", o.Step)
	}
	if steps := (o.Duration-1)/o.Step + 1; steps > MaxSteps {
		return nil, inputf("%v in steps of %v are %d steps; there may be at most %d, so take a longer step", o.Duration, o.Step, steps, MaxSteps)
	}
	result := &Result{
		Workload: w.String(), Seed: o.Seed, Start: w.start(), Duration: o.Duration, Step: o.Step,
		Clients: w.Clients(), Shared: o.Shared,
	}
	for i := range contenders {
		// Trials are made one after the other: a run takes memory for one of them at a time.
		r := newRunner(w, &contenders[i], &o)
		trial, err := r.run(ctx, func(done time.Duration) {
			if o.Progress != nil {
				o.Progress(time.Duration(i)*o.Duration+done, time.Duration(len(contenders))*o.Duration)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("simulate %s: %w", contenders[i].Name, err)
		}
		result.Trials = append(result.Trials, trial)
	}
	return result, nil
}

// roundStep is a step such as 1, 2 or 5 s that cuts d into 200…500, about.
func roundStep(d time.Duration) time.Duration {
	const day, ms, us = 24 * time.Hour, time.Millisecond, time.Microsecond
	for _, step := range []time.Duration{
		day, 12 * time.Hour, 6 * time.Hour, 3 * time.Hour, time.Hour,
		30 * time.Minute, 10 * time.Minute, 5 * time.Minute, 2 * time.Minute, time.Minute,
		30 * time.Second, 10 * time.Second, 5 * time.Second, 2 * time.Second, time.Second,
		500 * ms, 200 * ms, 100 * ms, 50 * ms, 20 * ms, 10 * ms, 5 * ms, 2 * ms, ms,
		500 * us, 200 * us, 100 * us, 50 * us, 20 * us, 10 * us, 5 * us, 2 * us,
	} {
		if d/step >= 200 {
			return step
		}
	}
	return us
}

// checkEvery is how many requests are decided between two looks at the context.
const checkEvery = 1 << 13

// runner is one run.
//
// It is the loop of virtual time. Its present is the time of the turn at hand, and never moves
// back. Three queues feed it: requests, in the order of their times, again and line. line is
// emptied up to the present before a request is decided, so a request that goes at the moment at
// which another is asked has gone before.
type runner struct {
	contender *Contender
	// requests is begun anew for each trial, from the same seed. It does not know what is decided,
	// so it is the same for all contenders.
	requests source
	tries    int64
	retry    int64 // microseconds; 0: as told
	// shared has all clients ask for key 0.
	shared bool
	start  weir.Instant
	// Requests come in [start, end). line goes on after it until it is empty: events that passed
	// do go, and have to be counted.
	end weir.Instant

	decider decider
	again   later // requests that will be made again
	line    later // requests that passed and wait for their turn
	tally   *tally
}

func newRunner(w *Workload, c *Contender, o *Options) *runner {
	keys := w.Clients()
	if o.Shared {
		keys = 1
	}
	start := w.start()
	return &runner{
		contender: c, requests: w.requests(o.Seed, o.Duration),
		tries: w.settings.tries, retry: w.settings.retry.Microseconds(), shared: o.Shared,
		start: start, end: start + weir.Instant(o.Duration.Microseconds()),
		decider: c.decider(keys), tally: newTally(c, start, o, w.Clients(), keys),
	}
}

// run takes one turn after the other, in the order of time. At one moment fresh requests come
// before those made again. The loop ends: each turn takes a request from the source, which ends,
// or one from again, which a request enters fewer than tries times.
func (r *runner) run(ctx context.Context, progress func(done time.Duration)) (*Trial, error) {
	fresh, more := r.requests()
	for n := 0; ; n++ {
		if n%checkEvery == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		if n == MaxRequests {
			return nil, inputf("more than %d requests, or moments for one; take a shorter duration, or lower rates", MaxRequests)
		}
		again, ok := r.again.first()
		var next turn
		switch {
		case more && (!ok || fresh.At <= again.at):
			next = turn{at: fresh.At, client: fresh.Client, cost: fresh.Cost, tries: 1}
			fresh, more = r.requests()
		case ok && again.at < r.end:
			next = again
			r.again.drop()
		default:
			return r.finish()
		}
		if n%checkEvery == 0 {
			progress((next.at - r.start).Duration())
		}
		// It counts as a turn all the same: a source that is nearly always silent must not run for
		// ever.
		if next.client == nobody {
			continue
		}
		if err := r.ask(next); err != nil {
			return nil, err
		}
	}
}

// ask makes one request.
//
// The order of its steps is what the figures mean. First goes whatever was due by now. Then the
// logs forget what has left the period. The request is counted among the asked before it is
// decided, and the belief is compared with what was true before it. Only then the contender
// decides, and its verdict is judged.
func (r *runner) ask(q turn) error {
	if !r.shared {
		q.key = q.client
	}
	if err := r.release(q.at); err != nil {
		return err
	}
	r.tally.to(q.at)
	if err := r.tally.asked(&q); err != nil {
		return err
	}
	v := r.decider.decide(q.at, q.key, q.cost)
	if !v.passes {
		r.askAgain(q, v.retry)
		return r.tally.denied(&q)
	}
	r.tally.passed(&q, v.hold)
	if v.hold == 0 {
		return r.goes(&q)
	}
	q.at += weir.Instant(v.hold)
	if !r.line.push(q) {
		return inputf("more than %d requests wait in line; take a shorter queue, or a lower rate", maxLater)
	}
	return nil
}

// askAgain lines a request that was denied up for its next try. When too many are
// in line, it gives up, and so does who was not told when to come back.
func (r *runner) askAgain(q turn, told int64) {
	wait := told
	// The wait doubles with each try, up to twenty times. It can't overflow: the tries before it
	// have taken nearly as long as the wait, and all of them lie within MaxDuration.
	if r.retry > 0 {
		wait = min(r.retry<<min(q.tries-1, 20), MaxDuration.Microseconds())
	}
	if q.tries >= r.tries || wait == 0 {
		return
	}
	q.at += weir.Instant(wait)
	q.tries++
	r.again.push(q)
}

// release lets those go whose turn has come by now.
//
// Each goes at its own moment, and the logs are moved there first: so that a request is judged by
// the period that ends when it goes.
func (r *runner) release(now weir.Instant) error {
	for {
		q, ok := r.line.first()
		if !ok || q.at > now {
			return nil
		}
		r.line.drop()
		r.tally.to(q.at)
		r.tally.waiting[q.key] -= q.cost
		if err := r.goes(&q); err != nil {
			return err
		}
	}
}

// goes lets a request go now.
//
// The state of a key is measured when its last period holds more than any before: that is when a
// log is longest.
func (r *runner) goes(q *turn) error {
	most, err := r.tally.goes(q)
	if most {
		r.tally.figures.StateBytes = max(r.tally.figures.StateBytes, r.decider.bytes(q.key))
	}
	return err
}

// finish empties the line first. Then the series is filled in up to its last step, with the logs
// as they are.
func (r *runner) finish() (*Trial, error) {
	if err := r.release(math.MaxInt64); err != nil {
		return nil, err
	}
	r.tally.to(r.end)
	figures, series := r.tally.sum(r.contender.Naive != "")
	c := r.contender
	return &Trial{Name: c.Name, Naive: c.Naive, Says: c.Says, Limit: c.Limit, Figures: figures, Series: series}, nil
}

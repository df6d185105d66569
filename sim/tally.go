package sim

import (
	"math"
	"math/big"
	"math/bits"

	"github.com/weir-limit/weir"
)

// tally counts what Figures and Series say of a run.
//
// It is told of each thing that happens, in the order of time, and decides nothing. to(now) comes
// before every other call for now: then each log holds exactly the period that ends now.
type tally struct {
	limit *weir.Limit
	// All times are microseconds. count is in events.
	count    int64 // of the limit
	period   weir.Instant
	start    weir.Instant
	step     weir.Instant
	loadStep weir.Instant
	end      weir.Instant

	// figures and series are filled in as the run goes. Means and shares are computed at the end,
	// from the sums below.
	figures Figures
	series  Series
	// Steps before step0 have their samples. A step is sampled when time first reaches or passes
	// its beginning, with the logs moved there; so a silence of many steps is filled in at once,
	// and exactly.
	step0    int // the steps that were sampled
	believer *believer
	// seen holds what was asked for, whether it passed or not. It is the truth that a belief is
	// compared with.
	seen *period // what was asked
	// gone holds what the contender let go, when it went. It is the log by which decisions are
	// judged.
	gone *period // what went
	// missed holds what was denied wrongly, as if it had gone. Without it a single place left
	// empty would make every denial of the next period wrong; it is to count once.
	missed *period // what was denied and should have passed
	// They have passed and not gone. They are not in gone yet, and a denial is judged as if they
	// were: their places are taken.
	waiting []int64 // events in line, by key

	// errors and truths are sums over all requests, of events.
	errors uint64 // sum of all that Figures.MeanError is the mean of
	truths uint64 // and of the true counts
	// 1 is added so that 0 can mean that the client does not wait.
	since []weir.Instant // of those who wait, by client: from when on, and 1
	went  []int64        // events, by client; −1 for those who never asked
	// Periods are those of the clock, counted from 1970, as fixed windows have them: who comes
	// late in a window is who may find it empty.
	halves [2]half
	// The steps of load are of all clients together, and begin at start. Events go in the order of
	// time, so one counter is enough.
	load    int64 // events gone in the load step
	loadAt  int64 // which one it is
	largest int64 // cost
}

// half is the requests of the first or the second halves of periods.
type half struct{ asked, passed int64 }

func newTally(c *Contender, start weir.Instant, o *Options, clients, keys int) *tally {
	spec := c.Limit.Spec()
	us := spec.Period.Microseconds()
	t := &tally{
		limit: c.Limit, count: spec.Count, period: weir.Instant(us), start: start,
		step: weir.Instant(o.Step.Microseconds()), loadStep: weir.Instant(max(us/60, 1)),
		end:      start + weir.Instant(o.Duration.Microseconds()),
		believer: newBeliever(c, keys), seen: newPeriod(us, keys), gone: newPeriod(us, keys), missed: newPeriod(us, keys), waiting: make([]int64, keys),
		since: make([]weir.Instant, clients), went: make([]int64, clients),
	}
	for i := range t.went {
		t.went[i] = -1
	}
	// The last step may be shorter than the others.
	n := int((o.Duration-1)/o.Step) + 1
	for _, s := range []*[]int64{&t.series.Asked, &t.series.Passed, &t.series.Denied, &t.series.Gone, &t.series.True, &t.series.Within} {
		*s = make([]int64, n)
	}
	if t.believer != nil {
		t.series.Believed = make([]int64, n)
	}
	t.figures.LoadStep = t.loadStep.Duration()
	return t
}

// to moves on to now, and notes what stood at the beginning of each step until then.
func (t *tally) to(now weir.Instant) {
	for ; t.step0 < len(t.series.True); t.step0++ {
		at := t.start + weir.Instant(t.step0)*t.step
		if at > now {
			break
		}
		t.seen.to(at)
		t.gone.to(at)
		t.series.True[t.step0] = t.seen.sums[0]
		t.series.Within[t.step0] = t.gone.sums[0]
		if t.believer != nil {
			t.series.Believed[t.step0] = t.believer.believes(at, 0)
		}
	}
	t.seen.to(now)
	t.gone.to(now)
	t.missed.to(now)
}

// asked counts a request before it is decided.
//
// The true count is that before the request, as a limiter has to decide before it counts.
func (t *tally) asked(q *turn) error {
	t.figures.Asked++
	t.series.Asked[t.at(q.at)]++
	t.half(q.at).asked++
	t.went[q.client] = max(t.went[q.client], 0)
	t.largest = max(t.largest, q.cost)
	truth := t.seen.sums[q.key]
	t.truths += uint64(truth)
	if t.believer != nil {
		t.compare(t.believer.count(q.at, q.key, q.cost), truth, q.cost)
	}
	return t.seen.add(q.at, q.key, q.cost)
}

// compare compares what is believed of the last period with what is true.
//
// A log can't believe more than its largest count, so an error beyond that is not held against it.
func (t *tally) compare(believed, truth, cost int64) {
	switch over := believed+cost > t.count; {
	case over && truth+cost <= t.count:
		t.figures.FalsePositives++
	case !over && truth+cost > t.count:
		t.figures.FalseNegatives++
	}
	off := believed - min(truth, t.believer.most)
	if off < 0 {
		off = -off
	}
	t.errors += uint64(off)
	t.figures.WorstError = max(t.figures.WorstError, off)
}

// at is the step of an instant.
func (t *tally) at(now weir.Instant) int { return int((now - t.start) / t.step) }

func (t *tally) half(now weir.Instant) *half {
	if now%t.period < t.period/2 {
		return &t.halves[0]
	}
	return &t.halves[1]
}

// denied counts a denial. It was wrong where the events would have fitted beside all that has a
// place in the last period: what went, what waits to go, and what was missed before. A cost above
// the count never fits, so it is never denied wrongly.
func (t *tally) denied(q *turn) error {
	t.figures.Denied++
	t.series.Denied[t.at(q.at)]++
	if t.gone.sums[q.key]+t.waiting[q.key]+t.missed.sums[q.key]+q.cost <= t.count {
		t.figures.WronglyDenied++
		if err := t.missed.add(q.at, q.key, q.cost); err != nil {
			return err
		}
	}
	if t.since[q.client] == 0 {
		t.since[q.client] = q.at + 1
	}
	t.waited(q.at + 1 - t.since[q.client])
	return nil
}

func (t *tally) waited(us weir.Instant) {
	t.figures.LongestWait = max(t.figures.LongestWait, us.Duration())
}

// passed counts a request that goes after hold microseconds.
//
// A client that was denied and asks again waits from its first denial on. One that passes at once
// has waited for nothing.
func (t *tally) passed(q *turn, hold int64) {
	t.figures.Passed++
	t.series.Passed[t.at(q.at)]++
	t.half(q.at).passed++
	from := q.at + 1
	if t.since[q.client] != 0 {
		from = t.since[q.client]
	}
	t.waited(q.at + weir.Instant(hold) + 1 - from)
	t.since[q.client] = 0
	if hold > 0 {
		t.figures.Held++
		t.waiting[q.key] += q.cost
	}
}

// goes counts a request that goes now, and says whether no period of a key held
// more before.
//
// It passed wrongly where the last period, with it, holds more than the count. That is judged for
// each request at its own moment, so the request that came too much is blamed, and not those
// before it. WorstPeriod needs no other look: a sum only grows where something is added.
func (t *tally) goes(q *turn) (most bool, err error) {
	t.went[q.client] += q.cost
	if n := int64((q.at - t.start) / t.loadStep); n != t.loadAt {
		t.load, t.loadAt = 0, n
	}
	t.load += q.cost
	t.figures.PeakLoad = max(t.figures.PeakLoad, t.load)
	if q.at < t.end {
		t.series.Gone[t.at(q.at)] += q.cost
	}
	if err := t.gone.add(q.at, q.key, q.cost); err != nil {
		return false, err
	}
	sum := t.gone.sums[q.key]
	if sum > t.count && q.cost > 0 {
		t.figures.WronglyPassed++
	}
	most = sum > t.figures.WorstPeriod
	t.figures.WorstPeriod = max(t.figures.WorstPeriod, sum)
	return most, nil
}

// sum is the figures and series of what was counted.
func (t *tally) sum(naive bool) (Figures, Series) {
	f := t.figures
	f.Believes = t.believer != nil
	f.MeanError = Millionths(muldiv(t.errors, 1_000_000, uint64(f.Asked)))
	f.MeanTrue = Millionths(muldiv(t.truths, 1_000_000, uint64(f.Asked)))
	// Bound depends on the largest cost that came. A naive form promises nothing, and its state is
	// not measured.
	f.Excess = max(f.WorstPeriod-t.count, 0)
	if !naive {
		f.Bound = t.limit.Bound(t.period.Duration(), t.largest)
		f.StateBytes = max(f.StateBytes, 8*int64(t.limit.Words()))
	}
	gone := int64(0)
	for _, x := range t.went {
		gone += max(x, 0)
	}
	// The mean is over all steps, also those in which nothing went.
	steps := max(int64((t.end-t.start-1)/t.loadStep), t.loadAt) + 1 // what is in line goes when nobody asks any more
	f.MeanLoad = share(gone, steps)
	f.Starved = t.starved()
	f.Jain = jain(t.went)
	return f, t.series
}

// starved is Figures.Starved. The two shares are of requests. Where nobody of the first half
// passed, there is nothing to fare worse than.
func (t *tally) starved() Millionths {
	early, late := share(t.halves[0].passed, t.halves[0].asked), share(t.halves[1].passed, t.halves[1].asked)
	if early == 0 || t.halves[1].asked == 0 {
		return 0
	}
	return max(1_000_000-share(int64(late), int64(early)), 0)
}

// jain is Jain's index of those that are not negative.
//
// Squares of events over a million clients may pass 64 bits, so big integers hold them.
func jain(xs []int64) Millionths {
	sum, squares, n := new(big.Int), new(big.Int), int64(0)
	var x big.Int
	for _, v := range xs {
		if v < 0 {
			continue
		}
		n++
		x.SetInt64(v)
		sum.Add(sum, &x)
		squares.Add(squares, x.Mul(&x, &x))
	}
	if squares.Sign() == 0 {
		return 0
	}
	sum.Mul(sum, sum).Mul(sum, big.NewInt(1_000_000))
	return Millionths(sum.Div(sum, squares.Mul(squares, big.NewInt(n))).Int64())
}

// muldiv is a × b / c, rounded down, at most the largest int64; 0 when c is 0.
//
// A result too large for an int64 is the largest one, so no figure turns negative.
func muldiv(a, b, c uint64) int64 {
	if c == 0 {
		return 0
	}
	// Div64 needs hi below c, or the quotient has more than 64 bits.
	hi, lo := bits.Mul64(a, b)
	if hi >= c {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, c)
	return int64(min(q, math.MaxInt64))
}

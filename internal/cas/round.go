package cas

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/internal/sleep"
)

// round decides some of the waiting jobs of lanes, or has them wait for the next round.
//
// Where this process was the last to write the item, it knows what the item holds, and need not
// look: a round is then one trip. That is tried only while nobody else is known to write (alone),
// and for as long as the server has to keep it.
// If it was wrong, the server refuses the swap, and the jobs wait for another round, which looks.
// So an old view costs a trip, and never a charge.
//
// A round is of its items at one moment: all of its jobs get the same now, and one write. It ends
// with each claimed job answered, or waiting again.
func (e *Engine) round(lanes []*lane) {
	noted := e.noted(lanes)
	r := round{lanes: lanes, items: make([]seenItem, len(lanes))}
	if len(noted) == 0 && r.known() {
		if e.decide(&r, nil, false) {
			return
		}
		// A denial is no write that would tell whether what we know still holds.
	}
	if err := e.look(&r, noted); err != nil {
		e.finish(e.claim(lanes, noted), err)
		return
	}
	e.decide(&r, noted, true)
}

// round is what some jobs are decided over: the items of lanes, as they were seen.
type round struct {
	lanes []*lane
	items []seenItem // by lane
	now   weir.Instant
	of    []*item // those of one job, for apply alone
}

// seenItem is an item of a round.
type seenItem struct {
	view view
	item *item
	bad  error // why it can't be read
}

// known fills in what this process knows of the items. It is false where it has to look at one.
func (r *round) known() bool {
	now := time.Now()
	for i, l := range r.lanes {
		if !l.alone || l.known.Version.Number == 0 || !now.Before(l.known.until) {
			return false
		}
		r.items[i].view = l.known
	}
	return true
}

// look reads items, and after them notes that may have left them: one that leaves
// meanwhile is seen in its item, or in its own.
func (e *Engine) look(r *round, noted []*job) error {
	// Jobs are not claimed before the answer is there. While a server is slow, callers can take
	// them back, and know that nothing was charged.
	names := make([]string, 0, len(r.lanes)+len(noted))
	for _, l := range r.lanes {
		names = append(names, l.name)
	}
	for _, j := range noted {
		names = append(names, e.noteName(j.lanes[0].name, j.kind, j.id))
	}
	cells := make([]Cell, len(names))
	e.counts.trips.Add(1)
	if err := e.Cells.Look(e.ctx, names[0], names, cells); err != nil {
		return err
	}
	for i, j := range noted {
		j.find(cells[len(r.lanes)+i])
	}
	for i, l := range r.lanes {
		r.items[i] = seenItem{view: view{Cell: cells[i]}, bad: cells[i].Err}
		e.compare(l, r.items[i].view)
	}
	return nil
}

// compare notes whether other processes have written since, and whether the server has forgotten
// what it was to keep. It is for the next rounds and for Stats; what was read decides in any case.
//
// alone becomes false by a refused swap, or by a look that finds another number than the last. It
// becomes true again by a look that finds the same number as this process's last write or look:
// nobody has written in between.
//
// A store of single items that refuses a swap, and holds the same as before, has a write on its way that
// is not done yet: that of NATS while most replicas are away.
func (e *Engine) compare(l *lane, v view) {
	if e.seen.gone(l.name, time.Since(e.opened), v.Version.Number != 0, bornOf(v.Value)) {
		e.counts.forgotten.Add(1)
	}
	same := l.known.Version == v.Version
	if l.refused || l.known.Version.Number != 0 {
		l.alone = same
	}
	l.other = l.refused && !same
	if l.refused && same && !e.Together {
		l.stuck++
	} else {
		l.stuck = 0
	}
	l.known, l.refused = view{}, false
}

// decide decides jobs over what their items held, and writes what comes out. It is false when that
// can't be known without looking at the items: where one is not to be written, no swap would tell
// that its view was old, and a denial could be one by what is long over.
//
// Jobs are decided one after the other, each over the items as those before it left them. One that
// fails by itself, such as a receipt that was settled before, leaves the items alone and the others
// to go on.
func (e *Engine) decide(r *round, noted []*job, looked bool) bool {
	// There are none where all callers have left while the server was asked.
	jobs := e.claim(r.lanes, noted)
	if len(jobs) == 0 {
		return true
	}
	// The clock is read after the look, and once: jobs of a round are decided at one moment, and
	// none at a time before it came.
	r.now = e.now()
	for i := range r.items {
		if s := &r.items[i]; s.bad == nil {
			s.item, s.bad = decodeItem(s.view.Value, r.now)
		}
	}
	if jobs = e.giveUp(jobs); len(jobs) == 0 {
		return true
	}
	for _, j := range jobs {
		// A job's error is its own answer. An answer such as weir.ErrSettled goes to the caller as
		// it is; anything else is said with the server it is about.
		if j.err = r.apply(j); j.err != nil && !record.Answers(j.err) {
			j.err = e.Cells.Explain(j.lanes[0].name, j.err)
		}
	}
	if !looked && !r.changesAllOf(jobs) {
		e.unclaim(jobs)
		return false
	}
	e.write(r, jobs, looked)
	return true
}

// apply decides a job over its items.
func (r *round) apply(j *job) error {
	r.of = r.of[:0]
	for _, l := range j.lanes {
		s := &r.items[slices.Index(r.lanes, l)]
		if s.bad != nil {
			return s.bad
		}
		r.of = append(r.of, s.item)
	}
	if j.bad != nil {
		return j.bad
	}
	return j.apply(r.now, r.of)
}

// changesAllOf is whether each item that jobs are about has to be written.
func (r *round) changesAllOf(jobs []*job) bool {
	for i, l := range r.lanes {
		if s := &r.items[i]; s.bad == nil && !s.item.changed && concerns(jobs, l) {
			return false
		}
	}
	return true
}

func concerns(jobs []*job, l *lane) bool {
	return slices.ContainsFunc(jobs, func(j *job) bool { return slices.Contains(j.lanes, l) })
}

// write writes the items that have changed if they still are what was seen, and answers the jobs or has
// them wait for another try.
//
// Items are swapped by their versions: the server refuses that when another process has written one
// of them meanwhile. Where the answer is lost, the jobs fail, and known is left as it was: the
// version in it is old if the write came through, so the next round finds out.
//
// There is no step between the server's write and the answer in which a crash could do harm. If
// this process dies before the write, nothing was charged, and nobody has heard that it was. If it
// dies after, the charge stays, for events that did not pass: that is the safe side.
func (e *Engine) write(r *round, jobs []*job, looked bool) {
	var swaps []Swap
	for i, l := range r.lanes {
		it := r.items[i].item
		if r.items[i].bad != nil || !it.changed {
			continue
		}
		it.prune(r.now)
		value, err := e.encode(r.lanes[0].name, l.name, it, r.now)
		switch {
		case err != nil:
			e.fail(r, jobs, err, looked)
			return
		case len(value) > e.MaxValue:
			e.refuse(l, jobs)
			return
		}
		swaps = append(swaps, Swap{Name: l.name, Seen: r.items[i].view.Version, Value: value, Keep: it.keep(r.now) + skew + e.longer})
	}
	if len(swaps) > 0 { // else all were denied, or only looked
		written, err := e.Cells.Swap(e.ctx, r.lanes[0].name, swaps)
		if !errors.Is(err, ErrEpoch) {
			e.counts.trips.Add(1)
		}
		switch {
		case err != nil:
			e.fail(r, jobs, err, looked)
			return
		case !written:
			e.again(r, jobs, looked)
			return
		}
	}
	e.learn(r, swaps)
	e.finish(jobs, nil)
}

// fail answers jobs that could not be written. If what was known of the items is of another epoch, nothing
// was sent: they are looked at, and decided again.
func (e *Engine) fail(r *round, jobs []*job, err error, looked bool) {
	if looked || !errors.Is(err, ErrEpoch) {
		e.finish(jobs, err)
		return
	}
	for _, l := range r.lanes {
		l.known = view{}
	}
	e.unclaim(jobs)
}

// refuse has jobs of an item that would become too large decided again, fewer of them at a time, and the others
// of the round, too. One that is too large alone fails.
func (e *Engine) refuse(l *lane, jobs []*job) {
	of := slices.Clone(jobs)
	of = slices.DeleteFunc(of, func(j *job) bool { return !slices.Contains(j.lanes, l) })
	if l.most = len(of) / 2; l.most > 0 {
		e.unclaim(jobs)
		return
	}
	e.unclaim(slices.DeleteFunc(jobs, func(j *job) bool { return j == of[0] }))
	e.finish(of, e.Cells.Explain(l.name, errLarge(e.MaxValue)))
}

// learn keeps what was seen and written for the next rounds: they may swap the version of a write
// without a look. swaps are of the items that have changed, in the order of the lanes.
func (e *Engine) learn(r *round, swaps []Swap) {
	for i, l := range r.lanes {
		v, it := r.items[i].view, r.items[i].item
		if r.items[i].bad != nil {
			continue
		}
		life := it.keep(r.now)
		if it.changed {
			v.Cell, life, swaps = Cell{Value: swaps[0].Value, Version: swaps[0].Version}, swaps[0].Life, swaps[1:]
		} else if v.Version.Number == 0 {
			continue
		}
		// Until then the server has to keep the item no longer than life; later it may be gone, and a
		// swap over it would be refused as if another process had written.
		e.seen.see(l.name, sighting{it.born, time.Since(e.opened) + life})
		l.known, l.most, l.stuck = view{}, 0, 0
		// A larger item is not remembered: maxLanes views of maxKnown bytes are 128 MiB already.
		if len(v.Value) <= maxKnown {
			l.known = view{Cell{Value: v.Value, Version: v.Version}, time.Now().Add(life)}
		}
	}
}

// again has jobs wait for another try, for another process has written one of their items. A decision made
// without looking was no try. Of several items, the next look tells which of them it was.
//
// The pause before the next try is drawn from a longer time each time, so that processes that write the
// same item get out of step. All that wait go together in the next round, so of a process at most one swap
// is on its way for an item, and with each refused swap another process got on: never do all fail.
//
// Callers that have left are not told apart: their jobs go on, up to maxTries like all.
func (e *Engine) again(r *round, jobs []*job, looked bool) {
	for i, l := range r.lanes {
		l.known, l.alone, l.refused = r.items[i].view, false, true
	}
	e.counts.lost.Add(1)
	if !looked {
		e.unclaim(jobs)
		return
	}
	most := 0
	for _, j := range jobs {
		j.refused, most = true, max(most, j.tries+1)
	}
	for _, l := range r.lanes {
		most = max(most, min(l.stuck+1, mostDoubled))
	}
	e.unclaim(jobs)
	_ = sleep.For(e.ctx, rand.N(firstPause<<most)) // closed: the next try says so
}

// giveUp counts the tries of jobs whose items another process had written when they were refused, and gives
// up those that had maxTries. It returns the others.
func (e *Engine) giveUp(jobs []*job) []*job {
	var busy []*job
	jobs = slices.DeleteFunc(jobs, func(j *job) bool {
		if j.refused && slices.ContainsFunc(j.lanes, func(l *lane) bool { return l.other }) {
			j.tries++
		}
		j.refused = false
		if j.tries < maxTries {
			return false
		}
		busy = append(busy, j)
		return true
	})
	if len(busy) == 0 {
		return jobs
	}
	e.counts.busy.Add(int64(len(busy)))
	e.finish(busy, fmt.Errorf("%s: other processes wrote the count during all %d tries: %w", e.Package, maxTries, weir.ErrBusy))
	return jobs
}

// firstPause is half of the longest pause before the second try; each further one
// may be twice as long. It is a few round trips: shorter ones left more jobs
// without an answer (BenchmarkTake, one key, many stores).
const firstPause = time.Millisecond

// mostDoubled is how often that is doubled at most, where a write of the item is on its way for long: 64 ms.
const mostDoubled = 6

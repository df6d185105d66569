package cas

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/internal/sleep"
)

// round decides some of the waiting jobs, or has them wait for the next round.
//
// Where this process was the last to write the item, it knows what the item holds, and need not
// look: a round is then one trip. That is tried only while nobody else is known to write (alone),
// over the connection that the item was written by, and for as long as the server has to keep it.
// If it was wrong, the server refuses the swap, and the jobs wait for another round, which looks.
// So an old view costs a trip, and never a charge.
//
// A round is of one item at one moment: all of its jobs get the same now, and one write. It ends
// with each claimed job answered, or waiting again.
func (e *Engine) round(l *lane) {
	noted := e.noted(l)
	if len(noted) == 0 && l.alone && l.known.Version.Number != 0 && time.Now().Before(l.known.until) {
		if e.decide(l, l.known, nil, false) {
			return
		}
		// A denial is no write that would tell whether what we know still holds.
	}
	v, err := e.look(l, noted)
	if err != nil {
		e.finish(e.claim(l, noted), err)
		return
	}
	e.decide(l, v, noted, true)
}

// look reads the item, and after it notes that may have left it: one that leaves
// meanwhile is seen in the item, or in its own.
func (e *Engine) look(l *lane, noted []*job) (view, error) {
	// Jobs are not claimed before the answer is there. While a server is slow, callers can take
	// them back, and know that nothing was charged.
	names := make([]string, 1, 1+len(noted))
	names[0] = l.name
	for _, j := range noted {
		names = append(names, e.noteName(l.name, j.kind, j.id))
	}
	cells := make([]Cell, len(names))
	e.counts.trips.Add(1)
	if err := e.Cells.Look(e.ctx, l.name, names, cells); err != nil {
		return view{}, err
	}
	for i, j := range noted {
		j.find(cells[i+1])
	}
	v := view{Cell: cells[0]}
	e.compare(l, v)
	return v, nil
}

// compare notes whether other processes have written since, and whether the server has forgotten
// what it was to keep. It is for the next rounds and for Stats; what was read decides in any case.
//
// alone becomes false by a refused swap, or by a look that finds another number than the last. It
// becomes true again by a look that finds the same number as this process's last write or look:
// nobody has written in between.
func (e *Engine) compare(l *lane, v view) {
	if e.seen.gone(l.name, time.Since(e.opened), v.Version.Number != 0, bornOf(v.Value)) {
		e.counts.forgotten.Add(1)
	}
	if l.known.Version.Number == 0 {
		return
	}
	l.alone = l.known.Version == v.Version
	l.known = view{}
}

// decide decides jobs over what an item held, and writes what comes out. It is false when that
// can't be known without looking at the item: when nothing is to be written, no swap would tell
// that the view was old, and a denial could be one by what is long over.
//
// Jobs are decided one after the other, each over the item as those before it left it. One that
// fails by itself, such as a receipt that was settled before, leaves the item alone and the others
// to go on.
func (e *Engine) decide(l *lane, v view, noted []*job, looked bool) bool {
	// There are none where all callers have left while the server was asked.
	jobs := e.claim(l, noted)
	if len(jobs) == 0 {
		return true
	}
	// The clock is read after the look, and once: jobs of a round are decided at one moment, and
	// none at a time before it came.
	now := e.now()
	it, err := decodeItem(v.Value, now)
	if err != nil {
		e.finish(jobs, e.Cells.Explain(l.name, err))
		return true
	}
	for _, j := range jobs {
		// A job's error is its own answer. An answer such as weir.ErrSettled goes to the caller as
		// it is; anything else is said with the server it is about.
		if j.err = j.apply(now, it); j.err != nil && !record.Answers(j.err) {
			j.err = e.Cells.Explain(l.name, j.err)
		}
	}
	if !it.changed { // all were denied, or only looked
		if !looked {
			e.unclaim(l, jobs)
			return false
		}
		e.remember(l, v, now, it)
		e.finish(jobs, nil)
		return true
	}
	e.write(l, v, it, now, jobs, looked)
	return true
}

// write writes an item if it still is what was seen, and answers the jobs or has
// them wait for another try.
//
// An item that was there is swapped by its number, and one that was not is added: the server
// refuses both when another process has written meanwhile. Where the answer is lost, the jobs fail,
// and known is left as it was: the number in it is old if the write came through, so the next round
// finds out.
//
// There is no step between the server's write and the answer in which a crash could do harm. If
// this process dies before the write, nothing was charged, and nobody has heard that it was. If it
// dies after, the charge stays, for events that did not pass: that is the safe side.
func (e *Engine) write(l *lane, v view, it *item, now weir.Instant, jobs []*job, looked bool) {
	it.prune(now)
	if err := e.spill(l.name, it, now); err != nil {
		e.finish(jobs, err)
		return
	}
	w := e.swap(l.name, v, it, now)
	if len(w[0].Value) > e.MaxValue {
		e.finish(jobs, e.Cells.Explain(l.name, errLarge(e.MaxValue)))
		return
	}
	e.counts.trips.Add(1)
	written, err := e.Cells.Swap(e.ctx, l.name, w)
	switch {
	case err != nil:
		e.finish(jobs, err)
	case written:
		e.wrote(l, it, &w[0])
		e.finish(jobs, nil)
	default:
		e.again(l, jobs, looked)
	}
}

// swap is the write of an item.
func (e *Engine) swap(name string, v view, it *item, now weir.Instant) []Swap {
	return []Swap{{Name: name, Seen: v.Version, Value: it.encode(), Keep: it.keep(now) + skew + e.longer}}
}

// wrote takes note of an item as this process has written it.
func (e *Engine) wrote(l *lane, it *item, w *Swap) {
	e.seen.see(l.name, sighting{it.born, time.Since(e.opened) + w.Life})
	// The version of this write is what the next round may swap, without a look.
	l.known = view{}
	// A larger item is not remembered: maxLanes views of maxKnown bytes are 128 MiB already.
	if len(w.Value) <= maxKnown {
		l.known = view{Cell{w.Value, w.Version}, time.Now().Add(w.Life)}
	}
}

// remember keeps what was seen for the next round. Until then the server has to keep the item no
// longer than life; later it may be gone, and a swap over it would be refused as if another process
// had written.
func (e *Engine) remember(l *lane, v view, now weir.Instant, it *item) {
	if v.Version.Number == 0 {
		return
	}
	life := it.keep(now)
	e.seen.see(l.name, sighting{it.born, time.Since(e.opened) + life})
	if len(v.Value) <= maxKnown {
		v.until = time.Now().Add(life)
		l.known = v
	}
}

// again has jobs wait for another try, for another process has written. A decision made without
// looking was no try. The pause before the next try is drawn from a longer time each time, so that
// processes that write the same item get out of step. All that wait go together in the next round,
// so of a process at most one swap is on its way for an item, and with each refused swap another
// process got on: never do all fail.
//
// Callers that have left are not told apart: their jobs go on, up to maxTries like all.
func (e *Engine) again(l *lane, jobs []*job, looked bool) {
	l.known, l.alone = view{}, false
	e.counts.lost.Add(1)
	if !looked {
		e.unclaim(l, jobs)
		return
	}
	var rest, busy []*job
	most := 0
	for _, j := range jobs {
		if j.tries++; j.tries >= maxTries {
			busy = append(busy, j)
		} else {
			rest, most = append(rest, j), max(most, j.tries)
		}
	}
	e.counts.busy.Add(int64(len(busy)))
	e.finish(busy, fmt.Errorf("%s: other processes wrote the count during all %d tries: %w", e.Package, maxTries, weir.ErrBusy))
	e.unclaim(l, rest)
	if len(rest) > 0 {
		_ = sleep.For(e.ctx, rand.N(firstPause<<most)) // closed: the next try says so
	}
}

// firstPause is half of the longest pause before the second try; each further one
// may be twice as long. It is a few round trips: shorter ones left more jobs
// without an answer (BenchmarkTake, one key, many stores).
const firstPause = time.Millisecond

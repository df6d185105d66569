package cas

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// The bounds of lanes.
const (
	// maxWaiting is how many jobs of an engine wait or are worked on; more fail with
	// weir.ErrBusy.
	//
	// It bounds the memory of takes while a server is slow. A caller beyond it hears at once that
	// nothing was decided, which serves it better than an answer that comes too late.
	maxWaiting = 1 << 14
	// maxTogether is how many jobs are decided over one state. The rest waits for
	// the next.
	//
	// It bounds how long the first of them waits for the last to be decided. Nothing is lost for
	// throughput: so many share one round trip.
	maxTogether = 256
	// maxItems is how many items a round has, if one of its jobs does not have more by itself.
	maxItems = 64
	// maxNoted is how many of them may work once, and so leave a note.
	//
	// Each costs a get beside that of the item, and up to a note more in it.
	maxNoted = 32
	// maxNotes is how many notes an item keeps itself. Older ones then go to items
	// of their own.
	maxNotes = 2 * maxNoted
	// maxTries is how often a job is tried when other processes write between look
	// and swap. Then it fails with weir.ErrBusy.
	maxTries = 4
	// maxLanes is how many items a store remembers to have seen. It looks at any other item before
	// it writes it.
	maxLanes = 1 << 15
	// maxKnown is how large an item may be to be remembered.
	maxKnown = 4 << 10
)

// lane is the jobs of one item, which are done in turns: all that wait are
// decided one after the other over one state, and written at once. So those of
// one process never try against each other.
//
// A job of several items waits in the lane of each. It is done in a round of all of them, which
// begins when none of them works. If such a job is the first that waits in a lane, the lane rests
// until the job is first in its other lanes, too, and none of them works: a job that is first is not
// passed by. Jobs join their lanes at one moment, and those that wait again go to the front of all their
// lanes at one moment. So there is one order of all jobs that fits each lane, and the job that is first
// in it can be done.
//
// A round has one goroutine, and its lanes have no other meanwhile. A lane without jobs can be
// forgotten: all that is lost with it is that it knew what the item held.
//
// A job of a lane waits, or is in the hands of the goroutine that works, or is done. mu of the engine
// guards the lists of those that wait; one in hand needs no lock.
//
// Since all jobs of one item go through one lane, the order of its charges in the process is the
// order of its rounds, and two takes of one process never see the same state. Between processes
// the versions of cells see to that.
type lane struct {
	name    string // of the item; it never changes
	running bool   // it is in a round; mu of the engine guards it
	waiting []*job // in the order in which they came; likewise

	// Only the goroutine that works uses these, without a lock: running hands them from
	// one to the next.
	//
	// known is what the item held after this process's last write or look, or the zero view. A
	// zero view costs a look. It is taken only while alone: where others write, too, a swap
	// without a look would mostly be refused.
	known view
	alone bool // nobody else wrote when we last looked
	// refused is that a swap of known and items beside it was. Then other says after the next look whether
	// another process had written this item.
	refused, other bool
	stuck          int // swaps in a row that were refused, though the looks before and after saw the same
	most           int // jobs that are claimed together, since more made the item too large; 0: maxTogether
}

// view is what an item held.
//
// It may be old: then the swap fails by its version, and the item is read anew.
type view struct {
	Cell

	until time.Time // the server keeps it so long, unless it has to evict
}

// submit has a job done, and waits for it as long as ctx lets it. An error says whether the job may
// have been done: when it could be taken back, it was not.
//
// The caller's goroutine waits here and does nothing else: the lane's goroutine decides and
// writes. So a caller that leaves takes nothing with it, and others in its round are decided all
// the same.
func (e *Engine) submit(ctx context.Context, j *job, names ...string) error {
	defer e.counts.waiting.Add(-1)
	if e.counts.waiting.Add(1) > maxWaiting {
		return e.busy()
	}
	if err := e.join(j, names); err != nil {
		return err
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
	}
	// A job that still waits was not decided, so it can't have been charged. One that was claimed
	// may be on its way in a swap.
	if e.withdraw(j) {
		return fmt.Errorf("%s: %s does not answer, nothing was decided: %w", e.Package, e.Cells.Where(names[0]), ctx.Err())
	}
	select {
	case <-j.done:
		return j.err
	default:
		return fmt.Errorf("%s: the answer of %s did not come in time, and may have been a charge: %w", e.Package, e.Cells.Where(names[0]), ctx.Err())
	}
}

func (e *Engine) busy() error {
	return fmt.Errorf("%s: %d takes wait: %w", e.Package, maxWaiting, weir.ErrBusy)
}

// join has a job wait in the lanes of its items.
func (e *Engine) join(j *job, names []string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed:
		return fmt.Errorf("%s: %w", e.Package, errClosed)
	case e.rounds >= maxWaiting:
		return e.busy() // their callers have left
	}
	j.lanes = j.room[:0]
	for _, name := range names {
		l := e.lanes[name]
		if l == nil {
			e.forget()
			l = &lane{name: name, alone: true}
			e.lanes[name] = l
		}
		j.lanes = append(j.lanes, l)
		// Here, so that forget leaves it.
		l.waiting = append(l.waiting, j)
	}
	e.joined++
	j.order = e.joined
	e.begin(j.lanes[0])
	return nil
}

// begin begins a round of a lane, if it is ready. mu is held.
//
// Jobs join and leave, rounds begin and end under one lock, and each of these begins what it has made
// ready. So no job waits in lanes that nobody works for.
func (e *Engine) begin(l *lane) {
	if lanes := e.ready(l); lanes != nil {
		e.own.Go(func() { e.work(lanes) })
	}
}

// ready takes the lanes of the next round that a lane is in: those of its first job, and those of
// further jobs of several items that fit in. It is none where the lane has no job, or its first has to
// wait for others. mu is held.
func (e *Engine) ready(l *lane) []*lane {
	if len(l.waiting) == 0 || !l.waiting[0].ready() {
		return nil
	}
	lanes := slices.Clip(l.waiting[0].lanes)
	e.rounds++
	for _, l := range lanes {
		l.running = true
	}
	if !e.Together {
		return lanes
	}
	for _, l := range lanes {
		for _, j := range l.waiting[:min(len(l.waiting), maxTogether)] {
			lanes = e.further(j, lanes)
		}
	}
	return lanes
}

// ready is whether a job can be done: none of its lanes works, and it is the first in each. mu of the
// engine is held.
func (j *job) ready() bool {
	return !slices.ContainsFunc(j.lanes, func(l *lane) bool { return l.running || l.waiting[0] != j })
}

// further adds lanes that a job needs to those of a round. It adds none if one of them works, or if
// another job is the first in it.
func (e *Engine) further(j *job, lanes []*lane) []*lane {
	all := lanes
	for _, l := range j.lanes {
		if slices.Contains(all, l) {
			continue
		}
		if l.running || l.waiting[0] != j || len(all) >= maxItems {
			return lanes
		}
		all = append(all, l)
	}
	for _, l := range all[len(lanes):] {
		l.running = true
	}
	return all
}

// forget makes room for a lane: one of the first idle ones that a map happens to
// show goes. mu is held.
//
// A lane with jobs can't go: its goroutine would write beside that of a new lane of the same item.
// They would only refuse each other's swaps, but a process should not lose against itself.
func (e *Engine) forget() {
	if len(e.lanes) < maxLanes {
		return
	}
	looked := 0 // to look at all would cost each newcomer too much, and nearly all are idle
	for name, l := range e.lanes {
		if !l.running && len(l.waiting) == 0 {
			delete(e.lanes, name)
			if len(e.lanes) < maxLanes {
				return
			}
		}
		if looked++; looked == 64 {
			return // as many as the items of all rounds and jobs may be beside maxLanes
		}
	}
}

// withdraw takes back a job that is not being decided.
//
// A job that a round could not write waits again, and can be taken back again: its swap was
// refused, so it charged nothing.
func (e *Engine) withdraw(j *job) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Contains(j.lanes[0].waiting, j) {
		return false
	}
	j.claimed = true
	for _, l := range j.lanes {
		l.leave()
	}
	for _, l := range j.lanes {
		e.begin(l) // it may have rested for this job
	}
	return true
}

// leave takes those of its jobs out of a lane that are claimed. mu is held.
func (l *lane) leave() {
	l.waiting = slices.DeleteFunc(l.waiting, func(j *job) bool { return j.claimed })
	if len(l.waiting) == 0 {
		l.waiting = nil // what it has grown to
	}
}

// work does rounds, until their lanes have no jobs that are ready.
func (e *Engine) work(lanes []*lane) {
	for lanes != nil {
		e.round(lanes)
		lanes = e.next(lanes)
	}
}

// next ends a round, and returns the lanes of the next one. Further rounds that are ready now get
// goroutines of their own. The next round of a lane begins under the same lock, and so sees known and
// alone as this one has left them.
func (e *Engine) next(lanes []*lane) []*lane {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rounds--
	for _, l := range lanes {
		l.running = false
	}
	var next []*lane
	for _, l := range lanes {
		if next == nil {
			next = e.ready(l)
		} else {
			e.begin(l)
		}
		// If the first job here waits for a lane that works, the end of that one's round begins it.
	}
	return next
}

// noted are waiting jobs that work once: their notes have to be looked for. They stay waiting
// meanwhile, so that their callers can take them back while the server is asked.
func (e *Engine) noted(lanes []*lane) []*job {
	e.mu.Lock()
	defer e.mu.Unlock()
	var noted []*job
	for _, l := range lanes {
		for _, j := range l.window() {
			if j.kind != noNote && j.fits(l, lanes) && len(noted) < maxNoted {
				noted = append(noted, j)
			}
		}
	}
	return noted
}

// claim takes waiting jobs that can be decided: those whose notes were looked for, and all that
// leave none. Jobs that came since the look are welcome: what was read is as good for them. One
// that works once has to wait for the next look, as nobody has looked yet whether its note has an
// item of its own.
func (e *Engine) claim(lanes []*lane, noted []*job) []*job {
	e.mu.Lock()
	defer e.mu.Unlock()
	most := maxTogether
	for _, l := range lanes {
		if l.most > 0 {
			most = min(most, l.most)
		}
	}
	var jobs []*job
	for _, l := range lanes {
		for _, j := range l.window() {
			if len(jobs) < most && j.fits(l, lanes) && (j.kind == noNote || slices.Contains(noted, j)) {
				j.claimed = true
				jobs = append(jobs, j)
			}
		}
	}
	for _, l := range lanes {
		l.leave()
	}
	if len(lanes) > 1 {
		slices.SortFunc(jobs, byOrder)
	}
	return jobs
}

// window is the jobs of a lane that a round looks at. mu of the engine is held.
func (l *lane) window() []*job { return l.waiting[:min(len(l.waiting), maxTogether)] }

// fits is whether a job of l can be done in a round of some lanes. It is found in one of them, the
// lane of its first item, beside which its note is.
func (j *job) fits(l *lane, lanes []*lane) bool {
	if len(j.lanes) == 1 {
		return true
	}
	return j.lanes[0] == l && !slices.ContainsFunc(j.lanes, func(l *lane) bool { return !slices.Contains(lanes, l) })
}

func byOrder(a, b *job) int { return cmp.Compare(a.order, b.order) }

// unclaim has jobs wait again, before the others. Their callers may have left; they are done all
// the same, since these callers were told that it may be so.
//
// They came first, and are decided first.
func (e *Engine) unclaim(jobs []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range slices.Backward(jobs) {
		j.claimed = false
		for _, l := range j.lanes {
			l.waiting = slices.Insert(l.waiting, 0, j)
		}
	}
}

// finish answers jobs, with an error for all of them or each with its own. A job has written all
// that is for its caller before done is closed, and writes no more.
func (e *Engine) finish(jobs []*job, err error) {
	for _, j := range jobs {
		if err != nil {
			j.err = err
		}
		close(j.done)
	}
}

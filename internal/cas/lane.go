package cas

import (
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
// A lane has at most one goroutine, from the first job that waits until none does. A lane that
// nobody works for can be forgotten: all that is lost with it is that it knew what the item held.
//
// A job of a lane is in waiting, or in the hands of the goroutine that works, or done. mu of the
// store guards the first; the second needs no lock.
//
// Since all jobs of one process go through one lane, the order of charges in the process is the
// order of its rounds, and two takes of one process never see the same state. Between processes
// the server's cas sees to that.
type lane struct {
	name    string // of the item; it never changes
	running bool   // a goroutine works; mu of the engine guards it
	waiting []*job // in the order in which they came; likewise

	// Only the goroutine that works uses these, without a lock: running hands them from
	// one to the next.
	//
	// known is what the item held after this process's last write or look, or the zero view. A
	// zero view costs a look. It is taken only while alone: where others write, too, a swap
	// without a look would mostly be refused.
	known view
	alone bool // nobody else wrote when we last looked
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
func (e *Engine) submit(ctx context.Context, name string, j *job) error {
	defer e.counts.waiting.Add(-1)
	if e.counts.waiting.Add(1) > maxWaiting {
		return fmt.Errorf("%s: %d takes wait: %w", e.Package, maxWaiting, weir.ErrBusy)
	}
	l, err := e.join(name, j)
	if err != nil {
		return err
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
	}
	// A job that still waits was not decided, so it can't have been charged. One that was claimed
	// may be on its way in a swap.
	if e.withdraw(l, j) {
		return fmt.Errorf("%s: %s does not answer, nothing was decided: %w", e.Package, e.Cells.Where(name), ctx.Err())
	}
	select {
	case <-j.done:
		return j.err
	default:
		return fmt.Errorf("%s: the answer of %s did not come in time, and may have been a charge: %w", e.Package, e.Cells.Where(name), ctx.Err())
	}
}

// join has a job wait in the lane of its item.
func (e *Engine) join(name string, j *job) (*lane, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, fmt.Errorf("%s: %w", e.Package, errClosed)
	}
	l := e.lanes[name]
	if l == nil {
		e.forget()
		l = &lane{name: name, alone: true}
		e.lanes[name] = l
	}
	// A job joins and a goroutine begins under one lock, and more ends one under the same lock. So
	// no job waits in a lane that nobody works for.
	l.waiting = append(l.waiting, j)
	if !l.running {
		l.running = true
		e.own.Go(func() { e.work(l) })
	}
	return l, nil
}

// forget makes room for a lane: one of the first idle ones that a map happens to
// show goes. mu is held.
//
// A lane that runs can't go: its goroutine would write beside that of a new lane of the same item.
// They would only refuse each other's swaps, but a process should not lose against itself.
func (e *Engine) forget() {
	if len(e.lanes) < maxLanes {
		return
	}
	looked := 0 // to look at all would cost each newcomer too much, and nearly all are idle
	for name, l := range e.lanes {
		if !l.running {
			delete(e.lanes, name)
			return
		}
		if looked++; looked == 64 {
			return // as many as there are jobs may be running beside maxLanes
		}
	}
}

// withdraw takes back a job that is not being decided.
//
// A job that a round could not write waits again, and can be taken back again: its swap was
// refused, so it charged nothing.
func (e *Engine) withdraw(l *lane, j *job) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, w := range l.waiting {
		if w == j {
			l.waiting = slices.Delete(l.waiting, i, i+1)
			return true
		}
	}
	return false
}

// work does the jobs of a lane until none waits.
func (e *Engine) work(l *lane) {
	for e.more(l) {
		e.round(l)
	}
}

// more is whether jobs still wait; where none do, the goroutine has no more turns. The next one
// begins under the same lock, in join, and so sees known and alone as this one has left them.
func (e *Engine) more(l *lane) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.running = len(l.waiting) > 0
	if !l.running {
		l.waiting = nil // what it has grown to
	}
	return l.running
}

// noted are waiting jobs that work once: their notes have to be looked for. They stay waiting
// meanwhile, so that their callers can take them back while the server is asked.
func (e *Engine) noted(l *lane) []*job {
	e.mu.Lock()
	defer e.mu.Unlock()
	var noted []*job
	for _, j := range l.waiting {
		if j.kind != noNote && len(noted) < maxNoted {
			noted = append(noted, j)
		}
	}
	return noted
}

// claim takes waiting jobs that can be decided: those whose notes were looked for, and all that
// leave none. Jobs that came since the look are welcome: what was read is as good for them. One
// that works once has to wait for the next look, as nobody has looked yet whether its note has an
// item of its own.
func (e *Engine) claim(l *lane, noted []*job) []*job {
	e.mu.Lock()
	defer e.mu.Unlock()
	var jobs, rest []*job
	for _, j := range l.waiting {
		fits := j.kind == noNote || slices.Contains(noted, j)
		if fits && len(jobs) < maxTogether {
			jobs = append(jobs, j)
		} else {
			rest = append(rest, j)
		}
	}
	l.waiting = rest
	return jobs
}

// unclaim has jobs wait again, before the others. Their callers may have left; they are done all
// the same, since these callers were told that it may be so.
func (e *Engine) unclaim(l *lane, jobs []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	// They came first, and are decided first.
	l.waiting = append(jobs, l.waiting...)
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

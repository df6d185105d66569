package unreported

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// maxBatch is of how many keys the store is told in one call. Further keys go in the next call.
const maxBatch = 64

// Batch is of how many keys the store is told in one call. One that is not atomic decides each key
// by itself, perhaps on different servers: one that fails would fail all, so each key has a call of
// its own.
func (t *Table[E]) Batch() int {
	if t.Traits().Atomic {
		return maxBatch
	}
	return 1
}

// Answer is how a report of one key has ended.
type Answer struct {
	Ask      weir.Ask // of Begin
	Decision weir.Decision
	// Began and Heard are when the call began and ended, on the clock of this process.
	Began, Heard time.Time
	// Err is why it failed: then the store may have charged the report or not.
	Err error
}

// maxRounds is how often a Report tells the store of a key at most. The second time is for what the
// report that it waited for has left.
const maxRounds = 2

// Report tells the store of entries in one call, and fails as that does. An entry whose report is
// under way it waits for, and then tells what that has left: usage of that moment is in no report, and
// the other report may have failed only because its caller has left. If one more caller was faster,
// that one tells all that is left, and Report fails as it does. So when it does not fail, the store
// has heard of all that the entries had when it began.
func (t *Table[E]) Report(ctx context.Context, entries []E) error {
	for range maxRounds {
		var err error
		if entries, err = t.reportIdle(ctx, entries); err != nil {
			return err
		}
		for _, e := range entries {
			if err := e.Base().wait(ctx); err != nil {
				return err
			}
		}
	}
	for _, e := range entries {
		if err := e.Base().outcome(); err != nil {
			return err
		}
	}
	return nil
}

// reportIdle tells the store of those entries of which no report is under way. The others are busy.
func (t *Table[E]) reportIdle(ctx context.Context, entries []E) (busy []E, err error) {
	began := time.Now()
	asks, of := make([]weir.Ask, 0, len(entries)), make([]E, 0, len(entries))
	for _, e := range entries {
		a, ok, other := t.begin(e, began)
		switch {
		case ok:
			asks, of = append(asks, a), append(of, e)
		case other:
			busy = append(busy, e)
		}
	}
	if len(asks) > 0 {
		err = t.tell(ctx, of, asks)
	}
	return busy, err
}

// begin begins a report of e, unless another one is under way.
func (t *Table[E]) begin(e E, now time.Time) (a weir.Ask, ok, other bool) {
	is := e.Base()
	is.Lock()
	defer is.Unlock()
	if is.dropped || is.underway {
		return a, false, is.underway
	}
	if a, is.underway = t.Begin(e, now); !is.underway {
		t.Drop(e)
	}
	return a, is.underway, false
}

// tell asks the store what Begin said of entries, in one call. An error may be about one of them:
// then each has a call of its own, so that one that the store refuses fails no other.
func (t *Table[E]) tell(ctx context.Context, entries []E, asks []weir.Ask) error {
	began, out := time.Now(), make([]weir.Decision, len(asks))
	err := t.Take(ctx, asks, out)
	if len(asks) > 1 && ofOne(err) {
		err = nil
		for i := range asks {
			if failed := t.tell(ctx, entries[i:i+1], asks[i:i+1]); failed != nil {
				err = failed
			}
		}
		return err
	}
	heard := time.Now()
	for i, e := range entries {
		t.end(e, Answer{asks[i], out[i], began, heard, err})
	}
	return err
}

// ofOne is whether an error may be about one ask of several: the store answers the others.
func ofOne(err error) bool {
	_, count := errors.AsType[*record.CountError](err)
	_, ask := errors.AsType[*record.AskError](err)
	return count || ask
}

// end ends the report of e, and lets those go on who wait for it. They need the lock of e for its outcome
// or for their next try, so they see what End has made of it.
func (t *Table[E]) end(e E, a Answer) {
	is := e.Base()
	is.Lock()
	defer is.Unlock()
	is.underway, is.err = false, a.Err
	if is.answer != nil {
		close(is.answer)
		is.answer = nil
	}
	t.End(e, a)
}

// ReportAll tells the store of the entries that are left, in batches. After a batch that failed it
// goes on, for other servers may be there. When some are left then, it fails with weir.ErrAway, and
// says of how many keys the store has not heard: that usage is lost if the process ends.
func (t *Table[E]) ReportAll(ctx context.Context, left func() []E) error {
	why := weir.ErrAway
	for batch := range slices.Chunk(left(), t.Batch()) {
		if err := t.Report(ctx, batch); err != nil {
			why = err
		}
	}
	lost := len(left())
	if lost == 0 {
		return nil
	}
	if !errors.Is(why, weir.ErrAway) {
		why = fmt.Errorf("%w: %w", weir.ErrAway, why)
	}
	return fmt.Errorf("usage that the store has not heard of is lost (keys: %d): %w", lost, why)
}

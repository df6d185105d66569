package unreported

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// maxBatch is of how many keys the store is told in one call.
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

// Report tells the store of entries in one call, and fails as that does. Entries whose reports are
// under way it waits for, and fails as these do. So when it does not fail, the store has heard of all
// that the entries had when it began.
func (t *Table[E]) Report(ctx context.Context, entries []E) error {
	began := time.Now()
	asks, of := make([]weir.Ask, 0, len(entries)), make([]E, 0, len(entries))
	others := map[*Entry]<-chan struct{}{}
	for _, e := range entries {
		a, ok, other := t.begin(e, began)
		switch {
		case ok:
			asks, of = append(asks, a), append(of, e)
		case other != nil:
			others[e.Base()] = other
		}
	}
	if len(asks) > 0 {
		out := make([]weir.Decision, len(asks))
		err := t.Take(ctx, asks, out)
		heard := time.Now()
		for i, e := range of {
			t.end(e, Answer{asks[i], out[i], began, heard, err})
		}
		if err != nil {
			return err
		}
	}
	for e, other := range others {
		select {
		case <-other:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := e.outcome(); err != nil {
			return err
		}
	}
	return nil
}

// begin begins a report of e. other is closed when one is over that was under way.
func (t *Table[E]) begin(e E, now time.Time) (a weir.Ask, ok bool, other <-chan struct{}) {
	is := e.Base()
	is.Lock()
	defer is.Unlock()
	switch {
	case is.dropped:
		return a, false, nil
	case is.underway:
		return a, false, is.Answer()
	}
	if a, is.underway = t.Begin(e, now); !is.underway {
		t.Drop(e)
	}
	return a, is.underway, nil
}

// end ends the report of e, and lets those go on who wait for it.
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

// ReportAll tells the store of entries in batches. After a batch that failed it goes on, for other
// servers may be there. It then fails with weir.ErrAway, and says of how many keys the store has
// not heard: that usage is lost if the process ends.
func (t *Table[E]) ReportAll(ctx context.Context, entries []E) error {
	lost, why := 0, error(nil)
	for batch := range slices.Chunk(entries, t.Batch()) {
		if err := t.Report(ctx, batch); err != nil {
			lost, why = lost+len(batch), err
		}
	}
	if lost == 0 {
		return nil
	}
	if !errors.Is(why, weir.ErrAway) {
		why = fmt.Errorf("%w: %w", weir.ErrAway, why)
	}
	return fmt.Errorf("usage that the store has not heard of is lost (keys: %d): %w", lost, why)
}

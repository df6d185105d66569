// Package cas decides over any store that can compare and swap: one that keeps small values under
// names, and writes one only where it still is what was seen. What the store is, Cells says; the
// engine brings the rest, so a store is its protocol, its URL and its statistics.
//
// One item keeps all limits of a descriptor. It is read, decided on by the same functions as in
// memory, and swapped in if no other process has written meanwhile: two round trips, one where this
// process was the last to write, one for a first denial, and none for those like it within a second.
// Takes of one item that meet in a process are decided one after the other and written at once;
// between processes up to four tries decide, then weir.ErrBusy says that nothing was.
//
// Why no limit is passed while the store keeps an item: a swap names the version of the write which
// was read, and the store refuses it when there was another since. So each write stands on the one
// before it, and no charge is written over. All limits of a descriptor are in one item, hence they
// are charged together or not at all. A take of several descriptors is one swap where the store can
// swap several items at one moment. Else it looks at all, charges one after the other and gives back
// when one denies after all: meanwhile others may be denied, and none passes too much.
//
// An answer that is lost may have been a charge; the error says so. It is not tried again, unless
// the take asked for Once: then a note in the same item tells whether it was charged.
//
// In the code, cells.go is what a store brings, lane.go says which takes are decided together and
// round.go decides them, item.go is what is kept.
package cas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// Engine is a weir.Store over cells. It must be made by New and closed. Its methods may be called
// from many goroutines.
//
// Goroutines: each round has one. All are in own, and Close waits for them. Callers wait on
// their own goroutines and touch nothing of a lane but running and waiting, under mu.
//
// Processes act on each other through the items alone. A process that crashes takes with it what
// it knew of items, denials and sightings; none of it is a count.
type Engine struct {
	Config

	longer time.Duration // items are kept so much longer, where Clock is a test's

	ctx    context.Context // until Close; of what the engine does by itself
	cancel context.CancelFunc
	own    sync.WaitGroup // all goroutines

	// mu is held for moments only, never while a server is asked: takes of all items meet here.
	mu     sync.Mutex // of closed, joined, rounds, lanes, and the waiting jobs of each lane
	closed bool
	joined uint64           // jobs so far
	rounds int              // under way, about maxWaiting at most
	lanes  map[string]*lane // by the name of their item, about maxLanes at most

	// denials remember denied takes for record.DenialLife, and answer those like them without a
	// server. Others can only have used more meanwhile, unless something was given back or reset:
	// this is seen when a second is over.
	//
	// They are dated by this process's clock, and so are the decisions: no other clock has a say
	// in how long a denial is remembered.
	denials *record.Denials
	// given is for Reset. A receipt that another process gave by a clock ahead of ours may still
	// give back what it charged just before a reset.
	given  record.Latest // when this process gave its last receipt
	opened time.Time
	seen   sightings // of items, to tell one that was evicted from one that never was
	counts counts
}

// New makes an engine over cells, and owns them from now on.
func New(c Config) *Engine {
	e := &Engine{Config: c, lanes: map[string]*lane{}, denials: record.NewDenials(), opened: time.Now()}
	e.seen.init()
	// Its context is Close's, not that of a caller: rounds serve many callers, and outlive each of
	// them.
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e
}

// At sets the clock, for a test that decides at times of its own: items are then kept longer by as
// much as its times may be ahead of the server's. It must not be called while a take is on its way.
func (e *Engine) At(clock func() weir.Instant, longer time.Duration) {
	e.Clock, e.longer = clock, longer
}

// Close ends what the engine does and its cells, and waits for it. Takes on their way fail. After
// closed is set no job joins a lane, so no goroutine begins that own would not wait for.
//
// Calls of cells fail first, so rounds that wait for answers end at once, and lanes answer their jobs
// with errors. A call that was sent may have been a charge, and its callers are told so.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.cancel()
	e.Cells.Close()
	e.own.Wait()
	return nil
}

var errClosed = errors.New("the store was closed")

// errLarge is of one descriptor, so it is a CountError, for which no breaker opens.
func errLarge(most int) error {
	return &record.CountError{Err: fmt.Errorf("the counts of one descriptor and key would take more than %d bytes", most)}
}

// counts are what Stats tells. No decision depends on them.
type counts struct {
	// waiting is the exception: by it submit refuses what is more than maxWaiting.
	waiting, takes, trips, lost, busy, spilled, forgotten atomic.Int64
}

// Stats are counts of an engine since it was made.
type Stats struct {
	Takes      int64 // takes that servers were asked
	Remembered int64 // takes denied by what was remembered of earlier denials, without a server
	Trips      int64 // looks and swaps of items that servers were asked for
	Lost       int64 // writes that came too late, for another process had written
	Busy       int64 // jobs given up with weir.ErrBusy
	Spilled    int64 // notes of receipts and first answers that went to items of their own
	Forgotten  int64 // items that this process saw, and that a server was to keep and did not: evicted, flushed, restarted
	Waiting    int64 // jobs that wait or are worked on now
}

// Stats are the engine's counts.
func (e *Engine) Stats() Stats {
	c := &e.counts
	return Stats{c.takes.Load(), e.denials.Answered(), c.trips.Load(), c.lost.Load(), c.busy.Load(), c.spilled.Load(), c.forgotten.Load(), c.waiting.Load()}
}

// Traits are those of Config.
func (e *Engine) Traits() weir.Traits { return e.Config.Traits }

// now is what this process decides by. It may step back: a count then seems to
// begin later than now, and denies for longer by the step, but passes nothing more.
func (e *Engine) now() weir.Instant {
	if e.Clock != nil {
		return e.Clock()
	}
	return weir.InstantOf(time.Now())
}

// Take decides the asks by the clock of this process. Without Together it fills in no evidence of takes
// of several items.
func (e *Engine) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.check(asks, out); err != nil || len(asks) == 0 {
		return err
	}
	if e.TakeLocally(asks, out) {
		return nil
	}
	e.counts.takes.Add(1)
	if !record.Groups(asks) {
		return e.takeTogether(ctx, asks, out, nil, e.Name(asks[0].State))
	}
	if e.Together {
		names, at := e.itemsOf(asks)
		return e.takeTogether(ctx, asks, out, at, names...)
	}
	// No swap reaches all of the items. So Apart looks at all of them at once, charges one after the
	// other, and gives back what it has charged when a later one denies or its server fails. In between
	// others may be denied, and none passes too much.
	apart := record.Apart{
		Take: func(asks []weir.Ask, out []weir.Decision) error {
			return e.takeTogether(ctx, asks, out, nil, e.Name(asks[0].State))
		},
		Settle: e.Settle,
	}
	return apart.TakeAll(ctx, asks, out)
}

// itemsOf is the names of the items that keep the counts of asks, and which of them each ask is of.
func (e *Engine) itemsOf(asks []weir.Ask) (names []string, at []int) {
	var places []weir.StateKey
	at = make([]int, len(asks))
	for i := range asks {
		place := record.Place(asks[i].State)
		if at[i] = slices.Index(places, place); at[i] < 0 {
			at[i] = len(places)
			places, names = append(places, place), append(names, e.Name(asks[i].State))
		}
	}
	return names, at
}

// TakeLocally decides asks that a remembered denial denies, as Take would, and
// says no to all others.
func (e *Engine) TakeLocally(asks []weir.Ask, out []weir.Decision) bool {
	return len(asks) == len(out) && len(asks) > 0 && e.denials.Answer(e.now(), asks, out)
}

// maxLabel is how long the part of a rule after its last # may be. Labels are kept in items as they
// are, not hashed, so their length counts against MaxValue.
const maxLabel = 1 << 10

func (e *Engine) check(asks []weir.Ask, out []weir.Decision) error {
	for i := range asks {
		if n := len(label(asks[i].State)); n > maxLabel {
			return &record.AskError{Err: fmt.Errorf("%s: the names of limits of one descriptor have %d bytes, and may have %d; give the limit a shorter name", e.Package, n, maxLabel)}
		}
	}
	return record.Check(e.Package, e.Config.Traits.Unfit, asks, out)
}

// takeTogether takes asks at one moment, of items with these names; at is as for takeJob. The job has copies of the asks and decisions: the caller may
// leave before it is done, and reuse its own.
func (e *Engine) takeTogether(ctx context.Context, asks []weir.Ask, out []weir.Decision, at []int, names ...string) error {
	t := record.NewSwap(slices.Clone(asks), make([]weir.Decision, len(out)))
	if err := e.submit(ctx, takeJob(t, at), names...); err != nil {
		return err
	}
	// The caller's decisions are written only now, by its own goroutine: a caller that left finds
	// them as they were.
	copy(out, t.Out)
	t.End(e.denials, &e.given)
	return nil
}

// Settle settles receipts of one take. Receipts of different items are settled one after the other;
// it fails with weir.ErrSettled when none was settled now.
func (e *Engine) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range settlements {
		// It is forgotten when all was written. Were it forgotten before, a take meanwhile could
		// learn anew a denial that the giving back ends.
		defer e.denials.Forget(settlements[i].Receipt.State)
	}
	return record.SettleApart(settlements, record.PlaceOf, func(part []weir.Settlement) error {
		return record.SettleCopy(part, func(part []weir.Settlement) error {
			return e.submit(ctx, settleJob(part), e.Name(part[0].Receipt.State))
		})
	})
}

// Reset forgets what was used of the keys. Receipts of them from before then
// give nothing back.
func (e *Engine) Reset(ctx context.Context, keys []weir.StateKey) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, k := range keys {
		defer e.denials.Forget(k)
	}
	for len(keys) > 0 {
		var first []weir.StateKey
		first, keys = record.Cut(keys, record.Place)
		if err := e.submit(ctx, resetJob(first, &e.given), e.Name(first[0])); err != nil {
			return err
		}
	}
	return nil
}

var _ weir.Looker = (*Engine)(nil)

// Look is the states of asks by the clock of this process. States of different items are of
// different moments.
func (e *Engine) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	states, at := make([]weir.State, len(asks)), e.now()
	for i := range asks {
		// Each look goes through the lane of its item and waits behind its takes, one after the
		// other: it is for explanations, and need not be quick.
		j, seen := lookJob(asks[i])
		if err := e.submit(ctx, j, e.Name(asks[i].State)); err != nil {
			return 0, nil, err
		}
		at, states[i] = seen.at, seen.state
	}
	return at, states, nil
}

// label is what tells the counts of an item apart.
func label(k weir.StateKey) string { return k.Rule[len(k.Placement()):] }

// noteName is the name of a note that has an item of its own. It is asked for together with the item,
// after it.
func (e *Engine) noteName(name string, kind noteKind, id uint64) string {
	return name + e.NoteMark + string(rune(kind)) + strconv.FormatUint(id, 16)
}

package guard

import (
	"context"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/here"
	"github.com/weir-limit/weir/internal/unreported"
)

// maxSwept is how many keys are looked at for one that makes place. It bounds what one take pays while
// a table is full.
const maxSwept = 16

// passed is what a fallback let pass of one key. The store is told when it is back, and before
// it is asked for the key again: so no client gets a limit twice. Nothing is told of usage that the
// store would have forgotten by then.
//
// The lock of the Entry covers all of it. Pending is the events of no report, Sent those of the report
// that is under way; an event is in one of them until the store has confirmed it. An entry with none is
// dropped, so the table has only keys with something to tell.
//
// An event may be told twice: when the store charged it, and the answer was lost. It is never left out
// for that reason. A count that is too high denies early and recovers; one that is too low passes what
// the limit forbids.
type passed struct {
	unreported.Entry
	unreported.Usage

	limit *weir.Limit // the whole one, by which the store is told; of the newest take
	part  *weir.Limit // that counted here, of the same take
	// until is when the local count is unused again. By then the store would have forgotten the
	// events, too, and no report begins. It never moves back: a later take by another limit may
	// recover sooner, but not the events before it.
	until time.Time
}

// initPassed has the table of what fallbacks let pass report to the store.
func (g *Guard) initPassed() {
	g.passed.New = func() *passed { return new(passed) }
	g.passed.Take, g.passed.Traits, g.passed.Begin, g.passed.End = g.ask, g.store.Traits, g.begin, g.end
	g.passed.Init()
}

// keep keeps what a fallback let pass of a key: so many events, whose count is as never used after
// a time. Where there is no room, it is counted and never told: the local count still has it, so this
// process does not pass it twice, but the other ones may.
//
// Pending stays within MaxCost, the most that one ask of the store may cost.
func (g *Guard) keep(k weir.StateKey, limit, part *weir.Limit, events int64, over time.Duration) {
	if g.passed.Len() >= unreported.MaxKeys {
		g.sweep(k)
	}
	e, ok := g.passed.Add(k)
	if !ok {
		g.unkept.Add(1)
		return
	}
	defer e.Unlock()
	if until := time.Now().Add(over); until.After(e.until) {
		e.until = until
	}
	e.limit, e.part, e.Pending = limit, part, min(e.Pending+events, weir.MaxCost)
}

// sweep makes place for k where some keys are as never used by now: of these there is nothing to
// tell any more. One whose report is under way stays: the end of that report still needs its entry.
func (g *Guard) sweep(k weir.StateKey) {
	for _, e := range g.passed.Near(k, maxSwept) {
		e.Lock()
		if e.Sent == 0 && !time.Now().Before(e.until) {
			g.passed.Drop(e)
		}
		e.Unlock()
	}
}

// correct takes note that what a fallback let pass turned out to be so much more, or less. A report
// that is under way, or over, stays as it is.
//
// The store gives no receipt for a report, so nothing can change it afterwards. After a refund the store
// then counts more than was used, until that recovers. After a settlement for more than the charge it
// counts less: only the local count has the difference.
func (g *Guard) correct(k weir.StateKey, more int64) {
	e, ok := g.passed.Find(k)
	if !ok {
		return
	}
	defer e.Unlock()
	if e.Pending > 0 {
		e.Pending = min(max(e.Pending+more, 0), weir.MaxCost)
	}
	if e.Events() == 0 {
		g.passed.Drop(e)
	}
}

// unheard is how many events of a key the store has not heard of, those of a report under way, too: its
// end is not known yet.
func (g *Guard) unheard(k weir.StateKey) int64 {
	e, ok := g.passed.Find(k)
	if !ok {
		return 0
	}
	defer e.Unlock()
	return e.Events()
}

// begin reports all that was let pass, as far as it is still in use here. It is charged in any
// case, beyond the limit if need be: it has happened. All pending events count as sent, also those that
// have recovered: when the store has heard of the others, nothing is left to tell of these.
func (g *Guard) begin(e *passed, now time.Time) (weir.Ask, bool) {
	if e.Pending == 0 || !now.Before(e.until) {
		return weir.Ask{}, false
	}
	e.Send(e.Pending)
	return weir.Ask{State: e.Key, Limit: e.limit, Cost: g.inUse(e), After: true}, true
}

// end keeps what the store did not hear of. If it has heard all the same, it is told twice. Events that
// fallbacks let pass while the report was under way are pending, whichever way it ended.
func (g *Guard) end(e *passed, a unreported.Answer) {
	if a.Err != nil {
		e.Return()
	} else {
		e.Confirm()
	}
	if e.Events() == 0 {
		g.passed.Drop(e)
	}
}

// inUse is how much of what is sent is still in use here: the rest was given back, or has
// recovered. It asks the local count, which recovers as the one in the store would have: so the
// store is not told of an hour's events of a limit by the second. Usage that the local store has
// forgotten counts as in use.
//
// The local count also has what the store said was used before the outage. Those events recover first,
// here and there. So what is in use beyond Sent is theirs, and the store knows them.
func (g *Guard) inUse(e *passed) int64 {
	now, states, err := g.local.Look(context.Background(), []weir.Ask{{State: localKey(e.Key), Limit: e.part}})
	if err != nil || states[0] == nil {
		return e.Sent
	}
	return min(e.Sent, e.part.Used(states[0], now))
}

// reportOf tells the store what fallbacks let pass of the keys of asks. It comes before the take of
// these keys, which would else be decided by a count that knows too little. A report that fails
// makes the take fail, and its fallback goes on counting.
//
// When the store answers all takes, the table is empty, and this costs one atomic read. Else each key
// costs a call, one after the other. Where another goroutine reports the key already, the caller waits
// for that report, and sends none.
func (g *Guard) reportOf(ctx context.Context, asks []weir.Ask) error {
	for i := 0; g.passed.Len() > 0 && i < len(asks); i++ {
		if e, ok := g.passed.Get(asks[i].State); ok {
			if here.Only(ctx) {
				return here.ErrWaits
			}
			if err := g.passed.Report(ctx, []*passed{e}); err != nil {
				return err
			}
		}
	}
	return nil
}

// reportOn tells a server, or each server where s is nil, what fallbacks let pass.
func (g *Guard) reportOn(ctx context.Context, s *server) error {
	return g.passed.ReportAll(ctx, func() []*passed { return g.passedOn(s) })
}

// passedOn is what fallbacks let pass and a server has not heard of; of all servers where s is nil. An
// entry whose report is under way is one of them, however old: its caller waits for that report.
func (g *Guard) passedOn(s *server) []*passed {
	return g.passed.All(func(e *passed) bool {
		e.Lock()
		defer e.Unlock()
		return (s == nil || g.serverOf(e.Key) == s) && (e.Sent > 0 || time.Now().Before(e.until))
	})
}

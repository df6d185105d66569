package synced

import (
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/unreported"
)

// ledger is what a node knows of one count: how it stood in the store when the
// node last heard of it, and what the node has let pass since. Its methods read
// no clock: now is a time on the store's clock, and perhaps a little behind it,
// so that nothing is thought to have recovered too soon.
//
// A node lets pass what fits in both, as long as no more than most is unreported.
// However many nodes do so, what passes is never more than they have unreported
// together beyond the limit. Look at an event that passes, and at the newest answer of the store
// that any node had by then. The event fits in the limit together with all that this answer knew
// of. What it did not know, nodes have let pass since their last report: at most most each.
//
// So a report must not go beyond the limit. Events that the store has no room for stay unreported,
// and use up what the node may let pass: they are passed once too early, not once in each
// period. That is why a report is charged only if there is room, and a node alone never passes more
// than the limit. docs/decisions/0010 has the whole argument.
type ledger struct {
	unreported.Usage

	limit *weir.Limit
	every time.Duration // of Policy.Sync, at most weir.MaxSync
	most  int64         // unreported events at a time

	known bool
	base  weir.State   // in the store
	at    weir.Instant // when it stood so
	lag   weir.Instant // how much later it may have been when the node heard
	// unsure: the last report got no answer. Then the store is looked at before it
	// is told again, so that a store that answers late is told at most twice.
	unsure bool

	until weir.Instant // the end of the fixed window in which what is pending was used
	late  bool         // some of it may belong to the window after that

	view weir.State // base with what is unreported: of one decision, kept for its memory
}

func (l *ledger) init(a *weir.Ask) {
	l.limit, l.every = a.Limit, min(a.Policy.Sync, weir.MaxSync)
	l.most, l.known, l.until = a.Limit.Unsynced(a.Policy.Sync), false, 0
}

// fits is whether the ledger is kept by the limit of a.
func (l *ledger) fits(a *weir.Ask) bool {
	return (l.limit == a.Limit || l.limit.String() == a.Limit.String()) && l.every == min(a.Policy.Sync, weir.MaxSync)
}

// verdict is who answers an ask.
type verdict uint8

const (
	byNode  verdict = iota
	tell            // the node can, once it has told the store
	byStore         // the node can't
)

// decide is what the ledger says to a; commit completes it. A node decides as long as its knowledge
// serves: not more than may be unreported, and no denial by what it heard long ago, for other nodes
// may have reset the count or given back. A report renews the knowledge in both cases, so the caller
// waits for one (tell) before it asks the store itself.
func (l *ledger) decide(now weir.Instant, a *weir.Ask, d *weir.Decision) verdict {
	if !l.known || a.Cost > l.most {
		return byStore
	}
	l.look(now)
	*d = l.limit.Decide(l.view, now, a)
	old := now > l.at+2*micros(l.every)
	switch {
	case d.Outcome != weir.Allowed && l.limit.DenialCounts():
		return byStore
	case old && (a.Peek || d.Outcome != weir.Allowed):
		return tell // others may have reset it, or given back
	case d.Outcome == weir.Allowed && !a.Peek && l.Events()+a.Cost > l.most:
		return tell
	}
	return byNode
}

// look brings view up to now.
func (l *ledger) look(now weir.Instant) {
	l.forgive(now)
	l.view = append(l.view[:0], l.base...)
	l.view = l.limit.Charge(l.view, now, l.Events())
}

// forgive forgets what was used in a fixed window that is over: the store has
// forgotten that window, too, and would count it to the next one. It keeps what may belong to the
// next window by the store's clock, of which the node knows only that it is up to lag later.
func (l *ledger) forgive(now weir.Instant) {
	if l.until > 0 && now >= l.until && !l.late {
		l.Pending = 0
	}
}

// commit carries out what was decided.
func (l *ledger) commit(now weir.Instant, a *weir.Ask, d *weir.Decision) {
	l.limit.Commit(l.view, now, a, d)
	if !d.Charged {
		return
	}
	l.late = l.late && l.Events() > 0
	l.Pending += d.Cost
	if l.limit.Algorithm() == weir.FixedWindow {
		l.until = now + micros(d.ResetAfter)
		l.late = l.late || now+l.lag >= l.until
	}
}

// full is whether the store should hear before the next ask has to wait for it.
func (l *ledger) full() bool { return 4*l.Pending >= 3*l.most }

// report begins a report of as many events as the store has room for, as far as is known. The
// rest waits, and leaves the node less. 0 only looks: where there is nothing to tell or no room, and
// after a report without an answer. The store may have charged that one, and the look shows it.
func (l *ledger) report(now weir.Instant) int64 {
	l.forgive(now)
	if l.unsure {
		return 0
	}
	return l.Send(l.room(now))
}

// room is how many of the pending events the store has room for, as far as is known.
func (l *ledger) room(now weir.Instant) int64 {
	if l.Pending == 0 || !l.known {
		return l.Pending
	}
	a := weir.Ask{Limit: l.limit, Cost: l.Pending, AtLeast: 1, Peek: true}
	if d := l.limit.Decide(l.base, now, &a); d.Outcome == weir.Allowed {
		return d.Cost
	}
	return 0
}

// learn takes note of how the count stood in the store at now, and of what was
// charged right then. Not when it knows better: a later answer was faster. It replaces what was
// known as a whole; what is unreported is beside it, and stays.
func (l *ledger) learn(now, lag weir.Instant, s weir.State, charged int64) bool {
	if l.known && now < l.at {
		return false
	}
	l.known, l.at, l.lag = true, now, lag
	l.base = append(l.base[:0], s...)
	for len(l.base) < l.limit.Words() {
		l.base = append(l.base, 0)
	}
	l.base = l.limit.Charge(l.base, now, charged)
	return true
}

// answered ends a report: the store has charged it, or had no room.
func (l *ledger) answered(charged bool) {
	l.unsure = false
	if charged {
		l.Confirm()
	} else {
		l.Return()
	}
}

// unanswered ends a report that the store may have charged or not.
func (l *ledger) unanswered() {
	l.unsure = l.unsure || l.Sent > 0
	l.Return()
}

// forget begins anew, after a reset.
func (l *ledger) forget() { l.known, l.Pending, l.late = false, 0, false }

// idle is whether the ledger may be dropped.
func (l *ledger) idle() bool { return l.Events() == 0 }

func micros(d time.Duration) weir.Instant { return weir.Instant(d / time.Microsecond) }

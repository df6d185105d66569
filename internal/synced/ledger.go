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
// of. It did not know the events that nodes have let pass since their last report: at most most each.
//
// So a report must not go beyond the limit. Events that the store has no room for stay unreported,
// and use up what the node may let pass: they are passed once too early, not once in each
// period. That is why a report is charged only if there is room, and a node alone never passes more
// than the limit. docs/decisions/0010 has the whole argument.
//
// Between two calls of its methods these hold:
//
//   - base and Usage have no event in common, unless a report is under way or got no answer. The
//     store may then have charged its events and have told another take so, and they count twice
//     here. That can only deny.
//   - No ask raises Events above most. A limit that has changed may leave more than the most of the
//     new one; then no ask is charged here until reports have brought it down.
//   - As long as known is true, base does not go back in time: learn refuses what is older.
//
// The zero ledger has no limit, and needs init.
type ledger struct {
	unreported.Usage

	limit *weir.Limit
	every time.Duration // of Policy.Sync, at most weir.MaxSync
	most  int64         // unreported events at a time: weir.Limit.Unsynced

	// known tells that base, at and lag mean something. While it is false, the store decides: after
	// init, after a reset, and after a report whose answer did not show the state.
	known bool
	base  weir.State   // in the store, with what it charged right then
	at    weir.Instant // when it stood so
	// lag is how much later than at it may have been, by the store's clock, when the node heard: as
	// long as the call took. So the store's clock now shows between now and now + lag.
	lag weir.Instant
	// unsure: the last report got no answer. Then the store is looked at before it
	// is told again, so that a store that answers late is told at most twice.
	unsure bool

	// until and late are for fixed windows, whose events end with the window. Other algorithms
	// leave until at 0, and forgive does nothing.
	until weir.Instant // the end of the fixed window in which what is pending was used
	late  bool         // some of it may belong to the window after that

	view weir.State // base with what is unreported: of one decision, kept for its memory
}

// init has the ledger kept by the limit of a from now on. Usage stays: those events have passed,
// whichever limit let them, and the store charges them by the new one.
func (l *ledger) init(a *weir.Ask) {
	l.limit, l.every = a.Limit, min(a.Policy.Sync, weir.MaxSync)
	l.most, l.known, l.until = a.Limit.Unsynced(a.Policy.Sync), false, 0
}

// fits is whether the ledger is kept by the limit of a, and reported as often as a wants. The text
// tells: rules that are loaded anew have other Limits of the same text.
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
//
// An old ledger may still allow: however old it is, no more than most passes by it before the store has
// heard. A denial that changes the state (count-denied) is the store's: one that the node makes by
// itself would not be counted.
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

// look brings view up to now. Sent events are in it beside base: the store may not have them yet.
func (l *ledger) look(now weir.Instant) {
	l.forgive(now)
	l.view = append(l.view[:0], l.base...)
	l.view = l.limit.Charge(l.view, now, l.Events())
}

// forgive forgets what was used in a fixed window that is over: the store has
// forgotten that window, too, and would count it to the next one. It keeps what may belong to the
// next window by the store's clock, of which the node knows only that it is up to lag later. Those are
// then counted to the window after theirs: a little too much, not too little.
func (l *ledger) forgive(now weir.Instant) {
	if l.until > 0 && now >= l.until && !l.late {
		l.Pending = 0
	}
}

// commit carries out what was decided by view. A ledger without unreported events has none of the next
// window either, so late begins anew with the first of them.
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

// full is whether the store should hear before the next ask has to wait for it: three quarters of
// what may be pending are. Those under way don't count, for a report has them already.
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

// room is how many of the pending events the store has room for, as far as is known. Other nodes may
// have used it meanwhile; the store then charges none of them, and they stay pending. It asks base and
// not view, for view has these events in it. Where nothing is known, the node tells all and hears.
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
// known as a whole; what is unreported is beside it, and stays. s is of before the charge, as
// weir.Evidence has it. A state that was never used may come empty, and gets its words here.
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

// unanswered ends a report that the store may have charged or not. A look that got no answer leaves
// unsure as it was: nothing was sent by it.
func (l *ledger) unanswered() {
	l.unsure = l.unsure || l.Sent > 0
	l.Return()
}

// forget begins anew, after a reset. A report that is under way can't be called back: what is Sent
// stays until that has ended.
func (l *ledger) forget() { l.known, l.Pending, l.late = false, 0, false }

// idle is whether the ledger may be dropped: nothing would be lost but knowledge, which the next take of
// the key brings again.
func (l *ledger) idle() bool { return l.Events() == 0 }

// micros is d in the unit of weir.Instant, rounded towards zero.
func micros(d time.Duration) weir.Instant { return weir.Instant(d / time.Microsecond) }

package counter

import (
	"cmp"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// tally is what a replica keeps of a key: the state by which it decides, and what it
// knows of what each node has let pass.
type tally struct {
	key   weir.StateKey
	form  *form
	state weir.State
	lines []line // by node and incarnation
	// earlier is by limits that this node was asked for before, until they would have
	// recovered.
	earlier []weir.Version

	policy weir.Partition // of the last ask
	nodes  int            // of the last ask
	born   weir.Instant   // when the replica began to keep it
	since  weir.Instant   // receipts from before give nothing back, as weir.Kept.Since
	given  weir.Instant   // the latest that a receipt was of
	scale  weight         // the last that state was charged by
	rest   int64          // what this has left over, below scale.den
	mark   int64          // the gap whose entitlement was used up
	owed   int64          // events of others, heard of while cold
	hub    int32          // Replica.hubOf its rule
	echo   *echo          // of that; nil: it has none
	cold   bool
	queued bool // it is among Replica.changed
}

// line is how many events one process of a node has let pass in one slot. A slot ends
// when the state of the key is as never used there, and other nodes had the time to hear of it. So
// of earlier slots nothing is in use any more. Slots have numbers that grow.
type line struct {
	node        int32 // Replica.peers
	incarnation uint64
	slot        uint64
	count       int64
	opened      weir.Instant // when the slot began
	changed     weir.Instant // when the count did
	heard       weir.Instant // last
	appended    int64        // of this process with a log: the count that its last Entry told
	left        uint8        // in how many turns it is still to be told
}

// form is a limit in the forms that a replica needs.
type form struct {
	limit   *weir.Limit
	owing   *weir.Limit  // charges beyond the burst are kept as debt
	horizon weir.Instant // after so long nothing of what was let pass is in use
	memory  weir.Instant // for so long counts are kept, and told
}

// form makes the form of a limit, or finds it.
func (p *Replica) form(l *weir.Limit) *form {
	if f := p.forms[l.String()]; f != nil {
		return f
	}
	if len(p.forms) >= MaxForms {
		clear(p.forms)
	}
	horizon := bounds.Horizon(l)
	f := &form{limit: l, owing: Owing(l), horizon: horizon, memory: horizon + bounds.Micros(Memory)}
	p.forms[l.String()] = f
	return f
}

// Owing is l as it charges what was let pass elsewhere, in the same state. A bucket
// forgets what is charged beyond its burst, so it gets as much debt as a limit may have.
func Owing(l *weir.Limit) *weir.Limit {
	us, _, of := l.Span(1)
	if of == 0 {
		return l // a window counts on
	}
	s := l.Spec()
	s.Debt = min(weir.MaxCount, weir.MaxDrain.Microseconds()/(us+1)-s.Burst)
	if larger, err := s.Limit(); err == nil {
		return larger
	}
	return l
}

// line is that of one process of a node.
func (r *tally) line(node int32, incarnation uint64) *line {
	at, ok := r.find(node, incarnation)
	if !ok {
		r.lines = slices.Insert(r.lines, at, line{node: node, incarnation: incarnation})
	}
	return &r.lines[at]
}

func (r *tally) find(node int32, incarnation uint64) (at int, ok bool) {
	return slices.BinarySearchFunc(r.lines, line{node: node, incarnation: incarnation}, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.incarnation, b.incarnation))
	})
}

// adopt goes over to another limit, if that may be. Used events stay used, and events that the new
// state can't hold are kept beside it.
func (r *tally) adopt(now weir.Instant, p *Replica, l *weir.Limit) {
	if r.form.limit == l || r.form.limit.String() == l.String() {
		return
	}
	if k := r.kept(); k.Become(l, now, 0) {
		r.state, r.since, r.earlier = k.State, k.Since, k.Earlier
		r.form, r.rest = p.form(l), 0
	}
}

func (r *tally) kept() weir.Kept {
	return weir.Kept{Limit: r.form.limit, State: r.state, Since: r.since, Earlier: r.earlier}
}

// hear tells the earlier limits what this one counts.
func (r *tally) hear(now weir.Instant, events int64) {
	if len(r.earlier) > 0 {
		k := r.kept()
		k.Hear(now, r.form.limit, r.state, events)
	}
}

// fresh is whether nothing is in use, by any of its limits.
func (r *tally) fresh(now weir.Instant) bool {
	k := r.kept()
	return r.form.limit.Fresh(r.state, now) && (len(r.earlier) == 0 || k.FreshAfter(now) == 0)
}

// Idle is whether the tally may be forgotten: a new one would know no less.
func (r *tally) Idle(now weir.Instant) bool {
	return !r.queued && now >= r.born+bounds.Micros(2*Sweep) && r.fresh(now)
}

// events is how many events of the state so many count for, and what is left over.
func (r *tally) events(n int64, w weight) (events, rest int64) {
	if w.num == w.den {
		return n, 0
	}
	if r.scale == w {
		rest = r.rest
	}
	most := min(n, weir.MaxCost/w.num)
	return (most*w.num + rest) / w.den, (most*w.num + rest) % w.den
}

// decide is Limit.Decide, where each event counts for w.
func (r *tally) decide(now weir.Instant, w weight, a *weir.Ask, d *weir.Decision) {
	l := r.form.limit
	if w.num == w.den || a.Cost == 0 {
		*d = l.Decide(r.state, now, a)
		return
	}
	most, _ := l.Standing(nil, now)
	if least := max(a.AtLeast, min(a.Cost, 1)); a.AtLeast == 0 && a.Cost > most || least > most {
		*d = weir.Decision{Outcome: weir.Impossible, Cost: a.Cost}
		return
	}
	scaled := *a
	scaled.Cost, scaled.AtLeast = r.whole(a.Cost, w, most), r.whole(a.AtLeast, w, most)
	*d = l.Decide(r.state, now, &scaled)
	if a.AtLeast == 0 {
		d.Cost = a.Cost
		return
	}
	d.Cost = min(max(bounds.Part(d.Cost, w.den, w.num), a.AtLeast), a.Cost)
}

// whole is what n events count for, rounded up, but no more than passes at once: a client that
// waits until all is free may always pass one request, and owes the rest.
func (r *tally) whole(n int64, w weight, most int64) int64 {
	events, rest := r.events(n, w)
	if rest > 0 {
		events++
	}
	return min(events, most)
}

// commit is Limit.Commit, where each event counts for w. It returns how many events others are to be
// told of.
func (r *tally) commit(now weir.Instant, w weight, a *weir.Ask, d *weir.Decision) (passed int64) {
	cost := d.Cost
	if d.Charged {
		d.Cost, r.rest = r.events(cost, w)
		r.scale, passed = w, cost
	}
	if a.After { // of work reported afterwards a bucket keeps what it can hold, and others hear of that
		l := r.form.limit
		before := l.Used(r.state, now)
		r.state = l.Commit(r.state, now, a, d)
		d.Cost = min(d.Cost, max(l.Used(r.state, now)-before, 0))
		passed = min(passed, bounds.Part(d.Cost, w.den, w.num))
	} else {
		r.state = r.form.owing.Commit(r.state, now, a, d)
	}
	if d.Charged {
		r.hear(now, d.Cost)
	}
	d.Cost = cost
	d.Remaining = bounds.Part(d.Remaining, w.den, w.num)
	if d.Receipt != nil {
		d.Receipt.Limit, d.Receipt.Cost = r.form.limit, cost
		d.Date(max(r.born, r.since))
		r.given = max(r.given, d.Receipt.Taken)
	}
	return passed
}

// charge counts events that other nodes have let pass.
func (r *tally) charge(now weir.Instant, events int64, w weight) {
	if events <= 0 || w.num == 0 {
		return
	}
	events, r.rest = r.events(min(events, weir.MaxCost), w)
	r.scale = w
	r.state = r.form.owing.Charge(r.state, now, events)
	r.hear(now, events)
}

// free is how many events would pass.
func (r *tally) free(now weir.Instant) int64 {
	free, _ := r.form.limit.Standing(r.state, now)
	return free
}

// warm charges what was heard of while the tally was cold, as far as there is room:
// most of it may be from long ago.
func (r *tally) warm(now weir.Instant) {
	r.charge(now, min(r.owed, r.free(now)), weight{1, 1})
	r.owed = 0
}

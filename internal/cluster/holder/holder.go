// Package holder decides about requests for a key by a lease, or asks the key's owner: what a node keeps of each key
// that it is asked about.
package holder

import (
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/table"
)

// The bounds of asking.
const (
	// MaxWaiting is how many requests of one key wait at a node for its owner; more
	// are denied.
	MaxWaiting = 64
	// AskBudget is how many messages a second a node spends on a key before it
	// takes leases instead of asking for each request.
	AskBudget = 50
)

// Holder is what a node keeps of a key that it is asked about: its lease, its ask
// under way, and the requests that wait for it.
type Holder struct {
	// The fields that a decision by the lease reads come first: three lines of a processor's cache.
	limit          *weir.Limit
	row            table.Row[*Holder] // where its key is
	all            int64              // the most that passes at once
	granted, spent int64              // under the lease, since it began
	expires        weir.Instant
	free           int64        // which the owner has for anybody, as it said last
	fresh          weir.Instant // when the limit is as never used, as it said last
	demand         meter
	used           weir.Instant    // last
	sticky         bool            // the last request was, and had
	policy         protocol.Policy // this one
	tight          bool            // the limit is not more than what passes in a Horizon: others wait for each report
	waiting        []waiting
	place          *member.Place     // of the key, in one view; other keys share it
	far            protocol.Distance // of its owner
	own            bool              // that is this node

	pace        int64
	incarnation uint64  // of this node
	asks        *uint64 // of this node, so that their numbers go on when a key is forgotten

	lender  string // who gave the lease
	epoch   uint64 // of its process
	lease   uint64
	asked   uint64       // the last ask
	pending *sent        // what it says; nil: none is under way
	first   weir.Instant // when the ask was first sent
	again   weir.Instant // when it is to be sent again
	lasts   uint64       // the number of the owner's heartbeats that prolong the lease, 0: none do
	ends    weir.Instant // they do until then
	got     weir.Instant // when it was granted something last
	denied  weir.Instant // until then asking is of no use
	seen    *sight       // why; nil: not known
	least   int64        // for that many events, or more
	retry   weir.Instant // when so many pass if nobody else asks, as the owner said last
	next    weir.Instant // when one does

	due   weir.Instant // when tick has something to do; 0: never
	timed weir.Instant // when its timer is; 0: there is none
	slot  int          // of the timer
}

// nowhere is the place of a key that no view has told.
var nowhere member.Place //nolint:gochecknoglobals // it is never written, and each key would have one of its own

// New is what a node keeps of a key, with the row for its table. asks numbers the asks of the
// node, which is the process of that incarnation.
func New(key weir.StateKey, incarnation uint64, asks *uint64) *table.Row[*Holder] {
	h := &Holder{incarnation: incarnation, asks: asks, place: &nowhere}
	h.row.Key, h.row.Of = key, h
	return &h.row
}

// sent is what an ask that is under way says, for when it is sent again.
type sent struct {
	epoch, lease        uint64
	spent               int64
	least, want, demand int64
	ahead               int64
	closed              bool
}

type waiting struct {
	id    uint64
	cost  int64
	since weir.Instant
}

// Left is how many events the lease has left.
func (h *Holder) Left(now weir.Instant) int64 { // I2
	if now >= h.expires {
		return 0
	}
	return h.granted - h.spent
}

// Become goes on with a limit, which may be another version. The lease stays, but not for long.
func (h *Holder) Become(l *weir.Limit) {
	if h.limit == l {
		return
	}
	if h.lasts > 0 && h.limit.String() != l.String() {
		h.lasts, h.expires = 0, 0
	}
	h.limit, h.pace = l, protocol.Pace(l)
	h.all, _ = l.Standing(nil, 0)
	h.tight = h.all <= h.pace
}

// Knows is whether the holder is of that limit, and knows whom to ask by the view of that version.
func (h *Holder) Knows(l *weir.Limit, version uint64) bool {
	return h.limit == l && h.place.Version == version
}

// Owner is who is to be asked.
func (h *Holder) Owner() string { return h.place.Owner }

// Follow asks the owner that the view tells from now on, who is as far away as far tells. It keeps a lease of the one before,
// who holds it for as long.
func (h *Holder) Follow(now weir.Instant, v *member.View, self string, far map[string]protocol.Distance) {
	if h.place.Version != v.Version {
		p := v.Place(now, h.row.Key, nil)
		if h.place.Owner != p.Owner {
			h.pending, h.denied = nil, 0
		}
		h.place, h.own = v.Shared(&p), p.Owner == self
	}
	h.far = far[h.place.Owner]
	h.Prolong(now, v)
}

// Prolong goes on with a lease that lasts, where its owner's heartbeats allow it.
func (h *Holder) Prolong(now weir.Instant, v *member.View) {
	if h.lasts > 0 && now >= h.expires {
		h.expires = max(h.expires, min(h.ends, v.Lasts(h.lender, h.epoch, h.lasts)))
	}
}

// Take decides about a request, or lets it wait for the owner.
func (h *Holder) Take(now weir.Instant, r *protocol.Request, fx *protocol.Effects) {
	if h.Covers(now, r.Cost) {
		var d weir.Decision
		h.Spend(now, r, &d, fx)
		fx.Answer(r.ID, d)
		return
	}
	h.Notice(now, r)
	switch {
	case r.Cost > h.all:
		fx.Answer(r.ID, weir.Decision{Outcome: weir.Impossible, Cost: r.Cost, Remaining: h.remaining(now), ResetAfter: h.resetAfter(now)})
	case !h.hears():
		h.alone(r, fx)
	case h.denies(now, r.Cost):
		h.refuse(now, r.ID, r.Cost, h.wait(now, r.Cost), fx)
	case len(h.waiting) >= MaxWaiting:
		h.refuse(now, r.ID, r.Cost, protocol.Retry, fx)
	default:
		h.waiting = append(h.waiting, waiting{r.ID, r.Cost, now})
		h.ask(now, fx)
	}
}

// Covers is whether the lease answers a request of that cost.
func (h *Holder) Covers(now weir.Instant, cost int64) bool {
	return cost >= 1 && cost <= min(h.all, h.Left(now)) && len(h.waiting) == 0
}

// Decides is whether Take would answer a request of the policy that it was asked by last without asking the owner.
func (h *Holder) Decides(now weir.Instant, r *protocol.Request) bool {
	return h.Covers(now, r.Cost) || r.Policy == h.policy && h.hears() && h.denies(now, r.Cost)
}

// denies is whether the owner has told that a request of that cost would be denied.
func (h *Holder) denies(now weir.Instant, cost int64) bool { return now < h.denied && cost >= h.least }

// Spend lets a request pass that the lease covers, and asks for more when little is left.
func (h *Holder) Spend(now weir.Instant, r *protocol.Request, d *weir.Decision, fx *protocol.Effects) {
	h.Notice(now, r)
	h.allow(now, r.Cost, d)
	h.Renew(now, fx)
}

// Renew asks for more when little is left.
func (h *Holder) Renew(now weir.Instant, fx *protocol.Effects) {
	demand := h.demand.events(now)
	if (h.Left(now)-h.far.During(demand))*4 < demand && h.leases(now) {
		h.ask(now, fx)
	}
}

// Notice is what the holder learns of each request.
func (h *Holder) Notice(now weir.Instant, r *protocol.Request) {
	h.demand.count(now, r.Cost)
	h.used, h.sticky, h.policy = now, r.Sticky, r.Policy
}

// hears is whether there is somebody to ask, as the policy wants.
func (h *Holder) hears() bool {
	switch h.policy {
	case protocol.Closed:
		return h.place.Owner != "" && h.place.Owner == h.place.First && h.place.Most
	case protocol.Open:
		return h.place.Owner != "" && h.place.Owner == h.place.First
	case protocol.Proportional, protocol.Reserve, protocol.Share, protocol.Policies:
	}
	return h.place.Owner != ""
}

// alone answers a request where nobody can be asked.
func (h *Holder) alone(r *protocol.Request, fx *protocol.Effects) {
	if h.policy == protocol.Open {
		fx.Answer(r.ID, weir.Decision{Outcome: weir.Allowed, Cost: r.Cost, Degraded: weir.FallbackOpen})
		return
	}
	fx.Answer(r.ID, weir.Decision{Cost: r.Cost, RetryAfter: member.Silence, Degraded: weir.FallbackClosed})
}

func (h *Holder) allow(now weir.Instant, cost int64, d *weir.Decision) {
	h.spent += cost
	*d = weir.Decision{Outcome: weir.Allowed, Charged: true, Cost: cost, Remaining: h.remaining(now), ResetAfter: h.resetAfter(now)}
	if d.Remaining == 0 {
		d.NextAfter = max(h.next-now, 0).Duration()
	}
}

func (h *Holder) refuse(now weir.Instant, id uint64, cost int64, after time.Duration, fx *protocol.Effects) {
	d := weir.Decision{Cost: cost, Remaining: h.remaining(now), RetryAfter: after, ResetAfter: max(h.resetAfter(now), after)}
	if d.Remaining = min(d.Remaining, cost-1); d.Remaining == 0 {
		d.NextAfter = min(after, h.wait(now, 1))
	}
	fx.Answer(id, d)
}

// wait is how long it takes until a request of that cost passes if nobody else asks.
func (h *Holder) wait(now weir.Instant, cost int64) time.Duration {
	at := h.passes(cost)
	if cost >= h.least {
		at = max(at, h.denied)
	}
	if at > now {
		return (at - now).Duration()
	}
	return time.Millisecond // another has what the owner gave
}

// passes is when the limit passes a request of that cost, as far as the owner said: not
// sooner.
func (h *Holder) passes(cost int64) weir.Instant {
	switch {
	case cost == 1:
		return h.next
	case cost <= h.least || h.limit.Algorithm() == weir.FixedWindow:
		return h.retry
	}
	if us, _, of := h.limit.Span(cost - h.least); of > 0 {
		return h.retry + weir.Instant(us) + 1
	}
	return max(h.retry, h.fresh)
}

// remaining is how many events would still pass, as far as known.
func (h *Holder) remaining(now weir.Instant) int64 { return min(h.Left(now)+h.free, h.all) }

func (h *Holder) resetAfter(now weir.Instant) time.Duration { return max(h.fresh-now, 0).Duration() }

// leases is whether asking for each request would cost more than AskBudget: an ask and an
// answer for each that passes. From an owner that is far away, so few come in time.
func (h *Holder) leases(now weir.Instant) bool {
	return !h.sticky && (h.far.Far() || 2*min(h.demand.events(now), h.pace)*int64(time.Second/protocol.Horizon) > AskBudget)
}

// ask asks the owner, if it is not asked already and would not deny.
func (h *Holder) ask(now weir.Instant, fx *protocol.Effects) {
	least, want := int64(1), int64(0)
	for i, w := range h.waiting {
		if i == 0 {
			least = w.cost
		}
		want += w.cost
	}
	denied := h.denies(now, least) || now < h.denied && len(h.waiting) == 0
	if h.pending != nil || denied || !h.hears() {
		return
	}
	demand := h.demand.events(now)
	if h.leases(now) {
		want = max(want, demand+h.far.During(demand)-h.Left(now))
	}
	*h.asks++
	h.asked = *h.asks
	ahead := h.ahead(now, least)
	m := h.message(protocol.Ask, now)
	h.pending = &sent{m.Epoch, m.Lease, m.Spent, least, min(max(want, least), weir.MaxCount), demand, ahead, m.Closed}
	h.first = now
	h.send(now, fx)
}

// ahead is how many events to ask for beside, by a lease that lasts: more and more, where
// they are used up soon and there is plenty. After a lease that has lasted, and is in use still, as many again.
func (h *Holder) ahead(now weir.Instant, least int64) int64 {
	soon := now < h.got+bounds.Micros(protocol.Lasting) || h.lasts > 0
	if !soon || !h.plenty() || h.leases(now) || h.sticky || h.own {
		return 0
	}
	return min(max(4*least, 2*h.spent), h.all/64)
}

func (h *Holder) send(now weir.Instant, fx *protocol.Effects) {
	h.again = now + bounds.Micros(h.far.Retry())
	h.plan()
	p := h.pending
	fx.Send(h.place.Owner, protocol.Message{
		Kind: protocol.Ask, State: h.row.Key, Incarnation: h.incarnation, Epoch: p.epoch, ID: h.asked, Lease: p.lease, Limit: h.limit.String(),
		Spent: p.spent, Closed: p.closed, Least: p.least, Want: p.want, Demand: p.demand, Ahead: p.ahead, Policy: h.policy,
	})
}

// plan says when an ask that is under way, or somebody who waits for it, is to be looked
// after.
func (h *Holder) plan() {
	h.due = min(h.again, h.first+bounds.Micros(h.far.Asks()))
	if len(h.waiting) > 0 {
		h.due = min(h.due, h.waiting[0].since+bounds.Micros(h.far.Patience()))
	}
}

// message is a message that reports. A lease whose time is over is closed by it.
func (h *Holder) message(kind protocol.Kind, now weir.Instant) protocol.Message {
	m := protocol.Message{Kind: kind, State: h.row.Key, Incarnation: h.incarnation}
	if h.lender == h.place.Owner { // another knows nothing of it
		m.Epoch, m.Lease, m.Spent = h.epoch, h.lease, h.spent
	}
	if kind == protocol.Release || now >= h.expires {
		m.Closed = true
		h.lease, h.granted, h.spent, h.lasts = 0, 0, 0, 0
	}
	return m
}

// Receive hears the owner's answer. One to another ask than the one under way is of no
// use.
func (h *Holder) Receive(now weir.Instant, m *protocol.Message, fx *protocol.Effects) {
	if m.ID == h.asked && h.pending == nil && m.Life == 0 {
		h.called(now, fx)
	}
	if h.pending == nil || m.ID != h.asked { // I3
		return
	}
	least := h.pending.least
	h.pending = nil
	if h.lender != h.place.Owner || m.Epoch != h.epoch || m.Lease != h.lease {
		h.lender, h.epoch, h.lease, h.spent = h.place.Owner, m.Epoch, m.Lease, 0
	}
	h.granted, h.got = m.Granted, now
	h.expires = h.first + bounds.Micros(m.Life) // I2
	h.lasts, h.ends = m.Lasts, h.first+bounds.Micros(protocol.Lasting)
	h.free, h.fresh = m.Free, now+bounds.Micros(m.Fresh)
	h.denied, h.least = now+bounds.Micros(min(m.Wait, table.MaxDeny)), least
	h.retry, h.next = now+bounds.Micros(m.Retry), now+bounds.Micros(m.Next)
	h.see(m)
	h.due = now + bounds.Micros(protocol.Idle)
	for i, w := range h.waiting {
		if h.Left(now) < w.cost {
			h.short(now, i, m.Wait, fx)
			return
		}
		var d weir.Decision
		h.allow(now, w.cost, &d)
		fx.Answer(w.id, d)
	}
	h.waiting = nil
	switch {
	case h.lease == 0 || h.Left(now) > 0:
	case h.tight:
		fx.Send(h.place.Owner, h.message(protocol.Release, now))
	case h.plenty(): // when the time of the lease is over, its owner takes it for used
		h.due = 0
	}
}

// plenty is whether nobody waits for what is reported a Life later: most of the limit is
// there, and little of it comes in that time.
func (h *Holder) plenty() bool { return h.free > h.all/2 && h.all/64 >= h.pace }

// called ends the lease, which the owner wants back, and what it knows of a denial.
func (h *Holder) called(now weir.Instant, fx *protocol.Effects) {
	h.denied, h.expires, h.lasts = min(h.denied, now), min(h.expires, now), 0
	if h.lease != 0 && h.lender == h.place.Owner {
		fx.Send(h.place.Owner, h.message(protocol.Release, now))
	}
}

// short does without enough for the requests that wait, from the i-th. Requests that came while the
// owner was asked for other ones ask for themselves, unless leases will be ahead of them soon.
func (h *Holder) short(now weir.Instant, i int, wait time.Duration, fx *protocol.Effects) {
	h.waiting = h.waiting[:copy(h.waiting, h.waiting[i:])]
	if i > 0 && wait == 0 && !h.leases(now) {
		h.ask(now, fx)
	}
	if h.pending == nil {
		h.deny(now, 0, fx)
	}
}

// deny denies the requests that wait, from the i-th.
func (h *Holder) deny(now weir.Instant, i int, fx *protocol.Effects) {
	for _, w := range h.waiting[i:] {
		h.refuse(now, w.id, w.cost, h.wait(now, w.cost), fx)
	}
	h.waiting = nil
}

// Tick does what is due.
func (h *Holder) Tick(now weir.Instant, fx *protocol.Effects) {
	switch {
	case h.due == 0 || h.due > now:
	case h.pending != nil && now >= h.first+bounds.Micros(h.far.Asks()):
		h.pending = nil
		h.denied = now
		h.deny(now, 0, fx)
		h.due = now + bounds.Micros(protocol.Idle)
	case h.pending != nil:
		if h.forget(now, fx); now >= h.again {
			h.send(now, fx)
		}
		h.plan()
	case len(h.waiting) > 0: // for an owner that is not asked any more
		h.denied = now
		if h.ask(now, fx); h.pending == nil {
			h.deny(now, 0, fx)
		}
	case now < h.used+h.keeps(now):
		h.due = h.used + h.keeps(now)
	default:
		h.due = 0
		if h.lease != 0 && h.place.Owner != "" {
			fx.Send(h.place.Owner, h.message(protocol.Release, now))
		}
	}
}

// keeps is how long a lease is kept that nobody uses.
func (h *Holder) keeps(now weir.Instant) weir.Instant {
	if h.lasts > 0 && now < h.expires {
		return bounds.Micros(protocol.Lasting / 2)
	}
	return bounds.Micros(protocol.Idle)
}

// forget denies the requests that have waited too long.
func (h *Holder) forget(now weir.Instant, fx *protocol.Effects) {
	n := 0
	for n < len(h.waiting) && now-h.waiting[n].since >= bounds.Micros(h.far.Patience()) {
		h.refuse(now, h.waiting[n].id, h.waiting[n].cost, protocol.Retry, fx)
		n++
	}
	h.waiting = h.waiting[:copy(h.waiting, h.waiting[n:])]
}

// GiveBack gives the lease back, when the node leaves. While an answer is on its way, which
// counts from when the lease began, it can't be told what is left.
func (h *Holder) GiveBack(now weir.Instant, fx *protocol.Effects) {
	if h.lease != 0 && h.pending == nil && h.place.Owner != "" && !h.own {
		fx.Send(h.place.Owner, h.message(protocol.Release, now))
	}
}

// Idle is whether the holder may be forgotten. While a timer is set for it, it would not be
// gone.
func (h *Holder) Idle(now weir.Instant) bool {
	return h.pending == nil && len(h.waiting) == 0 && (h.lease == 0 || now >= h.expires) && h.timed == 0 && now >= h.denied
}

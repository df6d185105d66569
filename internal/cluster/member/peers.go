package member

import (
	"cmp"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/record"
)

// hurry is by how much sooner than after a Pulse a process tells what has changed.
const hurry = 5

// The times of heartbeats. Where there are more than 33 members they are longer, so that a
// process sends no more than 667 heartbeats a second.
const (
	// Pulse is how often a process tells each other one that it lives.
	Pulse = 50 * time.Millisecond
	// Silence is how long two processes don't hear each other until each takes the
	// other for silent.
	Silence = 300 * time.Millisecond
	// Farewell is how long a process that leaves waits for one that is silent. It may only be busy, and would take
	// the other for lost: all keys that this one may have owned would count as used.
	Farewell = time.Second
	// Flap is how long one is not heard until it is silent that was silent twice within Flapping.
	Flap     = time.Second
	Flapping = 5 * time.Second
	// Quorum is for how long a process that does not hear most of the members goes on with what
	// belongs to the first of them alone. When it is over, most of them may take the
	// silent ones for gone.
	Quorum = 25 * time.Second
)

// Peers is what a process knows of the members: which of them hear it, and whose votes it has. It
// is a state machine as Node is, one for all nodes of the process, and tells them by a View.
//
// Every member has one vote for each key. It lends it to the first member, in the
// key's rank, that it hears, and each heartbeat lends it anew for a Silence. When it falls
// silent, its vote goes to another only after the one before can't count on it any
// more, and all leases that were granted on it are over. So no vote is used twice, whichever nodes
// hear each other: what an owner grants is as much of the limit as it has votes.
type Peers struct {
	name          string
	incarnation   uint64
	began         weir.Instant
	list          []*peer // by name, this process among them
	self          *peer   // nil as long as it is not among the members
	digest        uint64  // of the names of members
	voters        uint64  // of those whose votes count
	count         int64   // how many these are
	active        bool    // its vote counts: all members have told the same names
	activated     weir.Instant
	voting        bool // it lends votes: all members have told that they count it
	leaving       bool
	parted        weir.Instant // the first of its heartbeats since that said it leaves, and has no ledgers, 0: there was none
	clean         bool         // nodes have no ledgers that are another's, as of the last heartbeat
	saved         bool         // and all that they have granted is in backups
	saves         bool         // heartbeats say so
	last          uint64       // the version then
	losses        []loss       // who went with their ledgers, the first first
	unclean       int64        // how many of these this process has noticed itself, ever
	lastConverged Convergence  // the last time that all was well
	blank         weir.Instant // until then anybody may have, as long as nobody has told; 0: somebody has
	known         bool         // all was well once
	trouble       bool         // not all were settled since all was well last
	suspects      []string     // who of them alone may be why
	changed       weir.Instant // when the list of members did, or it became active
	candidates    uint64       // the sum of the ids of those who may be the first of all members
	owning        weir.Instant // from then on nobody counts on being the first of an older list
	waits         weir.Instant // owning is not before that
	entered       weir.Instant // it has been a candidate that others know of since then
	runs          uint64       // a digest of the candidates, and of the runs of their votes; 0: not all are heard
	allClear      bool         // all others are clear of this process's keys
	pulse         weir.Instant // when Tick is to be called
	due           weir.Instant // when the next heartbeats are
	said          uint64       // the version that the last ones told of
	saidClean     bool         // whether they were Clean
	quorate       weir.Instant // when it heard most of the members last
	minority      bool         // that was longer than a Quorum ago, and it has not heard from all since
	lapsed        bool         // since all was well last it was once, or one went that may have handed its keys to another: others may have been the first
	view          *View
	versions      uint64
	sent          uint64 // heartbeats to each member
	lasting       lasting
	fenced        weir.Instant    // until then an earlier process of its name may count on its vote, 0: there is none
	resumed       map[string]bool // members that count its vote, though they have said nothing yet
}

// peer is what is known of one member.
type peer struct {
	name        string
	id          uint64
	member      bool // else it was one, and may count on votes still
	incarnation uint64

	counts bool         // its vote does, whether it is heard or not
	stays  bool         // that of the process before it did: it may live, and count on it
	leaves weir.Instant // since it said so its vote is nobody's, but leases that it granted may go on; also of the process before, until this one is active
	fresh  bool         // nobody has had its first vote before, as far as it is heard
	active weir.Instant // its vote counts since then, or earlier; 0: it does not
	heard  weir.Instant // last
	gap    weir.Instant // when it was heard again last after a silence, 0: there was none
	borne  weir.Instant // until then it is silent after a Flap only
	stamp  weir.Instant // its last
	mutual weir.Instant // the last of ours that it has echoed
	last   Heartbeat
	until  weir.Instant // its votes may be counted on until then

	// How this process stands to it.
	since     weir.Instant // it may have votes since then, 0: it may not
	order     uint64       // the heartbeats that had been sent then
	anew      bool         // that was another process of its name, and this one has had no votes yet
	back      weir.Instant // when it could have had them first, 0: it could not
	run       uint64       // counts how often it began to
	relied    weir.Instant // when it was lent votes last
	left      weir.Instant // from then on it can't count on votes any more, 0: it may have them
	vote      weir.Instant // the stamp of its own that it may count on
	gone      bool         // it is out, and was in
	of        int64        // how many votes there were then
	converged [2]uint64    // the run of its votes when all was well last
	saved     bool         // nobody but it is cut off, and it has all in backups
	shown     Stand        // what the last view and heartbeats say
	candidate bool         // it was one
	clear     bool         // of this process's keys
}

// NewPeers is what a process knows that starts now: nothing.
func NewPeers(now weir.Instant, name string, incarnation uint64) *Peers {
	p := &Peers{name: name, incarnation: incarnation, began: now, blank: now, trouble: true, pulse: now, quorate: now, view: &View{}}
	p.look(now, true)
	return p
}

// Found tells that no process of this cluster has been there before this one, so that no
// votes were lent, and keys begin as never used. It is to be told before anything else.
func (p *Peers) Found() { p.began, p.blank = p.began-Settle(MaxMembers), 0 }

// pulse is how often a process of n members sends heartbeats, and silence how long nothing
// is heard of one that is silent.
func pulse(n int64) weir.Instant   { return max(bounds.Micros(Pulse), weir.Instant(n)*1500) }
func silence(n int64) weir.Instant { return max(bounds.Micros(Silence), 4*pulse(n)) }

// Settle is how long a vote rests that goes from one member to another: the one before
// may count on it for a silence, and grant leases until then.
func Settle(n int64) weir.Instant {
	return Over(silence(n) * 101 / 100)
}

// Over is when leases are over that were granted at a time or before, by the clock of who granted them.
func Over(granted weir.Instant) weir.Instant { return granted + bounds.Micros(Life+Margin) }

// Agree tells who the members are, in any order: those that have joined, and have neither
// left nor been given up. Members beyond MaxMembers, by their names, don't count.
func (p *Peers) Agree(now weir.Instant, members []Member, out *[]HeartbeatTo) {
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	members = members[:min(len(members), MaxMembers)]
	for _, x := range p.list {
		x.member = false
	}
	for _, m := range members {
		x := p.peer(m.Name)
		if x == nil {
			x = &peer{name: m.Name, id: nameHash(m.Name), counts: !p.voting, fresh: p.voting, shown: Out}
			p.list = append(p.list, x)
		}
		x.member = true
		if m.Incarnation > x.incarnation {
			p.restart(x, now, m.Incarnation)
		}
	}
	slices.SortFunc(p.list, func(a, b *peer) int { return cmp.Compare(a.name, b.name) })
	p.self = p.peer(p.name)
	digest, _ := p.names(func(x *peer) bool { return x.member })
	if digest == p.digest {
		return
	}
	p.digest = digest
	p.look(now, true)
	p.heartbeat(now, out)
}

// restart makes x a later process, which knows nothing of votes. The one before may live, and count on what it was
// lent last.
func (p *Peers) restart(x *peer, now weir.Instant, incarnation uint64) {
	before := *x
	*x = peer{name: x.name, id: x.id, member: x.member, incarnation: incarnation, counts: x.counts, order: x.order, run: x.run, shown: x.shown}
	if before.incarnation == 0 {
		x.fresh = before.fresh
		return
	}
	x.stays = before.counts && (before.stamp > 0 || before.stays)
	x.leaves, x.clear = before.leaves, before.clear && before.leaves > 0
	if !before.handed() {
		p.lose(loss{name: x.name, incarnation: before.incarnation, at: now, alone: p.suspected(x.name), saved: before.saved, of: max(p.count, 1)})
	}
	if before.since != 0 {
		x.since, x.anew, x.left = before.since, true, max(Over(now), before.relied+Settle(p.count))
		if !before.handed() { // one that has handed over has had it no more
			x.order = p.sent
		}
	}
}

// names is a digest of the names of some, and how many they are.
func (p *Peers) names(some func(*peer) bool) (digest uint64, n int64) {
	digest = record.Basis
	for _, x := range p.list {
		if some(x) {
			digest, n = record.Hash(record.Hash(digest, x.name), "\x00"), n+1
		}
	}
	return digest, n
}

func nameHash(name string) uint64 { return record.Mix(record.Hash(record.Basis, name)) }

func (p *Peers) peer(name string) *peer {
	for _, x := range p.list {
		if x.name == name {
			return x
		}
	}
	return nil
}

// Leave tells all that this process goes. It has no votes any more.
func (p *Peers) Leave(now weir.Instant, out *[]HeartbeatTo) {
	p.leaving = true
	p.look(now, true)
	p.heartbeat(now, out)
}

// Receive hears a heartbeat. One that no member would send does nothing.
func (p *Peers) Receive(now weir.Instant, from string, b *Heartbeat) {
	x := p.peer(from)
	if x == nil || x == p.self || !b.sound(now) || b.Incarnation < x.incarnation {
		return
	}
	if b.Incarnation > x.incarnation {
		p.restart(x, now, b.Incarnation)
	}
	if b.Stamp <= x.stamp {
		return // overtaken
	}
	same := b.Active == x.last.Active && b.Leaving == x.last.Leaving && b.Run == x.last.Run && b.Voters == x.last.Voters && (b.Vote > 0) == (x.last.Vote > 0) && slices.Equal(b.Others, x.last.Others)
	if b.Leaving && x.leaves == 0 {
		x.leaves, p.changed = now, now
	}
	if b.Active && !b.Leaving {
		x.leaves = 0 // the process before has left, and this one takes part
	}
	x.counts = b.Active || x.counts && (x.stamp > 0 || x.stays || p.voting)
	if now >= x.heard+silence(p.count) && x.heard > 0 {
		x.fresh = false
		x.flap(now)
	}
	x.heard = now
	x.stamp, x.mutual, x.last = b.Stamp, max(x.mutual, b.Echo), *b
	x.until = 0
	if b.Vote > 0 {
		x.until = b.Vote + bounds.Micros(b.Life) // I8
	}
	x.active = 0
	if b.Age > 0 {
		x.active = now - bounds.Micros(b.Age)
	}
	p.hear(now, b.Losses)
	if p.lends(now, x) {
		x.vote, x.relied = x.stamp, now
	}
	p.look(now, !same)
}

// booted is whether nobody can count any more on votes that an earlier process has lent.
func (p *Peers) booted(now weir.Instant) bool { // I14
	return now >= p.began+Settle(p.count) && now >= p.fenced
}

// wanted is whether x may have votes.
func (p *Peers) wanted(now weir.Instant, x *peer) bool {
	if x == p.self {
		return p.active && !p.leaving
	}
	return x.member && x.last.Active && !x.last.Leaving && (p.hears(now, x) || now < x.borne && now < x.mutual+bounds.Micros(Flap))
}

// flap notes that x is heard again. One that is silent again and again for a moment is borne with: to move its keys each
// time would cost more than to wait for it. Its votes are counted on no longer for that.
func (x *peer) flap(now weir.Instant) {
	if now < x.gap+bounds.Micros(Flapping) && x.gap > 0 {
		x.borne = now + bounds.Micros(Flapping)
	}
	x.gap = now
}

// lends is whether x is lent votes now.
func (p *Peers) lends(now weir.Instant, x *peer) bool {
	return p.voting && !p.leaving && x.since != 0 && x.left == 0 && p.wanted(now, x)
}

// look sees how this process stands to each member, and makes a new view where that or what other
// members say has changed, or the last one is old.
func (p *Peers) look(now weir.Instant, changed bool) {
	if !p.active && p.booted(now) && p.counted(func(b *Heartbeat) bool { return b.Members == p.digest }) { // I17
		p.unfence(now)
		p.active, p.activated = true, now
	}
	voters, count := p.names(func(x *peer) bool { return p.tallies(now, x) })
	if voters != p.voters {
		p.voters, p.count, p.changed, changed = voters, count, now, true
	}
	candidates := uint64(0)
	for _, x := range p.list {
		candidate := p.candidate(now, x)
		if candidate {
			candidates += x.id
		} else if x.candidate && x.leaves == 0 {
			p.waits = Over(now) // it has not left in order, and says nothing
		}
		x.candidate = candidate
		p.see(now, x)
		if stand := x.stand(now, p.count); stand != x.shown {
			x.shown, changed = stand, true
		}
	}
	if candidates != p.candidates {
		p.candidates, p.owning = candidates, Over(now)
	}
	if !p.voting && p.active && p.counted(func(b *Heartbeat) bool { return b.Voters == p.voters && b.Echo >= p.activated }) { // I17
		p.voting, p.changed, p.owning, p.entered, changed = true, now, Over(now), now, true
	}
	if p.blank > 0 && p.told(func(b *Heartbeat) bool { return b.Members == p.digest }) && slices.ContainsFunc(p.list, (*peer).knows) {
		p.blank = 0 // all have told what they know of
	}
	changed = p.poll(now) || changed
	p.suspect()
	changed = p.trust() || changed
	changed = p.hearClear(now) || changed
	if p.owning > max(now, p.waits) && p.takesOver(now) {
		p.owning, changed = max(now, p.waits), true
	}
	n := len(p.list)
	p.list = slices.DeleteFunc(p.list, func(x *peer) bool {
		out := !x.member && x.shown == Out && now >= Over(x.leaves)
		if out {
			p.forget(now, x)
			p.lapsed = p.lapsed || x.counts && !(x.clear && p.tidy()) // it may have handed its keys to another
		}
		return out
	})
	if changed || len(p.list) < n {
		p.versions++
		changed = true
		p.pulse = min(p.pulse, now+pulse(p.count)/hurry)
	}
	if changed || now >= p.view.made+pulse(p.count)/4 {
		p.view = p.show(now)
	}
}

// poll sees whether this process is on the side of the members that most are on, and is
// whether that has changed. A process that was not has to wait until all members know of each
// other: until then another member may be the first of members among which this one is not.
func (p *Peers) poll(now weir.Instant) (changed bool) {
	if p.most(now) {
		p.quorate = now
	}
	before := p.minority
	switch {
	case now >= p.quorate+bounds.Micros(Quorum): // I18
		p.minority, p.lapsed = true, true
	case p.minority && p.told(func(b *Heartbeat) bool { return b.Members == p.digest }) && p.hearsAll(now):
		p.minority = false
	}
	if p.minority == before {
		return false
	}
	p.changed, p.owning, p.waits = now, Over(now), Over(now)
	return true
}

// most is whether this process hears most of the members, itself among them, or half of
// them with the first by name.
func (p *Peers) most(now weir.Instant) bool {
	heard, all, first := 0, 0, false
	for _, x := range p.list {
		if !x.member {
			continue
		}
		hears := x == p.self || p.hears(now, x)
		if all++; hears {
			heard++
		}
		if all == 1 {
			first = hears
		}
	}
	return 2*heard > all || 2*heard == all && first
}

// hears is whether this process and x hear each other.
func (p *Peers) hears(now weir.Instant, x *peer) bool { return now < x.mutual+silence(p.count) }

// hearsAll is whether this process hears all members.
func (p *Peers) hearsAll(now weir.Instant) bool {
	return !slices.ContainsFunc(p.list, func(x *peer) bool { return x.member && x != p.self && !p.hears(now, x) })
}

// converged is whether every member is heard, and has no ledgers that are another's.
func (p *Peers) converged(now weir.Instant) bool {
	for _, x := range p.list {
		if x != p.self && (now >= x.until || !x.last.Clean || x.last.Members != p.digest) {
			return false
		}
	}
	for i := range p.losses { // what one has not told, it may know better
		l := &p.losses[i]
		if l.saved && now < l.at+bounds.Micros(toldWithin) && !p.told(func(b *Heartbeat) bool { return tells(b, l.name, l.incarnation) }) {
			return false
		}
	}
	return p.clean && p.last == p.versions
}

// tells is whether a heartbeat tells that all of a process that is gone is in backups.
func tells(b *Heartbeat, name string, incarnation uint64) bool {
	return slices.ContainsFunc(b.Losses, func(l Loss) bool { return l.Member == name && l.Incarnation == incarnation && l.Alone && l.Saved })
}

// tallies is whether the vote of x counts: it is one of all votes, lent or not.
func (p *Peers) tallies(now weir.Instant, x *peer) bool {
	if x == p.self {
		return p.active && x.member
	}
	return x.counts && (x.leaves == 0 && x.member || now < Over(x.leaves))
}

// told is whether all members have told what is so. Members that leave have no say.
func (p *Peers) told(so func(*Heartbeat) bool) bool {
	for _, x := range p.list {
		if x.member && x != p.self && !x.last.Leaving && (x.stamp == 0 || !so(&x.last)) {
			return false
		}
	}
	return p.self != nil && p.self.member
}

// see decides about x. A peer that is wanted when this process gives its first share follows no
// member.
func (p *Peers) see(now weir.Instant, x *peer) {
	wanted := p.wanted(now, x)
	switch {
	case wanted && x.since == 0 && p.voting && p.gathers(now, x):
	case wanted && x.since == 0 && p.voting:
		x.gone, x.back = false, 0 // it was cut off, and has lost nothing
		x.since, x.order, x.run = now, p.sent, max(x.run, 1)+1
	case wanted && x.since == 0:
		x.since, x.order, x.run = now-Settle(MaxMembers), max(x.order, p.sent, 1), max(x.run, 1)
	case wanted:
		if x.anew && x.left > 0 {
			x.order = p.sent // another process has it now
		}
		x.left, x.anew = 0, false
	case x.since != 0 && x.leaves > 0: // it counts on no vote any more, and its leases are over in a Life: I7
		x.left = max(now, Over(x.leaves))
	case x.since != 0 && x.left == 0:
		x.left = now
		if x.relied > 0 {
			x.left = max(now, x.relied+Settle(p.count)) // I7
		}
	}
	if !wanted {
		x.back = 0
	}
	if x.left > 0 && now >= x.left {
		x.gone, x.of = true, p.count
		x.since, x.left, x.relied, x.anew = 0, 0, 0, false
	}
}

// Parted is whether all that this process hears, or did a Farewell ago, know that it leaves, and has nothing
// any more that they would miss. Members that leave, too, miss nothing.
func (p *Peers) Parted(now weir.Instant) bool {
	return p.parted > 0 && !slices.ContainsFunc(p.list, func(x *peer) bool {
		heard := p.hears(now, x) || now < x.mutual+bounds.Micros(Farewell)
		return x.member && x != p.self && !x.last.Leaving && heard && x.mutual < p.parted
	})
}

// handed is whether x has left in order: it had no ledger any more.
func (x *peer) handed() bool { return x.last.Leaving && x.last.Clean }

// knows is whether x has told what was before this process.
func (x *peer) knows() bool { return x.stamp > 0 && !x.last.Blank }

// gathers is whether x, which is heard again, has to wait a moment for others that soon will
// be: peers that may have votes by the same heartbeat need not wait for each other.
func (p *Peers) gathers(now weir.Instant, x *peer) bool {
	if x.back == 0 {
		x.back = now
	}
	return now < x.back+2*pulse(p.count) && slices.ContainsFunc(p.list, func(y *peer) bool {
		return y.member && y.last.Active && !y.last.Leaving && now < y.heard+silence(p.count) && !p.hears(now, y)
	})
}

func (x *peer) stand(now weir.Instant, n int64) Stand {
	switch {
	case x.since == 0:
		return Out
	case x.left > 0:
		return Leaving
	case now < x.since+Settle(n):
		return Entering
	}
	return Settled
}

// Next is when Tick is to be called. It may be sooner after each call.
func (p *Peers) Next() weir.Instant { return p.pulse }

// Tick sends heartbeats when they are due, and notices who is silent. moving tells that a node
// of the process is Moving, and saved that all are Saved.
func (p *Peers) Tick(now weir.Instant, moving, saved bool, out *[]HeartbeatTo) {
	if now < p.pulse {
		return
	}
	seen := p.last == p.versions // nodes have seen what has changed
	p.clean, p.saved = !moving && seen, saved && seen
	p.last = p.versions
	p.look(now, false)
	if now >= p.due || p.said != p.versions || p.saidClean != p.cleans() {
		p.heartbeat(now, out)
	}
	if p.pulse = p.due; !p.cleans() {
		p.pulse = min(p.due, now+pulse(p.count)/hurry)
	}
}

// cleans is whether nodes have seen the last change, and have no ledgers that are another's.
func (p *Peers) cleans() bool { return p.clean && p.last == p.versions }

// heartbeat tells all other members. The caller has to go by the new view before it sends the
// heartbeats, for they tell what the view says.
func (p *Peers) heartbeat(now weir.Instant, out *[]HeartbeatTo) {
	p.sent++
	p.view = p.show(now)
	lasting := p.lasting.next(now, p.view)
	p.lasting.show(p.view)
	others, losses, age := p.unsettled(now), p.tell(now), time.Duration(0)
	clean, saves := p.cleans(), p.saved && p.last == p.versions && p.allBack()
	p.saves = saves
	p.due, p.said, p.saidClean = now+pulse(p.count), p.versions, clean
	says := p.sayClear(now)
	switch {
	case !p.leaving || !clean:
		p.parted = 0
	case p.parted == 0:
		p.parted = now
	}
	if p.active {
		age = max((now - p.activated).Duration(), time.Microsecond)
	}
	for i, x := range p.list {
		if x == p.self {
			continue
		}
		*out = append(*out, HeartbeatTo{x.name, Heartbeat{
			Incarnation: p.incarnation, Members: p.digest, Voters: p.voters, Active: p.active, Leaving: p.leaving,
			Clean: clean, Blank: p.blank > 0, Backs: true, Saved: saves, Losses: losses, Age: age,
			Stamp: now, Echo: x.stamp, Vote: x.vote, Life: time.Duration(silence(p.count)) * time.Microsecond, Run: x.run, Lasting: lasting, Others: others, Clear: says[i],
		}})
	}
}

// unsettled is others as heartbeats tell it. One that falls silent before it was settled has had no share yet: another may count on it
// still, so the others must not take it for kept (I10).
func (p *Peers) unsettled(now weir.Instant) []Other {
	return p.othersBy(func(x *peer) Stand {
		if x.shown == Leaving && now < x.since+Settle(p.count) {
			return Entering
		}
		return x.shown
	})
}

// others is how this process stands to members where that is not settled.
func (p *Peers) others() []Other { return p.othersBy(func(x *peer) Stand { return x.shown }) }

// othersBy is others, where how this process stands to each is said so.
func (p *Peers) othersBy(stand func(*peer) Stand) []Other {
	var others []Other
	for _, x := range p.list {
		if s := stand(x); s != Settled {
			others = append(others, Other{x.id, s, x.order, x.saved})
		}
	}
	return others
}

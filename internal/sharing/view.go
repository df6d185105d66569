package sharing

import (
	"cmp"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/sharing/bounds"
)

// View is what Peers knows at a time: what a Node goes by. It is never changed. The
// nil View knows of no members.
type View struct {
	version       uint64 // others with the same differ in nothing but until
	made          weir.Instant
	changed       weir.Instant // since then the version is this one
	converged     bool
	passing       bool      // it is not converged, and will be soon: members have just changed
	losses        []loss    // who has taken ledgers along
	lost          digests   // of them
	quiet         string    // the only member that others don't hear, if it had all in backups; empty: there is none
	gone          string    // the same, where all others say so, and lend it no votes
	delivered     bool      // the owners have the backups of it
	lastConverged converged // the last time that it was converged
	known         bool      // all was well once: what this process knows is all
	members       []seen    // by name
	self          int       // -1: it is not among them
	count         int64     // how many votes there are
	voting        bool
	leaving       bool
	quorum        weir.Instant // until then this process may be the first of all members
	sure          weir.Instant // until then all lend their votes to the first of the key's rank
	owning        weir.Instant // from then on nobody counts on being the first of an older list
	// The leases of this number may last until a Life after lent, or are prolonged; those of
	// earlier ones until a Life after ended.
	prolongs    uint64
	lent, ended weir.Instant
}

// converged is a time when all ledgers were where they belong.
type converged struct {
	at      weir.Instant
	version uint64  // of views then
	losses  digests // of those that were known of
}

// seen is one member in a view.
type seen struct {
	name   string
	counts bool         // its vote does
	until  weir.Instant // its votes may be counted on until then
	run    [2]uint64    // of its process, and of that, the run of its votes
	idle   bool         // it lends nothing yet
	backs  bool         // it keeps backups
	leaves bool         // it lends nothing any more
	fresh  bool         // nobody has had its first vote before
	since  weir.Instant // its vote counts since then; 0: it does not
	moved  bool         // its votes may have been another's since all was well last
	stands []Other      // to each member; nil: all are settled
	// prolongs is the number of its leases that may be used until lasts.
	prolongs uint64
	lasts    weir.Instant
}

// View is what is known now.
func (p *Peers) View() *View { return p.view }

func (p *Peers) show(now weir.Instant) *View {
	v := &View{
		version: p.versions, made: now, changed: p.view.changed, self: -1, count: p.count, voting: p.voting && !p.leaving, leaving: p.leaving,
		sure: 1<<63 - 1, owning: p.changed + bounds.Micros(Life+Margin),
	}
	if !p.minority {
		v.quorum = p.quorate + bounds.Micros(Quorum)
	}
	if p.versions != p.view.version {
		v.changed = now
	}
	p.lasting.show(v)
	for i, x := range p.list {
		s := seen{name: x.name, counts: p.tallies(now, x), until: x.until}
		if x == p.self {
			v.self, s.until = i, 1<<63-1
			s.idle, s.leaves = !v.voting, p.leaving
			if p.active {
				s.since = p.activated
			}
			s.stands = p.stands(p.others())
		} else {
			s.stands, s.run = p.stands(x.last.Others), [2]uint64{x.incarnation, x.last.Run}
			s.idle, s.leaves, s.backs = !x.last.Active || x.last.Vote == 0, x.last.Leaving, x.last.Backs
			if s.idle || s.leaves {
				s.until = 0
			}
			s.fresh, s.since, s.moved = x.fresh && x.last.Run == 1, x.active, s.run != x.converged
			s.prolongs, s.lasts = x.last.Lasting, x.last.Echo+bounds.Micros(Life)
		}
		if v.sure = min(v.sure, s.until); s.stands != nil || !s.counts || s.leaves {
			v.sure = 0
		}
		v.members = append(v.members, s)
	}
	if v.self < 0 || !v.voting {
		v.sure = 0
	}
	v.losses = slices.Clone(p.losses)
	if p.blank > 0 {
		v.losses = append(v.losses, loss{at: p.blank})
	}
	v.lost = digestsOf(v.losses)
	v.quiet, v.gone, v.delivered = p.alone()
	if v.converged = v.sure > 0 && p.converged(now); v.converged {
		p.settled()
		p.lastConverged = converged{now, p.versions, v.lost}
	}
	v.lastConverged = p.lastConverged
	v.passing = !v.converged && now < p.changed+2*settle(p.count)
	v.known = p.known
	return v
}

// Together is a View of members that all reach each other, always have, and always will: of
// a node alone, and in tests.
func Together(self string, members []Member) *View {
	v := &View{version: 1, count: int64(len(members)), voting: true, converged: true, known: true, lost: digestsOf(nil), quorum: 1<<63 - 1, sure: 1<<63 - 1}
	for _, m := range members {
		v.members = append(v.members, seen{name: m.Name, counts: true, until: 1<<63 - 1, run: [2]uint64{m.Incarnation, 1}})
	}
	slices.SortFunc(v.members, func(a, b seen) int { return cmp.Compare(a.name, b.name) })
	v.self = v.find(self)
	return v
}

// stands are how a process stands to each of the list, nil if it is settled with all.
func (p *Peers) stands(others []Other) []Other {
	var stands []Other
	for _, o := range others {
		i := slices.IndexFunc(p.list, func(x *peer) bool { return x.id == o.Member })
		if i < 0 {
			continue // which has left
		}
		if stands == nil {
			stands = make([]Other, len(p.list))
		}
		stands[i] = o
	}
	return stands
}

// incarnation is of the process that has a member's name now.
func (v *View) incarnation(name string) uint64 { return v.members[v.find(name)].run[0] }

func (v *View) has(name string) bool { return v.find(name) >= 0 }

// Converged is whether this process lends votes, and all ledgers are where they belong.
func (v *View) Converged() bool { return v.voting && v.converged }

// Minority is whether the process has not heard most of the members for a Quorum: then
// it may not be the first of them.
func (v *View) Minority() bool { return v.quorum == 0 && v.voting }

// Last is whether all other members leave, so that nobody is there to hand anything over to.
func (v *View) Last() bool {
	for i := range v.members {
		if i != v.self && !v.members[i].leaves {
			return false
		}
	}
	return true
}

// find is the index of a member, -1 if there is none of that name.
func (v *View) find(name string) int {
	i, ok := slices.BinarySearchFunc(v.members, name, func(s seen, name string) int { return cmp.Compare(s.name, name) })
	if !ok {
		return -1
	}
	return i
}

// rank is the members in the order of the key: the first owns it, if it is heard.
func (v *View) rank(key weir.StateKey) []int {
	scores := make([]uint64, len(v.members))
	order := make([]int, len(v.members))
	for i := range v.members {
		order[i], scores[i] = i, Score(v.members[i].name, key)
	}
	slices.SortFunc(order, func(a, b int) int {
		if scores[a] != scores[b] {
			return -cmp.Compare(scores[a], scores[b])
		}
		return a - b
	})
	return order
}

// place is what a node is to a key, in one view.
type place struct {
	version uint64
	at      weir.Instant // when that was found out
	owner   string       // who is asked, none if nobody may be
	first   string       // who is the first of all members
	owns    bool         // this node is, and uses votes
	most    bool         // it may be: its process is where most of the members are
	voters  []voter      // who lends its vote to this node
	count   int64        // of how many votes
	idle    []string     // who lends no votes yet
	backup  string       // who keeps the backup of what it grants, none: it has no votes but its own
	keeper  [2]uint64    // its process, and the run of its votes
}

// voter is a member whose vote a node has.
type voter struct {
	member int
	name   string
	run    [2]uint64
	kept   bool // it does not lend the vote now, but has not lent it to another either
	fresh  bool // nobody else has had it
}

// release is what an owner says that hands a key over: it counts on no vote for it.
type release struct {
	by    string
	until weir.Instant // then no vote that it had before may be counted on anyway
}

// place finds out what this node is to the key, when these have released it.
func (v *View) place(now weir.Instant, key weir.StateKey, released []release) place {
	p := place{version: v.version, at: now, count: v.count, most: v.quorum > 0}
	rank := v.rank(key)
	for _, i := range rank {
		if v.members[i].counts && !v.members[i].leaves {
			p.first, p.owns = v.members[i].name, i == v.self && v.voting
			break
		}
	}
	if v.self < 0 {
		return p
	}
	for _, i := range rank {
		if reaches(v.members[v.self].stand(i)) {
			p.owner = v.members[i].name
			break
		}
	}
	free := make([]bool, len(v.members))
	for _, r := range released {
		if i := v.find(r.by); i >= 0 && now < r.until {
			free[i] = true
		}
	}
	for m := range v.members {
		of := &v.members[m]
		if of.leaves && !of.counts {
			continue
		}
		if of.idle {
			p.idle = append(p.idle, of.name)
		}
		if !of.counts { // of who lends it before it is one of all, or still
			continue
		}
		if follows, kept := v.follows(m, rank, free); follows || kept {
			p.voters = append(p.voters, voter{m, of.name, of.run, kept || of.leaves, of.fresh})
		}
	}
	for _, i := range rank {
		if i != v.self && v.members[i].backs && reaches(v.members[v.self].stand(i)) && slices.ContainsFunc(p.voters, func(by voter) bool { return by.member == i && !by.kept }) {
			p.backup, p.keeper = v.members[i].name, v.members[i].run
			break
		}
	}
	return p
}

func (s *seen) stand(i int) Stand { return s.to(i).Stand }

func (s *seen) to(i int) Other {
	if s.stands == nil {
		return Other{}
	}
	return s.stands[i]
}

// follows is whether the m-th member lends this node its vote, and no other member can
// count on it, except those that have released the key: neither the one that it followed
// until it was settled with this node, nor any before that in the rank that it has begun to
// follow before this node, or let go. A member that it has begun to follow later, or with the same
// heartbeat, has never heard of that without hearing that this node comes first. kept tells that it
// did follow, and no other member can count on its share yet.
func (v *View) follows(m int, rank []int, released []bool) (follows, kept bool) {
	if v.members[m].idle {
		return false, false
	}
	order := v.members[m].to(v.self).Order
	for _, i := range rank {
		stand := v.members[m].stand(i)
		switch {
		case stand == Out:
		case i == v.self && stand == Leaving:
			return false, !follows
		case i == v.self && stand == Settled:
			return true, false
		case i == v.self:
			follows = true
		case stand == Settled:
			return follows && released[i], false
		case stand == Entering && follows && order <= v.members[m].to(i).Order:
		case stand == Entering && !follows, !released[i]: // I7
			return false, false
		}
	}
	return follows, false
}

// votes is how many votes a node may count on now. The votes of members that leave go to no other
// node: the node that has all other votes has them, too.
func (v *View) votes(now weir.Instant, p *place) int64 {
	if !v.voting {
		return 0
	}
	n, last := int64(0), int64(0)
	for _, by := range p.voters {
		switch of := &v.members[by.member]; {
		case of.leaves:
			last++
		case !by.kept && now < of.until: // I8
			n++
		}
	}
	if n+last == p.count {
		return p.count
	}
	return n
}

// lasting is how many votes, of how many, a node has in p that nobody else has had since it was
// in the place before: those that it had, but for what members have lent to others; and
// those of members that are new, and have lent them to nobody before.
func (v *View) lasting(p, before *place) (votes, all int64) {
	same := func(a, b voter) bool { return a.name == b.name && a.run == b.run }
	for _, old := range before.voters {
		if i := v.find(old.name); i < 0 || v.members[i].leaves || slices.ContainsFunc(p.voters, func(by voter) bool { return same(by, old) }) {
			votes++
		}
	}
	for _, by := range p.voters {
		if by.fresh && !slices.ContainsFunc(before.voters, func(old voter) bool { return same(by, old) }) && slices.Contains(before.idle, by.name) {
			votes++
		}
	}
	return votes, max(before.count, p.count, 1)
}

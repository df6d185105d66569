package member

import (
	"cmp"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// View is what Peers knows at a time: what the nodes of its process go by. It is never changed. The
// nil View knows of no members.
type View struct {
	Version uint64 // others with the same differ in nothing but until when that holds
	Count   int64  // how many votes there are
	Voting  bool   // this process lends votes
	Leaving bool   // this process goes

	Quorum weir.Instant // until then this process may be the first of all members
	Owning weir.Instant // from then on nobody counts on being the first of an older list
	Sure   weir.Instant // until then all lend their votes to the first of the key's rank

	Reached uint64 // a digest of the processes that this one reaches: which owner it hands a ledger to goes by that

	Lost          Digests     // of those who have taken ledgers along
	LastConverged Convergence // the last time that it was converged
	Delivered     bool        // the owners have the backups of the only member that is gone

	// The leases of this number may last until a Life after Lent, or are prolonged; those of
	// earlier ones until a Life after ended.
	Prolongs uint64
	Lent     weir.Instant
	ended    weir.Instant

	made      weir.Instant
	changed   weir.Instant // since then the version is this one
	converged bool
	passing   bool    // it is not converged, and will be soon: members have just changed
	allClear  bool    // nobody has anything of this process's keys
	tidy      bool    // no other process that stays has a ledger that is another's
	known     bool    // all was well once: what this process knows is all
	lapsed    bool    // others may have been the first of all members since
	losses    []loss  // who has taken ledgers along
	quiet     string  // the only member that others don't hear, if it had all in backups; empty: there is none
	gone      string  // the same, where all others say so, and lend it no votes
	members   []seen  // by name
	self      int     // -1: it is not among them
	places    *places // that keys have by views of this version
}

// Convergence is a time when all ledgers were where they belong.
type Convergence struct {
	At      weir.Instant
	Version uint64  // of views then
	Losses  Digests // of those that were known of
}

// seen is one member in a view.
type seen struct {
	name   string
	counts bool         // its vote does
	until  weir.Instant // its votes may be counted on until then
	run    [2]uint64    // of its process, and of that, the run of its votes
	idle   bool         // it lends nothing yet
	backs  bool         // it keeps backups
	leaves bool         // it lends nothing any more; also of one that starts again, until it is active
	goes   bool         // its process leaves
	clear  bool         // it has nothing of this process's keys
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
		Version: p.versions, made: now, changed: p.view.changed, self: -1, Count: p.count, Voting: p.voting && !p.leaving, Leaving: p.leaving,
		Sure: 1<<63 - 1, Owning: p.owning, members: make([]seen, 0, len(p.list)),
	}
	if !p.minority {
		v.Quorum = p.quorate + bounds.Micros(Quorum)
	}
	if v.places = p.view.places; p.versions != p.view.Version {
		v.changed, v.places = now, &places{}
	}
	p.lasting.show(v)
	for i, x := range p.list {
		v.members = append(v.members, seen{name: x.name, counts: p.tallies(now, x), until: x.until, clear: x.clear})
		s := &v.members[i]
		if reaches(x.shown) {
			v.Reached += p.process(x)
		}
		if x == p.self {
			v.self, s.until = i, 1<<63-1
			s.idle, s.leaves, s.goes = !v.Voting, p.leaving, p.leaving
			if p.active {
				s.since = p.activated
			}
			s.stands = p.stands(p.others())
		} else {
			s.stands, s.run = p.stands(x.last.Others), [2]uint64{x.incarnation, x.last.Run}
			s.idle, s.leaves, s.goes, s.backs = !x.last.Active || x.last.Vote == 0, x.leaves > 0, x.last.Leaving, x.last.Backs
			if s.idle || s.leaves {
				s.until = 0
			}
			s.fresh, s.since, s.moved = x.fresh && x.last.Run == 1, x.active, s.run != x.converged
			s.prolongs, s.lasts = x.last.Lasting, x.last.Echo+bounds.Micros(Life)
		}
		if v.Sure = min(v.Sure, s.until); s.stands != nil || !s.counts || s.leaves {
			v.Sure = 0
		}
	}
	if v.self < 0 || !v.Voting {
		v.Sure = 0
	}
	switch {
	case p.blank > 0:
		v.losses = append(slices.Clip(p.losses), loss{at: p.blank})
	case slices.Equal(p.losses, p.view.losses):
		v.losses = p.view.losses
	default:
		v.losses = slices.Clone(p.losses)
	}
	v.Lost = digestsOf(v.losses)
	v.quiet, v.gone, v.Delivered = p.alone()
	if v.converged = v.Sure > 0 && p.converged(now); v.converged {
		p.settled()
		p.lastConverged = Convergence{now, p.versions, v.Lost}
	}
	v.LastConverged = p.lastConverged
	v.passing = !v.converged && now < p.changed+2*Settle(p.count)
	v.known, v.lapsed, v.allClear, v.tidy = p.known, p.lapsed, p.allClear, p.tidy()
	return v
}

// Together is a View of members that all reach each other, always have, and always will: of
// a node alone, and in tests.
func Together(self string, members []Member) *View {
	v := &View{Version: 1, places: &places{}, Count: int64(len(members)), Voting: true, converged: true, known: true, Lost: digestsOf(nil), Quorum: 1<<63 - 1, Sure: 1<<63 - 1}
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

// Alone is whether there are no other members.
func (v *View) Alone() bool { return len(v.members) <= 1 }

// Valid is how many of the votes that a node had in p may be counted on still, by members that lend them.
func (v *View) Valid(now weir.Instant, p *Place) (votes int64) {
	for _, by := range p.Voters {
		if i := v.find(by.Name); i >= 0 && now < v.members[i].until {
			votes++
		}
	}
	return votes
}

// Incarnation is of the process that has the name of a member now; there must be one.
func (v *View) Incarnation(name string) uint64 { return v.members[v.find(name)].run[0] }

// Has is whether there is a member of that name.
func (v *View) Has(name string) bool { return v.find(name) >= 0 }

// Converged is whether this process lends votes, and all ledgers are where they belong.
func (v *View) Converged() bool { return v.Voting && v.converged }

// Passing is whether members have just changed, and all will soon be well.
func (v *View) Passing() bool { return v.passing }

// Minority is whether the process has not heard most of the members for a Quorum: then
// it may not be the first of them.
func (v *View) Minority() bool { return v.Quorum == 0 && v.Voting }

// Last is whether all other members leave, so that nobody is there to hand anything over to.
func (v *View) Last() bool {
	for i := range v.members {
		if i != v.self && !v.members[i].goes {
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

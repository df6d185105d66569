package member

import (
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// A process is clear of the keys of another when it has no ledger of them, and no vote for them, and nobody uses a lease of
// them but by a ledger of the other's. It says so while members join and leave in order. Then the other need not wait
// until all that could have been granted is over: docs/decisions/0081.
//
// The keys of a process are those that it is the first for, among the candidates. So both must know of the same ones, and
// of the same moments when these began to lend the other their votes: a digest says whether they do.

// candidate is whether x may be the first of all members: its vote counts, and it does not leave.
func (p *Peers) candidate(now weir.Instant, x *peer) bool {
	return p.tallies(now, x) && x.leaves == 0 && (x != p.self || !p.leaving)
}

// moments is what this process knows of who lends to whom: of each member whose keys others may be clear of.
type moments struct {
	sum uint64            // a digest of the candidates
	of  map[uint64]moment // by the member's id, where that is not all
}

// moment is of a member to which not all have lent for long.
type moment struct {
	digest   uint64 // of when some began
	entering bool   // some have just begun
	broken   bool   // some don't reach it
}

// known is a digest of the candidates, and of when they began to lend to a member; 0: not all reach it.
func (k *moments) known(to *peer) uint64 {
	m := k.of[to.id]
	if m.broken {
		return 0
	}
	return max(k.sum+m.digest, 1)
}

// moments is what is known now of who lends to some member, nil: to any; ok is false where this process does not reach all
// candidates.
func (p *Peers) moments(now weir.Instant, to *peer) (k moments, ok bool) {
	for _, x := range p.list {
		candidate := p.candidate(now, x)
		switch {
		case candidate && x != p.self && !reaches(x.shown):
			return moments{}, false
		case candidate:
			k.sum += p.process(x)
		case !p.tallies(now, x): // one that leaves may have lent its vote to another, which keeps it
			continue
		}
		others := x.last.Others
		if x == p.self && x != to {
			others = p.others()
		}
		for _, o := range others {
			if o.Member == x.id || to != nil && o.Member != to.id {
				continue
			}
			if k.of == nil {
				k.of = map[uint64]moment{}
			}
			m := k.of[o.Member]
			if m.broken = m.broken || !reaches(o.Stand); candidate && o.Stand == Entering {
				m.entering = true
				m.digest += record.Mix(x.id + record.Mix(o.Order+1))
			}
			k.of[o.Member] = m
		}
	}
	return k, true
}

// process tells a process from others.
func (p *Peers) process(x *peer) uint64 {
	incarnation := x.incarnation
	if x == p.self {
		incarnation = p.incarnation
	}
	return record.Mix(x.id ^ record.Mix(incarnation+1))
}

// sayClear is what heartbeats say to each of the list: whose keys this process is clear of, as a digest. A digest without a moment could be of
// an earlier time, so it says so only while some members have just begun, or where it leaves: then it never gets a vote again.
func (p *Peers) sayClear(now weir.Instant) []uint64 {
	says := make([]uint64, len(p.list))
	changes := p.leaving || slices.ContainsFunc(p.list, func(x *peer) bool { return x.shown == Entering || len(x.last.Others) > 0 })
	if !changes || !p.voting || !p.cleans() {
		return says // nobody waits for it, or it has something of others
	}
	all, ok := p.moments(now, nil)
	for i, x := range p.list {
		if ok && p.candidate(now, x) && (all.of[x.id].entering || p.leaving) {
			says[i] = all.known(x)
		}
	}
	return says
}

// hearClear sees who is clear of this process's keys, and is whether that has changed. It stays so until a candidate joins
// or goes, is not heard, or has stopped to lend to this process: before that, no vote for its keys can be another's.
func (p *Peers) hearClear(now weir.Instant) (changed bool) {
	known, runs := uint64(0), uint64(0)
	if p.self != nil && p.candidate(now, p.self) {
		if all, ok := p.moments(now, p.self); ok {
			known = all.known(p.self)
		}
	}
	for _, x := range p.list {
		if known > 0 && p.candidate(now, x) {
			runs += p.process(x) + record.Mix(x.id+record.Mix(x.last.Run+1))
		}
	}
	all := known > 0 && p.blank == 0
	for _, x := range p.list {
		if x == p.self {
			continue
		}
		is := known > 0 && (x.clear && runs == p.runs || x.last.Clear == known) // I21
		changed = changed || is != x.clear
		x.clear = is
		all = all && (is || !x.counts && x.leaves == 0)
	}
	changed = changed || all != p.allClear
	p.runs, p.allClear = runs, all
	return changed
}

// tidy is whether no other process that stays has a ledger that is another's.
func (p *Peers) tidy() bool {
	return !slices.ContainsFunc(p.list, func(x *peer) bool { return x != p.self && x.member && x.leaves == 0 && !x.last.Clean })
}

// takesOver is whether nobody goes on as the first for keys that this process is the first for now: no member that
// has left in order, and, where this process is new, no other.
func (p *Peers) takesOver(now weir.Instant) bool {
	return (p.allClear || p.voting && now >= Over(p.entered)) && !slices.ContainsFunc(p.list, func(x *peer) bool {
		return x.leaves > 0 && now < Over(x.leaves) && !x.clear
	})
}

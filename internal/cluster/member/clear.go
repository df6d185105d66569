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

// course is a digest of the candidates, and of when they began to lend to one of them, as this process knows; 0: not all
// reach it. entering is whether some have just begun.
func (p *Peers) course(now weir.Instant, to *peer) (digest uint64, entering bool) {
	for _, x := range p.list {
		if !p.candidate(now, x) {
			continue
		}
		if x != p.self && !reaches(x.shown) {
			return 0, false
		}
		digest += p.process(x)
		if x == to {
			continue
		}
		at := p.lendsTo(x, to)
		switch {
		case !reaches(at.Stand):
			return 0, false
		case at.Stand == Entering:
			digest, entering = digest+record.Mix(x.id+record.Mix(at.Order+1)), true
		}
	}
	return max(digest, 1), entering
}

// process tells a process from others.
func (p *Peers) process(x *peer) uint64 {
	incarnation := x.incarnation
	if x == p.self {
		incarnation = p.incarnation
	}
	return record.Mix(x.id ^ record.Mix(incarnation+1))
}

// lendsTo is how x stands to another, as this process knows.
func (p *Peers) lendsTo(x, to *peer) Other {
	if x == p.self {
		return Other{to.id, to.shown, to.order, false}
	}
	if i := slices.IndexFunc(x.last.Others, func(o Other) bool { return o.Member == to.id }); i >= 0 {
		return x.last.Others[i]
	}
	return Other{}
}

// unsettled is whether some may have to wait for what others say to be clear of.
func (p *Peers) unsettled() bool {
	return p.leaving || slices.ContainsFunc(p.list, func(x *peer) bool { return x.shown == Entering || len(x.last.Others) > 0 })
}

// clearOf is what heartbeats to x say: 0, where this process may have something of its keys.
func (p *Peers) clearOf(now weir.Instant, x *peer) uint64 {
	if !p.voting || !p.candidate(now, x) {
		return 0
	}
	if digest, entering := p.course(now, x); entering || p.leaving {
		return digest
	}
	return 0
}

// takesOver is whether nobody counts any more on having been the first for keys that this process is the first for: a member
// that has left in order, or, where this process is new, any other.
func (p *Peers) takesOver(now weir.Instant) bool {
	return (p.cleared || p.voting && now >= Over(p.entered)) && !slices.ContainsFunc(p.list, func(x *peer) bool {
		return x.leaves > 0 && now < Over(x.leaves) && !x.clear
	})
}

// clears sees who is clear of this process's keys, and is whether that has changed. It stays so until a candidate joins
// or goes, is not heard, or has stopped to lend to this process: before that, no vote for its keys can be another's.
func (p *Peers) clears(now weir.Instant) (changed bool) {
	known, runs := uint64(0), uint64(0)
	if p.self != nil && p.candidate(now, p.self) {
		known, _ = p.course(now, p.self)
	}
	for i := 0; i < len(p.list) && known > 0; i++ {
		if x := p.list[i]; p.candidate(now, x) {
			runs += p.process(x) + record.Mix(x.id+record.Mix(x.last.Run+1))
		}
	}
	all := known > 0
	for _, x := range p.list {
		if x == p.self {
			continue
		}
		is := known > 0 && (x.clear && runs == p.runs || x.last.Clear == known) // I21
		changed = changed || is != x.clear
		x.clear = is
		all = all && (is || !x.counts && x.leaves == 0)
	}
	changed = changed || all != p.cleared
	p.runs, p.cleared = runs, all
	return changed
}

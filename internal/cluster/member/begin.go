package member

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// Fence tells that an earlier process of this name may live elsewhere, and count on its vote until a
// time: one that hears nobody goes on with its part. So this process has no vote before that. 0: the
// earlier one has given up its name, or there is none.
func (p *Peers) Fence(now, until weir.Instant) {
	if until <= 0 {
		until = min(p.fenced, now)
	}
	if p.fenced = until; !p.active {
		p.look(now, true)
	}
}

// unfence remembers, when the time is over, that the earlier process may have let pass until then:
// the other members have taken it for lost when this one began.
func (p *Peers) unfence(now weir.Instant) {
	if p.fenced > 0 {
		p.lose(loss{name: p.name, incarnation: ^p.incarnation, at: now, alone: p.suspected(p.name), of: max(p.count, 1)})
	}
}

// Resume tells which members the last process of this name shared with, and whether all of them
// counted its vote. They do so until they give it up, also while they are silent: so this process
// has its vote as soon as all that it hears say so, and each that it does not hear may have the
// others. It may have been given up, so what belongs to the first of the members alone is not its
// own until it hears all. It is to be told before Agree.
func (p *Peers) Resume(members []string, counted bool) {
	p.resumed = map[string]bool{}
	for _, name := range members {
		if name != p.name {
			p.resumed[name] = counted
		}
	}
	if len(p.resumed) > 0 {
		p.minority, p.lapsed, p.quorate = true, true, p.quorate-bounds.Micros(Quorum)
	}
}

// counted is whether all members have told what is so. One that has said nothing yet counts the
// vote of this process as it did that of the last one, if all that have said something do.
func (p *Peers) counted(so func(*Heartbeat) bool) bool {
	quiet, counts := false, true
	for _, x := range p.list {
		switch {
		case !x.member || x == p.self || x.last.Leaving:
		case x.stamp == 0 && !p.resumed[x.name], x.stamp > 0 && !so(&x.last):
			return false
		case x.stamp == 0:
			quiet = true
		case x.last.Voters != p.digest:
			counts = false
		}
	}
	return p.self != nil && p.self.member && (counts || !quiet)
}

// Counted is whether all members count the vote of this process.
func (v *View) Counted() bool { return v.Voting }

package counter

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/member"
)

// neighbor is a node that the replica knows of.
type neighbor struct {
	name   string
	member bool
	silent bool
	open   bool         // it may be a hub
	view   uint64       // the last that named it as a member
	since  weir.Instant // when it became a member, or was heard again
	news   bool         // it became a member then: what it has let pass before is not known
	pull   pull
}

// view is who shares, as far as the replica knows.
type view struct {
	members, heard int64 // this node among them
	gone           int64 // members that are not heard, now or until they were the last time
	gap            int64 // how long others were not heard, each by its part of the members, in micros/gapUnit
	base           int64 // the gap when some fell silent after all were heard
	at             weir.Instant
}

// gapUnit is the unit of parts of a microsecond in which a gap is counted.
const gapUnit = 4096

// View tells who the members are, this node among them or not.
func (p *Replica) View(now weir.Instant, members []member.Presence) {
	p.view.to(now)
	p.views++
	v := view{members: 1, heard: 1, gone: p.view.gone, gap: p.view.gap, base: p.view.base, at: now}
	opened := false
	for _, m := range members {
		id := p.id(now, m.Name)
		if id >= 0 && p.peers[id].open != m.Open {
			p.peers[id].open, opened = m.Open, true
		}
		if id <= 0 || p.peers[id].view == p.views {
			continue // this node, one too many, or one that stands there twice
		}
		v.members++
		if !m.Silent {
			v.heard++
		}
		q := &p.peers[id]
		if !q.member || q.silent && !m.Silent {
			q.since, q.news = now, !q.member
			q.pull = pull{from: pullStart, due: now}
		}
		q.member, q.silent, q.view = true, m.Silent, p.views
	}
	for i := range p.peers {
		q := &p.peers[i]
		q.member = q.view == p.views
		if i > 0 && !q.member && q.open {
			q.open, opened = false, true
		}
	}
	if v.heard < v.members {
		v.gone = v.members - v.heard
		if p.view.heard == p.view.members {
			v.base = v.gap
			v.gap += (member.Silence + Sync).Microseconds() * gapUnit // in which nobody knew
		}
	}
	p.view = v
	p.shuffle()
	if opened {
		p.rehub(now)
	}
}

// shuffle puts the other members into an order of this node's own: it tells one
// after the other, so that nobody is left out for long.
func (p *Replica) shuffle() {
	p.others = p.others[:0]
	for id := range p.peers {
		if p.peers[id].member {
			p.others = append(p.others, int32(id))
		}
	}
	if len(p.others) == 0 {
		p.hush()
	}
	p.random.Shuffle(len(p.others), func(i, j int) { p.others[i], p.others[j] = p.others[j], p.others[i] })
	p.turn = 0
}

// hush forgets what is to be told: there is nobody.
func (p *Replica) hush() {
	for _, r := range p.changed {
		r.queued = false
		for i := range r.lines {
			r.lines[i].left = 0
		}
	}
	p.changed = nil
}

// to moves on to now. While some are silent, the gap grows by their part of all.
func (v *view) to(now weir.Instant) {
	since := max(int64(now-v.at), 0)
	if v.heard < v.members {
		v.gap += bounds.Part(since, (v.members-v.heard)*gapUnit, v.members)
	}
	v.at = max(v.at, now)
}

// weight says what an event counts for: num/den events.
type weight struct{ num, den int64 }

// weights are those of what this node lets pass and of what it hears of others: it
// passes less than the limit where it takes others, whom it can't hear, to pass their
// part.
func (p *Replica) weights(now weir.Instant, r *tally, policy weir.Partition, nodes int) (own, others weight) {
	n := p.view.members
	switch {
	case p.settings.Sharing == weir.SharingDivided:
		if nodes > 0 {
			n = int64(nodes)
		}
		return weight{n, 1}, weight{0, 1}
	case p.cold(now, r):
		return weight{n, 1}, weight{0, 1}
	case r.echo != nil && r.hub > itself && r.echo.lost(now) && policy != weir.PartitionOpen:
		return weight{n, 1}, weight{1, 1}
	case p.view.heard == n || policy == weir.PartitionOpen:
		return weight{1, 1}, weight{1, 1}
	case policy == weir.PartitionShare:
		return weight{n, 1}, weight{0, 1}
	default:
		return weight{n, p.view.heard}, weight{n, p.view.heard}
	}
}

// cold is whether other nodes may have let pass events that this node has not heard of, and that
// are still in use.
func (p *Replica) cold(now weir.Instant, r *tally) bool {
	if !r.cold {
		return false
	}
	r.cold = now < p.lost+r.form.horizon || now < p.began+r.form.horizon && !p.caught()
	if !r.cold {
		r.warm(now)
	}
	return r.cold
}

// caught is whether all that can be heard have told what they know.
func (p *Replica) caught() bool {
	for _, id := range p.others {
		if q := &p.peers[id]; !q.silent && !q.pull.done {
			return false
		}
	}
	return true
}

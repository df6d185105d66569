package counter

import (
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/rank"
	"github.com/weir-limit/weir/internal/cluster/table"
)

// With weir.SharingHub, replicas tell one of them what they let pass, and that one tells all others: the hub of
// the rule. It tells on what each process has let pass by itself, and not a sum. So a replica takes what it
// hears from two hubs, or from one twice, for what it is, and another node may become the hub at any time.
//
// The hub of a rule is the first by its rank of those whom all hear. While there is none, replicas tell all
// others, as in a mesh.

const (
	// itself is the number of this node among the peers of a replica.
	itself = int32(0)
	// everyone stands for all other members.
	everyone = int32(-1)
)

// recent is for how long a new hub tells again what was heard before it was one: longer than it takes nodes to
// notice that they do not hear the old one.
const recent = Sweep

// hubOf is who tells all others of a rule: a member, this node itself, or everyone, as there is no hub.
func (p *Replica) hubOf(rule weir.StateKey) int32 {
	place := rule.Placement()
	hub, known := p.hubs[place]
	if known {
		return hub
	}
	hub = p.rankHub(place)
	if len(p.hubs) >= table.MaxRules {
		clear(p.hubs)
	}
	p.hubs[place] = hub
	return hub
}

func (p *Replica) rankHub(place string) int32 {
	key := weir.StateKey{Rule: rank.Mark(0) + place}
	hub, highest := everyone, uint64(0)
	for id := range p.peers {
		q := &p.peers[id]
		if !q.open {
			continue
		}
		if s := rank.Score(q.name, key); hub == everyone || s > highest || s == highest && q.name < p.peers[hub].name {
			hub, highest = int32(id), s
		}
	}
	return hub
}

// audience is who is to be told of a tally.
func (p *Replica) audience(r *tally) int32 {
	if p.settings.Sharing != weir.SharingHub || r.hub == itself {
		return everyone
	}
	return r.hub
}

// rehub sees who are hubs now. A new one is told what this node let pass, and, if it is this node, tells
// what it has heard lately: the old one may not have told it to all.
func (p *Replica) rehub(now weir.Instant) {
	p.hubs = map[string]int32{}
	if p.settings.Sharing != weir.SharingHub {
		return
	}
	for _, row := range p.tallies.Rows {
		r := row.Of
		before := r.hub
		if r.hub = p.hubOf(r.key); r.hub == before {
			continue
		}
		r.echo = &echo{}
		for i := range r.lines {
			l := &r.lines[i]
			own := l.node == itself && l.incarnation == p.settings.Incarnation
			if own && l.count > 0 && !r.fresh(now) || !own && r.hub == itself && now < l.heard+bounds.Micros(recent) {
				p.tell(now, r, l, relays)
			}
		}
	}
}

// relays is whether news are to be told on: reported tells that this node was told as the hub. A hub tells on all
// of it, whoever told it and when, for nobody else will: what was news to it may be to others.
func (p *Replica) relays(r *tally, reported bool) bool {
	switch p.settings.Sharing {
	case weir.SharingGossip:
		return true
	case weir.SharingHub:
		return reported || r.hub == itself
	default:
		return false
	}
}

// round is messages to the same peers.
type round struct {
	to       []string
	reported bool // to their hub
	pack     *packer
}

// rounds are the messages of one turn, by who is told.
type rounds struct {
	of  map[int32]*round
	all []*round // in the order of their first message
}

// round is that of an audience.
func (s *rounds) round(p *Replica, audience int32) *round {
	if r, ok := s.of[audience]; ok {
		return r
	}
	r := &round{pack: newPacker()}
	if audience == everyone {
		r.to = p.next()
	} else {
		r.to, r.reported = []string{p.peers[audience].name}, true
	}
	s.of[audience] = r
	s.all = append(s.all, r)
	return r
}

// Echo is for how long a replica goes on as always while it does not hear from its hub what it has let pass:
// longer than that takes, and as long as it takes to notice that the hub is silent. Then it passes its part only,
// as other nodes may not know of what it lets pass.
const Echo = 250 * time.Millisecond

// echo is what a replica has let pass of a key, and has not heard from its hub.
type echo struct {
	since weir.Instant // when it let pass the first of it; 0: there is none
	told  [2]mark      // the last two times that it told of it, the latest first
}

// mark is a count at a time.
type mark struct {
	at    weir.Instant
	slot  uint64
	count int64
}

// passes notes that events pass.
func (e *echo) passes(now weir.Instant) {
	if e.since == 0 {
		e.since = now
	}
}

// tells notes that the hub is told.
func (e *echo) tells(now weir.Instant, own *line) {
	e.told[1], e.told[0] = e.told[0], mark{now, own.slot, own.count}
}

// hears notes what the hub tells of this process.
func (e *echo) hears(slot uint64, count int64, own *line) {
	for _, m := range e.told {
		switch {
		case slot == own.slot && count >= own.count:
			e.since = 0
		case m.slot == slot && m.count > 0 && count >= m.count:
			e.since = max(e.since, m.at)
		default:
			continue
		}
		return
	}
}

// lost is whether the hub should have told it long ago.
func (e *echo) lost(now weir.Instant) bool { return e.since > 0 && now >= e.since+bounds.Micros(Echo) }

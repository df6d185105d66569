package counter

import (
	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/packing"
)

// Hub is the hub of a rule, as p sees it; empty while there is none.
func (p *Replica) Hub(rule weir.StateKey) string {
	if hub := p.hubOf(rule); hub != everyone {
		return p.peers[hub].name
	}
	return ""
}

// FirstWins is a message of a hub as it is for nodes that merge wrongly: of two counts of another process they
// take the first.
func FirstWins(_, to string, message []byte) []byte {
	if message[1] != charges || message[2] == reports {
		return message
	}
	now := weir.Instant(1 << 60)
	u := unpacker{Reader: packing.Reader{Rest: message[3:]}, now: now}
	from, next := u.Number(), u.Number()
	pack := newPacker()
	for {
		key, limit, lines, ok := u.tally(nil)
		if !ok {
			break
		}
		var peers []neighbor
		r := &tally{key: key, form: &form{limit: weir.MustParseLimit(limit)}}
		for i, l := range lines {
			peers = append(peers, neighbor{name: l.node})
			if l.node != to {
				l.count = 1
			}
			r.lines = append(r.lines, line{node: int32(i), incarnation: l.incarnation, slot: l.slot, count: l.count, opened: l.opened, changed: l.changed})
		}
		pack.add(now, peers, r, 0, func(*line) bool { return true })
	}
	merged := pack.message("", from, next)
	copy(merged, message[:3])
	return merged
}

// Known is what p knows of what one process of a node has let pass.
func (p *Replica) Known(key weir.StateKey, node string, incarnation uint64) (slot uint64, count int64) {
	id, ok := p.ids[node]
	r, kept := p.tallies.Get(key)
	if !ok || !kept {
		return 0, 0
	}
	if at, ok := r.find(id, incarnation); ok {
		return r.lines[at].slot, r.lines[at].count
	}
	return 0, 0
}

package sharing

import "github.com/weir-limit/weir"

// Known is what p knows of what one process of a node has let pass.
func (p *Replica) Known(key weir.StateKey, node string, incarnation uint64) (slot uint64, count int64) {
	id, ok := p.ids[node]
	r, kept := p.tallies.get(key)
	if !ok || !kept {
		return 0, 0
	}
	if at, ok := r.find(id, incarnation); ok {
		return r.lines[at].slot, r.lines[at].count
	}
	return 0, 0
}

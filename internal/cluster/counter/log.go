package counter

import (
	"github.com/weir-limit/weir"
)

// Entry is what a node appends to an event log of one key: how many events one process of it has let
// pass in all, in one slot. So entries may come twice, late, or after a part of the log was read
// already: the largest Sum of a slot holds, and slots have numbers that grow.
type Entry struct {
	Key   weir.StateKey
	Limit string // by its text
	// Node is whose it is, and Incarnation tells its processes apart.
	Node        string
	Incarnation uint64
	Slot        uint64
	Sum         int64
	// New is how many of them the entry before did not tell: one that reads the log from here on
	// need not know of the others.
	New int64
	// Reset says instead that what was used of Key before is forgotten; Slot and what follows it are
	// 0, and Limit is empty.
	Reset bool
	// Beat, if it is not 0, says only that the process lives, and how often it has said so. Node and
	// Incarnation stand beside it.
	Beat int64
}

// Entries adds to entries what the log is to be told, of so many keys at most.
func (p *Replica) Entries(most int, entries []Entry) []Entry {
	most = min(most, len(p.changed))
	for _, r := range p.changed[:most] {
		r.queued = false
		own := r.line(0, p.settings.Incarnation)
		if own.left == 0 {
			continue // it was reset
		}
		entries = append(entries, Entry{
			Key: r.key, Limit: r.form.limit.String(), Node: p.settings.Name, Incarnation: p.settings.Incarnation,
			Slot: own.slot, Sum: own.count, New: own.count - own.appended,
		})
		own.left, own.appended = 0, own.count
	}
	if p.changed = p.changed[most:]; len(p.changed) == 0 {
		p.changed = nil // and with it the memory of those before
	}
	return entries
}

// Missed is told of an entry of Entries that the log has refused: what it said is told again.
func (p *Replica) Missed(now weir.Instant, e *Entry) {
	r, ok := p.tallies.Get(e.Key)
	if !ok {
		return
	}
	if own := r.line(0, p.settings.Incarnation); own.slot == e.Slot && own.count > 0 {
		own.appended = min(own.appended, e.Sum-e.New)
		p.tell(now, r, own, 1)
	}
}

// Hear takes in an entry that was appended at a time, now or before. Entries of one key are heard in
// the order of the log. Those of this process say nothing new.
func (p *Replica) Hear(now, at weir.Instant, e *Entry) {
	if e.Node == p.settings.Name && e.Incarnation == p.settings.Incarnation {
		return
	}
	switch {
	case e.Beat > 0:
		return
	case e.Reset:
		p.Reset(now, e.Key)
		return
	}
	if _, known := p.tallies.Get(e.Key); !known {
		if f := p.formOf(e.Limit); f == nil || now-at >= f.horizon {
			return // nothing of it is in use
		}
	}
	if r := p.tallyOf(now, e.Key, e.Limit); r != nil {
		p.hear(now, r, &told{
			node: e.Node, incarnation: e.Incarnation, slot: e.Slot, count: e.Sum, before: max(e.Sum-e.New, 0),
			opened: at, changed: min(at, now),
		})
	}
}

// Forget is Reset, of which the entry tells all other nodes: it comes after all that was used before.
func (p *Replica) Forget(now weir.Instant, key weir.StateKey) Entry {
	p.Reset(now, key)
	if r, ok := p.tallies.Get(key); ok {
		own := r.line(0, p.settings.Incarnation)
		own.left, own.slot = 0, 0 // the next event begins another
	}
	return Entry{Key: key, Node: p.settings.Name, Incarnation: p.settings.Incarnation, Reset: true}
}

package cas

import (
	"github.com/weir-limit/weir"
)

// spill moves notes to items of their own, before too many are in one. Only those that are kept
// already may go: a note and the charge it speaks of are written at once, so that a crash leaves
// both or neither. They are written to the items of their own before the write that takes them out
// of this one. If that write is refused, they are in both places, which says the same twice.
// A store may evict such an item before its time; then its receipt would work twice, as if it
// were lost with the server.
//
// All kept notes go at once, so that not every round spills. A note has its own end there, and
// skew: the item that it left may go before it. An error leaves the item as it was read: the jobs
// fail, and nothing was decided.
func (e *Engine) spill(name string, it *item, now weir.Instant) error {
	if len(it.notes) <= maxNotes {
		return nil
	}
	var fresh []note
	var kept []Swap
	for i := range it.notes {
		n := &it.notes[i]
		if n.fresh {
			fresh = append(fresh, *n)
			continue
		}
		keep := (n.until - now).Duration() + skew + e.longer
		kept = append(kept, Swap{Name: e.noteName(name, n.kind, n.id), Any: true, Value: n.append(nil), Keep: keep})
	}
	e.counts.trips.Add(1)
	if _, err := e.Cells.Swap(e.ctx, name, kept); err != nil {
		return err
	}
	it.notes = fresh
	e.counts.spilled.Add(int64(len(kept)))
	return nil
}

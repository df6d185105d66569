package cas

import (
	"errors"

	"github.com/weir-limit/weir"
)

// spill moves notes to items of their own. Only those that are kept already may go: a note and the charge
// it speaks of are written at once, so that a crash leaves both or neither. They are written to the items of their own before the write that takes them out
// of this one. If that write is refused, they are in both places, which says the same twice.
// A store may evict such an item before its time; then its receipt would work twice, as if it
// were lost with the server.
//
// All kept notes go at once, so that not every round spills. A note has its own end there, and
// skew: the item that it left may go before it. An error leaves the item as it was read: the jobs
// fail, and nothing was decided.
func (e *Engine) spill(at, name string, it *item, now weir.Instant) error {
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
	if len(kept) == 0 {
		return nil
	}
	e.counts.trips.Add(1)
	switch written, err := e.Cells.Swap(e.ctx, at, kept); {
	case err != nil:
		return err
	case !written:
		return e.Cells.Explain(name, errNotes)
	}
	it.notes = fresh
	e.counts.spilled.Add(int64(len(kept)))
	return nil
}

var errNotes = errors.New("idempotency records can't be kept")

// encode is the value of an item as it is kept. Notes that make it too large, or are too many, leave it
// before.
func (e *Engine) encode(at, name string, it *item, now weir.Instant) ([]byte, error) {
	value := it.encode()
	if len(it.notes) <= maxNotes && len(value) <= e.MaxValue {
		return value, nil
	}
	if err := e.spill(at, name, it, now); err != nil {
		return nil, err
	}
	return it.encode(), nil
}

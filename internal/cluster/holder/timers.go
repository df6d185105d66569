package holder

import (
	"container/heap"

	"github.com/weir-limit/weir"
)

// Timers tell which of the holders have something to do, and when.
type Timers struct{ all timed }

// Len is how many holders have something to do.
func (t *Timers) Len() int { return len(t.all) }

// Next is when Due has one; ok is false if never.
func (t *Timers) Next() (at weir.Instant, ok bool) {
	if len(t.all) == 0 {
		return 0, false
	}
	return t.all[0].timed, true
}

// Due is a holder that had something to do by now, nil where there is none. It is to be Set again.
func (t *Timers) Due(now weir.Instant) *Holder {
	if len(t.all) == 0 || t.all[0].timed > now {
		return nil
	}
	h := heap.Pop(&t.all).(*Holder)
	h.timed = 0
	return h
}

// Set sees to the timer of a holder, after anything has happened to it.
func (t *Timers) Set(h *Holder) {
	switch {
	case h.due == 0:
	case h.timed == 0:
		h.timed = h.due
		heap.Push(&t.all, h)
	case h.due < h.timed:
		h.timed = h.due
		heap.Fix(&t.all, h.slot)
	}
}

// timed is a heap of holders by when they have something to do, the first on top.
type timed []*Holder

func (t timed) Len() int           { return len(t) }
func (t timed) Less(i, j int) bool { return t[i].timed < t[j].timed }

func (t timed) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].slot, t[j].slot = i, j
}

func (t *timed) Push(x any) {
	h := x.(*Holder)
	h.slot = len(*t)
	*t = append(*t, h)
}

func (t *timed) Pop() any {
	last := len(*t) - 1
	h := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return h
}

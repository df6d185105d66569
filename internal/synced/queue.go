package synced

import (
	"container/heap"
	"sync"
	"time"
)

// queue is the entries in the order in which the store is to hear of them. Its
// lock is taken last.
//
// As long as run takes from it, an entry is in it at most once, and knows its place in the heap (index).
// It leaves by take, and comes back by again when its report has ended. An entry that the table has
// dropped is never in it, for only the report of an entry that was taken out drops it. So the queue has
// no more entries than the table has keys, and needs no bound of its own.
type queue struct {
	mu   sync.Mutex
	heap byDue
	room bool      // somebody wants room: the next ones are due now
	made time.Time // when room was made last
	// wake has room for one. It tells run that the first entry is another, or due sooner; two such
	// changes before run looks are one to it.
	wake chan struct{}
}

// add puts e into the queue, unless it is there or on its way. Only a new entry has no due time yet; one
// that is on its way is put back by the end of its report.
func (q *queue) add(e *entry, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.index < 0 && e.due.IsZero() {
		q.push(e, due)
	}
}

// again puts e back into the queue after a call.
func (q *queue) again(e *entry, due time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.push(e, due)
}

func (q *queue) push(e *entry, due time.Time) {
	e.due = due
	heap.Push(&q.heap, e)
	if e.index == 0 {
		q.ring()
	}
}

// hasten makes e due now. It says whether e is in the queue.
func (q *queue) hasten(e *entry) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e.index < 0 {
		return false
	}
	if now := time.Now(); e.due.After(now) {
		e.due = now
		heap.Fix(&q.heap, e.index)
		q.ring()
	}
	return true
}

// roomEvery is how often room is made at most. Each time costs a report of some keys before their time,
// so an attack with many keys can't have the store told all the time.
const roomEvery = 10 * time.Millisecond

// makeRoom makes those due that are next. Their reports drop the ones that callers have hardly asked
// for, which makes room for keys that are asked for now.
func (q *queue) makeRoom(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now.Sub(q.made) >= roomEvery {
		q.room, q.made = true, now
		q.ring()
	}
}

func (q *queue) ring() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take takes up to n entries that are due out of the queue. next is when the one after them is
// due, and zero for never. It is also zero when n were taken; the caller then comes again at once. Where
// somebody wants room, one call takes the next n whether they are due or not.
func (q *queue) take(now time.Time, n int) (due []*entry, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := q.room
	q.room = false
	for len(q.heap) > 0 && len(due) < n {
		e := q.heap[0]
		if !room && e.due.After(now) {
			return due, e.due
		}
		heap.Pop(&q.heap)
		e.room = room
		due = append(due, e)
	}
	return due, time.Time{}
}

// byDue is a heap.
type byDue []*entry

func (h byDue) Len() int           { return len(h) }
func (h byDue) Less(i, j int) bool { return h[i].due.Before(h[j].due) }

func (h byDue) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push is for package heap.
func (h *byDue) Push(x any) {
	e := x.(*entry)
	e.index = len(*h)
	*h = append(*h, e)
}

// Pop is for package heap.
func (h *byDue) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.index = -1
	return e
}

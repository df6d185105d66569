package sim

import (
	"container/heap"

	"github.com/weir-limit/weir"
)

// maxLater is how many requests may wait for a later moment at a time.
const maxLater = 1 << 20

// turn is a request at the moment that is next for it.
type turn struct {
	at          weir.Instant
	client, key int32
	cost        int64
	tries       int64  // how often it was made, this time included
	order       uint64 // of those at the same moment
}

// later is requests that wait for a later moment, the first of them first.
type later struct {
	heap turns
	next uint64
}

func (l *later) first() (turn, bool) {
	if len(l.heap) == 0 {
		return turn{}, false
	}
	return l.heap[0], true
}

// push adds a request unless there are maxLater.
func (l *later) push(t turn) bool {
	if len(l.heap) >= maxLater {
		return false
	}
	l.next++
	t.order = l.next
	heap.Push(&l.heap, t)
	return true
}

func (l *later) drop() { heap.Pop(&l.heap) }

// turns is a heap for container/heap.
type turns []turn

func (t turns) Len() int { return len(t) }

func (t turns) Less(i, j int) bool {
	return t[i].at < t[j].at || t[i].at == t[j].at && t[i].order < t[j].order
}

func (t turns) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push is for container/heap.
func (t *turns) Push(x any) { *t = append(*t, x.(turn)) }

// Pop is for container/heap.
func (t *turns) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}

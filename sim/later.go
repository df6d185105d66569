package sim

import (
	"container/heap"

	"github.com/weir-limit/weir"
)

// maxLater is how many requests may wait for a later moment at a time.
//
// A turn takes 40 bytes, so a full queue takes 40 MiB; a run has two.
const maxLater = 1 << 20

// turn is a request at the moment that is next for it.
//
// client and key are the same unless all clients share a count; then key is 0. The figures of
// fairness are by client, those of the limit by key.
type turn struct {
	at          weir.Instant
	client, key int32
	cost        int64
	tries       int64 // how often it was made, this time included
	// container/heap keeps no order between equals. By order those at one microsecond leave as
	// they came, so a run is the same each time.
	order uint64 // of those at the same moment
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
//
// The caller says what a full queue means. A request that passed must not be lost, or the figures
// would be wrong: the run fails. One that would ask again just gives up.
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

package simulation

import "github.com/weir-limit/weir"

// event is what happens at a time: a letter arrives, a timer rings, or something else.
type event struct {
	at     weir.Instant
	seq    uint64
	to     int // the machine that it happens to, when it is not paused; -1: none
	letter *letter
	timer  *timer
	do     func(now weir.Instant)
}

func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// events is a heap, the first on top. What is at the same time happens in the order in which it was added.
type events struct {
	heap []event
	seq  uint64
}

func (q *events) add(e event) {
	q.seq++
	e.seq = q.seq
	q.heap = append(q.heap, e)
	i := len(q.heap) - 1
	for ; i > 0 && e.before(&q.heap[(i-1)/2]); i = (i - 1) / 2 {
		q.heap[i] = q.heap[(i-1)/2]
	}
	q.heap[i] = e
}

// next takes the first event out that is due by then.
func (q *events) next(by weir.Instant) (first event, ok bool) {
	if len(q.heap) == 0 || q.heap[0].at > by {
		return event{}, false
	}
	first = q.heap[0]
	size := len(q.heap) - 1
	last := q.heap[size]
	q.heap[size] = event{}
	q.heap = q.heap[:size]
	i := 0
	for child := 1; child < size; child = 2*i + 1 {
		if child+1 < size && q.heap[child+1].before(&q.heap[child]) {
			child++
		}
		if !q.heap[child].before(&last) {
			break
		}
		q.heap[i] = q.heap[child]
		i = child
	}
	if size > 0 {
		q.heap[i] = last
	}
	return first, true
}

// At does something at a time.
func (c *Cluster) At(at weir.Instant, do func(now weir.Instant)) {
	c.events.add(event{at: at, to: -1, do: do})
}

// Until lets happen what is due until now.
func (c *Cluster) Until(now weir.Instant) {
	for e, ok := c.events.next(now); ok; e, ok = c.events.next(now) {
		if e.to >= 0 && c.machines[e.to].away > e.at {
			e.at = c.machines[e.to].away
			c.events.add(e)
			continue
		}
		switch {
		case e.letter != nil:
			c.deliver(e.at, e.letter)
		case e.timer != nil:
			c.ring(e.at, e.to, e.timer)
		default:
			e.do(e.at)
		}
	}
}

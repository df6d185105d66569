package suggest

import "github.com/weir-limit/weir"

// event is a request of a client.
type event struct {
	at     weir.Instant
	client int32
}

// events is a queue of them, in a ring that grows.
type events struct {
	ring  []event // its length is a power of two
	begin int
	n     int
}

func (e *events) len() int { return e.n }

func (e *events) first() event { return e.ring[e.begin] }

func (e *events) pop() event {
	first := e.ring[e.begin]
	e.begin = (e.begin + 1) & (len(e.ring) - 1)
	e.n--
	return first
}

func (e *events) push(v event) {
	if e.n == len(e.ring) {
		larger := make([]event, max(2*e.n, 1024))
		k := copy(larger, e.ring[e.begin:])
		copy(larger[k:], e.ring[:e.begin])
		e.ring, e.begin = larger, 0
	}
	e.ring[(e.begin+e.n)&(len(e.ring)-1)] = v
	e.n++
}

// keep gives clients new numbers, and drops the events of those that have none.
func (e *events) keep(numbers []int32) {
	for range e.n {
		v := e.pop()
		if v.client = numbers[v.client]; v.client >= 0 {
			e.push(v)
		}
	}
}

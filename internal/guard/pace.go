package guard

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of a call's time.
const (
	minDeadline = 5 * time.Millisecond
	maxDeadline = 50 * time.Millisecond
	// above is what a call is given beyond what nearly all calls take.
	above = 10 * time.Millisecond
	// paceEvery is after how many calls the deadline is worked out anew.
	paceEvery = 512
)

// pace learns how long calls take, and so how long one may take: what 99 of 100
// have taken and 10 ms, from 5 to 50 ms.
type pace struct {
	mu    sync.Mutex
	calls [32]int // by the length of their time in µs, in bits
	noted int
	p99   atomic.Int64 // nanoseconds
}

// init begins with what a store nearby takes.
func (p *pace) init() { p.p99.Store(int64(time.Millisecond)) }

func (p *pace) note(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[min(bits.Len64(uint64(took/time.Microsecond)), len(p.calls)-1)]++
	if p.noted++; p.noted < paceEvery {
		return
	}
	p.noted = 0
	total := 0
	for _, n := range p.calls {
		total += n
	}
	beyond := 0
	for i := len(p.calls) - 1; i >= 0; i-- {
		if beyond += p.calls[i]; beyond*100 > total {
			p.p99.Store(int64(time.Microsecond) << i)
			break
		}
	}
	for i := range p.calls {
		p.calls[i] /= 2 // what was long ago counts less
	}
}

func (p *pace) deadline() time.Duration {
	return min(max(time.Duration(p.p99.Load())+above, minDeadline), maxDeadline)
}

// stall is how long the store may owe one answer before nobody else asks.
func (p *pace) stall() time.Duration {
	return min(max(3*time.Duration(p.p99.Load()), minDeadline), maxDeadline)
}

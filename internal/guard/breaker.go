package guard

import (
	"sync"
	"time"
)

// The breaker's numbers.
const (
	// Enough is how many calls in a row fail before the store counts as away.
	Enough = 3
	// probeEvery is how often a store that is away is asked all the same.
	probeEvery = 120 * time.Millisecond
)

// breaker says whether a store is worth asking. It is away after some failures in
// a row, or as soon as it owes an answer for longer than a stall: whoever would
// ask now would wait for nothing. It is back with the first answer.
type breaker struct {
	mu      sync.Mutex
	away    bool
	failed  int       // in a row
	probed  time.Time // when it was last asked while away
	probing bool
	oldest  *ticket // calls on their way, in the order in which they began
	newest  *ticket
}

// ticket is a call on its way.
type ticket struct {
	began       time.Time
	probe       bool
	older, next *ticket
}

// change is what a call has changed.
type change uint8

const (
	same change = iota
	opened
	closed
)

func (b *breaker) open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.away
}

// enter lets a call pass, or gives no ticket.
func (b *breaker) enter(now time.Time, stall time.Duration) (*ticket, change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	what := same
	if !b.away && b.oldest != nil && now.Sub(b.oldest.began) > stall {
		b.away, b.probed, what = true, now, opened
	}
	t := &ticket{began: now, older: b.newest}
	if b.away {
		if b.probing || now.Sub(b.probed) < probeEvery {
			return nil, what
		}
		b.probed, b.probing, t.probe = now, true, true
	}
	if b.newest = t; t.older == nil {
		b.oldest = t
	} else {
		t.older.next = t
	}
	return t, what
}

// leave takes note of how a call has ended.
func (b *breaker) leave(t *ticket, now time.Time, failed bool) change {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.older == nil {
		b.oldest = t.next
	} else {
		t.older.next = t.next
	}
	if t.next == nil {
		b.newest = t.older
	} else {
		t.next.older = t.older
	}
	if t.probe {
		b.probing = false
	}
	if !failed {
		b.failed = 0
		if b.away {
			b.away = false
			return closed
		}
		return same
	}
	if b.failed++; b.failed >= Enough && !b.away {
		b.away, b.probed = true, now
		return opened
	}
	return same
}

package guard

import (
	"context"
	"sync"
	"time"
)

// The breaker's numbers.
const (
	// Enough is how many calls in a row fail before the store counts as away.
	Enough = 3
	// probeEvery is how often a store that is away is asked all the same.
	probeEvery = 120 * time.Millisecond
	// confirm is for how long a stall is looked at again: when it was this process
	// that stood still, the answer is there by then.
	confirm = 2 * time.Millisecond
)

// breaker says whether a store is worth asking. It is away after some failures in
// a row, or as soon as it owes an answer for longer than a stall: whoever would
// ask now would wait for nothing, and who does is let go. It is back with the first
// answer.
type breaker struct {
	mu      sync.Mutex
	away    bool
	failed  int       // in a row
	probed  time.Time // when it was last asked while away
	probing bool
	oldest  *ticket // calls on their way, in the order in which they began
	newest  *ticket
	suspect *ticket   // the oldest when it was first seen to stall
	since   time.Time // when that was
}

// ticket is a call on its way.
type ticket struct {
	began       time.Time
	probe       bool
	letGo       context.CancelFunc // of those who wait for it; nil before they do
	gone        bool               // it was let go, so that its failure says nothing
	older, next *ticket
}

// change is what a call has changed.
type change uint8

const (
	same change = iota
	opened
	closed
)

// ending is what the end of a call says of the store.
type ending uint8

const (
	answered ending = iota
	failed
	unknown // nothing: its caller left, or gave it too little time
)

func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.away
}

// stalls is whether the oldest call has waited for too long. mu is held.
func (b *breaker) stalls(now time.Time, stall time.Duration) bool {
	if b.oldest == nil || now.Sub(b.oldest.began) <= stall {
		return false
	}
	if b.suspect != b.oldest {
		b.suspect, b.since = b.oldest, now
	}
	return now.Sub(b.since) >= confirm
}

// open declares the store away. mu is held.
func (b *breaker) open(now time.Time) {
	b.away, b.probed, b.suspect = true, now, nil
	for t := b.oldest; t != nil; t = t.next {
		t.gone = !t.probe
		if t.letGo != nil {
			t.letGo()
		}
	}
}

// waits tells how to let go whoever waits for t.
func (b *breaker) waits(t *ticket, letGo context.CancelFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.letGo = letGo; t.gone {
		letGo()
	}
}

// enter lets a call pass, or gives no ticket.
func (b *breaker) enter(now time.Time, stall time.Duration) (*ticket, change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	what := same
	if !b.away && b.stalls(now, stall) {
		b.open(now)
		what = opened
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
func (b *breaker) leave(t *ticket, now time.Time, end ending) change {
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
	if end == answered {
		b.failed = 0
		if b.away {
			b.away = false
			return closed
		}
		return same
	}
	if t.gone || end == unknown {
		return same
	}
	if b.failed++; b.failed >= Enough && !b.away {
		b.open(now)
		return opened
	}
	return same
}

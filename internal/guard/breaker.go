package guard

import (
	"context"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// The breaker's numbers.
const (
	// Enough is how many calls in a row fail before the store counts as away. Package client asks
	// another daemon after fewer (takeOverAfter), which may answer in time.
	Enough = 3
	// probeEvery is how often a store that is away is asked all the same. It counts from the end of
	// the probe before, so a server that lets probes time out is asked less often.
	probeEvery = 120 * time.Millisecond
	// confirm is for how long silence is listened to again: when it was this process
	// that stood still, the answer is there by then.
	confirm = 2 * time.Millisecond
)

// breaker says whether a server is worth asking.
//
//	it is    calls         until
//	there    pass          it answers no call for as long as one may take: silent;
//	                       or Enough calls in a row fail: away
//	silent   fail at once  it answers the one goroutine that looks for it: there;
//	                       or that gives up: away
//	away     fail at once  it answers that goroutine, which a call starts every probeEvery: there
//
// Silence is measured over all calls, not over each. A server that answers some of them is there,
// and its late answer to another costs that caller its deadline, and no one else. When it answers
// none, all callers wait for nothing: they are let go together, so that an outage costs one deadline
// and not one for each call. A server that no caller asks is not silent, however long that lasts.
//
// Failures count by number, because they come at once: a port that refuses connections says more in
// a millisecond than silence does.
//
// Any answer makes the server there, whichever call brings it: a probe, a caller, or a caller that
// was let go and whose answer came all the same. It ends the silence and the count of failures. So
// neither silent nor away outlives an answer. A search that is under way goes on, and finds that out.
//
// The zero value is a server that is there and has not been asked.
type breaker struct {
	mu sync.Mutex // of all below, and of the tickets; never held while the server is asked
	// silent and away both keep callers out. silent is the doubt, and lasts no longer than the
	// search. away is the result: it lasts until an answer, and is what operators see. Both are
	// set while a server that is away is probed.
	silent bool
	away   bool
	// failed is how many calls failed since the last answer. A call that was late or let go
	// neither counts nor ends the row.
	failed int
	// seeker is nil when nobody looks for the server. Else one goroutine does, and found closes it
	// at the end. The caller that gets hushed must start that goroutine: as long as seeker is
	// there, nobody else is told to.
	seeker chan struct{}
	sought time.Time // when the server was last found not to be there; of away only
	// oldest and newest are the ends of the list of calls on their way, in the order in which they
	// began. Both are nil when there is none. A call that was let go stays in the list until it
	// returns.
	oldest *ticket
	newest *ticket
	// since and quiet measure the silence: the time since the last answer in which at least one
	// call waited. since is when the present wait began, and means nothing without a ticket.
	// quiet is what the waits before it add up to. Time in which nobody waited is in neither.
	since time.Time
	quiet time.Duration
	// suspect is when the silence was first found too long; zero: it is not. It may be this
	// process that stood still, in a debugger or without a processor, and the answers are in its
	// sockets. So the first caller that finds the silence only notes it, and the server is silent when
	// it still is after confirm.
	suspect time.Time
}

// ticket is a call on its way. The tickets of a server are a list, so that one that ends leaves it
// without a search.
//
// The breaker's lock covers letGo, gone and the links. A ticket is in the list from enter to leave.
type ticket struct {
	began time.Time
	key   weir.StateKey // a key that the server has: a probe needs one
	// letGo ends the wait of the caller; nil until waits. A ticket may be let go between enter and
	// waits: then gone is set already, and waits ends the call before it has begun.
	letGo       context.CancelFunc
	gone        bool // it was let go, so that its failure says nothing
	older, next *ticket
}

// change is what a call has changed.
type change uint8

const (
	same   change = iota
	opened        // the server is away
	closed        // it is back
	hushed        // it is silent, or to be tried again: the caller has to seek it
)

// ending is what the end of a call says of the store.
type ending uint8

const (
	answered ending = iota
	failed
	late    // no answer in the time of a call
	unknown // nothing: its caller left, or gave it too little time
)

func (b *breaker) isOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.away
}

// seeking is closed when nobody looks for the server any more; nil when nobody does.
func (b *breaker) seeking() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seeker
}

// silence is for how long the server has answered none of those who listened. mu is held.
func (b *breaker) silence(now time.Time) time.Duration {
	if b.oldest == nil {
		return b.quiet
	}
	return b.quiet + now.Sub(b.since)
}

// stop lets all callers go that wait. Their calls will fail, which says nothing more of the
// server. mu is held.
func (b *breaker) stop() {
	for t := b.oldest; t != nil; t = t.next {
		t.gone = true
		if t.letGo != nil {
			t.letGo()
		}
	}
}

// hush has the server looked for. The caller that gets hushed starts the goroutine; all others get
// same. mu is held.
func (b *breaker) hush() change {
	b.silent = true
	b.stop()
	if b.seeker != nil {
		return same // who has looked for it before still does
	}
	b.seeker = make(chan struct{})
	return hushed
}

// begin has a server looked for that nobody has asked yet.
func (b *breaker) begin() change {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.silent || b.away {
		return same
	}
	return b.hush()
}

// again has a server looked for that is away, however short ago it was looked for before. It gives
// same where the server is back, or where somebody looks for it already.
func (b *breaker) again() change {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.away {
		return same
	}
	return b.hush()
}

// open declares the server away. Callers that still wait are let go. sought is now, so that the
// first probe is probeEvery later. mu is held.
func (b *breaker) open(now time.Time) change {
	b.away, b.sought = true, now
	b.stop()
	return opened
}

// hear takes note of an answer: it ends any silence, and the count of failures. mu is held.
func (b *breaker) hear(now time.Time) change {
	b.failed, b.quiet, b.since, b.suspect = 0, 0, now, time.Time{}
	was := b.away
	b.silent, b.away = false, false
	if was {
		return closed
	}
	return same
}

// waits tells how to let go the callers that wait for t.
func (b *breaker) waits(t *ticket, letGo context.CancelFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.letGo = letGo; t.gone {
		letGo()
	}
}

// enter lets a call pass that wants k, or gives no ticket. A call may take so long as
// deadline.
//
// It notices silence without a timer: a new caller looks at how long those before it have waited.
// The other place is leave, for the call whose deadline ends. So a server that nobody asks costs
// nothing, and one with many callers is found silent before each of them has paid a deadline.
func (b *breaker) enter(now time.Time, k weir.StateKey, deadline time.Duration) (*ticket, change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.away && now.Sub(b.sought) < probeEvery:
		return nil, same
	case b.away || b.silent:
		return nil, b.hush()
	case b.silence(now) < deadline:
	case b.suspect.IsZero():
		b.suspect = now
	case now.Sub(b.suspect) >= confirm:
		return nil, b.hush()
	}
	t := &ticket{began: now, key: k, older: b.newest}
	if b.newest = t; t.older == nil {
		b.oldest, b.since = t, now
	} else {
		t.older.next = t
	}
	return t, same
}

// leave takes note of how a call has ended. A call that ended late is a sign of silence only if
// its own timer was on time: else this process stood still, and the server may have answered. Then
// it only suspects the server, as enter does, and a later caller decides.
//
// The silence is read before the ticket leaves the list, so that the wait of this call is in it. When
// the list is empty then, quiet keeps what was measured until the next call comes.
func (b *breaker) leave(t *ticket, now time.Time, end ending, deadline time.Duration) change {
	b.mu.Lock()
	defer b.mu.Unlock()
	silence := b.silence(now)
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
	if b.oldest == nil {
		b.quiet = silence
	}
	switch {
	case end == answered:
		return b.hear(now)
	case t.gone || b.silent || b.away:
		return same
	case end == failed:
		if b.failed++; b.failed >= Enough {
			return b.open(now)
		}
	case end == late && silence >= deadline && now.Sub(t.began) < deadline+confirm:
		return b.hush()
	case end == late && silence >= deadline && b.suspect.IsZero():
		b.suspect = now // this process stood still itself
	}
	return same
}

// found takes note of an answer to the goroutine that seeks the server, or that there was none;
// then over says that it need not be sought any more for now.
//
// Only that goroutine calls it, or tell in its place, so b.seeker is there. Without an answer, a
// server that was silent is away from now on, and one that was away stays so until the next probe. It
// may also be there by now, because a caller that was let go had its answer all the same: then
// nothing has changed.
func (b *breaker) found(now time.Time, answered, over bool) (what change) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case answered:
		what = b.hear(now)
	case !over:
		return same
	case b.away:
		b.sought = now
	case b.silent:
		what = b.open(now)
	}
	b.silent = false
	close(b.seeker)
	b.seeker = nil
	return what
}

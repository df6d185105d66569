package rules

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

// MaxOverrides is how many different limits that came with requests may have
// something in use at a time; each has counts of its own. A client may have one 64th of
// those that others leave, and one at least as long as there is any: the first 512. So
// it takes 496 clients to fill them all. More are refused until one has recovered.
const MaxOverrides = 1 << 15

// overrideShare is the part of what others leave that a client may have.
const overrideShare = 64

// Why Overrides.Admit refuses a limit.
var (
	// ErrClientOverrides: the client has its part, and all others still have theirs.
	ErrClientOverrides = errors.New("this client has as many different limits in use as it may: " +
		"use fewer, write limits into rules, or wait until one has recovered")
	// ErrAllOverrides: MaxOverrides are in use, of all clients together.
	ErrAllOverrides = errors.New("all clients together have as many different limits in use as there may be: " +
		"use one of these, write limits into rules, or wait until one has recovered")
)

// Overrides are the limits that requests bring along, by where their counts are. The
// zero Overrides are empty. Methods may be called from many goroutines.
//
// They are bounded because a request that brings a limit makes a count of its own: by 10/s, 11/s, 12/s
// and so on a client could pass any limit, and fill the store. A client that stays with a few limits
// never notices.
type Overrides struct {
	// mu is read-locked to find a limit that is known, as nearly all are; it is locked
	// to bring a new one.
	mu    sync.RWMutex
	known map[string]*Override // by place, at most MaxOverrides
	// clients are how many of known each brought, at least 1: the sum is len(known).
	clients map[string]int
	// looked is when makeRoom last looked for limits that have recovered.
	looked weir.Instant
}

// Override is a limit in use.
type Override struct {
	// client brought it first. It counts for that client's part, also where others use it.
	client string
	// used is until when some count of it has something used, in microseconds since
	// 1970. It only grows. From then on the limit may be forgotten, and another come.
	used atomic.Int64
}

// Use tells that some count of the limit has something used until an instant. The counts are in the
// store, which may be elsewhere: so this is all that Overrides knows of them.
func (o *Override) Use(until weir.Instant) {
	for {
		old := o.used.Load()
		if int64(until) <= old || o.used.CompareAndSwap(old, int64(until)) {
			return
		}
	}
}

// lookEvery is how often those that have recovered are looked for, when room is
// wanted: a look goes over all 32,768, and a client that is refused may come again at once.
const lookEvery = weir.Instant(100 * time.Millisecond / time.Microsecond)

// Admit is the limit whose counts are at a place, brought by a client. It fails with
// ErrClientOverrides or ErrAllOverrides where that is one too many. A limit may be forgotten while a
// request has it, which may use it once more.
func (o *Overrides) Admit(place, client string, now weir.Instant) (*Override, error) {
	o.mu.RLock()
	known := o.known[place]
	o.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if known := o.known[place]; known != nil { // another request has brought it meanwhile
		return known, nil
	}
	if o.room(client) != nil {
		o.makeRoom(now)
	}
	if err := o.room(client); err != nil {
		return nil, err
	}
	if o.known == nil {
		o.known, o.clients = map[string]*Override{}, map[string]int{}
	}
	made := &Override{client: client}
	o.known[place] = made
	o.clients[client]++
	return made, nil
}

// room fails when a client may not bring one more. Its part shrinks as others take theirs, so no number of
// clients has to be known: the first may have 512, and the next a 64th of what the first leaves.
func (o *Overrides) room(client string) error {
	if len(o.known) >= MaxOverrides {
		return ErrAllOverrides
	}
	has := o.clients[client]
	if left := MaxOverrides - (len(o.known) - has); has >= max(1, left/overrideShare) {
		return ErrClientOverrides
	}
	return nil
}

// makeRoom forgets the limits that have recovered. A count that has recovered decides alike
// whether it is known or not, so nobody gains by it.
func (o *Overrides) makeRoom(now weir.Instant) {
	if since := now - o.looked; since >= 0 && since < lookEvery {
		return
	}
	o.looked = now
	for place, known := range o.known {
		if weir.Instant(known.used.Load()) > now {
			continue
		}
		delete(o.known, place)
		if o.clients[known.client]--; o.clients[known.client] == 0 {
			delete(o.clients, known.client)
		}
	}
}

// admit fails with a *RequestError when a descriptor of t brings a limit too many.
func (o *Overrides) admit(t *take, r *Request) error {
	for i := range t.meets {
		if r.Descriptors[i].Override == nil || len(t.meets[i].rules) == 0 {
			continue
		}
		m := &t.meets[i]
		var err error
		m.override, err = o.Admit(m.rules[0].place, r.Client, weir.InstantOf(time.Now()))
		if err != nil {
			return &RequestError{fmt.Sprintf("descriptors[%d].limit", i), "is one too many: " + err.Error()}
		}
	}
	return nil
}

// use tells overrides until when they are in use: until the count that was just decided has
// recovered, and a microsecond more, as an Instant is cut to the microsecond.
func (t *take) use() {
	for i := range t.meets {
		m := &t.meets[i]
		if m.override == nil {
			continue
		}
		if d := &t.out[m.first]; d.ResetAfter > 0 {
			m.override.Use(weir.InstantOf(time.Now()) + weir.Instant(d.ResetAfter/time.Microsecond) + 1)
		}
	}
}

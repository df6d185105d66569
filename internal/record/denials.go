package record

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

const (
	// DenialLife is how long a denial is remembered without asking the store
	// again: what others reset, give back or change is seen within it.
	DenialLife = time.Second
	// MaxDenials is how many keys are remembered at most. Keys whose hashes meet
	// push each other out, which costs the store one more call.
	MaxDenials = 1 << 16
	// MaxLogDenials is how many of them may be of sliding-log, whose states take up
	// to 80 kB each.
	MaxLogDenials = 1 << 10

	denialLife = weir.Instant(DenialLife / time.Microsecond)
)

// Denials remember the states of denied takes, and answer those that the same
// states deny, so that an attack costs the store nothing. Other processes can only
// have used more since: what is denied locally is denied in the store, unless
// something was given back, reset or changed within DenialLife.
type Denials struct {
	seed     maphash.Seed             // secret, so that no client can choose a slot
	slots    []atomic.Pointer[denial] // MaxDenials, by the hash of their key
	logs     []atomic.Pointer[denial] // MaxLogDenials, of sliding-log
	answered atomic.Int64             // takes answered locally
}

// denial is a state that denied, and when. It is never changed: a later one takes its
// place as a whole, so readers need no lock.
type denial struct {
	key   weir.StateKey // compared, as many keys share a slot
	limit *weir.Limit   // by which state is meant; another text asks the store
	state weir.State
	at    weir.Instant // on the store's clock; it says nothing from at + DenialLife on
}

// NewDenials makes an empty memory.
func NewDenials() *Denials {
	return &Denials{
		seed:  maphash.MakeSeed(),
		slots: make([]atomic.Pointer[denial], MaxDenials), logs: make([]atomic.Pointer[denial], MaxLogDenials),
	}
}

// slot is where a key of a limit is remembered.
func (d *Denials) slot(k weir.StateKey, l *weir.Limit) *atomic.Pointer[denial] {
	hash := maphash.Comparable(d.seed, k)
	if l.Algorithm() == weir.SlidingLog {
		return &d.logs[hash%MaxLogDenials]
	}
	return &d.slots[hash%MaxDenials]
}

// Answered is how many takes were answered locally.
func (d *Denials) Answered() int64 { return d.answered.Load() }

// Answer decides a take by what is remembered. When that does not deny it, it
// says no, and out is not meant.
func (d *Denials) Answer(now weir.Instant, asks []weir.Ask, out []weir.Decision) bool {
	var few [4]*denial
	found := few[:0]
	for i := range asks {
		e := d.get(&asks[i], now)
		if e == nil {
			return false
		}
		found = append(found, e)
	}
	for i := range asks {
		out[i] = asks[i].Limit.Decide(found[i].state, now, &asks[i])
	}
	weir.Resolve(asks, out)
	if !lasting(asks, out) {
		return false
	}
	for i := range asks {
		asks[i].Evidence.Tell(now, found[i].state)
		asks[i].Limit.Commit(found[i].state, now, &asks[i], &out[i])
	}
	d.answered.Add(1)
	return true
}

func (d *Denials) get(a *weir.Ask, now weir.Instant) *denial {
	if a.Limit == nil {
		return nil // the store refuses it
	}
	e := d.slot(a.State, a.Limit).Load()
	if e == nil || e.key != a.State || now < e.at || now >= e.at+denialLife ||
		e.limit != a.Limit && e.limit.String() != a.Limit.String() {
		return nil
	}
	return e
}

// lasting is whether a take was denied, left no trace, and will be denied until a
// known time.
func lasting(asks []weir.Ask, out []weir.Decision) bool {
	denied := false
	for i := range asks {
		a, o := &asks[i], &out[i]
		if a.After || a.Once || o.Charged || o.Outcome == weir.Denied && a.Limit.DenialCounts() {
			return false
		}
		if a.Limit.Algorithm() == weir.Concurrent {
			return false // a store tells how many permits are out, and not when each runs out
		}
		denied = denied || !a.Shadow && !a.Quota && o.Outcome == weir.Denied && o.RetryAfter > 0
	}
	return denied
}

// Learn takes note of what the store said of a take, and of the states before.
func (d *Denials) Learn(now weir.Instant, asks []weir.Ask, states []weir.State, out []weir.Decision) {
	keep := lasting(asks, out)
	for i := range asks {
		if keep {
			k := asks[i].State
			k.Key = strings.Clone(k.Key) // it may be a piece of a request
			d.slot(k, asks[i].Limit).Store(&denial{k, asks[i].Limit, slices.Clone(states[i]), now})
		} else if !asks[i].Peek {
			d.Forget(asks[i].State)
		}
	}
}

// Forget forgets a key: it was charged, given something back, or reset.
func (d *Denials) Forget(k weir.StateKey) {
	hash := maphash.Comparable(d.seed, k)
	for _, slot := range [...]*atomic.Pointer[denial]{&d.slots[hash%MaxDenials], &d.logs[hash%MaxLogDenials]} {
		if e := slot.Load(); e != nil && e.key == k {
			slot.CompareAndSwap(e, nil) // a newer one knows better
		}
	}
}

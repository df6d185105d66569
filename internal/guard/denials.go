// Package guard stands between those who ask and a store that may be slow or
// away: it remembers denials at home, gives each call its time, stops asking a
// store that does not answer, and lets the fallback of each limit decide then.
package guard

import (
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

const (
	// DenialLife is how long a denial is remembered without asking the store
	// again: what others reset, give back or change is seen within it.
	DenialLife = time.Second
	// MaxDenials is how many keys are remembered at most. Keys whose hashes meet
	// push each other out, which costs the store one more question.
	MaxDenials = 1 << 16

	denialLife = weir.Instant(DenialLife / time.Microsecond)
)

// Denials remember the states of denied takes, and answer those that the same
// states deny, so that an attack costs the store nothing. Others can only have
// used more since: what is denied at home is denied there, unless something was
// given back, reset or changed within DenialLife.
type Denials struct {
	seed     maphash.Seed
	slots    []atomic.Pointer[denial] // by the hash of their key
	answered atomic.Int64
}

// denial is a state that denied, and when. It is never changed.
type denial struct {
	key   weir.StateKey
	limit *weir.Limit
	state weir.State
	at    weir.Instant
}

// NewDenials makes an empty memory.
func NewDenials() *Denials {
	return &Denials{seed: maphash.MakeSeed(), slots: make([]atomic.Pointer[denial], MaxDenials)}
}

func (d *Denials) slot(k weir.StateKey) *atomic.Pointer[denial] {
	return &d.slots[maphash.Comparable(d.seed, k)%MaxDenials]
}

// Answered is how many takes were answered at home.
func (d *Denials) Answered() int64 { return d.answered.Load() }

// Answer decides a take by what is remembered. When that does not deny it, it
// says no, and out is not meant. see, if any, is told as by weir.Witness.
func (d *Denials) Answer(now weir.Instant, asks []weir.Ask, out []weir.Decision, see func(weir.Instant, weir.State)) bool {
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
		if see != nil {
			see(now, found[i].state)
		}
		asks[i].Limit.Commit(found[i].state, now, &asks[i], &out[i])
	}
	d.answered.Add(1)
	return true
}

func (d *Denials) get(a *weir.Ask, now weir.Instant) *denial {
	e := d.slot(a.State).Load()
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
		denied = denied || !a.Shadow && !a.Quota && o.Outcome == weir.Denied && o.RetryAfter > 0
	}
	return denied
}

// Learn takes note of what the store said of a take, and of the states before.
func (d *Denials) Learn(now weir.Instant, asks []weir.Ask, states []weir.State, out []weir.Decision) {
	keep := lasting(asks, out)
	for i := range asks {
		if keep {
			d.slot(asks[i].State).Store(&denial{asks[i].State, asks[i].Limit, slices.Clone(states[i]), now})
		} else if !asks[i].Peek {
			d.Forget(asks[i].State)
		}
	}
}

// Forget forgets a key: it was charged, given something back, or reset.
func (d *Denials) Forget(k weir.StateKey) {
	slot := d.slot(k)
	if e := slot.Load(); e != nil && e.key == k {
		slot.CompareAndSwap(e, nil) // who is faster knows better
	}
}

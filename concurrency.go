package weir

import "slices"

// concurrent hands out permits: at most count at any instant. A permit comes
// back with its receipt, or frees itself when its ttl is over.
//
//	word 0    permits held, those that have run out since the last take included
//	word 1…   three words a holder: when it runs out, its id, how many permits;
//	          in the order in which they run out
//
// A count of permits bounds no rate: quick holders pass any number.
//
// Since holders lie in the order in which they run out, those that have are at the
// front: a take passes over them, and drops them when it writes. word 0 saves adding up
// the others, and is right once the permits of those at the front are taken off it.
type concurrent struct {
	count int64 // permits at any instant, 0…MaxCount
	ttl   int64 // microseconds; a changed one is for new holders and renewals
}

// MaxHolders is how many takes may hold permits of one key at a time; more are
// denied, whatever the count.
const MaxHolders = 1 << 16

// holderWords are when the holder runs out in microseconds since 1970, the id of its
// receipt or 0 without one, and its permits, at least 1.
const holderWords = 3

func newConcurrent(s *Spec) algorithm {
	return &concurrent{count: s.Count, ttl: micros(s.TTL)}
}

func (c *concurrent) words() int  { return 0 }
func (c *concurrent) most() int64 { return c.count }

// holders is where the live holders of s begin, and the permits they hold. A permit counts
// until the microsecond at which it runs out, and no longer.
func (c *concurrent) holders(s State, now Instant) (first int, held int64) {
	if len(s) == 0 {
		return 1, 0
	}
	first, held = 1, int64(s[0])
	for first < len(s) && Instant(s[first]) <= now {
		held -= int64(s[first+2])
		first += holderWords
	}
	return first, held
}

func (c *concurrent) room(s State, now Instant, _ int64) int64 {
	first, held := c.holders(s, now)
	if len(s)-first >= MaxHolders*holderWords {
		return 0
	}
	return max(c.count-held, -1)
}

// wait is not known: a permit may come back at any moment.
func (c *concurrent) wait(State, Instant, int64, int64) int64 { return 0 }
func (c *concurrent) hold(State, Instant, int64) int64        { return 0 }

func (c *concurrent) charge(s State, now Instant, cost int64, _ bool, id uint64) (State, mark) {
	first, held := c.holders(s, now)
	return c.insert(c.drop(s, first, held+cost), now, id, uint64(cost)), mark{id}
}

// insert puts a holder in its place, which is the last unless the clock stepped
// back or the ttl is shorter than it was.
func (c *concurrent) insert(s State, now Instant, id, cost uint64) State {
	until := uint64(now + Instant(c.ttl))
	at := len(s)
	for at > 1 && s[at-holderWords] > until {
		at -= holderWords
	}
	if at == len(s) {
		return append(s, until, id, cost)
	}
	return slices.Insert(s, at, until, id, cost)
}

// live is s without the holders whose time is over.
func (c *concurrent) live(s State, now Instant) State {
	first, held := c.holders(s, now)
	if first == 1 {
		return s
	}
	return c.drop(s, first, held)
}

// drop is s without the holders before first, and with so many permits held.
func (c *concurrent) drop(s State, first int, held int64) State {
	switch {
	case len(s) == 0:
		s = append(s, 0)
	case first > 1:
		s = s[:1+copy(s[1:], s[first:])]
	}
	s[0] = uint64(held)
	return s
}

func (c *concurrent) refuse(s State, _ Instant, _ int64) State { return s }

func (c *concurrent) standing(s State, now Instant) (remaining, reset int64) {
	first, held := c.holders(s, now)
	if first >= len(s) {
		return c.count, 0
	}
	remaining = max(c.count-held, 0)
	if len(s)-first >= MaxHolders*holderWords {
		remaining = 0
	}
	return remaining, int64(s[len(s)-holderWords]) - int64(now)
}

// settle frees the permits of a receipt, or renews them, and then they stay charged. The
// state itself knows whether they were freed before, for the id is gone then: stores need
// not remember receipts of permits. Before the receipt's time is over, an id that is gone
// was settled; afterwards it may have run out.
func (c *concurrent) settle(s State, now Instant, st *Settlement) (State, error) {
	at := c.find(s, st.Receipt.Mark[0])
	switch {
	case at < 0 && now < st.Receipt.Expires:
		return s, ErrSettled
	case at < 0 || Instant(s[at]) <= now:
		return s, ErrExpired
	}
	s = c.live(s, now)
	at = c.find(s, st.Receipt.Mark[0])
	cost := s[at+2]
	copy(s[at:], s[at+holderWords:])
	s = s[:len(s)-holderWords]
	st.Charged = 0
	if st.Renew {
		st.Charged = int64(cost)
		return c.insert(s, now, st.Receipt.Mark[0], cost), nil
	}
	s[0] -= cost
	if len(s) == 1 {
		return s[:0], nil
	}
	return s, nil
}

// find is where the holder of an id is, or −1. Permits taken without a receipt
// have no id and can't be found.
func (c *concurrent) find(s State, id uint64) int {
	for i := 1; i < len(s) && id != 0; i += holderWords {
		if s[i+1] == id {
			return i
		}
	}
	return -1
}

func (c *concurrent) newest(State, Instant) mark { return mark{} }

// giveBack frees permits that were taken without a receipt, of which nobody tells
// that they are free: the newest first. Permits with a receipt are freed by that alone,
// else a caller could free what another one holds.
func (c *concurrent) giveBack(s State, now Instant, _ *Receipt, events int64) (State, int64) {
	s = c.live(s, now)
	back := int64(0)
	for at := len(s) - holderWords; at > 0 && back < events; at -= holderWords {
		if s[at+1] != 0 {
			continue
		}
		n := min(int64(s[at+2]), events-back)
		if s[at+2] -= uint64(n); s[at+2] == 0 {
			s = slices.Delete(s, at, at+holderWords)
		}
		s[0] -= uint64(n)
		back += n
	}
	if len(s) == 1 {
		s = s[:0]
	}
	return s, back
}

// owe counts nothing: permits are held or freed.
func (c *concurrent) owe(s State, _ Instant, _ int64) (State, int64) { return s, 0 }

// used is nothing in the terms of other algorithms: permits are no events.
func (c *concurrent) used(State, Instant) int64 { return 0 }

// alike: the permits that are out stay out, even when they are more than c would give.
func (c *concurrent) alike(o algorithm) bool {
	_, ok := o.(*concurrent)
	return ok
}

func (c *concurrent) adopt(State, algorithm, Instant) State   { return nil }
func (c *concurrent) hear(s State, _ Instant, _ passed) State { return s }

func (c *concurrent) bound(int64, int64) int64 { return 1<<63 - 1 }

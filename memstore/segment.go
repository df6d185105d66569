package memstore

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

// segment is the part of a table whose fingerprints begin with the same bits. It
// fills four cache lines: what a take of a known key touches lies in the first, but for the
// notes on denied keys at the end of the last. The take of a newcomer with a state of two words
// also touches the second.
//
// The goroutine with mu may read and write all of it. Without mu only denied may be read,
// and depth, start and table, which never change.
//
// Until the segment is gone, these things are true whenever mu is free:
//
//   - Every fingerprint in cells begins with the first depth bits of start, and is there once.
//   - cells has no gap: in each bucket the slots that are taken come first. find relies on it.
//   - Every state in cells, and overflow, is by limit.
//   - A copy in denied that says something is the state of its key.
//   - newcomers is 0, and tentative nil: they belong to one take, which has mu.
type segment struct {
	mu sync.Mutex
	// limit decides, and understands every state in cells. It is nil, and cells empty,
	// until the first ask. An ask by another pointer may be of a changed limit: keep
	// tells whether the states can stay as they are. So all limits that it ever has are
	// alike, and alike that of the table.
	limit *weir.Limit
	// cells have the states. They are replaced as a whole when the segment is laid out anew:
	// the index of a slot is good until the next claim, and no longer than mu is held.
	cells cells
	// gone says that the segment was split. A take that has waited for mu finds it so,
	// lets go, and looks again in the directory. It never becomes false again. The cells
	// of such a segment have no words any more, so nobody may look for a slot in them.
	gone  bool
	depth uint8 // how many bits its fingerprints share, 0…bound.depth

	// start is the least fingerprint that belongs here: the shared bits, and zeros.
	start uint64
	table *table
	used  int // slots that have a fingerprint, those of recovered keys too
	ripe  int // with more of them it is split; follows from start, depth and limit
	// newcomers are the asks of the take under way that are about to get slots. The
	// slots that they will need are not free for the asks after them.
	newcomers int
	// spilled tells which newcomers may have found no slot; nil for none. It may say so
	// of a key that did not, and never misses one that did: a key that has used the
	// overflow state must not start anew in a slot while that is in use. It goes as a whole,
	// together with overflow, once that has recovered.
	spilled *spills
	// scratch is the state of a key that has no slot yet, if it is short. A take decides
	// on it, and only what is to be remembered gets a slot. It spares a newcomer that is
	// denied at once both a slot and an allocation.
	scratch [5]uint64

	long weir.State // such a state of more words
	// overflow is the one state that is shared by the newcomers that found no slot: all
	// together they pass what one key may pass. It is at least what any of them has used, so
	// none of them gets through. nil is as never used.
	overflow weir.State
	// tentative is overflow with what the asks so far of a take are about to charge to
	// it. It is nil between takes.
	tentative  weir.State
	evicted    int64 // keys whose use was forgotten; a split hands the number on
	overflowed int64 // asks decided by overflow, likewise

	// denied are copies of denied keys' states, nil until a key is denied twice in a
	// row. They are read without mu.
	denied atomic.Pointer[denied]
	// refused is the key that was denied last, unless its state has changed; 0 for none. It
	// gets a copy in denied if its next take is denied, too.
	refused uint64
}

// keep makes limit the one that decides, if it understands the segment's states. The
// first limit of a table is the one for all its segments: a second one that is not
// alike loses the swap, and its take gets a table of its own.
//
// A limit that is alike may have another count. It takes over at once, with the states as they
// are: takes that ask by two counts in turn change nothing for each other but this pointer.
func (sg *segment) keep(limit *weir.Limit) bool {
	switch {
	case sg.limit == nil:
		if !sg.table.limit.CompareAndSwap(nil, limit) && !sg.table.understands(limit) {
			return false
		}
		sg.limit, sg.cells = limit, newCells(limit, 1)
		sg.table.sized(0, sg.cells.capacity())
		sg.ripe = sg.ripeAt()
	case sg.limit.Alike(limit):
		sg.limit = limit
	default:
		return false
	}
	return true
}

// forget makes receipts up to now give nothing back any more: what they charged
// may be gone, and what is there now may be somebody else's.
func (sg *segment) forget(now weir.Instant) { sg.table.forget(now) }

// state is the state in slot i; of fixed length, it is the slot itself. Its capacity ends with
// the slot, so that an algorithm that appends can't write into the key beside it.
func (sg *segment) state(i int) weir.State {
	s := sg.cells.words[i+1 : i+int(sg.cells.slot) : i+int(sg.cells.slot)]
	if len(s) == 1 {
		return sg.table.slabs.state(s[0])
	}
	return s
}

// unused is a state as never used, for a key that has no slot yet. It is good
// until the next one. A state that grows begins with no words and may append some in scratch:
// put copies them to the slabs.
func (sg *segment) unused() weir.State {
	n := sg.limit.Words()
	if n > len(sg.scratch) {
		if len(sg.long) != n {
			sg.long = make(weir.State, n)
		}
		clear(sg.long)
		return sg.long
	}
	clear(sg.scratch[:])
	return sg.scratch[:n]
}

// put makes state the content of slot i, or for nil as never used. A shorter state is filled up
// with zeros: words of a key that had the slot before must not be read as the new key's.
func (sg *segment) put(i int, state weir.State) {
	sg.changed(sg.cells.words[i])
	s := sg.cells.words[i+1 : i+int(sg.cells.slot)]
	if len(s) == 1 {
		s[0] = sg.table.slabs.keep(s[0], state)
		return
	}
	clear(s[copy(s, state):])
}

// set keeps a state that came from slot i, where it may have been changed. A state of fixed
// length was changed in the slot itself; one that grows may have become longer, and move.
func (sg *segment) set(i int, state weir.State) {
	if sg.cells.slot == 2 {
		sg.put(i, state)
		return
	}
	sg.changed(sg.cells.words[i])
}

// look is the state that decides about f now, and the slot it has, or −1. It is the
// state itself, not a copy.
func (sg *segment) look(f uint64, now weir.Instant) (weir.State, int) {
	if i := sg.cells.find(f); i >= 0 {
		return sg.state(i), i
	}
	if sg.overflows(f, now) {
		return sg.overflow, -1
	}
	return nil, -1
}

// home is where the state is that an ask is decided on. Commit changes that one and
// no other, whatever the other asks of the take do to slots in between. It says the kind of
// place and no index: a newcomer of the same take may lay out the segment anew, and then commit
// finds the slot again by the fingerprint.
type home uint8

const (
	slotted home = iota // in the key's slot
	coming              // as never used, and to get a slot if there is something to remember
	shared              // the overflow state
)

// decide is what f's limit alone says, and on which state. It charges nothing. When the overflow
// state decides several asks of one take, each counts what the asks before it are about to charge:
// else each would find the same room, and all of them together would pass more than is left. It
// is assumed that the take passes. If not, an ask may be told of a longer wait than it has.
func (sg *segment) decide(f uint64, now weir.Instant, a *weir.Ask, several bool) (weir.Decision, home) {
	if i := sg.cells.find(f); i >= 0 {
		return sg.limit.Decide(sg.state(i), now, a), slotted
	}
	switch {
	case !sg.overflows(f, now):
		if several {
			sg.newcomers++
		}
		return sg.limit.Decide(nil, now, a), coming
	case !several:
		return sg.limit.Decide(sg.overflow, now, a), shared
	}
	if sg.tentative == nil {
		sg.tentative = slices.Clone(sg.overflow)
	}
	d := sg.limit.Decide(sg.tentative, now, a)
	most := d // if the take passes
	most.Charged = !a.Peek && d.Cost > 0 && (a.After || d.Outcome == weir.Allowed)
	sg.tentative = sg.limit.Commit(sg.tentative, now, a, &most)
	return d, shared
}

// at is the state that is f's home.
func (sg *segment) at(f uint64, at home) weir.State {
	switch at {
	case slotted:
		return sg.state(sg.cells.find(f))
	case shared:
		return sg.overflow
	case coming:
	}
	return nil
}

// notes is whether a decision leaves something to remember of a key. A newcomer of which
// nothing is to be remembered gets no slot: keys that are only denied, or peeked at, can't
// push out others.
func (sg *segment) notes(a *weir.Ask, d *weir.Decision) bool {
	return d.Charged || d.Outcome == weir.Denied && !a.Peek && sg.limit.DenialCounts()
}

// commit carries out a decision at the home where it was made.
func (sg *segment) commit(f uint64, at home, now weir.Instant, a *weir.Ask, d *weir.Decision) {
	switch at {
	case slotted:
		i := sg.cells.find(f)
		sg.set(i, sg.limit.Commit(sg.state(i), now, a, d))
	case coming:
		state := sg.limit.Commit(sg.unused(), now, a, d)
		if !sg.notes(a, d) {
			return
		}
		if i := sg.claim(f, now); i >= 0 {
			sg.put(i, state)
			return
		}
		sg.owe(f, now, a, *d)
	case shared:
		sg.commitShared(f, now, a, d)
	}
}

// commitShared carries out a decision of the overflow state. A key that has used it
// before, and for which a slot has become free, moves there with all that is used. That is
// sound, for the key alone has used no more than that. The overflow state stays as it is: what
// the others have used of it is not known.
func (sg *segment) commitShared(f uint64, now weir.Instant, a *weir.Ask, d *weir.Decision) {
	if sg.notes(a, d) {
		if sg.spills(f) {
			if i := sg.claim(f, now); i >= 0 {
				sg.set(i, sg.limit.Commit(sg.state(i), now, a, d))
				return
			}
		}
		sg.spill(f)
	}
	if !a.Peek {
		sg.overflowed++
	}
	sg.overflow = sg.limit.Commit(sg.overflow, now, a, d)
}

// owe is for a newcomer whose slot others of the same take got, because the segment
// was laid out anew for them: what was charged is added to the overflow state, even
// beyond the limit, and its receipt gives nothing back.
func (sg *segment) owe(f uint64, now weir.Instant, a *weir.Ask, d weir.Decision) {
	work := *a
	work.After = d.Charged
	sg.spill(f)
	sg.overflowed++
	sg.overflow = sg.limit.Commit(sg.overflow, now, &work, &d)
	sg.forget(now)
}

// settle settles a receipt on f's state. A key without a slot gets one if it can, for the
// work may have cost more than was charged. If it can't, the overflow state gets that.
//
// A segment without a limit was never asked, for example after a restart. The limit of the
// receipt becomes its own, as if that had asked.
func (sg *segment) settle(f uint64, now weir.Instant, st *weir.Settlement) error {
	if sg.limit == nil {
		sg.keep(st.Receipt.Limit)
	}
	since := weir.Instant(sg.table.since.Load())
	state, slot := sg.look(f, now)
	if slot < 0 {
		if slot = sg.claim(f, now); slot < 0 {
			var err error
			sg.spill(f)
			sg.overflow, err = sg.limit.Settle(sg.overflow, now, since, st)
			return err
		}
		state = sg.state(slot)
	}
	state, err := sg.limit.Settle(state, now, since, st)
	sg.set(slot, state)
	return err
}

// reset makes f's state as never used. Its slot stays f's until another key needs it. A key
// that uses the overflow state is not reset: it is not known how much of that is the key's.
func (sg *segment) reset(f uint64, now weir.Instant) {
	if i := sg.cells.find(f); i >= 0 {
		sg.put(i, nil)
		sg.forget(now)
	}
}

// claim finds a slot for a newcomer: an empty one, one whose state is as never
// used, one in a larger segment, or the one nearest to never used. It is −1 when
// all that it may have are denied at the moment.
//
// It may lay the segment out anew, so that slots found before are not where they were.
// A slot whose key is forgotten makes all older receipts of the table give nothing
// back: a receipt of the forgotten key would take from its successor.
//
// The slot that it returns has f in it already, and so fills the gap that a moved key may have
// left. The loop ends: grow fails at the bound, and else each round has more buckets.
func (sg *segment) claim(f uint64, now weir.Instant) int {
	if sg.used >= sg.ripe && sg.most() == unbounded {
		sg.clean(now)
	}
	for try := 0; ; try++ {
		if i := sg.vacant(f, now); i >= 0 {
			return sg.settleIn(i, f, now)
		}
		if sg.grow(now, try) {
			continue
		}
		i := sg.freshest(f, now)
		if i < 0 {
			return -1
		}
		sg.evicted++
		sg.forget(now)
		return sg.settleIn(i, f, now)
	}
}

// settleIn gives slot i to f. A key that may have used the overflow state starts with the usage of
// that state. So a key that shares only the bit in spilled may be denied early; it is not known
// that it never used the overflow state.
//
// A slot that changes hands stays taken, and an empty one is the first of its bucket or was left
// by a key that has just moved. So no bucket gets a gap.
func (sg *segment) settleIn(i int, f uint64, now weir.Instant) int {
	if sg.cells.words[i] == 0 {
		sg.used++
	}
	sg.changed(sg.cells.words[i])
	sg.cells.words[i] = f
	if sg.spills(f) && !sg.limit.Fresh(sg.overflow, now) {
		sg.put(i, slices.Clone(sg.overflow))
	} else {
		sg.empty(i)
	}
	return i
}

// empty makes slot i as never used, for what is about to come. A state that grows leaves its
// place in the slabs to the next key, if it is of the smallest class.
func (sg *segment) empty(i int) {
	if sg.cells.slot == 2 {
		sg.cells.words[i+1] = sg.table.slabs.empty(sg.cells.words[i+1])
		return
	}
	sg.put(i, nil)
}

// vacant is a slot that f may have at nobody's expense, or −1. The first bucket comes before the
// second, for there a take finds the key without a look at another. In each, an empty slot comes
// before one that is as never used: as long as the first bucket is not full, no state is read.
// Only when both have neither does another key move.
func (sg *segment) vacant(f uint64, now weir.Instant) int {
	if sg.cells.buckets == 0 {
		return -1
	}
	c := &sg.cells
	first, second := c.first(f), c.second(f)
	if !c.full(first) {
		return c.within(first, 0)
	}
	for i := range c.each {
		if at := int(first + i*c.slot); sg.limit.Fresh(sg.state(at), now) {
			return at
		}
	}
	if !c.full(second) {
		return c.within(second, 0)
	}
	for i := range c.each {
		if at := int(second + i*c.slot); sg.limit.Fresh(sg.state(at), now) {
			return at
		}
	}
	return c.empty(f)
}

// freshest is the slot nearest to never used of those that f may have and whose
// key is not denied, or −1: the one with the most remaining, and among equals the one
// that recovers first. A key with nothing remaining stays, else a client that is
// denied could start anew by flooding the table with other keys. The same flood makes a key that
// is not denied start anew; that is the price of a table with a bound. Stats.Evicted counts it.
func (sg *segment) freshest(f uint64, now weir.Instant) int {
	slot := -1
	var most int64
	var soonest time.Duration
	for _, b := range [...]uint32{sg.cells.first(f), sg.cells.second(f)} {
		for i := range sg.cells.each {
			at := int(b + i*sg.cells.slot)
			remaining, reset := sg.limit.Standing(sg.state(at), now)
			if remaining > 0 && (slot < 0 || remaining > most || remaining == most && reset < soonest) {
				slot, most, soonest = at, remaining, reset
			}
		}
	}
	return slot
}

// idle is whether nothing of the segment is in use, the overflow state included: newcomers that
// share it would start anew if it were dropped.
func (sg *segment) idle(now weir.Instant) bool {
	for i := range sg.cells.all {
		if !sg.limit.Fresh(sg.state(i), now) {
			return false
		}
	}
	return sg.limit == nil || sg.limit.Fresh(sg.overflow, now)
}

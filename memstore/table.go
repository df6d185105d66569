package memstore

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

const (
	shardBits = 4
	shards    = 1 << shardBits
	minSlots  = 8
	// reach is how many slots from its home a key may live.
	reach = 32
)

// table holds the states of one rule.
type table struct {
	order  int // in which tables are locked
	high   maphash.Seed
	low    maphash.Seed
	since  atomic.Int64 // receipts from before this instant give nothing back
	shards [shards]shard
}

func newTable(order, maxSlots int) *table {
	t := &table{order: order, high: maphash.MakeSeed(), low: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].table, t.shards[i].max = t, maxSlots
	}
	return t
}

// fingerprint stands for a key. Two keys of a table share one with a
// probability of 2^-128, and would then share their count.
type fingerprint struct{ high, low uint64 }

func (t *table) fingerprint(key string) fingerprint {
	f := fingerprint{maphash.String(t.high, key), maphash.String(t.low, key)}
	if f == (fingerprint{}) {
		f.low = 1 // zero is an empty slot
	}
	return f
}

func (f fingerprint) compare(o fingerprint) int {
	return cmp.Or(cmp.Compare(f.high, o.high), cmp.Compare(f.low, o.low))
}

func (t *table) unused(now weir.Instant) bool {
	for i := range t.shards {
		if !t.shards[i].unused(now) {
			return false
		}
	}
	return true
}

func (t *table) stats(st *Stats) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		st.Slots += len(sh.prints)
		st.Evicted += sh.evicted
		st.Overflow += sh.overflowed
		sh.mu.Unlock()
	}
}

// shard is a part of a table, open addressed. A key lives within reach slots
// of its home or nowhere, so looking for it is bounded.
type shard struct {
	mu     sync.Mutex
	table  *table
	max    int // slots
	limit  *weir.Limit
	prints []fingerprint
	words  []uint64     // states of fixed length, one after the other
	grown  []weir.State // states that grow, where limit's do

	overflow   weir.State // shared by the newcomers that found no slot
	spilled    []uint64   // a bit for each range of homes that they have; nil for none
	tentative  weir.State // overflow with what a take is about to charge to it
	newcomers  int        // of a take under way, that are about to get slots
	evicted    int64
	overflowed int64
}

// keep makes the shard's states states of limit. A limit that has changed
// takes over what was used by the old one.
func (sh *shard) keep(limit *weir.Limit, now weir.Instant) {
	old := sh.limit
	if old == limit {
		return
	}
	if old == nil || old.String() == limit.String() {
		sh.limit = limit
		return
	}
	before := shard{limit: old, prints: sh.prints, words: sh.words, grown: sh.grown}
	sh.limit = limit
	sh.lay(len(before.prints))
	copy(sh.prints, before.prints)
	for i, f := range sh.prints {
		if f == (fingerprint{}) {
			continue
		}
		sh.put(i, limit.Adopt(before.state(i), old, now))
	}
	sh.overflow = limit.Adopt(sh.overflow, old, now)
	sh.forget(now)
}

// forget makes receipts up to now give nothing back any more: what they charged
// may be gone, and what is there now may be somebody else's.
func (sh *shard) forget(now weir.Instant) {
	since := &sh.table.since
	for {
		old := since.Load()
		if old > int64(now) || since.CompareAndSwap(old, int64(now)+1) {
			return
		}
	}
}

// lay makes n empty slots for states of the shard's limit.
func (sh *shard) lay(n int) {
	sh.prints = make([]fingerprint, n)
	sh.words, sh.grown = nil, nil
	if w := sh.limit.Words(); w > 0 {
		sh.words = make([]uint64, n*w)
	} else {
		sh.grown = make([]weir.State, n)
	}
}

// state is the state in slot i; of fixed length, it is the slot itself.
func (sh *shard) state(i int) weir.State {
	w := sh.limit.Words()
	if w == 0 {
		return sh.grown[i]
	}
	return sh.words[i*w : (i+1)*w : (i+1)*w]
}

// put makes state the content of slot i.
func (sh *shard) put(i int, state weir.State) {
	if sh.limit.Words() == 0 {
		sh.grown[i] = state
		return
	}
	slot := sh.state(i)
	clear(slot[copy(slot, state):])
}

// home is where to look for f first.
func (sh *shard) home(f fingerprint) int {
	n, _ := bits.Mul64(f.low, uint64(len(sh.prints)))
	return int(n)
}

// find is the slot of f, or −1.
func (sh *shard) find(f fingerprint) int {
	n := len(sh.prints)
	if n == 0 {
		return -1
	}
	i := sh.home(f)
	for range min(reach, n) {
		switch sh.prints[i] {
		case f:
			return i
		case fingerprint{}:
			return -1
		}
		if i++; i == n {
			i = 0
		}
	}
	return -1
}

// look is the state that decides about f now, and the slot it has, or −1.
func (sh *shard) look(f fingerprint, now weir.Instant) (weir.State, int) {
	if i := sh.find(f); i >= 0 {
		return sh.state(i), i
	}
	if sh.overflows(f, now) {
		return sh.overflow, -1
	}
	return nil, -1
}

// decide is what f's limit alone says. Of the asks of one take that the overflow
// state decides, each meets what those before it are about to charge.
func (sh *shard) decide(f fingerprint, now weir.Instant, a *weir.Ask, several bool) weir.Decision {
	state, slot := sh.look(f, now)
	if slot >= 0 || !several {
		return sh.limit.Decide(state, now, a)
	}
	if state == nil && !sh.overflows(f, now) {
		sh.newcomers++
		return sh.limit.Decide(state, now, a)
	}
	if sh.tentative == nil {
		sh.tentative = slices.Clone(sh.overflow)
	}
	d := sh.limit.Decide(sh.tentative, now, a)
	if charge := d; d.Outcome == weir.Allowed && !a.Peek && d.Cost > 0 {
		charge.Charged = true
		sh.tentative = sh.limit.Commit(sh.tentative, now, a, &charge)
	}
	return d
}

// commit carries out a decision. It gives a newcomer a slot only when there is
// something to remember.
func (sh *shard) commit(f fingerprint, now weir.Instant, a *weir.Ask, d *weir.Decision) {
	state, slot := sh.look(f, now)
	writes := d.Charged || d.Outcome == weir.Denied && !a.Peek
	if slot < 0 && writes {
		slot = sh.claim(f, now)
		if slot < 0 {
			sh.overflowed++
			sh.spill(f)
			sh.overflow = sh.limit.Commit(sh.overflow, now, a, d)
			return
		}
		state = sh.state(slot)
	}
	state = sh.limit.Commit(state, now, a, d)
	if slot >= 0 {
		sh.set(slot, state)
	}
}

// set keeps a state that came from slot i.
func (sh *shard) set(i int, state weir.State) {
	if sh.limit.Words() == 0 {
		sh.grown[i] = state
	}
}

func (sh *shard) settle(f fingerprint, now weir.Instant, st *weir.Settlement) error {
	if sh.limit == nil {
		sh.limit = st.Receipt.Limit
	}
	since := weir.Instant(sh.table.since.Load())
	state, slot := sh.look(f, now)
	if slot < 0 {
		if slot = sh.claim(f, now); slot < 0 {
			var err error
			sh.spill(f)
			sh.overflow, err = sh.limit.Settle(sh.overflow, now, since, st)
			return err
		}
		state = sh.state(slot)
	}
	state, err := sh.limit.Settle(state, now, since, st)
	sh.set(slot, state)
	return err
}

func (sh *shard) reset(f fingerprint, now weir.Instant) {
	if i := sh.find(f); i >= 0 {
		sh.put(i, nil)
		sh.forget(now)
	}
}

// claim finds a slot for a newcomer: an empty one, one whose state is as never
// used, one in a larger shard, or the one nearest to never used. It is −1 when
// all that are in reach are denied at the moment.
func (sh *shard) claim(f fingerprint, now weir.Instant) int {
	for {
		slot, evict := sh.vacancy(f, now)
		if slot >= 0 && !evict {
			return sh.settleIn(slot, f, now)
		}
		if len(sh.prints) < sh.max {
			sh.grow(now)
			continue
		}
		if slot < 0 {
			return -1
		}
		sh.evicted++
		sh.forget(now)
		return sh.settleIn(slot, f, now)
	}
}

// settleIn gives slot i to f. Who may have used the overflow state starts with
// what that has used.
func (sh *shard) settleIn(i int, f fingerprint, now weir.Instant) int {
	sh.prints[i] = f
	if sh.spills(f) && !sh.limit.Fresh(sh.overflow, now) {
		sh.put(i, slices.Clone(sh.overflow))
	} else {
		sh.put(i, nil)
	}
	return i
}

// vacancy looks for a slot that f may have. With evict, its key still counts
// and would be forgotten.
func (sh *shard) vacancy(f fingerprint, now weir.Instant) (slot int, evict bool) {
	n := len(sh.prints)
	if n == 0 {
		return -1, false
	}
	slot = -1
	var most int64
	var soonest time.Duration
	i := sh.home(f)
	for range min(reach, n) {
		if sh.prints[i] == (fingerprint{}) {
			return i, false
		}
		if sh.limit.Fresh(sh.state(i), now) {
			return i, false
		}
		remaining, reset := sh.limit.Standing(sh.state(i), now)
		if remaining > 0 && (slot < 0 || remaining > most || remaining == most && reset < soonest) {
			slot, most, soonest = i, remaining, reset
		}
		if i++; i == n {
			i = 0
		}
	}
	return slot, true
}

// grow doubles the shard and leaves behind what is as never used.
func (sh *shard) grow(now weir.Instant) {
	old := shard{limit: sh.limit, prints: sh.prints, words: sh.words, grown: sh.grown}
	size := max(2*len(old.prints), minSlots)
	for !sh.move(&old, size, now) {
		size *= 2
	}
}

// move lays the shard out anew with size slots, and says whether every state
// found a slot in reach.
func (sh *shard) move(old *shard, size int, now weir.Instant) bool {
	sh.lay(size)
	for i, f := range old.prints {
		if f == (fingerprint{}) || old.limit.Fresh(old.state(i), now) {
			continue
		}
		slot := sh.empty(f)
		if slot < 0 {
			return false
		}
		sh.prints[slot] = f
		sh.put(slot, old.state(i))
	}
	return true
}

func (sh *shard) empty(f fingerprint) int {
	n := len(sh.prints)
	i := sh.home(f)
	for range min(reach, n) {
		if sh.prints[i] == (fingerprint{}) {
			return i
		}
		if i++; i == n {
			i = 0
		}
	}
	return -1
}

func (sh *shard) unused(now weir.Instant) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i, f := range sh.prints {
		if f != (fingerprint{}) && !sh.limit.Fresh(sh.state(i), now) {
			return false
		}
	}
	return sh.limit == nil || sh.limit.Fresh(sh.overflow, now)
}

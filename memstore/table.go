package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// table holds the states of one rule, in segments by the first bits of the
// fingerprints. It begins as one segment of one bucket.
//
// The segments of the directory tile the fingerprints: each fingerprint belongs to one of
// them, and a split puts two in the place of one. So whatever goes over the segments by start
// meets each fingerprint once, however many are split meanwhile.
type table struct {
	// The fields that each take looks at are in one line of the processor's cache.
	rule string // never changes, so a reader without a lock may compare it
	// versions are all tables of the rule; nil where this is the only one. It changes
	// under Store.mu, without the locks of segments: a take that has locked its
	// segments compares it with what it found, and begins again if it has changed. A
	// change after that look does no harm: a take that goes by it waits for the same
	// segment, and then finds what was charged.
	versions atomic.Pointer[versions]
	hash     *hasher
	// dir leads to the segments. It may be read without a lock: an old directory leads
	// to a segment that says that it is gone.
	dir atomic.Pointer[directory]
	// own has the counts of keys with limits of their own; nil: there are none. It is
	// made once, and all tables of a rule have the same.
	own atomic.Pointer[own]

	// order is in which tables are locked; no two tables of a store have the same. A
	// table that comes later has a larger one, so the order never changes.
	order int
	bound bound // never changes
	// since, in microseconds, only grows: receipts from before it give nothing back, as
	// a key of the table was forgotten, and its charge may be gone. It is one number for all
	// keys, so a key that is forgotten costs the others their refunds, and none gets too much.
	since atomic.Int64
	// given is when the table's last receipt was given, so that since is after it even
	// when the clock has stepped back.
	given record.Latest
	slabs slabs
	// limit is the first that asked; nil until then. It never changes, and all limits
	// of the table's segments are alike it.
	limit atomic.Pointer[weir.Limit]
	// asked and until, in microseconds, are of a table among others: when it was asked
	// last, and until when it has to be kept, since some key may not have recovered. until
	// only grows; asked follows the clock, and goes back with it. Both are read without a lock.
	asked atomic.Int64
	until atomic.Int64
	// mu is held for a change of dir, by a goroutine that has the lock of the segment that is
	// split. It takes no other lock, and reads no state.
	mu sync.Mutex

	// brought is the room that the table shares with those of other limits that came
	// with requests; nil: room of its own. slots counts only then.
	brought *brought
	// slots are those of all segments, added up by sized.
	slots atomic.Int64
}

// directory leads from the first bits of a fingerprint to its segment. Where a
// segment has fewer bits than the directory, several entries lead to it.
//
// It doubles when a segment is split that has all of its bits, as in extendible hashing
// (Fagin, Nievergelt, Pippenger and Strong, 1979): that copies pointers, and no states.
//
// A segment of depth d has 2^(bits − d) entries, one after the other from start >> shift on.
// There are at most 2^bound.depth entries: 2^19, or 4 MB, at the largest MaxKeys.
type directory struct {
	// shift is 64 less the bits of the directory: a fingerprint shifted by it is the
	// index. It begins with 64, where every fingerprint has index 0.
	shift    uint
	segments []atomic.Pointer[segment] // 2^(64 − shift)
}

// bound is how large a table may become. For a million keys it is 512 segments of 2,845 slots: an
// even share is 1,954 keys. A segment of less depth is split instead.
type bound struct {
	depth uint8 // at most 2^depth segments
	slots int   // each of at most so many, once it is as deep as depth
	early int   // earlyKeys; tests split smaller ones
}

// segmentKeys is how many keys a segment of a full table has, about.
const segmentKeys = 2048

// newBound makes room for so many keys: 4/3 slots a key, and in each segment four
// standard deviations more than an even share. How many keys fall into a segment by chance has
// about the root of the share as its deviation. With four of them, hardly any segment is full
// before the table has MaxKeys.
//
// A small table has more segments than it needs by size, up to earlySegments, as long as each
// has earlyKeys or more: takes of different keys wait less for each other.
func newBound(keys int) bound {
	b := bound{early: earlyKeys}
	for keys>>b.depth > segmentKeys || 1<<b.depth < earlySegments && keys>>b.depth >= 2*earlyKeys {
		b.depth++
	}
	share := keys>>b.depth + 1
	deviation := 1
	for deviation*deviation < share {
		deviation++
	}
	b.slots = max((share+4*deviation)*4/3, 16)
	return b
}

func newTable(rule string, order int, hash *hasher, b bound) *table {
	t := &table{rule: rule, order: order, hash: hash, bound: b}
	d := &directory{shift: 64, segments: make([]atomic.Pointer[segment], 1)}
	d.segments[0].Store(&segment{table: t})
	t.dir.Store(d)
	return t
}

// segment is the segment of f, unless it is split meanwhile. At shift 64 Go's shift gives 0, the
// only entry.
func (t *table) segment(f uint64) *segment {
	d := t.dir.Load()
	return d.segments[f>>d.shift].Load()
}

// lock locks the segment of f and returns it. A segment that is gone was replaced in the
// directory before its lock was released, so the next look finds another one. It fails
// at most bound.depth times: each time the segment of f was split, and one of that depth never is.
func (t *table) lock(f uint64) *segment {
	for {
		sg := t.segment(f)
		sg.mu.Lock()
		if !sg.gone {
			return sg
		}
		sg.mu.Unlock()
	}
}

// replace puts the parts of a segment that was split in its place. The caller has the lock
// of the segment, so nobody else replaces that one; mu keeps splits of two segments apart. A
// doubling copies all entries: without mu it could copy one that another split stores just then,
// and a segment that is gone would be in the new directory for ever.
//
// Readers go by the old directory or the new one. The entries of the parts are stored one by
// one, and a reader who still finds the segment that was split waits for its lock, and then
// sees that it is gone.
func (t *table) replace(sg *segment, parts [2]*segment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dir.Load()
	if sg.depth == uint8(64-d.shift) {
		twice := &directory{shift: d.shift - 1, segments: make([]atomic.Pointer[segment], 2*len(d.segments))}
		for i := range twice.segments {
			twice.segments[i].Store(d.segments[i/2].Load())
		}
		d = twice
	}
	n := 1 << (64 - d.shift - uint(sg.depth)) // entries of sg
	at := int(sg.start >> d.shift)
	for i := range n {
		d.segments[at+i].Store(parts[i/(n/2)])
	}
	t.dir.Store(d)
}

// each yields the segments one by one, each locked. Segments that are split meanwhile are
// yielded once: it goes on with the fingerprint after the last of the one before.
func (t *table) each(yield func(*segment) bool) {
	for f := uint64(0); ; {
		sg := t.lock(f)
		more := yield(sg)
		next := sg.start + 1<<(64-sg.depth)
		sg.mu.Unlock()
		if f = next; !more || f == 0 {
			return
		}
	}
}

// forget makes receipts up to now give nothing back any more, and those that were
// given later by a clock that has stepped back.
//
// The receipts that matter are those of the key that is forgotten. They were given under the
// lock of its segment, which the caller has, so given has seen them all. A receipt that another
// segment gives at the same time may count as older or newer: its own charge is not gone.
func (t *table) forget(now weir.Instant) {
	now = t.given.Or(now)
	for {
		old := t.since.Load()
		if old > int64(now) || t.since.CompareAndSwap(old, int64(now)+1) {
			return
		}
	}
}

// give dates the receipt of a decision, and notes it. A receipt is never dated before since: its
// charge came after the table forgot something, though the clock may show less.
func (t *table) give(d *weir.Decision) {
	if d.Receipt == nil {
		return
	}
	d.Date(weir.Instant(t.since.Load()))
	t.given.See(d.Receipt.Taken)
}

// idle is whether all states are as never used. It locks one segment at a time, so a take may
// use a state that it has passed: dropUnused says what that costs.
func (t *table) idle(now weir.Instant) bool {
	for sg := range t.each {
		if !sg.idle(now) {
			return false
		}
	}
	return true
}

func (t *table) stats(st *Stats) {
	for sg := range t.each {
		st.Slots += sg.cells.capacity()
		st.Evicted += sg.evicted
		st.Overflow += sg.overflowed
	}
}

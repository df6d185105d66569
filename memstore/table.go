package memstore

import (
	"sync"
	"sync/atomic"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// table holds the states of one rule, in segments by the first bits of the
// fingerprints. It begins as one segment of one bucket.
type table struct {
	// What each take looks at is in one line of the processor's cache.
	rule     string
	versions atomic.Pointer[versions] // all tables of the rule; nil where this is the only one
	hash     *hasher
	dir      atomic.Pointer[directory]

	order int // in which tables are locked
	bound bound
	since atomic.Int64 // receipts from before this instant give nothing back
	given record.Latest
	slabs slabs
	limit atomic.Pointer[weir.Limit] // it understands the states; nil where nothing was asked yet
	asked atomic.Int64               // when a table among others was asked last
	until atomic.Int64               // such a table is kept until this instant
	mu    sync.Mutex                 // of changes of dir

	brought *brought // nil: room of its own
	slots   atomic.Int64
}

// directory leads from the first bits of a fingerprint to its segment. Where a
// segment has fewer bits than the directory, several entries lead to it.
type directory struct {
	shift    uint
	segments []atomic.Pointer[segment]
}

// bound is how large a table may become.
type bound struct {
	depth uint8 // at most 2^depth segments
	slots int   // each of at most so many
	early int   // earlyKeys; tests split smaller ones
}

// segmentKeys is how many keys a segment of a full table has, about.
const segmentKeys = 2048

// newBound makes room for so many keys: 4/3 slots a key, and in each segment four
// standard deviations more than an even share.
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

// segment is the segment of f, unless it is split meanwhile.
func (t *table) segment(f uint64) *segment {
	d := t.dir.Load()
	return d.segments[f>>d.shift].Load()
}

// lock locks the segment of f and returns it.
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

// replace puts the parts of a segment that was split in its place.
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

// each yields the segments one by one, each locked.
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
func (t *table) forget(now weir.Instant) {
	now = t.given.Or(now)
	for {
		old := t.since.Load()
		if old > int64(now) || t.since.CompareAndSwap(old, int64(now)+1) {
			return
		}
	}
}

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

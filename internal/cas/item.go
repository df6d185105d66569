package cas

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/packing"
	"github.com/weir-limit/weir/internal/record"
)

// itemSign begins every item. A change of the form changes its last byte.
const itemSign = "weir\x01"

// skew is how far the clocks of processes may be apart. What may be dropped by the clock of one is
// kept so long more: without it a process with a fast clock would drop a count that one with a slow
// clock still has to deny by. The engine promises nothing for clocks that are further apart.
const skew = 2 * time.Second

// item is what a store keeps of one placement and key: the counts of all its limits, and notes of
// what works once. They are in one item because many a store swaps one item at a time: a charge and
// the note of it, or the charges of several limits, are then written together or not at all.
//
// An item is decoded for each round, changed by one job after the other, and encoded once. It is
// for one goroutine.
//
// An item is never changed in place on the server. Each write is a whole item that stands on the
// whole item which was read, so whatever one round sees of it is one moment of it.
//
// The limits of an item don't know of each other. Each count has its own until, and goes when that
// is over; the item goes with the last.
type item struct {
	// born is when the item was made, by the earliest clock that wrote it.
	// Receipts from before give nothing back, for what they charged is gone.
	//
	// A receipt carries when it was taken, so comparing the two needs no list of what was evicted.
	// With a clock that is behind, a receipt of the last moments before born may still give back;
	// none is refused whose charge the item holds.
	born    weir.Instant
	counts  []count // no two of one label
	notes   []note  // the oldest first
	changed bool    // since it was read: it has to be written
}

// count is one limit's count. It is read only when it is asked for, so that a descriptor with many
// limits costs no more than those that a take names, and one count that can't be read does not keep
// the others from being used.
type count struct {
	label string // of the limit: the rest of its rule after the placement
	until weir.Instant
	// raw is a piece of the value that was read, or bytes of its own; neither is ever written
	// into. The value may be known to the lane for the next round, which decodes it again.
	raw []byte         // as kept; always what own would be written as
	own *record.Record // as it shall be, when it was read; never handed out, only copies of it
}

// note says that a take that asked for Once was charged, or a receipt settled. It is written with
// the charge or the giving back that it speaks of. A note may leave its item for one of its own,
// when there are many: so a job that works once looks at both, its item first. A note moves before
// it is taken out, so at any moment at least one of the two has it.
//
// A note lives for weir.OnceLife, or until its receipt has expired. After that nobody can ask for
// it: a late take counts as a new one, and a late settlement gives nothing back.
type note struct {
	kind  noteKind
	id    uint64
	until weir.Instant // after which it need not be known
	data  []byte       // what the first answer was made of
	fresh bool         // not kept yet
}

type noteKind byte

const (
	noNote      noteKind = 0
	noteOnce    noteKind = 'o'
	noteSettled noteKind = 's'
)

var errForeign = &record.CountError{Err: errors.New("it holds no count: is it another program's?")}

// decodeItem reads what encode wrote; nothing is an item never written.
//
// It reads no record: only labels, times and where each record lies. It fails as a whole for bytes
// that encode has not written, since a count must not begin anew because another program wrote
// over it.
func decodeItem(b []byte, now weir.Instant) (*item, error) {
	it := &item{born: now}
	if len(b) == 0 {
		return it, nil
	}
	d := decode(b)
	if string(d.Take(len(itemSign))) != itemSign {
		return nil, errForeign
	}
	it.born = d.instant()
	for range d.Length() {
		c := count{label: string(d.Bytes()), until: d.instant(), raw: d.Bytes()}
		it.counts = append(it.counts, c)
	}
	for range d.Length() {
		it.notes = append(it.notes, d.note())
	}
	if d.Bad || len(d.Rest) > 0 {
		return nil, errForeign
	}
	return it, nil
}

// bornOf is when an item was made; 0 of what is none.
//
// It serves sightings, which need nothing else of an item.
func bornOf(b []byte) weir.Instant {
	d := decode(b)
	if string(d.Take(len(itemSign))) != itemSign {
		return 0
	}
	return d.instant()
}

// decoder reads the parts of an item. Its user reads all of them and looks at Bad once. Another
// program may have written anything there.
type decoder struct{ packing.Reader }

func decode(b []byte) decoder { return decoder{packing.Reader{Rest: b}} }

func (d *decoder) word() uint64 {
	b := d.Take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

func (d *decoder) instant() weir.Instant { return weir.Instant(d.word()) }

func (d *decoder) note() note {
	n := note{}
	if kind := d.Take(1); kind != nil {
		n.kind = noteKind(kind[0])
	}
	n.id, n.until, n.data = d.word(), d.instant(), d.Bytes()
	return n
}

// encode is the item as it is kept: itemSign, born, how many counts there are, each with its label,
// until and record, how many notes there are, and each as append has it. Instants and ids are 8
// bytes, little-endian. Lengths and numbers are varints, and stand before what they count.
func (it *item) encode() []byte {
	b := append(make([]byte, 0, 256), itemSign...)
	b = binary.LittleEndian.AppendUint64(b, uint64(it.born))
	b = binary.AppendUvarint(b, uint64(len(it.counts)))
	for i := range it.counts {
		c := &it.counts[i]
		b = packing.AppendText(b, c.label)
		b = binary.LittleEndian.AppendUint64(b, uint64(c.until))
		b = packing.AppendText(b, c.raw)
	}
	b = binary.AppendUvarint(b, uint64(len(it.notes)))
	for i := range it.notes {
		b = it.notes[i].append(b)
	}
	return b
}

func (n *note) append(b []byte) []byte {
	b = append(b, byte(n.kind))
	b = binary.LittleEndian.AppendUint64(b, n.id)
	b = binary.LittleEndian.AppendUint64(b, uint64(n.until))
	return packing.AppendText(b, n.data)
}

// record is the count of a label, to decide on. limit, which may be nil, saves
// reading its text again.
//
// The copy is the job's: one that fails half-way has changed nothing that the next job in the
// round could see.
func (it *item) record(label string, limit *weir.Limit) (record.Record, error) {
	i := it.find(label)
	if i < 0 {
		return record.Record{}, nil
	}
	c := &it.counts[i]
	if c.own == nil {
		r, err := record.Parse(c.raw, limit)
		if err != nil {
			return r, err
		}
		c.own = &r
	}
	return record.Record{Kept: c.own.Clone()}, nil
}

func (it *item) find(label string) int {
	return slices.IndexFunc(it.counts, func(c count) bool { return c.label == label })
}

// put makes r the count of a label. A count that says no more than its absence is not put where
// there was none: a peek or a denial of a key never seen leaves no item behind.
func (it *item) put(label string, r record.Record, now weir.Instant) {
	if r.Limit == nil {
		return
	}
	keep := r.Keep(now)
	i := it.find(label)
	if i < 0 {
		if keep == 0 {
			return
		}
		i = len(it.counts)
		it.counts = append(it.counts, count{label: label})
	}
	it.changed, it.born = true, min(it.born, now)
	it.counts[i] = count{label: label, until: now + instants(keep), raw: r.Append(nil), own: &r}
}

// noted is the note of this kind and id, if it is there.
//
// A note that is over says nothing, though it may still stand there: prune leaves it for skew,
// for processes whose clocks are behind.
func (it *item) noted(kind noteKind, id uint64, now weir.Instant) *note {
	for i := range it.notes {
		if n := &it.notes[i]; n.kind == kind && n.id == id && now < n.until {
			return n
		}
	}
	return nil
}

func (it *item) note(n note, now weir.Instant) {
	n.fresh = true
	it.changed, it.born = true, min(it.born, now)
	it.notes = append(it.notes, n)
}

// prune drops what is over, by any clock. A count that is over says no more than its absence would.
//
// It runs only where the item is written anyway. Until then a count that is over costs bytes, and
// nothing else.
func (it *item) prune(now weir.Instant) {
	before := now - instants(skew)
	it.counts = slices.DeleteFunc(it.counts, func(c count) bool { return c.until < before })
	it.notes = slices.DeleteFunc(it.notes, func(n note) bool { return n.until < before })
}

// keep is how long the item has to be kept.
func (it *item) keep(now weir.Instant) time.Duration {
	until := now
	for i := range it.counts {
		until = max(until, it.counts[i].until)
	}
	for i := range it.notes {
		until = max(until, it.notes[i].until)
	}
	return (until - now).Duration()
}

func instants(d time.Duration) weir.Instant {
	return weir.Instant((d + time.Microsecond - 1) / time.Microsecond)
}

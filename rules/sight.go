package rules

import (
	"encoding/binary"
	"slices"

	"github.com/weir-limit/weir"
)

// sight is what a take stood on, by ask.
type sight []weir.Evidence

// see has the store fill in what the take stands on, when it is denied.
func (t *take) see() {
	t.seen = slices.Grow(t.seen[:0], len(t.asks))[:len(t.asks)]
	for i := range t.seen {
		t.seen[i].Clear()
		t.asks[i].Evidence = &t.seen[i]
	}
}

// told is whether the store has told all of it.
func (s sight) told() bool {
	return !slices.ContainsFunc(s, func(e weir.Evidence) bool { return !e.Told })
}

// clear empties s, and keeps memory that is no larger than what is kept of a denial.
func (s sight) clear() sight {
	for i := range s {
		if s[i].Clear(); 8*cap(s[i].State) > MaxDenial {
			s[i].State = nil
		}
	}
	return s[:0]
}

// size is how long the text of append is at most.
func (s sight) size() int {
	n := binary.MaxVarintLen16 * len(s)
	for i := range s {
		n += 8 * len(s[i].State)
	}
	return n
}

// append appends the states.
func (s sight) append(b []byte) []byte {
	for i := range s {
		b = binary.AppendUvarint(b, uint64(len(s[i].State)))
		for _, w := range s[i].State {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	return b
}

// requestSize is how long the text of appendRequest may be at most.
func requestSize(r *Request) int {
	n := len(r.Domain) + 3*binary.MaxVarintLen64
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		n += 2 * binary.MaxVarintLen64
		for _, e := range d.Entries {
			n += len(e.Key) + len(e.Value) + 2*binary.MaxVarintLen16
		}
	}
	return n
}

// appendRequest appends r, but for its overrides and what a denial does not
// depend on.
func appendRequest(b []byte, r *Request) []byte {
	b = appendWord(b, r.Domain)
	flags := byte(0)
	if r.Peek {
		flags |= 1
	}
	if r.AnyCost {
		flags |= 2
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(len(r.Descriptors)))
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		b = binary.AppendUvarint(b, uint64(d.Cost))
		b = binary.AppendUvarint(b, uint64(len(d.Entries)))
		for _, e := range d.Entries {
			b = appendWord(appendWord(b, e.Key), e.Value)
		}
	}
	return b
}

// reader reads what this process wrote into a denial.
type reader []byte

func (b *reader) number() uint64 {
	v, n := binary.Uvarint(*b)
	*b = (*b)[n:]
	return v
}

func (b *reader) word() string {
	n := b.number()
	w := string((*b)[:n])
	*b = (*b)[n:]
	return w
}

func (b *reader) request() *Request {
	r := &Request{Domain: b.word()}
	flags := b.number()
	r.Peek, r.AnyCost = flags&1 != 0, flags&2 != 0
	r.Descriptors = make([]Descriptor, b.number())
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		d.Cost = int64(b.number())
		d.Entries = make([]Entry, b.number())
		for j := range d.Entries {
			d.Entries[j] = Entry{b.word(), b.word()}
		}
	}
	return r
}

// states is those of all asks; nil is never used.
func (b *reader) states() []weir.State {
	var all []weir.State
	for len(*b) > 0 {
		var s weir.State
		for range b.number() {
			s = append(s, binary.LittleEndian.Uint64(*b))
			*b = (*b)[8:]
		}
		all = append(all, s)
	}
	return all
}

package rules

import (
	"encoding/binary"

	"github.com/weir-limit/weir"
)

// sight is what a denied take stood on.
type sight struct {
	at    weir.Instant
	words []uint64 // of all states
	ends  []int32  // of each ask's state, in words
	over  bool     // the states are larger than MaxDenial
	// note is s.add, made once: each time it would take memory.
	note func(weir.Instant, weir.State)
}

func (s *sight) see() func(weir.Instant, weir.State) {
	if s.note == nil {
		s.note = s.add
	}
	return s.note
}

func (s *sight) add(now weir.Instant, state weir.State) {
	s.at = now
	if s.over = s.over || 8*(len(s.words)+len(state)) > MaxDenial; !s.over {
		s.words = append(s.words, state...)
	}
	s.ends = append(s.ends, int32(len(s.words)))
}

func (s *sight) clear() {
	s.at, s.words, s.ends, s.over = 0, s.words[:0], s.ends[:0], false
}

// size is how long the text of append is at most.
func (s *sight) size() int { return 8*len(s.words) + binary.MaxVarintLen16*len(s.ends) }

// append appends the states.
func (s *sight) append(b []byte) []byte {
	from := int32(0)
	for _, end := range s.ends {
		b = binary.AppendUvarint(b, uint64(end-from))
		for _, w := range s.words[from:end] {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
		from = end
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

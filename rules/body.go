package rules

import (
	"encoding/binary"
	"slices"

	"github.com/weir-limit/weir"
)

// body is what a denial is explained by: the request, and the states of its counts as they were.
// The rules are not in it but in a version of Denials, which all denials of a time share.
//
// It is one text, and not the request's own structures, because it is kept for minutes: 4,096
// denials of pointers would be work for the garbage collector, and would keep the bodies of HTTP
// requests alive, of which the words are parts.
type body struct {
	// text is the request as appendRequest writes it, then the states as appendStates does. Only
	// this process reads it, so it has no version and no check.
	text []byte
	// overrides are the limits that its descriptors brought; nil when none brings one. A Limit
	// never changes, so it is shared.
	overrides []*weir.Limit
	// excepted are the rules of exceptions that decided, by ask; nil when none did.
	excepted []*Rule
}

// write fills b, in its own memory; byAsk are the rules that decided. It is false, and b is empty, when there is
// too much. The size is reckoned before anything is written: a request of 12 MiB is not copied
// to be thrown away.
func (b *body) write(r *Request, evidence []weir.Evidence, byAsk []*Rule) bool {
	size := requestSize(r) + statesSize(evidence)
	if size > MaxDenial {
		b.erase()
		return false
	}
	before := len(b.text)
	b.text, b.overrides = appendStates(appendRequest(slices.Grow(b.text[:0], size), r), evidence), nil
	b.excepted = exceptionsOf(byAsk)
	if n := len(b.text); n < before {
		clear(b.text[n:before]) // what was there is not kept any longer
	}
	for i := range r.Descriptors {
		if l := r.Descriptors[i].Override; l != nil {
			if b.overrides == nil {
				b.overrides = make([]*weir.Limit, len(r.Descriptors))
			}
			b.overrides[i] = l
		}
	}
	return true
}

// read is the request, and the states of its asks.
func (b *body) read() (*Request, []weir.State) {
	text := reader(b.text)
	r := text.request()
	for i, limit := range b.overrides {
		r.Descriptors[i].Override = limit
	}
	return r, text.states()
}

// erase leaves nothing of a request in memory.
func (b *body) erase() {
	clear(b.text[:cap(b.text)])
	*b = body{}
}

func (b *body) clone() body { return body{slices.Clone(b.text), slices.Clone(b.overrides), b.excepted} }

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
// depend on: whether it wanted receipts, and its Client.
//
//	domain, flags, number of descriptors, then of each:
//	    cost, number of entries, then key and value of each
//
// Numbers are varints, and words stand behind their lengths.
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

// statesSize is how long the text of appendStates is at most.
func statesSize(all []weir.Evidence) int {
	n := binary.MaxVarintLen16 * len(all)
	for i := range all {
		n += 8 * len(all[i].State)
	}
	return n
}

// appendStates appends the states of all asks: of each how many words it has, and the words.
// A state of a log may have thousands, of a bucket two.
func appendStates(b []byte, all []weir.Evidence) []byte {
	for i := range all {
		b = binary.AppendUvarint(b, uint64(len(all[i].State)))
		for _, w := range all[i].State {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	return b
}

// reader reads what this process wrote into a denial, and takes it off. It checks nothing: it
// would panic on any other text.
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

// states is those of all asks; nil is an unused one.
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

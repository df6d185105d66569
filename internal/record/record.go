// Package record is what a store outside of this process keeps of one count,
// and how a take or a settlement changes the records that it has read. Stores
// that can't run our code compare and swap these, by Swap; redisstore's script changes
// them in place.
//
// Receipts are which receipts were settled, for stores in memory, too. Denials is the
// memory of denials, which a store asks by itself: it alone knows its clock. Score is
// which of several nodes has a count.
package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// Record is what is kept of one count. The zero Record is one never used.
type Record struct {
	weir.Kept

	// Aside is events that other nodes may still let pass, and that State does not count yet: a
	// take is decided as if it did. It is not written, and not charged: the node that lets them
	// pass charges them when it reports them.
	Aside int64
}

// sinceLife is how long Since has to be remembered: until the last receipt from
// before has expired.
const sinceLife = weir.MaxWait + weir.ReceiptLife

// mark follows the text of a record that has earlier limits: no text ends in it.
const mark = 1

// Append appends r: the text of its limit, a zero byte, Since, and the words of
// its state, all in little-endian order. Where there are earlier limits, mark follows
// the text, the number of words comes before these, and then each of them alike, with
// Until before its number.
func (r *Record) Append(b []byte) []byte {
	b = append(b, r.Limit.String()...)
	if len(r.Earlier) == 0 {
		b = binary.LittleEndian.AppendUint64(append(b, 0), uint64(r.Since))
		return appendWords(b, r.State)
	}
	b = binary.LittleEndian.AppendUint64(append(b, mark, 0), uint64(r.Since))
	b = appendWords(binary.LittleEndian.AppendUint64(b, uint64(len(r.State))), r.State)
	for _, v := range r.Earlier {
		b = append(append(b, v.Limit.String()...), 0)
		for _, n := range [...]uint64{uint64(v.Since), uint64(v.Until), uint64(len(v.State))} {
			b = binary.LittleEndian.AppendUint64(b, n)
		}
		b = appendWords(b, v.State)
	}
	return b
}

func appendWords(b []byte, s weir.State) []byte {
	for _, word := range s {
		b = binary.LittleEndian.AppendUint64(b, word)
	}
	return b
}

// Parse reads what Append wrote; nothing is a count never used. limit, which may
// be nil, is used when its text is that of the record, to save parsing it. It fails
// with a CountError.
func Parse(b []byte, limit *weir.Limit) (Record, error) {
	if len(b) == 0 {
		return Record{}, nil
	}
	p := parser{rest: b, limit: limit}
	text := p.text()
	several := len(text) > 0 && text[len(text)-1] == mark
	r := Record{}
	r.Limit = p.parse(bytes.TrimSuffix(text, []byte{mark}))
	r.Since = weir.Instant(p.number())
	if !several {
		r.State = p.words(r.Limit, uint64(len(p.rest)/8))
	} else {
		r.State = p.words(r.Limit, p.number())
	}
	for several && len(p.rest) > 0 && p.err == nil && len(r.Earlier) < weir.MaxVersions {
		v := weir.Version{Limit: p.parse(p.text())}
		v.Since, v.Until = weir.Instant(p.number()), weir.Instant(p.number())
		v.State = p.words(v.Limit, p.number())
		r.Earlier = append(r.Earlier, v)
	}
	if p.err == nil && len(p.rest) > 0 {
		p.foreign()
	}
	if p.err != nil {
		return Record{}, p.err
	}
	return r, nil
}

// parser reads parts off the front of rest, and remembers its first error.
type parser struct {
	rest  []byte
	limit *weir.Limit
	err   error
}

func (p *parser) foreign() {
	if p.err == nil {
		p.err = badCount("it holds %d bytes that are no count: is it another program's?", len(p.rest))
	}
}

func (p *parser) text() []byte {
	text, rest, ok := bytes.Cut(p.rest, []byte{0})
	if !ok {
		p.foreign()
	}
	p.rest = rest
	return text
}

func (p *parser) parse(text []byte) *weir.Limit {
	switch {
	case p.err != nil:
		return nil
	case p.limit != nil && string(text) == p.limit.String():
		return p.limit
	}
	l, err := weir.ParseLimit(string(text))
	if err != nil {
		p.err = badCount("it is the count of a limit that can't be read: %w", err)
	}
	return l
}

func (p *parser) number() uint64 {
	if len(p.rest) < 8 {
		p.foreign()
		return 0
	}
	n := binary.LittleEndian.Uint64(p.rest)
	p.rest = p.rest[8:]
	return n
}

func (p *parser) words(l *weir.Limit, n uint64) weir.State {
	if p.err != nil || n > uint64(len(p.rest)/8) {
		p.foreign()
		return nil
	}
	s := Words(p.rest[:8*n])
	if p.rest = p.rest[8*n:]; l.Words() > 0 && n > 0 && uint64(l.Words()) != n {
		p.err = badCount("it has %d words for a %s, which has %d", n, l, l.Words())
	}
	return s
}

func badCount(format string, args ...any) error { return &CountError{fmt.Errorf(format, args...)} }

// Words is a state of its bytes.
func Words(b []byte) weir.State {
	if len(b) == 0 {
		return nil
	}
	s := make(weir.State, len(b)/8)
	for i := range s {
		s[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return s
}

// Keep is how long r has to be kept; 0 when it may be dropped at once.
func (r *Record) Keep(now weir.Instant) time.Duration {
	if r.Limit == nil {
		return 0
	}
	keep := r.FreshAfter(now)
	if r.Since > 0 {
		keep = max(keep, (r.Since-now).Duration()+sinceLife)
	}
	return max(keep, 0)
}

// View is the state of r as limit would be given it, with what is Aside. It is the
// caller's to change.
func (r *Record) View(limit *weir.Limit, now weir.Instant) weir.State {
	k := r.beside(limit, now)
	return k.View(limit, now)
}

// beside is what is kept, with what is Aside charged to a copy of it.
func (r *Record) beside(limit *weir.Limit, now weir.Instant) weir.Kept {
	if r.Aside == 0 {
		return r.Kept
	}
	k := r.Clone()
	if k.Limit == nil {
		k.Limit = limit
	}
	k.Charge(now, r.Aside)
	return k
}

// Check says what is wrong with a take that a store can't be meant to decide, by an
// AskError that names the store. unfit is of its Traits.
func Check(store string, unfit func(*weir.Limit) string, asks []weir.Ask, out []weir.Decision) error {
	if len(asks) != len(out) {
		return badAsk("%s: %d asks and room for %d decisions", store, len(asks), len(out))
	}
	for i := range asks {
		if err := asks[i].Check(); err != nil {
			return badAsk("%s: %w", store, err)
		}
		if why := unfit(asks[i].Limit); why != "" {
			return badAsk("%s: limit %q: %s", store, asks[i].Limit, why)
		}
		for j := range i {
			if asks[i].State == asks[j].State {
				return badAsk("%s: two asks of one take name the same state; add up their costs", store)
			}
		}
	}
	return nil
}

func badAsk(format string, args ...any) error { return &AskError{fmt.Errorf(format, args...)} }

// Take decides the asks together, given the record of each, and changes the
// records. It says whether any of them has to be written. It reads no clock and may be
// called again with records that were read anew: that is how a store that compares
// and swaps retries.
func Take(now weir.Instant, asks []weir.Ask, records []Record, out []weir.Decision) (write bool) {
	before := make([]weir.Kept, len(records))
	for i := range asks {
		r := &records[i]
		before[i] = r.Clone()
		if asks[i].Charges() {
			r.Become(asks[i].Limit, now, r.Aside)
		}
		beside := r.beside(asks[i].Limit, now)
		out[i] = beside.Decide(now, &asks[i])
	}
	weir.Resolve(asks, out)
	for i := range asks {
		r := &records[i]
		r.commit(now, &asks[i], &out[i])
		write = write || !same(&before[i], &r.Kept)
	}
	return write
}

// same is whether two counts are written alike. A new one that nothing was counted in
// need not be.
func same(a, b *weir.Kept) bool {
	if a.Limit == nil || b.Limit == nil {
		return len(b.State) == 0
	}
	return a.Limit.String() == b.Limit.String() && slices.Equal(a.State, b.State) &&
		slices.EqualFunc(a.Earlier, b.Earlier, func(v, o weir.Version) bool {
			return v.Limit.String() == o.Limit.String() && slices.Equal(v.State, o.State)
		})
}

// commit carries out a decision. It tells what is left beside what is aside.
func (r *Record) commit(now weir.Instant, a *weir.Ask, d *weir.Decision) {
	if r.Aside == 0 {
		r.Kept.Commit(now, a, d)
		return
	}
	beside, own := r.beside(a.Limit, now), *d
	beside.Commit(now, a, d)
	r.Kept.Commit(now, a, &own)
	d.Receipt = own.Receipt
}

// Settle settles receipts, given the record of each, and changes the records.
// That a receipt works once is for the store to see to.
func Settle(now weir.Instant, settlements []weir.Settlement, records []Record) error {
	var failed error
	done := false
	for i := range settlements {
		r := &records[i]
		err := r.Kept.Settle(now, &settlements[i])
		done = done || err == nil
		// An expired permit says more than a limit that has none.
		if err != nil && (failed == nil || errors.Is(err, weir.ErrExpired)) {
			failed = err
		}
	}
	if done {
		return nil
	}
	return failed
}

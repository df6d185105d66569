// Package record is what a store outside of this process keeps of one count,
// and how a take or a settlement changes the records that it has read. Stores
// that can't run our code compare and swap these; redisstore's script changes
// them in place.
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
	Limit *weir.Limit  // whose state it is
	State weir.State   // what was used
	Since weir.Instant // receipts from before give nothing back; 0: all do
	// Aside is events that others may still let pass, and that State does not count
	// yet: a take is decided as if it did. It is not written.
	Aside int64
}

// sinceLife is how long Since has to be remembered: until the last receipt from
// before has expired.
const sinceLife = weir.MaxWait + weir.ReceiptLife

// Append appends r: the text of its limit, a zero byte, Since, and the words of
// its state, all in little-endian order.
func (r *Record) Append(b []byte) []byte {
	b = append(b, r.Limit.String()...)
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint64(b, uint64(r.Since))
	for _, word := range r.State {
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
	text, rest, ok := bytes.Cut(b, []byte{0})
	if !ok || len(rest)%8 != 0 || len(rest) == 0 {
		return Record{}, badCount("it holds %d bytes that are no count: is it another program's?", len(b))
	}
	r := Record{Limit: limit, Since: weir.Instant(binary.LittleEndian.Uint64(rest)), State: Words(rest[8:])}
	if limit == nil || string(text) != limit.String() {
		var err error
		if r.Limit, err = weir.ParseLimit(string(text)); err != nil {
			return Record{}, badCount("it is the count of a limit that can't be read: %w", err)
		}
	}
	if n := r.Limit.Words(); n > 0 && len(r.State) > 0 && len(r.State) != n {
		return Record{}, badCount("it has %d words for a %s, which has %d", len(r.State), r.Limit, n)
	}
	return r, nil
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
	keep := r.Limit.FreshAfter(r.State, now)
	if r.Since > 0 {
		keep = max(keep, (r.Since-now).Duration()+sinceLife)
	}
	return max(keep, 0)
}

// Contested is for how long a count that has changed its limit is not changed to
// one that can't hold what was used. Processes with two versions of a rule may ask
// for it by turns: what is forgotten at each turn would pass again.
const Contested = weir.Instant(time.Minute / time.Microsecond)

// stays is whether r is not to become a record of limit yet.
func (r *Record) stays(limit *weir.Limit, now weir.Instant) bool {
	if r.Limit == nil || r.Since == 0 || now >= r.Since+Contested || r.Limit.String() == limit.String() ||
		r.Limit.Algorithm() == weir.Concurrent || limit.Algorithm() == weir.Concurrent {
		return false
	}
	return limit.Used(r.View(limit, now), now) < r.Limit.Used(r.State, now)
}

// View is the state of r as limit would be given it, with what is Aside. It is the
// caller's to change.
func (r *Record) View(limit *weir.Limit, now weir.Instant) weir.State {
	view := Record{Limit: r.Limit, State: slices.Clone(r.State), Since: r.Since}
	view.Become(limit, now)
	if r.Aside > 0 {
		view.Charge(now, r.Aside)
	}
	return view.State
}

// Charge counts events that have passed, within the limit or not.
func (r *Record) Charge(now weir.Instant, events int64) {
	asks := [1]weir.Ask{{Limit: r.Limit, Cost: events, After: true}}
	out := [1]weir.Decision{r.Limit.Decide(r.State, now, &asks[0])}
	weir.Resolve(asks[:], out[:])
	r.State = r.Limit.Commit(r.State, now, &asks[0], &out[0])
}

// Become makes r a record of limit, which may have changed.
func (r *Record) Become(limit *weir.Limit, now weir.Instant) {
	if r.Limit != nil && r.Limit.String() != limit.String() {
		if !r.Limit.Fresh(r.State, now) {
			r.Since = max(r.Since, now+1)
		}
		r.State = limit.Adopt(r.State, r.Limit, now)
	}
	r.Limit = limit
}

// Check says what is wrong with a take that a store can't be meant to decide, by an
// AskError that names the store. unfit is of its Traits.
func Check(store string, unfit func(*weir.Limit) string, asks []weir.Ask, out []weir.Decision) error {
	if len(asks) != len(out) {
		return badAsk("%s: %d asks and room for %d decisions", store, len(asks), len(out))
	}
	for i := range asks {
		if why := unfit(asks[i].Limit); why != "" {
			return badAsk("%s: limit %q: %s", store, asks[i].Limit, why)
		}
		if err := asks[i].Check(); err != nil {
			return badAsk("%s: %w", store, err)
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
// records. It says whether any of them has to be written. Of a record that stays
// with another limit, both have to allow.
func Take(now weir.Instant, asks []weir.Ask, records []Record, out []weir.Decision) (write bool) {
	for i := range asks {
		r, limit := &records[i], asks[i].Limit
		if r.stays(limit, now) {
			out[i] = r.decideBoth(now, &asks[i])
			continue
		}
		write = write || r.Limit != nil && r.Limit.String() != limit.String()
		r.Become(limit, now)
		state := r.State
		if r.Aside > 0 {
			state = r.View(limit, now)
		}
		out[i] = limit.Decide(state, now, &asks[i])
	}
	weir.Resolve(asks, out)
	for i := range asks {
		r := &records[i]
		before := slices.Clone(r.State)
		r.commit(now, &asks[i], &out[i])
		write = write || !slices.Equal(before, r.State)
	}
	return write
}

// commit carries out a decision. What it tells is by the ask's limit, and with what is
// aside; the receipt is of the limit that has the count.
func (r *Record) commit(now weir.Instant, a *weir.Ask, d *weir.Decision) {
	if r.Aside == 0 && r.Limit.String() == a.Limit.String() {
		r.State = r.Limit.Commit(r.State, now, a, d)
		return
	}
	own := *d
	a.Limit.Commit(r.View(a.Limit, now), now, a, d)
	r.State = r.Limit.Commit(r.State, now, a, &own)
	d.Receipt = own.Receipt
}

// decideBoth is the stricter of what the limit of an ask says and that of r.
func (r *Record) decideBoth(now weir.Instant, a *weir.Ask) weir.Decision {
	d, own := a.Limit.Decide(r.View(a.Limit, now), now, a), r.Limit.Decide(r.View(r.Limit, now), now, a)
	if d.Outcome == weir.Allowed && (own.Outcome != weir.Allowed || own.Cost < d.Cost) {
		return own
	}
	return d
}

// Settle settles receipts, given the record of each, and changes the records.
// That a receipt works once is for the store to see to.
func Settle(now weir.Instant, settlements []weir.Settlement, records []Record) error {
	var failed error
	done := false
	for i := range settlements {
		r := &records[i]
		if r.Limit == nil {
			r.Limit = settlements[i].Receipt.Limit
		}
		s, err := r.Limit.Settle(r.State, now, r.Since, &settlements[i])
		r.State, done = s, done || err == nil
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

// Reset makes r as never used.
func (r *Record) Reset(now weir.Instant) { r.State, r.Since = nil, max(r.Since, now+1) }

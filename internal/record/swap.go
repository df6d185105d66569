package record

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weir-limit/weir"
)

// Swap is a take of a store that reads counts, has them decided here, and writes them back if no
// other process has written meanwhile. A decision counts only once it was written: until then the
// store may decide again, over counts that it has read anew.
type Swap struct {
	Asks []weir.Ask
	Out  []weir.Decision

	look bool         // evidence may be wanted: note the states in any case
	at   weir.Instant // of the last Decide
	// seen are the states that it was decided on. Without look they are noted only where they stay,
	// for then a denial may be remembered. Nil: they were not noted, or the answer was the first one.
	seen []weir.State
}

// NewSwap is a take of asks; it fills in out.
func NewSwap(asks []weir.Ask, out []weir.Decision) *Swap {
	return &Swap{Asks: asks, Out: out, look: weir.WantsEvidence(asks, false)}
}

// Once is the id by which the take works once; 0: it may work again.
func (s *Swap) Once() uint64 {
	if a := &s.Asks[0]; a.ChargesOnce() {
		return a.Receipt
	}
	return 0
}

// Decide decides the asks, given the record of each, and changes the records. write is whether they
// have to be written. Where first is not nil, it is to be kept for weir.OnceLife, by the id of Once
// and with the same write: a crash then leaves both or neither.
func (s *Swap) Decide(now weir.Instant, records []Record) (write bool, first []byte) {
	s.at, s.seen = now, nil
	if s.Once() != 0 {
		first = firstAnswer(now, records)
	}
	if s.look {
		s.note(records)
	}
	if write = Take(now, s.Asks, records, s.Out); !write && !s.look {
		s.note(records)
	}
	if !slices.ContainsFunc(s.Out, func(d weir.Decision) bool { return d.Charged }) {
		first = nil
	}
	return write, first
}

// note notes copies of the states, as their limits would be given them.
func (s *Swap) note(records []Record) {
	s.seen = make([]weir.State, len(records))
	for i := range records {
		s.seen[i] = records[i].View(s.Asks[i].Limit, s.at)
	}
}

// firstAnswer is what a first answer is made of: when, and what the counts were. To make it again
// gives the same answer, for deciding is a pure function of these.
func firstAnswer(now weir.Instant, records []Record) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(now))
	for i := range records {
		var raw []byte
		if records[i].Limit != nil {
			raw = records[i].Append(nil)
		}
		b = append(binary.AppendUvarint(b, uint64(len(raw))), raw...)
	}
	return b
}

// Again makes the first answer once more, of what Decide gave to keep. It fails with a CountError.
func (s *Swap) Again(first []byte) error {
	s.seen = nil
	bad := &CountError{fmt.Errorf("the first take of this id was not of %d limits", len(s.Asks))}
	if len(first) < 8 {
		return bad
	}
	now, rest := weir.Instant(binary.LittleEndian.Uint64(first)), first[8:]
	records := make([]Record, len(s.Asks))
	for i := range records {
		n, size := binary.Uvarint(rest)
		if size <= 0 || n > uint64(len(rest)-size) {
			return bad
		}
		var err error
		if records[i], err = Parse(rest[size:size+int(n)], s.Asks[i].Limit); err != nil {
			return fmt.Errorf("the first take of this id: %w", err)
		}
		rest = rest[size+int(n):]
	}
	if len(rest) > 0 {
		return bad
	}
	Take(now, s.Asks, records, s.Out)
	return nil
}

// End takes note of a take that was written, or had nothing to write: for denials and receipts
// that the process remembers, and for the evidence that asks want.
func (s *Swap) End(home *Denials, given *Latest) {
	given.Note(s.Out)
	if s.seen == nil {
		for i := range s.Asks {
			home.Forget(s.Asks[i].State)
		}
		return
	}
	home.Learn(s.at, s.Asks, s.seen, s.Out)
	if s.look && weir.WantsEvidence(s.Asks, weir.Resolve(s.Asks, slices.Clone(s.Out))) {
		for i, state := range s.seen {
			s.Asks[i].Evidence.Tell(s.at, state)
		}
	}
}

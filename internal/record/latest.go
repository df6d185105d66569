package record

import (
	"sync/atomic"

	"github.com/weir-limit/weir"
)

// Latest is when a store gave its last receipt, by its clock. A clock that steps back
// is behind it then: what is forgotten there was charged before, and receipts of until
// then are to give nothing back. The zero Latest has seen none. Methods may be called from many goroutines.
type Latest struct{ at atomic.Int64 }

// Note takes note of the receipts among decisions.
func (l *Latest) Note(out []weir.Decision) {
	for i := range out {
		if r := out[i].Receipt; r != nil {
			l.See(r.Taken)
		}
	}
}

// See takes note of a receipt that was given at that time.
func (l *Latest) See(at weir.Instant) {
	for old := l.at.Load(); int64(at) > old && !l.at.CompareAndSwap(old, int64(at)); {
		old = l.at.Load()
	}
}

// Or is now, or when the last receipt was given if the clock shows less.
func (l *Latest) Or(now weir.Instant) weir.Instant { return max(now, weir.Instant(l.at.Load())) }

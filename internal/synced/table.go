package synced

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/unreported"
)

// entry is a key that is decided locally. It is always in the queue, but while a report of it is
// under way.
type entry struct {
	unreported.Entry

	ledger  ledger
	heard   time.Time // when the ledger learned, on this node's clock
	asked   int       // takes since the last report
	hurried bool      // the store is to hear soon
	again   bool      // and once more after the report under way
	second  bool      // the report under way tells what the one before had no room for
	failed  bool      // the last report did

	// These are the queue's.
	due   time.Time
	room  bool // taken out before it was due, for its place
	index int  // −1: not in the queue
}

// now is the store's time at a time of this node's, or a little earlier: the answer has needed
// time to come here. The clocks of node and store are never compared, so they need not agree.
func (e *entry) now(local time.Time) weir.Instant {
	return e.ledger.at + micros(local.Sub(e.heard))
}

// learn notes how the store stood at now, asked and heard at times of this node's.
func (e *entry) learn(seen *weir.Evidence, asked, heard time.Time, charged int64) {
	if e.ledger.learn(seen.At, micros(heard.Sub(asked)), seen.State, charged) {
		e.heard = heard
	}
}

// lock locks entries in one order for all, so that takes in any order never wait
// for each other in a circle. Not when one is there twice.
func lock(entries []*entry) bool {
	if len(entries) == 1 {
		entries[0].Lock()
		return true
	}
	sorted := slices.SortedFunc(slices.Values(entries), func(a, b *entry) int {
		return cmp.Or(strings.Compare(a.Key.Rule, b.Key.Rule), strings.Compare(a.Key.Key, b.Key.Key))
	})
	for i := range sorted[1:] {
		if sorted[i] == sorted[i+1] {
			return false
		}
	}
	for _, e := range sorted {
		e.Lock()
	}
	return true
}

func unlock(entries []*entry) {
	for _, e := range entries {
		e.Unlock()
	}
}

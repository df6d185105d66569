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
// under way. So each key is reported again and again, until a report finds that nobody has asked for
// it since the one before, and that nothing is unreported. Then the table drops it. That is how the
// table gets room: nothing else drops a key.
//
// The lock of the Entry covers all but the queue's fields. It is taken before the queue's.
type entry struct {
	unreported.Entry

	ledger ledger
	// heard is when the last answer that the ledger learned from arrived, on this node's clock.
	// It and ledger.at are the same moment on two clocks, but for the answer's way (now).
	heard time.Time
	asked int // takes that were tried here since the last report began
	// hurried tells that the store is to hear soon, and that the queue knows. It ends when a
	// report begins.
	hurried bool
	// again tells that the entry is due again at the end of the report under way.
	again bool
	// second tells that the next report follows at once, with what still fits after the store
	// had no room for the one before. If the store has no room for that one either, other nodes
	// are faster, and the rest waits for its time.
	second bool
	// failed tells that the last report did. Until one succeeds, callers don't wait for reports:
	// their takes go to the guard at once, which knows whether the store is there.
	failed bool

	// These are the queue's, under its lock. room is also read by begin, while the entry is out
	// of the queue and nobody sets it.
	due   time.Time // zero: it was never in the queue
	room  bool      // taken out for its place, due or not
	index int       // in the heap; −1: not in the queue
}

// now is the store's time at a time of this node's, or a little earlier: the answer has needed
// time to come here. The clocks of node and store are never compared, so they need not agree. Only
// their pace must, from one answer to the next.
func (e *entry) now(local time.Time) weir.Instant {
	return e.ledger.at + micros(local.Sub(e.heard))
}

// learn notes how the store stood before it charged so many events, and when. asked and heard are
// times of this node's. The store decided between them, so when the node hears, the store's clock shows
// at most that much more than seen.At (ledger.lag).
func (e *entry) learn(seen *weir.Evidence, asked, heard time.Time, charged int64) {
	if e.ledger.learn(seen.At, micros(heard.Sub(asked)), seen.State, charged) {
		e.heard = heard
	}
}

// lock locks entries in one order for all, so that takes in any order never wait
// for each other in a circle. Not when one is there twice: a take of one key twice is the store's to
// refuse, and a second lock would never come.
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

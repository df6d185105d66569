package rls

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// errTooManyRules is for a rule beyond MaxLentRules.
var errTooManyRules = fmt.Errorf("programs have brought %d rules, or %d bytes of their names, to this daemon; put what varies into keys, not rules; a rule makes room when its counts are unused: %w",
	MaxLentRules, maxLentNames, weir.ErrFull)

// meant is what is wrong with asks that came over a wire.
func meant(asks []weir.Ask) error {
	return record.Check("the store", func(*weir.Limit) string { return "" }, asks, make([]weir.Decision, len(asks)))
}

// settles is what is wrong with a settlement that came over a wire.
func settles(s *weir.Settlement) error {
	r := s.Receipt
	if r.Cost < 0 || r.Cost > weir.MaxCost || s.Used < 0 || s.Used > weir.MaxCost || r.Taken < 0 || r.Expires < 0 {
		return fmt.Errorf("a receipt of %d events, %d used: this receipt was not issued here; send it as it came", r.Cost, s.Used)
	}
	return nil
}

// lentRules are the rules that programs have brought, by a hash of their names. Each
// has its place for as long as a count of it may say something, and lentLeast after
// the last call: the store keeps these counts, even when this daemon has forgotten the rule.
type lentRules struct {
	seed maphash.Seed

	mu    sync.RWMutex
	seen  map[uint64]*lentRule
	bytes int
	swept weir.Instant // when those that are over were last dropped
}

type lentRule struct {
	bytes int
	until atomic.Int64 // a weir.Instant: when it loses its place
}

// keep lets a rule have its place for so long, and lentLeast more.
func (r *lentRule) keep(now weir.Instant, life time.Duration) {
	until := int64(now + weir.Instant((life+lentLeast)/time.Microsecond))
	for {
		before := r.until.Load()
		if until <= before || r.until.CompareAndSwap(before, until) {
			return
		}
	}
}

// admit is a rule that is known, or for which there is room; else it is nil. known is
// how many there are, and changed whether these are others than before.
func (r *lentRules) admit(rule string, now weir.Instant) (is *lentRule, known int, changed bool) {
	hash := maphash.String(r.seed, rule)
	r.mu.RLock()
	is, known = r.seen[hash], len(r.seen)
	due := r.due(now)
	r.mu.RUnlock()
	if is != nil {
		is.keep(now, 0)
	}
	if is != nil && !due {
		return is, known, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due(now) {
		r.sweep(now)
		changed = len(r.seen) != known
	}
	if is = r.seen[hash]; is != nil {
		return is, len(r.seen), changed
	}
	if len(r.seen) >= MaxLentRules || r.bytes+len(rule) > maxLentNames {
		return nil, len(r.seen), changed
	}
	if r.seen == nil {
		r.seen = map[uint64]*lentRule{}
	}
	is = &lentRule{bytes: len(rule)}
	is.keep(now, 0)
	r.seen[hash] = is
	r.bytes += len(rule)
	return is, len(r.seen), true
}

// due is whether to look for those whose time is over. mu is held.
func (r *lentRules) due(now weir.Instant) bool {
	return now >= r.swept+weir.Instant(lentSweep/time.Microsecond)
}

// sweep drops those whose time is over. mu is held.
func (r *lentRules) sweep(now weir.Instant) {
	r.swept = now
	for hash, is := range r.seen {
		if weir.Instant(is.until.Load()) <= now {
			r.bytes -= is.bytes
			delete(r.seen, hash)
		}
	}
}

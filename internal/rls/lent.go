package rls

import (
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// errTooManyRules is for a rule beyond MaxLentRules.
var errTooManyRules = fmt.Errorf("programs have brought %d rules, or %d bytes of their names, to this daemon; put what varies into keys, not rules, and restart it: %w",
	MaxLentRules, maxLentNames, weir.ErrFull)

// meant is what is wrong with asks that came over a wire.
func meant(asks []weir.Ask) error {
	return record.Check("the store", func(*weir.Limit) string { return "" }, asks, make([]weir.Decision, len(asks)))
}

// settles is what is wrong with a settlement that came over a wire.
func settles(s *weir.Settlement) error {
	r := s.Receipt
	if r.Cost < 0 || r.Cost > weir.MaxCost || s.Used < 0 || s.Used > weir.MaxCost || r.Taken < 0 || r.Expires < 0 {
		return fmt.Errorf("a receipt of %d events, %d used: this receipt was made by nobody; send it as it came", r.Cost, s.Used)
	}
	return nil
}

// limits remembers limits by their text.
type limits struct {
	mu   sync.RWMutex
	seen map[string]*weir.Limit
}

func (l *limits) get(text string) (*weir.Limit, error) {
	l.mu.RLock()
	known := l.seen[text]
	l.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	limit, err := weir.ParseLimit(text)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil || len(l.seen) >= maxLentLimits {
		l.seen = map[string]*weir.Limit{}
	}
	l.seen[text] = limit
	return limit, nil
}

// lentRules are the rules that programs have brought, by a hash of their names.
type lentRules struct {
	seed maphash.Seed

	mu    sync.RWMutex
	seen  map[uint64]struct{}
	bytes int
}

// admit is whether a rule is known, or there is room for another; news tells that it
// was not known.
func (r *lentRules) admit(rule string) (known int, news, ok bool) {
	hash := maphash.String(r.seed, rule)
	r.mu.RLock()
	_, seen := r.seen[hash]
	known = len(r.seen)
	r.mu.RUnlock()
	if seen {
		return known, false, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, seen := r.seen[hash]; seen {
		return len(r.seen), false, true
	}
	if len(r.seen) >= MaxLentRules || r.bytes+len(rule) > maxLentNames {
		return len(r.seen), false, false
	}
	if r.seen == nil {
		r.seen = map[uint64]struct{}{}
	}
	r.seen[hash] = struct{}{}
	r.bytes += len(rule)
	return len(r.seen), true, true
}

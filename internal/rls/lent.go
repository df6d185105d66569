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

// maxCost is the largest cost of an ask.
const maxCost = 1 << 40

// meant is what is wrong with asks that came over a wire. Stores count on callers
// in process to ask nothing of the kind.
func meant(asks []weir.Ask) error {
	for i := range asks {
		a := &asks[i]
		if a.Cost < 0 || a.Cost > maxCost || a.AtLeast < 0 || a.AtLeast > a.Cost {
			return fmt.Errorf("cost %d, at least %d: a cost is 0…2^40, and at least is 0…cost", a.Cost, a.AtLeast)
		}
	}
	return record.Check("the store", func(*weir.Limit) string { return "" }, asks, make([]weir.Decision, len(asks)))
}

// settles is what is wrong with a settlement that came over a wire.
func settles(s *weir.Settlement) error {
	r := s.Receipt
	if r.Cost < 0 || r.Cost > maxCost || s.Used < 0 || s.Used > maxCost || r.Taken < 0 || r.Expires < 0 {
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

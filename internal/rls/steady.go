package rls

import (
	"context"
	"slices"
	"sync"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// maxChanges is how often the limit of a rule changes within record.Contested. There
// each key is seen by itself; here all keys of a rule change together, so that this
// bounds what those lose which are not asked for.
const maxChanges = 8

// Memory is a store whose counts are this process's, and whose states can be seen.
type Memory interface {
	weir.Store
	weir.Witness
}

// Steady is a store in memory that programs of several versions ask: within a minute
// of a change, takes that come with a limit which would forget what was used are
// decided by that in force. Stores that are shared see to it themselves.
type Steady struct {
	Memory

	mu    sync.RWMutex
	rules map[string]version // at most MaxLentRules
}

// version is the limit of a rule, and when it has changed lately.
type version struct {
	limit   *weir.Limit
	changes []weir.Instant
}

// Take decides the asks by the limits in force.
func (s *Steady) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	return s.TakeSeen(ctx, asks, out, nil)
}

// TakeSeen is Take, and tells what a denial stood on. It tells nothing of takes that
// other limits decide than they came with.
func (s *Steady) TakeSeen(ctx context.Context, asks []weir.Ask, out []weir.Decision, see func(weir.Instant, weir.State)) error {
	cloned := false
	for i := range asks {
		limit, err := s.inForce(ctx, asks[i])
		switch {
		case err != nil:
			return err
		case limit == asks[i].Limit:
			continue
		case !cloned: // asks are the caller's
			asks, cloned = slices.Clone(asks), true
		}
		asks[i].Limit = limit
	}
	if cloned || see == nil {
		return s.Memory.Take(ctx, asks, out)
	}
	return s.Memory.TakeSeen(ctx, asks, out, see)
}

// inForce is the limit that decides an ask.
func (s *Steady) inForce(ctx context.Context, a weir.Ask) (*weir.Limit, error) {
	s.mu.RLock()
	is := s.rules[a.State.Rule]
	s.mu.RUnlock()
	if is.limit != nil && is.limit.String() == a.Limit.String() {
		return a.Limit, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	is = s.rules[a.State.Rule]
	if is.limit != nil && is.limit.String() != a.Limit.String() {
		now, loses, err := s.loses(ctx, a, is.limit)
		if err != nil {
			return nil, err
		}
		is.changes = slices.DeleteFunc(is.changes, func(at weir.Instant) bool { return now >= at+record.Contested })
		if n := len(is.changes); n == maxChanges || n > 0 && loses {
			return is.limit, nil
		}
		is.changes = append(is.changes, now)
	}
	if is.limit == nil && len(s.rules) >= MaxLentRules {
		clear(s.rules) // most are asked for no more; the others are soon there again
	}
	if s.rules == nil {
		s.rules = map[string]version{}
	}
	is.limit = a.Limit
	s.rules[a.State.Rule] = is
	return a.Limit, nil
}

// loses is whether the ask's limit in place of another would forget what its key has
// used.
func (s *Steady) loses(ctx context.Context, a weir.Ask, before *weir.Limit) (now weir.Instant, yes bool, err error) {
	old := a
	old.Limit = before
	now, was, err := s.Look(ctx, []weir.Ask{old})
	if err != nil {
		return now, false, err
	}
	_, is, err := s.Look(ctx, []weir.Ask{a})
	if err != nil {
		return now, false, err
	}
	return now, a.Limit.Used(is[0], now) < before.Used(was[0], now), nil
}

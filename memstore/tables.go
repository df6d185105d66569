package memstore

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
)

// recentTables is how many tables are found without the lock of all tables.
const recentTables = 256

// recent is a cache of tables by some bytes of their rules. Rules that share
// them put each other out; then they are looked up like others.
//
// A reader needs no lock, as a table's rule never changes: it compares, and knows that the
// table was this rule's when it read. One that tidy drops afterwards says so by its
// versions, which a take looks at again under the lock of its segment. One that dropUnused
// drops was as never used.
//
// Two rules of one entry that are asked by turns cost a lock for reading and a look into a map
// each time, and nothing else.
type recent struct {
	tables [recentTables]atomic.Pointer[table]
}

// of is the entry for a rule. It mixes the length and three words of the rule, from its
// beginning, middle and end: names of rules often begin or end alike.
func (r *recent) of(rule string) *atomic.Pointer[table] {
	n := len(rule)
	h := uint64(n)
	if n >= 8 {
		m := (n - 8) / 2
		first, middle, last := rule[:8], rule[m:m+8], rule[n-8:]
		h ^= word(first) ^ bits.RotateLeft64(word(middle), 21) ^ bits.RotateLeft64(word(last), 42)
	} else {
		for i := range n {
			h = h<<8 ^ uint64(rule[i])
		}
	}
	return &r.tables[h*0x9e3779b97f4a7c15>>56]
}

// word is the first eight bytes of s.
func word(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func (r *recent) clear() {
	for i := range r.tables {
		r.tables[i].Store(nil)
	}
}

// table is the table of a rule; of a rule with several, any one of them. It makes the table if need
// be. The error is ErrTooManyRules.
func (s *Store) table(rule string) (*table, error) {
	r := s.recent.of(rule)
	if t := r.Load(); t != nil && t.rule == rule {
		return t, nil
	}
	return s.tableSlow(rule, r)
}

// tableSlow finds the table under the lock of all tables, or makes it. Many takes may do
// this at once, so it is a lock for reading; only add takes it alone.
func (s *Store) tableSlow(rule string, r *atomic.Pointer[table]) (*table, error) {
	s.mu.RLock()
	t := s.tables[rule]
	if t != nil {
		r.Store(t) // with the lock, so that no table is kept that is being dropped
	}
	s.mu.RUnlock()
	if t != nil {
		return t, nil
	}
	return s.add(rule)
}

// add makes the table of a rule that has none. It looks again under the lock, since
// another take may have been faster. A rule beyond the bound first has unused tables dropped, at
// most once a second, since all other rules that are not in recent wait for that.
func (s *Store) add(rule string) (*table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[rule]; t != nil {
		return t, nil
	}
	if len(s.tables) >= MaxRules {
		if now := time.Now(); now.Sub(s.dropped) > time.Second { // it looks at every state
			s.dropUnused(func(string) bool { return true })
			s.dropped = now
		}
		if len(s.tables) >= MaxRules {
			return nil, ErrTooManyRules
		}
	}
	s.made++
	t := newTable(rule, s.made, &s.hash, s.bound)
	if isBrought(rule) {
		if s.dropBrought(); s.brought.tables.Load() >= maxBrought {
			return nil, ErrTooManyRules
		}
		t.brought = &s.brought
		s.brought.tables.Add(1)
	}
	s.tables[rule] = t
	return t, nil
}

// dropUnused forgets those tables whose states are all as never used. A take that
// has found its table already holds on to it and may charge a state that is
// then forgotten: one take of a rule that nobody had used for its whole period.
//
// Its caller has Store.mu, so no take adds a table or puts one in recent meanwhile. Where a rule
// has several tables, they get empty versions: a take that has found one sees under the locks of
// its segments that they are not the rule's any more, and looks again.
func (s *Store) dropUnused(of func(rule string) bool) {
	now := s.clock.now()
	s.recent.clear()
	for rule, t := range s.tables {
		all := t.family()
		if !of(rule) || !t.own.Load().idle(now) || slices.ContainsFunc(all, func(t *table) bool { return !t.idle(now) }) {
			continue
		}
		delete(s.tables, rule)
		for _, t := range all {
			t.leave()
			if len(all) > 1 {
				t.versions.Store(&versions{})
			}
		}
	}
}

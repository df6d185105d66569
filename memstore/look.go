package memstore

import (
	"context"
	"slices"

	"github.com/weir-limit/weir"
)

var _ weir.Looker = (*Store)(nil)

// Look is the states of asks at the time of the wall clock.
func (s *Store) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	now := s.clock.now()
	states, err := s.LookAt(now, asks)
	return now, states, err
}

// LookAt is Look at a time of the caller's. All states are of one moment, as those of a take, and
// copies. An ask of a rule without a table has none, and makes no table.
func (s *Store) LookAt(now weir.Instant, asks []weir.Ask) ([]weir.State, error) {
	var known []weir.Ask
	var at []int
	for i := range asks {
		if s.known(asks[i].State.Rule) {
			a := asks[i]
			a.Peek = true
			known, at = append(known, a), append(at, i)
		}
	}
	places, _, err := s.lockAll(known, nil, now)
	if err != nil {
		return nil, err
	}
	defer unlock(places)
	states := make([]weir.State, len(asks))
	for i, v := range gather(places, now, known) {
		states[at[i]] = slices.Clone(v.view(known[i].Limit, now))
	}
	return states, nil
}

// known is whether a rule has a table; it makes none.
func (s *Store) known(rule string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables[rule] != nil
}

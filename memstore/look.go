package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

var _ weir.Witness = (*Store)(nil)

// TakeSeen is Take, and tells what a denial stood on.
func (s *Store) TakeSeen(ctx context.Context, asks []weir.Ask, out []weir.Decision, see func(weir.Instant, weir.State)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.TakeSeenAt(weir.InstantOf(time.Now()), asks, out, see)
}

// Look is the states of asks at the time of the wall clock.
func (s *Store) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	now := weir.InstantOf(time.Now())
	states, err := s.LookAt(now, asks)
	return now, states, err
}

// LookAt is Look at a time of the caller's.
func (s *Store) LookAt(now weir.Instant, asks []weir.Ask) ([]weir.State, error) {
	places := make([]place, 0, len(asks))
	of := make([]int, 0, len(asks)) // the ask of each place
	for i := range asks {
		if p, ok := s.known(asks[i].State); ok {
			places, of = append(places, p), append(of, i)
		}
	}
	unlock, err := lock(places)
	if err != nil {
		return nil, err
	}
	defer unlock()
	states := make([]weir.State, len(asks))
	for i := range places {
		states[of[i]] = places[i].shard.copy(places[i].print, asks[of[i]].Limit, now)
	}
	return states, nil
}

// known is place for a rule that has a table; it makes none.
func (s *Store) known(k weir.StateKey) (place, bool) {
	s.mu.RLock()
	t := s.tables[k.Rule]
	s.mu.RUnlock()
	if t == nil {
		return place{}, false
	}
	return t.place(k.Key), true
}

// copy is the state that would decide about f, if limit asked now.
func (sh *shard) copy(f fingerprint, limit *weir.Limit, now weir.Instant) weir.State {
	if sh.limit == nil {
		return nil
	}
	state, _ := sh.look(f, now)
	return limit.Adopt(slices.Clone(state), sh.limit, now)
}

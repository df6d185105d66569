package memstore

import (
	"context"
	"slices"

	"github.com/weir-limit/weir"
)

var _ weir.Witness = (*Store)(nil)

// TakeSeen is Take, and tells what a denial stood on.
func (s *Store) TakeSeen(ctx context.Context, asks []weir.Ask, out []weir.Decision, see func(weir.Instant, weir.State)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.takeSeen(s.clock.now(), asks, out, see)
}

// Look is the states of asks at the time of the wall clock.
func (s *Store) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	now := s.clock.now()
	states, err := s.LookAt(now, asks)
	return now, states, err
}

// LookAt is Look at a time of the caller's.
func (s *Store) LookAt(now weir.Instant, asks []weir.Ask) ([]weir.State, error) {
	places := make([]place, 0, len(asks))
	for i := range asks {
		if t := s.known(asks[i].State.Rule); t != nil {
			places = append(places, place{table: t, print: t.hash.print(asks[i].State.Key), ask: i})
		}
	}
	if err := lock(places); err != nil {
		return nil, err
	}
	defer unlock(places)
	states := make([]weir.State, len(asks))
	for i := range places {
		p := &places[i]
		states[p.ask] = p.segment.copy(p.print, asks[p.ask].Limit, now)
	}
	return states, nil
}

// known is the table of a rule, or nil; it makes none.
func (s *Store) known(rule string) *table {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tables[rule]
}

// copy is the state that would decide about f, if limit asked now.
func (sg *segment) copy(f uint64, limit *weir.Limit, now weir.Instant) weir.State {
	if sg.limit == nil {
		return nil
	}
	state, _ := sg.look(f, now)
	return limit.Adopt(slices.Clone(state), sg.limit, now)
}

// Package storetest holds stores to the contract of weir.Store. Its model is
// the plainest store there can be, and its vectors are transcripts that every
// store must reproduce to the letter.
package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// Clocked is a store that can be asked about any time.
type Clocked interface {
	weir.Store
	TakeAt(now weir.Instant, asks []weir.Ask, out []weir.Decision) error
	SettleAt(now weir.Instant, settlements []weir.Settlement) error
	ResetAt(now weir.Instant, keys []weir.StateKey) error
}

// Model is a store for one goroutine without bounds or cleverness: a map of
// states and the pure functions of package weir. Make it with NewModel.
type Model struct {
	states  map[weir.StateKey]weir.State
	limits  map[weir.StateKey]*weir.Limit
	since   map[string]weir.Instant // receipts of the rule from before give nothing back
	settled map[uint64]bool
	once    map[uint64]*first
}

// first is the answer to a take that asked for Once.
type first struct {
	until weir.Instant
	out   []weir.Decision
}

// NewModel makes an empty model.
func NewModel() *Model {
	return &Model{
		states:  map[weir.StateKey]weir.State{},
		limits:  map[weir.StateKey]*weir.Limit{},
		since:   map[string]weir.Instant{},
		settled: map[uint64]bool{},
		once:    map[uint64]*first{},
	}
}

// Traits are those of the strictest store there can be.
func (m *Model) Traits() weir.Traits { return weir.Traits{Atomic: true, OwnClock: true} }

// Take is TakeAt at the time of the wall clock.
func (m *Model) Take(_ context.Context, asks []weir.Ask, out []weir.Decision) error {
	return m.TakeAt(weir.InstantOf(time.Now()), asks, out)
}

// TakeAt decides the asks together.
func (m *Model) TakeAt(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	once := len(asks) > 0 && asks[0].Once && !asks[0].Peek
	if f := m.once[id(asks)]; once && f != nil && now < f.until {
		copy(out, f.out)
		return nil
	}
	for i := range asks {
		k, limit := asks[i].State, asks[i].Limit
		if old := m.limits[k]; old != nil && old.String() != limit.String() {
			m.since[k.Rule] = max(m.since[k.Rule], now+1)
		}
		m.states[k] = limit.Adopt(m.states[k], m.limits[k], now)
		m.limits[k] = limit
		out[i] = limit.Decide(m.states[k], now, &asks[i])
	}
	weir.Resolve(asks, out)
	for i := range asks {
		k := asks[i].State
		m.states[k] = asks[i].Limit.Commit(m.states[k], now, &asks[i], &out[i])
	}
	if once && charged(out) {
		m.once[id(asks)] = &first{now + weir.Instant(weir.OnceLife/time.Microsecond), slices.Clone(out)}
	}
	return nil
}

func id(asks []weir.Ask) uint64 {
	if len(asks) == 0 {
		return 0
	}
	return asks[0].Receipt
}

func charged(out []weir.Decision) bool {
	return slices.ContainsFunc(out, func(d weir.Decision) bool { return d.Charged })
}

// Settle is SettleAt at the time of the wall clock.
func (m *Model) Settle(_ context.Context, settlements []weir.Settlement) error {
	return m.SettleAt(weir.InstantOf(time.Now()), settlements)
}

// SettleAt settles receipts of one take.
func (m *Model) SettleAt(now weir.Instant, settlements []weir.Settlement) error {
	var failed error
	done := false
	for i := range settlements {
		r := settlements[i].Receipt
		if i == 0 && m.settled[r.ID] {
			return weir.ErrSettled
		}
		limit := m.limits[r.State]
		if limit == nil {
			limit = r.Limit
		}
		s, err := limit.Settle(m.states[r.State], now, m.since[r.State.Rule], &settlements[i])
		m.states[r.State] = s
		done = done || err == nil
		if err != nil && (failed == nil || errors.Is(err, weir.ErrExpired)) {
			failed = err
		}
	}
	if !settlements[0].Renew {
		m.settled[settlements[0].Receipt.ID] = true
	}
	if done {
		return nil
	}
	return failed
}

// Reset is ResetAt at the time of the wall clock.
func (m *Model) Reset(_ context.Context, keys []weir.StateKey) error {
	return m.ResetAt(weir.InstantOf(time.Now()), keys)
}

// ResetAt forgets what was used of the keys.
func (m *Model) ResetAt(now weir.Instant, keys []weir.StateKey) error {
	for _, k := range keys {
		delete(m.states, k)
		m.since[k.Rule] = max(m.since[k.Rule], now+1)
	}
	return nil
}

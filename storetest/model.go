// Package storetest holds stores to the contract of weir.Store. Its model is
// the plainest store there can be, and its vectors are transcripts that every
// store must reproduce to the letter.
//
// docs/write-a-store.md says what a store must do, in which order to build one, and how
// Run is called. The example below is a whole store.
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
// counts and the pure functions of package weir. Make it with NewModel.
type Model struct {
	counts  map[weir.StateKey]*weir.Kept
	since   map[string]weir.Instant // receipts of the rule from before give nothing back
	given   map[string]weir.Instant // when the last receipt of the rule was given
	settled map[uint64]bool
	once    map[onceID]*first
}

// onceID is what a take that asked for Once is known again by.
type onceID struct {
	receipt uint64
	place   weir.StateKey // placement and Key of its first ask
}

// first is the answer to a take that asked for Once.
type first struct {
	until weir.Instant
	out   []weir.Decision
}

// NewModel makes an empty model.
func NewModel() *Model {
	return &Model{
		counts:  map[weir.StateKey]*weir.Kept{},
		since:   map[string]weir.Instant{},
		given:   map[string]weir.Instant{},
		settled: map[uint64]bool{},
		once:    map[onceID]*first{},
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
	once := len(asks) > 0 && asks[0].ChargesOnce()
	if f := m.once[id(asks)]; once && f != nil && now < f.until {
		copy(out, f.out)
		return nil
	}
	for i := range asks {
		k := m.count(asks[i].State)
		if asks[i].Charges() {
			k.Become(asks[i].Limit, now, 0)
		}
		out[i] = k.Decide(now, &asks[i])
	}
	weir.Resolve(asks, out)
	for i := range asks {
		k := asks[i].State
		m.count(k).Commit(now, &asks[i], &out[i])
		out[i].Date(m.since[k.Rule])
		if r := out[i].Receipt; r != nil {
			m.given[k.Rule] = max(m.given[k.Rule], r.Taken)
		}
	}
	if once && charged(out) {
		m.once[id(asks)] = &first{now + weir.Instant(weir.OnceLife/time.Microsecond), slices.Clone(out)}
	}
	return nil
}

func (m *Model) count(k weir.StateKey) *weir.Kept {
	if m.counts[k] == nil {
		m.counts[k] = &weir.Kept{}
	}
	return m.counts[k]
}

func id(asks []weir.Ask) onceID {
	if len(asks) == 0 {
		return onceID{}
	}
	first := &asks[0]
	return onceID{first.Receipt, weir.StateKey{Rule: first.State.Placement(), Key: first.State.Key}}
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
		k := m.count(r.State)
		k.Since = max(k.Since, m.since[r.State.Rule])
		err := k.Settle(now, &settlements[i])
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
		m.count(k).Reset(now)
		m.since[k.Rule] = max(m.since[k.Rule], now+1, m.given[k.Rule]+1)
	}
	return nil
}

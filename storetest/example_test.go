package storetest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// Toy is a whole store: a map of counts under a lock.
type Toy struct {
	mu      sync.Mutex
	counts  map[weir.StateKey]*weir.Kept
	last    weir.Instant    // when the last receipt was given
	settled map[uint64]bool // receipts that were used up, by their id
	first   map[firstTake][]weir.Decision
}

// firstTake is what a take with Once is known again by: the id of its receipt, and whose
// count it asks first.
type firstTake struct {
	receipt        uint64
	placement, key string
}

// NewToy makes an empty store.
func NewToy() *Toy {
	return &Toy{counts: map[weir.StateKey]*weir.Kept{}, settled: map[uint64]bool{}, first: map[firstTake][]weir.Decision{}}
}

// Traits promise that the limits of a take are decided at one moment, by one clock.
func (s *Toy) Traits() weir.Traits { return weir.Traits{Atomic: true, OwnClock: true, Evidence: true} }

// Take decides the asks together.
func (s *Toy) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.TakeAt(weir.InstantOf(time.Now()), asks, out)
}

// TakeAt is Take at a time of the caller's. Only the suite needs it.
func (s *Toy) TakeAt(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	if err := meant(asks, out); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	once, id := len(asks) > 0 && asks[0].ChargesOnce(), firstTake{}
	if once {
		id = firstTake{asks[0].Receipt, asks[0].State.Placement(), asks[0].State.Key}
	}
	if first := s.first[id]; once && first != nil {
		copy(out, first)
		return nil
	}
	for i := range asks { // what each limit alone says
		k := s.count(asks[i].State)
		if asks[i].Charges() {
			k.Become(asks[i].Limit, now, 0)
		}
		out[i] = k.Decide(now, &asks[i])
	}
	pass := weir.Resolve(asks, out) // what all of them say together
	if weir.WantsEvidence(asks, pass) {
		for i := range asks {
			asks[i].Evidence.Tell(now, s.count(asks[i].State).View(asks[i].Limit, now))
		}
	}
	charged := false
	for i := range asks { // what is kept of it
		s.count(asks[i].State).Commit(now, &asks[i], &out[i])
		charged = charged || out[i].Charged
		if r := out[i].Receipt; r != nil {
			s.last = max(s.last, r.Taken)
		}
	}
	if once && charged {
		s.first[id] = slices.Clone(out)
	}
	return nil
}

// meant refuses asks that no store can decide.
func meant(asks []weir.Ask, out []weir.Decision) error {
	if len(asks) != len(out) {
		return fmt.Errorf("%d asks and room for %d decisions", len(asks), len(out))
	}
	states := map[weir.StateKey]bool{}
	for i := range asks {
		if err := asks[i].Check(); err != nil {
			return err
		}
		if states[asks[i].State] {
			return errors.New("two asks of one take name the same state; add up their costs")
		}
		states[asks[i].State] = true
	}
	return nil
}

func (s *Toy) count(k weir.StateKey) *weir.Kept {
	if s.counts[k] == nil {
		s.counts[k] = &weir.Kept{}
	}
	return s.counts[k]
}

// Settle settles receipts of one take, each once.
func (s *Toy) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.SettleAt(weir.InstantOf(time.Now()), settlements)
}

// SettleAt is Settle at a time of the caller's.
func (s *Toy) SettleAt(now weir.Instant, settlements []weir.Settlement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(settlements) == 0 {
		return nil
	}
	if r := settlements[0].Receipt; !r.IsRefund() { // a refund is nobody's receipt
		if s.settled[r.ID] {
			return weir.ErrSettled
		}
		s.settled[r.ID] = !settlements[0].Renew
	}
	done, failed := false, error(nil)
	for i := range settlements {
		err := s.count(settlements[i].Receipt.State).Settle(now, &settlements[i])
		done = done || err == nil
		if err != nil && (failed == nil || errors.Is(err, weir.ErrExpired)) {
			failed = err
		}
	}
	if done {
		return nil
	}
	return failed
}

// Reset forgets what was used of the keys.
func (s *Toy) Reset(ctx context.Context, keys []weir.StateKey) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.ResetAt(weir.InstantOf(time.Now()), keys)
}

// ResetAt is Reset at a time of the caller's.
func (s *Toy) ResetAt(now weir.Instant, keys []weir.StateKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		s.count(k).Reset(max(now, s.last)) // the clock may have stepped back: no receipt from before gives back
	}
	return nil
}

// A whole store. It is used as any other.
func Example() {
	limiter := weir.NewLimiter(NewToy(), "login", weir.MustParseLimit("2/day fixed-window"))
	for range 3 {
		d, err := limiter.Take(context.Background(), "alice", 1)
		fmt.Println(d.Outcome, d.Remaining, err)
	}
	// Output:
	// allowed 1 <nil>
	// allowed 0 <nil>
	// denied 0 <nil>
}

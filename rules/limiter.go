package rules

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

// ErrNoRules is returned by Limiter.Check before there are rules.
var ErrNoRules = errors.New("no rules are loaded")

// Limiter asks the limits of a Set about requests. Its methods may be called
// from many goroutines.
//
// It takes no lock of its own: what changes is behind an atomic pointer, or has its lock
// itself. A request loads each pointer once and goes by what it found to its end, so that
// a reload in between leaves it with one Set, and not with parts of two.
type Limiter struct {
	// store keeps the counts of all rules, of candidates too. It decides on its own clock.
	store weir.Store
	// set is the active rules; nil before there are any. Check loads it once a request.
	set atomic.Pointer[Set]
	// takes are *take that are done. A request has one to itself until its answer is
	// made, and nothing of the answer is in its memory.
	takes sync.Pool
	// overrides are the limits in use that requests brought. They stay when the rules
	// are replaced, as their counts do.
	overrides Overrides
	// denials keeps the last denials, for Recall; nil: none are kept. Remember sets it before
	// the first request.
	denials *Denials
	// exceptions are limits of single keys; nil: there are none. granted tells who made one, and why. Except sets
	// both before the first request.
	exceptions *Exceptions
	granted    func(context.Context, weir.StateKey) (Grant, error)
	// candidates run beside set; nil: none do.
	candidates atomic.Pointer[candidates]
	// settled is told what was settled; nil: nobody is. TellSettled sets it before the first
	// request.
	settled func([]weir.Settlement)
}

// NewLimiter makes a limiter whose counts live in store. set may be nil: Check
// then fails with ErrNoRules until Replace brings one. Ask Set.Fits of the store's traits
// before, as for Replace. NewLimiter panics without a store.
func NewLimiter(store weir.Store, set *Set) *Limiter {
	if store == nil {
		panic("rules: NewLimiter needs a store: pass one, such as memstore.New(memstore.Options{})")
	}
	l := &Limiter{store: store}
	l.set.Store(set)
	return l
}

// Replace changes the rules for all requests that come from now on. Rules that
// are still in their place keep their counts. Ask Set.Fits of the store's traits
// before: a limit that the store can't keep fails its requests.
func (l *Limiter) Replace(set *Set) {
	if l.denials != nil {
		l.denials.use(set, time.Now())
	}
	l.set.Store(set)
}

// Set is the active rules, or nil.
func (l *Limiter) Set() *Set { return l.set.Load() }

// TellSettled has f told of all that is settled of the active rules: receipts, and what
// requests give back. Charged of each settlement says what came of it. A receipt that was settled
// before is not among those that f is told of, and one that was settled before a store failed at
// another receipt of its take is. Set it before the first request; f must keep nothing of what it
// is told.
func (l *Limiter) TellSettled(f func([]weir.Settlement)) { l.settled = f }

// Settle says what the work behind an Answer really cost: used[i] is for
// receipts[i], all of one answer. Less than was charged gives back what is
// still outstanding, more is charged whole, even beyond the limit, and permits are
// freed. With renew it extends the permits among the receipts by their ttl instead, and all receipts
// stay good; used may then be nil.
//
// charged[i] is what stays charged of receipts[i], as weir.Settlement tells it. It
// fails with a *RequestError, and as weir.Store: a receipt works once.
func (l *Limiter) Settle(ctx context.Context, receipts []*weir.Receipt, used []int64, renew bool) (charged []int64, err error) {
	charge := l.Charge(receipts)
	if renew {
		if err := charge.Renew(ctx); err != nil {
			return nil, err
		}
		for _, r := range receipts {
			charged = append(charged, r.Cost)
		}
		return charged, nil
	}
	charged, err = charge.Settle(ctx, used)
	if bad, ok := errors.AsType[*weir.UsedError](err); ok {
		return nil, &RequestError{"used", bad.Text}
	}
	return charged, err
}

// Charge is what receipts of one answer stand for.
func (l *Limiter) Charge(receipts []*weir.Receipt) weir.Charge {
	return weir.NewCharge((*settler)(l), receipts)
}

// settler settles in the store, and for the candidate what it has charged beside.
type settler Limiter

func (s *settler) Settle(ctx context.Context, settlements []weir.Settlement) error {
	l := (*Limiter)(s)
	if err := (*told)(l).Settle(ctx, settlements); err != nil {
		return fmt.Errorf("settle %d receipts: %w", len(settlements), err)
	}
	l.settleTrial(ctx, settlements)
	return nil
}

// told settles in the store, and tells of it.
type told Limiter

func (t *told) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if t.settled == nil {
		return t.store.Settle(ctx, settlements)
	}
	const not = -1 // settled now
	for i := range settlements {
		settlements[i].Charged = not
	}
	err := t.store.Settle(ctx, settlements)
	var now []weir.Settlement
	for i := range settlements {
		if settlements[i].Charged == not {
			settlements[i].Charged = 0
		} else {
			now = append(now, settlements[i])
		}
	}
	if len(now) > 0 {
		t.settled(now)
	}
	return err
}

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
// itself.
type Limiter struct {
	store weir.Store
	// set is the active rules; nil before there are any. Check loads it once a request.
	set atomic.Pointer[Set]
	// takes are *take that are done. A request has one to itself until its answer is
	// made, and nothing of the answer is in its memory.
	takes sync.Pool
	// overrides are the limits in use that requests brought. They stay when the rules
	// are replaced, as their counts do.
	overrides Overrides
	denials   *Denials // nil: none are kept
	// candidates run beside set; nil: none do.
	candidates atomic.Pointer[candidates]
}

// NewLimiter makes a limiter whose counts live in store. set may be nil: Check
// then fails with ErrNoRules until Replace brings one.
func NewLimiter(store weir.Store, set *Set) *Limiter {
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

// Check asks all rules that r meets, together: those that are enforced are
// charged if all of them allow, and none otherwise. It fails with a
// *RequestError, with ErrNoRules, or when the store can't decide; a denial is
// no failure. It keeps nothing of r.
//
// The steps are: match finds the rules of each descriptor, replace drops those that
// another one replaces, ask makes one ask of each count, the store decides all of them at
// one moment if it can, and answer says it in terms of descriptors and rules.
func (l *Limiter) Check(ctx context.Context, r *Request) (*Answer, error) {
	set, err := l.active(r)
	if err != nil {
		return nil, err
	}
	if err := r.fits(l.store); err != nil {
		return nil, err
	}
	t := l.newTake()
	defer l.release(t)
	t.match(set, r)
	t.replace()
	if err := l.overrides.admit(t, r); err != nil {
		return nil, err
	}
	t.ask(r)
	var a *Answer
	if x := l.try(ctx, r); x != nil {
		defer func() { l.end(ctx, x, r, a) }()
	}
	if len(t.backs) > 0 {
		if err := t.settleBacks(ctx, l.store); err != nil {
			return nil, fmt.Errorf("give back in %q: %w", r.Domain, err)
		}
	}
	if len(t.asks) > 0 {
		if err := l.decide(ctx, t); err != nil {
			return nil, fmt.Errorf("check %q: %w", r.Domain, err)
		}
	}
	t.use()
	a = t.answer(r)
	if !a.Allowed && l.denials != nil {
		l.denials.keep(set, r, t, a)
	}
	return a, nil
}

// active is the rules that decide about r, which is a request.
func (l *Limiter) active(r *Request) (*Set, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if set := l.set.Load(); set != nil {
		return set, nil
	}
	return nil, ErrNoRules
}

func (l *Limiter) newTake() *take {
	if t, ok := l.takes.Get().(*take); ok {
		return t
	}
	return new(take)
}

func (l *Limiter) release(t *take) {
	t.clear()
	l.takes.Put(t)
}

func (l *Limiter) decide(ctx context.Context, t *take) error {
	if l.denials != nil {
		t.see()
	}
	return l.store.Take(ctx, t.asks, t.out)
}

// Settle says what the work behind an Answer really cost: used[i] is for
// receipts[i], all of one answer. Less than was charged gives back what is
// still outstanding, more is charged, and permits are freed. With renew it
// extends the permits among the receipts by their ttl instead, and all receipts
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
	if len(used) != len(receipts) {
		return nil, &RequestError{"used", fmt.Sprintf("there are %d, for %d receipts", len(used), len(receipts))}
	}
	for _, n := range used {
		if n < 0 || n > weir.MaxCost {
			return nil, &RequestError{"used", fmt.Sprintf("is %d; it must be 0…%d", n, int64(weir.MaxCost))}
		}
	}
	return charge.Settle(ctx, used)
}

// Charge is what receipts of one answer stand for.
func (l *Limiter) Charge(receipts []*weir.Receipt) weir.Charge {
	return weir.NewCharge((*settler)(l), receipts)
}

// settler settles in the store, and for the candidate what it has charged beside.
type settler Limiter

func (s *settler) Settle(ctx context.Context, settlements []weir.Settlement) error {
	l := (*Limiter)(s)
	if err := l.store.Settle(ctx, settlements); err != nil {
		return fmt.Errorf("settle %d receipts: %w", len(settlements), err)
	}
	l.settleTrial(ctx, settlements)
	return nil
}

package weir

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxWait is the longest that Wait and Do ever wait, whatever their context
// allows.
const MaxWait = 24 * time.Hour

// ErrReserve is returned by Reserve for a limiter of several limits: what one
// of them holds back, the others would count too early.
var ErrReserve = errors.New("only a limiter of one limit can reserve ahead; use Wait")

// DeniedError is returned by Wait and Do when there is nothing to wait for: the
// cost can never pass, the queue is full, or the time would come too late.
type DeniedError struct {
	Answer Answer
}

func (e *DeniedError) Error() string {
	switch d := e.Answer.Decision; {
	case d.Outcome == Impossible:
		return fmt.Sprintf("rate limit: a cost of %d can never pass", d.Cost)
	case d.RetryAfter > 0:
		return fmt.Sprintf("rate limit: denied, retry after %v", d.RetryAfter)
	default:
		return "rate limit: denied"
	}
}

// Limiter asks one limit or several about keys; several decide together, all
// or nothing. Its methods may be called from many goroutines: it never changes after
// NewLimiter, and all that is counted lives in its store.
type Limiter struct {
	store Store
	// plain is store, where it is one and there is no policy, and plainWith where it is one,
	// and there is a policy and one limit: then Take needs no Ask.
	plain     Plain
	plainWith PlainWith
	limits    []*Limit // at least one
	// states are the rule part of each limit's state key, made once so that a take
	// joins no texts.
	states []string
	policy *Policy // nil: none
}

// NewLimiter makes a limiter whose counts live in store under name. Limiters of
// the same store and name share their counts, across processes where the store
// does; a limit that comes back changed keeps what was used. So limits that
// apply by turns, say of different plans, need names of their own. A limit that the store can't
// keep (Limit.Unfit) fails each take. NewLimiter panics without a store or a limit.
func NewLimiter(store Store, name string, limit *Limit, more ...*Limit) *Limiter {
	limits := append([]*Limit{limit}, more...)
	if store == nil {
		panic("weir: NewLimiter needs a store: pass one, such as memstore.New(memstore.Options{})")
	}
	if slices.Contains(limits, nil) {
		panic("weir: NewLimiter needs limits that are not nil: pass those that ParseLimit has made without an error")
	}
	l := &Limiter{store: store, limits: limits, states: StateRules(name, limits)}
	l.plain, _ = store.(Plain)
	return l
}

// With is a limiter of the same limits and counts with a policy, as a rule has one. It
// fails when the store does not have what the policy asks for, or can't keep a limit, or when
// a limit can't follow the policy.
func (l *Limiter) With(p Policy) (*Limiter, error) {
	switch unfit := p.Unfit(l.store.Traits()); {
	case unfit != "":
		return nil, errors.New(unfit)
	case p.Sharing != "" || p.Partition != "":
		return nil, errors.New("sharing and partition are for rules of the nodes of a cluster")
	case p.Nodes < 0 || p.Sync < 0 || p.Lease < 0:
		return nil, fmt.Errorf("nodes: %d, sync: %v, lease: %v: none is below 0", p.Nodes, p.Sync, p.Lease)
	case p.Nodes > MaxNodes:
		return nil, fmt.Errorf("nodes: %d: there may be %d", p.Nodes, MaxNodes)
	case !p.Fallback.known():
		return nil, fmt.Errorf("fallback: %q is none; take local, open or closed", p.Fallback)
	}
	for _, limit := range l.limits {
		if why := limit.Unfit(l.store.Traits()); why != "" {
			return nil, fmt.Errorf("the store can't keep %q: %s", limit, why)
		}
		if why := p.UnfitFor(limit); why != "" {
			return nil, errors.New(why)
		}
	}
	with := *l
	with.policy, with.plain = &p, nil // for Plain asks without a policy
	if store, ok := l.store.(PlainWith); ok && len(l.limits) == 1 {
		with.plainWith = store
	}
	return &with, nil
}

// StateRule is StateKey.Rule of a limiter's only limit of its kind. A program
// that asks a store by this name itself shares the counts of a Limiter of that name.
func (l *Limit) StateRule(name string) string {
	return name + "#" + l.Algorithm().Family().String()
}

// StateRules are StateKey.Rule of limits without names that stand together under
// name: in whichever order they come, each keeps its count. Limits of one kind
// are told apart by their period. The longest has none in its place, so that it
// keeps its count when shorter ones come and go, and a limit that stands alone
// keeps its own whatever its period becomes. Only of one kind and period, limits
// are told apart by their order.
func StateRules(name string, limits []*Limit) []string {
	rules := make([]string, len(limits))
	seen := map[string]int{}
	for i, l := range limits {
		rules[i] = l.StateRule(name)
		if slices.ContainsFunc(limits, l.shorterThan) {
			rules[i] += "/" + l.periodText()
		}
		if seen[rules[i]]++; seen[rules[i]] > 1 {
			rules[i] += "/" + strconv.Itoa(seen[rules[i]])
		}
	}
	return rules
}

// shorterThan is whether other is of the same kind and of a longer period. A
// period that is as long and written otherwise, as day and 24h are, is another.
func (l *Limit) shorterThan(other *Limit) bool {
	longer := cmp.Or(cmp.Compare(other.spec.Period, l.spec.Period), strings.Compare(other.periodText(), l.periodText()))
	return l.Algorithm().Family() == other.Algorithm().Family() && longer > 0
}

// periodText is the period as the limit's text has it; empty for permits.
func (l *Limit) periodText() string {
	_, rest, _ := strings.Cut(l.text, "/")
	period, _, _ := strings.Cut(rest, " ")
	return period
}

// Request is one check by a Limiter, of all its limits.
type Request struct {
	Key     string        // whose count; any bytes, also none
	Cost    int64         // events, 0…MaxCount
	AtLeast int64         // take what fits from AtLeast to Cost; 0: all of Cost
	MaxHold time.Duration // how long the caller is ready to be held; see Ask
	Peek    bool          // decide without charging
	Receipt bool          // give receipts, for Settle
}

// Answer is what a Limiter says: the decision that explains it, whose Hold is
// the longest of all. It is the caller's, and all that Settle, Renew and Permits need.
type Answer struct {
	Decision

	// Each is the decision of each limit in the order of NewLimiter, if it has
	// several. With one limit, Decision is all, and Each is nil.
	Each []Decision
}

// Take asks whether cost events of key may pass now, and charges them if so. Where the
// store allocates nothing, it allocates nothing for one limit, and Each for several.
func (l *Limiter) Take(ctx context.Context, key string, cost int64) (a Answer, err error) {
	switch {
	case l.plainWith != nil && uint64(cost) <= MaxCount:
		a.Decision, err = l.plainWith.TakeOneWith(ctx, l.policy, StateKey{Rule: l.states[0], Key: key}, l.limits[0], cost)
	case l.plain == nil || uint64(cost) > MaxCount:
		return l.Ask(ctx, Request{Key: key, Cost: cost})
	case len(l.limits) > 1:
		a.Each = make([]Decision, len(l.limits))
		if err = l.plain.TakeAll(ctx, key, l.states, l.limits, cost, a.Each); err == nil {
			a.decide()
		}
	default:
		// Into the result, for each copy of a decision costs some nanoseconds.
		a.Decision, err = l.plain.TakeOne(ctx, StateKey{Rule: l.states[0], Key: key}, l.limits[0], cost)
	}
	if err != nil {
		return Answer{}, takeError(cost, key, err)
	}
	return a, nil
}

// decide fills in the decision that explains Each. All are enforced, so it is the
// decisive one of all, as Judge finds it.
func (a *Answer) decide() {
	decisive := &a.Each[0]
	var hold time.Duration
	for i := range a.Each {
		d := &a.Each[i]
		if d.Outweighs(decisive) {
			decisive = d
		}
		if d.Outcome == Allowed {
			hold = max(hold, d.Hold)
		}
	}
	a.Decision = *decisive
	a.Hold = hold
}

func takeError(cost int64, key string, err error) error {
	return fmt.Errorf("take %d of %q: %w", cost, key, err)
}

// Ask is Take with everything that can be asked. It fails when the cost is out
// of range or the store can't decide; a denial is no failure.
func (l *Limiter) Ask(ctx context.Context, r Request) (Answer, error) {
	if r.Cost < 0 || r.Cost > MaxCount || r.AtLeast < 0 || r.AtLeast > r.Cost {
		return Answer{}, fmt.Errorf("cost %d, at least %d: a cost is 0…%d and at least no more than it", r.Cost, r.AtLeast, MaxCount)
	}
	if r.MaxHold > 0 && len(l.limits) > 1 {
		return Answer{}, ErrReserve
	}
	var id uint64
	if r.Receipt {
		id = rand.Uint64() | 1
	}
	// In one piece of memory, which the answer keeps: stores get pointers to both.
	var few struct {
		asks [2]Ask
		out  [2]Decision
	}
	asks, out := few.asks[:], few.out[:]
	if n := len(l.limits); n <= len(asks) {
		asks, out = asks[:n], out[:n]
	} else {
		asks, out = make([]Ask, n), make([]Decision, n)
	}
	for i, limit := range l.limits {
		a := &asks[i] // in place: an ask is large
		a.State.Rule, a.State.Key, a.Limit = l.states[i], r.Key, limit
		a.Cost, a.AtLeast, a.MaxHold, a.Peek, a.Receipt = r.Cost, r.AtLeast, r.MaxHold, r.Peek, id
		if l.policy != nil {
			a.Policy = *l.policy
		}
	}
	if err := l.store.Take(ctx, asks, out); err != nil {
		return Answer{}, takeError(r.Cost, r.Key, err)
	}
	if len(out) == 1 {
		return Answer{Decision: out[0]}, nil
	}
	a := Answer{Each: out}
	a.decide()
	return a, nil
}

// decisions are those of all limits.
func (a *Answer) decisions() []Decision {
	if a.Each == nil {
		return []Decision{a.Decision}
	}
	return a.Each
}

// Permits is the part of an answer that holds permits, for Settle to free. ok is
// false if it holds none.
func (a Answer) Permits() (held Answer, ok bool) {
	for _, d := range a.decisions() {
		if d.Receipt != nil && d.Receipt.Permit() {
			held.Each = append(held.Each, d)
		}
	}
	return held, len(held.Each) > 0
}

// charge is what an answer has charged.
func (l *Limiter) charge(a *Answer) Charge {
	var receipts []*Receipt
	for _, d := range a.decisions() {
		if d.Receipt != nil {
			receipts = append(receipts, d.Receipt)
		}
	}
	return NewCharge(l.store, receipts)
}

// Settle says what the work behind an answer really cost: less gives back what
// is still outstanding, more is charged whole, even beyond the limit, and permits are freed.
// charged is what is then counted, by the limit that counts the most: see Settlement.Charged. The
// answer's request must have asked for receipts. It works once: ErrSettled. Where nothing was
// charged, or a fallback decided, it does nothing.
func (l *Limiter) Settle(ctx context.Context, a Answer, used int64) (charged int64, err error) {
	c := l.charge(&a)
	if len(c.receipts) == 0 {
		return 0, a.unreceipted()
	}
	all, err := c.Settle(ctx, slices.Repeat([]int64{used}, len(c.receipts)))
	for _, one := range all {
		charged = max(charged, one)
	}
	return charged, err
}

// Renew extends the permits of an answer by their ttl, counted from now, so that work that
// takes longer keeps them. The answer's request must have asked for receipts. It fails with
// ErrNoPermit or ErrExpired as Store.Settle does. Where nothing was charged, or a fallback
// decided, it does nothing.
func (l *Limiter) Renew(ctx context.Context, a Answer) error {
	c := l.charge(&a)
	if len(c.receipts) == 0 {
		return a.unreceipted()
	}
	return c.renewAll(ctx)
}

// unreceipted says why an answer without a receipt can't be settled, if something was
// charged for it.
func (a *Answer) unreceipted() error {
	for _, d := range a.decisions() {
		if d.Charged && d.Degraded == "" {
			return errors.New("the answer has no receipt; ask with Request.Receipt")
		}
	}
	return nil
}

// Reset forgets what key has used, by all limits. Receipts from before then give nothing
// back, and permits that are held are free.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	keys := make([]StateKey, len(l.states))
	for i, rule := range l.states {
		keys[i] = StateKey{Rule: rule, Key: key}
	}
	return l.store.Reset(ctx, keys)
}

// Reservation is a place ahead: the caller goes when Answer.Hold is over, or gives the
// place back by Cancel. It is charged from the beginning, so that no later take can have
// the same place. Outcome may also be Denied: then there is nothing to cancel.
type Reservation struct {
	Answer

	limiter *Limiter // whose store took it, for Cancel
}

// Reserve takes cost events of key now or ahead, at most maxHold from now, and
// says how long to wait. GCRA and its names, leaky-queue and warm-up reserve
// ahead; the other algorithms answer as Take does. It fails with ErrReserve for
// several limits.
func (l *Limiter) Reserve(ctx context.Context, key string, cost int64, maxHold time.Duration) (Reservation, error) {
	a, err := l.Ask(ctx, Request{Key: key, Cost: cost, MaxHold: maxHold, Receipt: true})
	return Reservation{Answer: a, limiter: l}, err
}

// Cancel gives a reservation back that will not be used.
func (r Reservation) Cancel(ctx context.Context) error {
	return r.limiter.charge(&r.Answer).GiveBack(ctx)
}

// Wait takes cost events of key as soon as they may pass. Where its one limit
// can reserve, callers go first come, first served. It returns a *DeniedError
// at once when the wait would outlast ctx's deadline or MaxWait, when a
// leaky-queue is full, or when the cost can never pass. When ctx ends first,
// what was taken is given back.
//
// A reservation is asked for once: the store gives the caller its place, and the caller
// sleeps until then, however many other callers wait. Windows, logs, permits and several limits
// can't be reserved. For those Wait asks again when RetryAfter is over, for permits after a
// millisecond and then less often, at most 0.1 s apart; callers then compete, and none is sure to
// be the first.
func (l *Limiter) Wait(ctx context.Context, key string, cost int64) (Answer, error) {
	deadline := time.Now().Add(MaxWait)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	// A microsecond at least: no patience at all would mean something else.
	r := Request{Key: key, Cost: cost, Receipt: true}
	for try := 0; ; try++ {
		if len(l.limits) == 1 {
			r.MaxHold = max(time.Until(deadline).Truncate(time.Microsecond), time.Microsecond)
		}
		a, err := l.Ask(ctx, r)
		if err != nil {
			return a, err
		}
		if a.Outcome == Allowed && !time.Now().Add(a.Hold).After(deadline) {
			return a, l.waitHold(ctx, a)
		}
		if a.Outcome == Allowed { // a queue beside other limits holds for too long
			return a, errors.Join(&DeniedError{a}, l.charge(&a).GiveBack(ctx))
		}
		again, ok := l.nextTry(&a, try)
		if !ok || time.Now().Add(again).After(deadline) {
			return a, &DeniedError{a}
		}
		if err := sleep(ctx, again); err != nil {
			return a, err
		}
	}
}

// nextTry is when to ask again after a denial; never where a limit that could
// have reserved said no. The random part keeps callers that were denied a permit together
// from asking together again.
func (l *Limiter) nextTry(a *Answer, try int) (time.Duration, bool) {
	switch {
	case a.Outcome == Impossible:
		return 0, false
	case a.RetryAfter == 0:
		// A permit may come back at any moment: look often, then less often.
		wait := time.Millisecond << min(try, 6)
		return wait/2 + rand.N(wait), true
	case len(l.limits) == 1 && l.limits[0].reserves(), l.full(a):
		return 0, false
	default:
		return a.RetryAfter, true
	}
}

// full is whether a queue is among those that deny.
func (l *Limiter) full(a *Answer) bool {
	for i, d := range a.decisions() {
		if l.limits[i].spec.Algorithm == LeakyQueue && d.Outcome != Allowed {
			return true
		}
	}
	return false
}

func (l *Limit) reserves() bool {
	a := l.spec.Algorithm
	return a.bucket() || a == LeakyQueue || a == WarmUp
}

// waitHold waits for the slot that was taken, and gives it back when ctx ends. The algorithm says
// how much of it can be given back: a leaky-queue takes back only the last slots.
func (l *Limiter) waitHold(ctx context.Context, a Answer) error {
	if a.Hold == 0 {
		return nil
	}
	err := sleep(ctx, a.Hold)
	if err != nil {
		// ctx is over, but the slot must still go back.
		err = errors.Join(err, l.charge(&a).GiveBack(context.WithoutCancel(ctx)))
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Do runs work when its events may pass: the queue that a leaky-queue limit
// describes. It waits as Wait does, and frees permits when work returns or
// panics.
func (l *Limiter) Do(ctx context.Context, key string, cost int64, work func(context.Context) error) (err error) {
	a, err := l.Wait(ctx, key, cost)
	if err != nil {
		return err
	}
	if permits, ok := a.Permits(); ok {
		defer func() {
			if _, e := l.Settle(context.WithoutCancel(ctx), permits, cost); e != nil && !errors.Is(e, ErrExpired) {
				err = errors.Join(err, e)
			}
		}()
	}
	return work(ctx)
}

package rules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// ErrNoLook is returned by Limiter.Explain for a store that is no weir.Looker.
var ErrNoLook = errors.New("this store can't be looked into")

// Explanation is what Check would answer, and why. It has three parts: what is said of the whole
// request, how each descriptor went through the rule file, and what each decision stands on.
type Explanation struct {
	// ID is of the denial that Recall explains; else empty.
	ID string
	// At is when it was decided, on the store's clock. All times of the explanation are told from
	// it on.
	At     weir.Instant
	Domain string
	// Answer is what Check would have said then. Nothing was charged; Charged
	// tells what would have been.
	Answer *Answer
	// Summary tells why the request passes or not, in a sentence.
	Summary string
	// Passing is when the request would pass, if no other request comes. It may be later than the
	// longest retry time of the limits: one that allows now may deny by then.
	Passing Passing
	// Together tells that the limits decide and are charged in one step. Else those
	// of different descriptors are charged one after the other, and given back when
	// one denies.
	Together bool
	// Descriptors are by descriptor of the request.
	Descriptors []DescriptorTrace
	// Limits are by decision: Limits[i] is what Answer.Decisions[i] stands on.
	Limits []LimitExplanation
}

// When is whether something passes.
type When string

// The answers to when.
const (
	PassesNow     When = "now"
	PassesLater   When = "later"
	PassesUnknown When = "unknown" // a permit must come back first, or it takes too long to tell
	PassesNever   When = "never"
)

// Passing is when something passes.
type Passing struct {
	When When
	// After is how long until then, with PassesLater: it passes then, and not a
	// microsecond earlier.
	After time.Duration
}

// LimitExplanation is what one decision stands on.
type LimitExplanation struct {
	// Words are the limit in a sentence, as Limit.Describe has it.
	Words string
	// Most is how many events can pass in any one period, one by one: of 10/s burst 20, 29 in a
	// second. It is the largest int64 for permits, which have no period.
	Most int64
	// WhyMore says why that is more than the count, as Limit.DescribeBound has it; else it is empty.
	WhyMore string
	// Enforced is whether the limit had a say. A shadow limit has none, nor has a quota limit that
	// denies beside one that allows.
	Enforced bool
	// Cost is in events, of all descriptors that have this count. The Cost of the Decision is that
	// of one of them.
	Cost int64
	// Before and After are how the count stands, and would stand after Check.
	Before, After Standing
	// Passing is when this limit alone would allow the cost.
	Passing Passing
	// Fits is the largest cost up to Cost that this limit would allow now. It is 0 for work that is
	// done (charge: after), which can't be made smaller.
	Fits int64
	// Enough is the least change of the limit that would allow the cost now: a
	// larger burst, count or queue. Nil when it allows, when none does, or while the limit is tightened: then the text stands
	// in no file.
	Enough *weir.Limit
	// Grant is what is known of the exception that made the limit that of this key alone; nil: it is the rule's.
	Grant *Grant
	// Notes are what else to know, and what would have to change: sentences without a full stop.
	Notes []string
}

// Standing is how a count stands.
type Standing struct {
	Used      int64 // events in use, rounded up; of permits, how many are held
	Remaining int64 // events that would pass now, one by one
	// ResetAfter is how long until the count has recovered, if nothing comes.
	ResetAfter time.Duration
}

// maxSteps bounds how often Explain asks ahead for the time when all limits of
// a request allow. Beyond it that is PassesUnknown. Each step goes to the next time at which some
// limit that denies would allow; a few are enough unless limits with windows deny by turns.
const maxSteps = 100

// Explain tells what Check would say of r now, and why. It charges nothing and
// leaves no trace. It fails as Check does, and with ErrNoLook when the store
// is no weir.Looker.
func (l *Limiter) Explain(ctx context.Context, r *Request) (*Explanation, error) {
	set, err := l.active(r)
	if err != nil {
		return nil, err
	}
	store, ok := l.store.(weir.Looker)
	if !ok {
		return nil, fmt.Errorf("explain %q: %w", r.Domain, ErrNoLook)
	}
	request := *r
	request.Receipt = false // a receipt would be of a charge that there is not
	x := &explainer{limiter: l, set: set, request: &request, store: l.store.Traits()}
	if err := r.fits(l.store); err != nil {
		return nil, err
	}
	t := x.take(false)
	now, states, err := store.Look(ctx, t.asks)
	if err != nil {
		return nil, fmt.Errorf("explain %q: %w", r.Domain, err)
	}
	x.before = newCopies(now, t.asks, states)
	return x.explain(ctx)
}

// Reset forgets what the counts that r meets have used, and tells their rules,
// in the order of the descriptors, each count once. A peek only tells. It fails
// with a *RequestError, with ErrNoRules, or when the store can't.
func (l *Limiter) Reset(ctx context.Context, r *Request) ([]*Rule, error) {
	set, err := l.active(r)
	if err != nil {
		return nil, err
	}
	t := new(take)
	t.match(set, r)
	t.except(l.exceptions, l.store, false)
	t.ask(r)
	keys := make([]weir.StateKey, len(t.asks))
	for i := range t.asks {
		keys[i] = t.asks[i].State
	}
	if !r.Peek && len(keys) > 0 {
		if err := l.store.Reset(ctx, keys); err != nil {
			return nil, fmt.Errorf("reset %q: %w", r.Domain, err)
		}
	}
	return t.rules, nil
}

// explainer explains one request: Explain of now, and Recall of then. Both bring the states, and
// decide on copies of them by the code that decides in a store, so that an explanation can't tell
// another story than the decision.
type explainer struct {
	limiter *Limiter
	set     *Set // the rules that decide, or that decided then
	// recalled tells that excepted are the exceptions that decided then, by ask; else those decide that hold now.
	recalled bool
	excepted []*Rule
	// request is as the client sent it, but that it wants no receipts.
	request *Request
	store   weir.Traits // for what the store adds to the story, such as its clock
	// before is the states as they were when the request came.
	before *copies
}

// take is the request on its way, up to the store. Each look ahead needs one of its own, as deciding
// writes to it.
func (x *explainer) take(peek bool) *take {
	request := *x.request
	request.Peek = request.Peek || peek
	t := new(take)
	t.match(x.set, &request)
	t.replace()
	if !x.recalled {
		t.except(x.limiter.exceptions, x.limiter.store, false)
	}
	t.ask(&request)
	if x.excepted != nil {
		t.restore(x.excepted)
	}
	return t
}

// explain decides on copies of the states, and then looks back and ahead: how each count stood before,
// how it stands after, and when the request would pass.
func (x *explainer) explain(ctx context.Context) (*Explanation, error) {
	t, after := x.take(false), x.before.clone()
	after.take(t)
	answer := new(Answer)
	t.answer(x.request, answer)
	passing, err := x.passing(ctx, answer, t, after)
	if err != nil {
		return nil, err
	}
	e := &Explanation{
		At: x.before.now, Domain: x.request.Domain, Answer: answer, Passing: passing, Together: x.store.Atomic || t.onePlace(),
		Descriptors: x.set.trace(x.request, t),
	}
	for i := range t.meets {
		for j := range t.meets[i].asks() {
			d := &answer.Decisions[len(e.Limits)]
			var grant *Grant
			if d.Rule.Usual != nil {
				grant = new(x.limiter.grantOf(ctx, d.Rule, d.Key))
			}
			e.Limits = append(e.Limits, x.limit(t, t.meets[i].first+j, d, grant, answer.Allowed, after))
		}
	}
	e.Summary = e.summary()
	return e, nil
}

// limit explains the decision d of the k-th ask. grant is of its exception; nil: it is none. pass is what became of the
// whole request, and after the states that it would leave behind.
//
// The questions beside the decision (when would it pass alone? how much would fit?) are asked as
// peeks of this one limit, on the state before.
func (x *explainer) limit(t *take, k int, d *Decision, grant *Grant, pass bool, after *copies) LimitExplanation {
	ask, now := t.asks[k], x.before.now
	state := x.before.states[ask.State]
	e := LimitExplanation{
		Words: ask.Limit.Describe(), Most: math.MaxInt64,
		Enforced: !d.idle, Cost: ask.Cost, Grant: grant,
		Before: standing(ask.Limit, state, now), After: standing(ask.Limit, after.states[ask.State], now),
	}
	if ask.Limit.Algorithm() != weir.Concurrent {
		e.Most = ask.Limit.Bound(ask.Limit.Spec().Period, 1)
		_, e.WhyMore = ask.Limit.DescribeBound()
	}
	// A cost beyond all limits was cut to MaxCost on its way. What it was says the decision.
	huge := ask.Cost == weir.MaxCost
	if huge {
		e.Cost = d.Cost
	}
	alone := ask
	alone.Peek = true
	switch d.Outcome {
	case weir.Allowed:
		e.Passing = Passing{When: PassesNow}
	case weir.Impossible:
		e.Passing = Passing{When: PassesNever}
	case weir.Denied:
		e.Passing = later(d.RetryAfter)
		if !ask.After { // what a denial counted is not in the way of those who have not asked
			e.Passing = later(ask.Limit.Decide(state, now, &alone).RetryAfter)
		}
	}
	alone.AtLeast = min(1, ask.Cost)
	if fits := ask.Limit.Decide(state, now, &alone); fits.Outcome == weir.Allowed && !ask.After && !huge {
		e.Fits = fits.Cost
	}
	if d.Outcome != weir.Allowed && !ask.After && !huge && d.Rule.Temporary == nil {
		e.Enough = enough(ask.Limit, state, now, ask.Cost)
	}
	e.Notes = x.notes(&e, t, k, d, pass)
	return e
}

// standing is how a count stands by its state.
func standing(l *weir.Limit, s weir.State, now weir.Instant) Standing {
	remaining, reset := l.Standing(s, now)
	used := l.Used(s, now)
	if l.Algorithm() == weir.Concurrent { // permits are held, and no events
		used = l.Spec().Count - remaining
	}
	return Standing{Used: used, Remaining: remaining, ResetAfter: reset}
}

// later is a Passing of a denial's retry time. A retry time of 0 is no time: a permit must come back,
// and nobody knows when.
func later(retry time.Duration) Passing {
	if retry > 0 {
		return Passing{When: PassesLater, After: retry}
	}
	return Passing{When: PassesUnknown}
}

// passing finds the first time at which all that is enforced allows. The times
// of the limits alone do not tell it: a limit that allows now may deny then,
// and of several quota limits one is enough.
//
// It asks as a client would that is patient: it waits as long as the limits say, and asks again, on
// copies whose clock it sets. No request comes in between.
func (x *explainer) passing(ctx context.Context, a *Answer, t *take, after *copies) (Passing, error) {
	if a.Allowed {
		return Passing{When: PassesNow}, nil
	}
	// The effects of the ask itself count: work that it reports, and the clock of a new key that it
	// starts. A denial that counts as an event does not: a caller that only wants an explanation
	// has not asked.
	from := after.clone()
	for i := range t.asks {
		if ask := &t.asks[i]; ask.Limit.Spec().CountDenied && !ask.After {
			from.states[ask.State] = x.before.states[ask.State]
		}
	}
	for range maxSteps {
		if err := ctx.Err(); err != nil {
			return Passing{}, err
		}
		t, try := x.take(true), from.clone()
		try.take(t)
		p := t.wait()
		if p.When == PassesNow {
			return later(time.Duration(from.now-x.before.now) * time.Microsecond), nil
		}
		if p.When != PassesLater {
			return p, nil
		}
		from.now += weir.Instant(p.After / time.Microsecond)
	}
	return Passing{When: PassesUnknown}, nil
}

// wait is how long it is at least until the take may pass: every limit that
// has a say must allow, but of several quota limits only one. A permit among
// those may come back at any time, so that no time is known.
//
// So it is the latest time of the limits that are no quota limits, and of the soonest of those that
// are: p and quotas.
func (t *take) wait() Passing {
	p, quotas := Passing{When: PassesNow}, Passing{When: PassesNow}
	v := weir.Judge(t.asks, t.out)
	for i := range t.asks {
		a, d := &t.asks[i], &t.out[i]
		if d.Outcome == weir.Allowed || !v.Heeds(a, d) {
			continue
		}
		one := Passing{When: PassesNever}
		if d.Outcome == weir.Denied {
			one = later(d.RetryAfter)
		}
		switch {
		case !a.Quota:
			p = p.latest(one)
		case quotas.When == PassesNow, one.When == PassesUnknown, quotas.When != PassesUnknown && quotas.latest(one) == quotas:
			quotas = one
		}
	}
	return p.latest(quotas)
}

// latest is the later of two, where unknown is later than any time, and never later than unknown.
func (p Passing) latest(o Passing) Passing {
	order := []When{PassesNow, PassesLater, PassesUnknown, PassesNever}
	a, b := slices.Index(order, p.When), slices.Index(order, o.When)
	if b > a || b == a && o.After > p.After {
		return o
	}
	return p
}

// enough is the limit with the least burst, count or queue that would allow
// cost at once, or nil. It answers an author who asks "by how much is this limit too small?", so it
// changes one number and leaves the others.
//
// It halves the range between the number there is, which is too small, and the largest that limit
// text can say: a larger number never allows less. The state is adopted by each limit that is tried,
// as a store does when a rule changes.
func enough(l *weir.Limit, s weir.State, now weir.Instant, cost int64) *weir.Limit {
	spec := l.Spec()
	if spec.Count == 0 || cost == 0 {
		return nil
	}
	least, most := spec.Count, int64(weir.MaxWindowCount)
	set := func(s *weir.Spec, n int64) { s.Count = n }
	switch spec.Algorithm {
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket:
		least, set = spec.Burst, func(s *weir.Spec, n int64) { s.Burst = n }
		if *spec.Initial == spec.Burst {
			spec.Initial = nil // it is not said, and follows the burst
		}
	case weir.LeakyQueue:
		least, set = *spec.Queue, func(s *weir.Spec, n int64) { s.Queue = &n }
	case weir.WarmUp:
		return nil // its pace alone decides
	case weir.FixedWindow, weir.SlidingLog, weir.SlidingWindow, weir.Concurrent:
	}
	var found *weir.Limit
	for least < most { // least is too small; most is not, or can't be
		n := least + (most-least+1)/2
		tried := spec
		set(&tried, n)
		changed, err := tried.Limit()
		switch {
		case err != nil:
			most = n - 1
			continue
		case changed.Decide(changed.Adopt(slices.Clone(s), l, now), now, &weir.Ask{Limit: changed, Cost: cost, Peek: true}).Outcome != weir.Allowed:
			least = n
			continue
		}
		found = changed
		if n == most {
			break
		}
		most = n
	}
	return found
}

// copies is a store of the states of one moment, to decide on without leaving
// a trace. Its clock is a field: it stands still unless somebody sets it.
type copies struct {
	now weir.Instant // on the clock of the store that the states are from
	// states is by count; of one that is unused the state is nil.
	states map[weir.StateKey]weir.State
}

func newCopies(now weir.Instant, asks []weir.Ask, states []weir.State) *copies {
	c := &copies{now: now, states: map[weir.StateKey]weir.State{}}
	for i := range asks {
		c.states[asks[i].State] = states[i]
	}
	return c
}

func (c *copies) clone() *copies {
	o := newCopies(c.now, nil, nil)
	for k, s := range c.states {
		o.states[k] = slices.Clone(s)
	}
	return o
}

// take decides the asks of t together, as a store does.
func (c *copies) take(t *take) {
	for i := range t.asks {
		t.out[i] = t.asks[i].Limit.Decide(c.states[t.asks[i].State], c.now, &t.asks[i])
	}
	weir.Resolve(t.asks, t.out)
	for i := range t.asks {
		key := t.asks[i].State
		c.states[key] = t.asks[i].Limit.Commit(c.states[key], c.now, &t.asks[i], &t.out[i])
	}
}

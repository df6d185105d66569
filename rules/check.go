package rules

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/here"
)

// Check asks all rules that r meets, together: those that are enforced are
// charged if all of them allow, and none otherwise. It fails with a
// *RequestError, with ErrNoRules, or when the store can't decide; a denial is
// no failure. It keeps nothing of r.
//
// The way of a request is: newTake finds the rules of each descriptor, with the limits that
// exceptions give them, and makes one ask of each count, admit bounds limits that the request brings, decide has the store decide all
// asks together, and answer says it in terms of descriptors and rules. A candidate goes the
// same way beside it, and is told of when the answer is there.
func (l *Limiter) Check(ctx context.Context, r *Request) (*Answer, error) {
	// The usual answer has one decision: one piece of memory for both.
	var room struct {
		Answer

		one [1]Decision
	}
	room.Decisions = room.one[:0]
	if err := l.CheckInto(ctx, r, &room.Answer); err != nil {
		return nil, err
	}
	return &room.Answer, nil
}

// CheckInto is Check for a caller that has memory for the answer: a is overwritten, and its slices are used again.
// After an error a says nothing.
func (l *Limiter) CheckInto(ctx context.Context, r *Request, a *Answer) error {
	set, err := l.active(r)
	if err != nil {
		return err
	}
	if err := r.fits(l.store); err != nil {
		return err
	}
	t := l.newTake(set, r)
	defer l.release(t)
	if err := l.overrides.admit(t, r); err != nil {
		return err
	}
	if (len(t.backs) > 0 || l.candidates.Load() != nil) && here.Only(ctx) {
		return here.ErrWaits
	}
	// The request gives back before its other descriptors are decided, also if these are
	// denied then.
	if err := t.settleBacks(ctx, (*told)(l)); err != nil {
		return fmt.Errorf("give back in %q: %w", r.Domain, err)
	}
	x := l.try(ctx, set, r)
	err = l.decide(ctx, t, r, a)
	if len(x.each) > 0 { // also after an error: trials have takes to release
		active := a
		if err != nil {
			active = nil
		}
		l.end(ctx, x, t, r, active)
	}
	if errors.Is(err, here.ErrWaits) {
		return here.ErrWaits
	}
	if err != nil {
		return fmt.Errorf("check %q: %w", r.Domain, err)
	}
	if !a.Allowed && l.denials != nil {
		l.denials.keep(set, r, t, a)
	}
	return nil
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

// newTake begins a take.
func (l *Limiter) newTake(set *Set, r *Request) *take {
	t := l.emptyTake()
	t.match(set, r)
	t.replace()
	t.except(l.exceptions, l.store, false)
	t.ask(r)
	return t
}

// emptyTake is a take in the memory of an earlier one if there is one.
func (l *Limiter) emptyTake() *take {
	if t, ok := l.takes.Get().(*take); ok {
		return t
	}
	return new(take)
}

// release keeps the memory of t for a later take. Nothing of t may be used afterwards: an
// Answer has copies.
func (l *Limiter) release(t *take) {
	t.clear()
	l.takes.Put(t)
}

// decide has the store decide what t asks, all at one moment if it can. A store is not asked
// where there is nothing to ask: no rule is met, or all are unlimited.
func (l *Limiter) decide(ctx context.Context, t *take, r *Request, a *Answer) error {
	if l.denials != nil {
		t.collectEvidence()
	}
	if len(t.asks) > 0 {
		if err := l.store.Take(ctx, t.asks, t.out); err != nil {
			return err
		}
	}
	t.use()
	t.answer(r, a)
	return nil
}

// take is a request on its way through the limits. It is used again by later
// requests, for its memory.
//
// Descriptors and asks are not one to one. A descriptor makes an ask of each of its
// rules, which follow each other in asks; and two descriptors that meet the same count
// share one ask, as a store takes no two of the same state. meet.first leads from a
// descriptor to its asks.
//
// Say that user has the limits 10/s and 1000/day, and path one of 50/s. A request with the
// descriptors user=ann, path=/a and user=ann once more has three asks:
//
//	meets  0: user=ann  first 0 ─┬─ asks 0: 10/s of ann, at the cost of both descriptors
//	       1: path=/a   first 2  │       1: 1000/day of ann, at the same cost
//	       2: user=ann  first 0 ─┘       2: 50/s of /a
//
// Its answer has five decisions again, two for each user and one for the path.
type take struct {
	// meets has one element for each descriptor of the request, also for one that no rule
	// is for.
	meets []meet
	// asks has one element for each count. Its order is that of the descriptors, then of
	// the file; verdicts and evidence go by it.
	asks []weir.Ask
	// out is what the store has decided, by ask. It is as long as asks before the store is
	// asked, and zero until then.
	out []weir.Decision
	// rules is by ask: the rule of the first descriptor that made it. Others that share the
	// ask have an equal rule, for it has the same place.
	rules []*Rule
	// backs is by descriptor and rule, for those that give back. Their asks are in asks,
	// too, at no cost: so the answer tells how the count stands afterwards.
	backs []back
	// id is of the receipts, when the request asked for them; else 0. It is odd, so that
	// it is never 0 by chance.
	id uint64
	// evidence is by ask: the states that a denial was decided on, which the store fills in.
	// It is empty unless Denials are kept.
	evidence []weir.Evidence
}

// back is what an ask gives back.
type back struct {
	ask    int   // its index in take.asks
	events int64 // 0…weir.MaxCost
}

// meet is what a descriptor meets.
type meet struct {
	// rules are the rules of one descriptor of the file, in the order of the file. They are
	// shared with the Set: replace and others change the slice of the meet, and never its
	// elements. None: nothing limits the descriptor, or another rule replaces its rules.
	rules []*Rule
	// key is of the counts of all rules: all limits of a descriptor count by the same words
	// of the request.
	key string
	// first is the index of the ask of rules[0]; those of the other rules follow it. It
	// means nothing while asks is 0.
	first int
	// override is what bounds the limit that the request brought; nil: it brought none.
	override *Override
}

// unlimited is whether the descriptor meets a rule that decides nothing. Such a rule is alone:
// rate_limit has one limit only.
func (m *meet) unlimited() bool { return len(m.rules) > 0 && m.rules[0].Unlimited }

// asks is how many asks the descriptor makes.
func (m *meet) asks() int {
	if m.unlimited() {
		return 0
	}
	return len(m.rules)
}

// clear forgets the request, so that nothing of it is kept alive: neither the words of a
// client nor, after a reload, the rules of an old Set.
func (t *take) clear() {
	clear(t.meets)
	clear(t.asks)
	clear(t.out)
	clear(t.rules)
	t.meets, t.asks, t.out, t.rules, t.backs = t.meets[:0], t.asks[:0], t.out[:0], t.rules[:0], t.backs[:0]
	t.id = 0
	for i := range t.evidence {
		e := &t.evidence[i]
		if e.Clear(); 8*cap(e.State) > MaxDenial { // no denial that is kept needs so much memory
			e.State = nil
		}
	}
	t.evidence = t.evidence[:0]
}

// match finds what each descriptor meets. It may write to r: r.Wider puts the network of an
// address in the address's place.
func (t *take) match(set *Set, r *Request) {
	for i := range r.Descriptors {
		if r.Wider != nil {
			set.widen(r.Domain, &r.Descriptors[i], r.Wider)
		}
		rules, key := set.Match(r.Domain, &r.Descriptors[i])
		t.meets = append(t.meets, meet{rules: rules, key: key})
	}
}

// replace drops the rules whose name another rule of the request replaces. A
// rule that is dropped, or unlimited, replaces all the same: so the order of the descriptors
// does not matter, and two rules can replace each other.
func (t *take) replace() {
	var names []string
	for i := range t.meets {
		for _, rule := range t.meets[i].rules {
			names = append(names, rule.Replaces...)
		}
	}
	if names == nil {
		return
	}
	for i := range t.meets {
		m := &t.meets[i]
		if len(m.rules) > 0 && !m.unlimited() && slices.Contains(names, m.rules[0].EnvoyName) {
			m.rules = nil
		}
	}
}

// ask makes an ask of each count that the request meets. Costs of descriptors
// that meet the same one are added up: a store decides each state once, so two asks of one
// count would both see room for themselves and not for the sum.
func (t *take) ask(r *Request) {
	if r.Receipt {
		t.id = rand.Uint64() | 1
	}
	for i := range t.meets {
		m := &t.meets[i]
		if m.asks() == 0 {
			continue
		}
		cost, gives := r.Descriptors[i].Cost, r.Descriptors[i].GiveBack
		if gives {
			cost = 0
		}
		if double := t.double(i); double != nil {
			m.first = double.first
			t.addUp(m, cost)
		} else {
			m.first = len(t.asks)
			t.askEach(m, r, cost)
		}
		if gives {
			t.giveBack(m, r.Descriptors[i].Cost)
		}
	}
	t.out = slices.Grow(t.out, len(t.asks))[:len(t.asks)]
}

// askEach makes the asks of a descriptor whose counts no earlier one has.
func (t *take) askEach(m *meet, r *Request, cost int64) {
	for _, rule := range m.rules {
		t.rules = append(t.rules, rule)
		a := rule.Ask(m.key, costOf(rule, cost))
		a.Peek, a.Receipt = r.Peek, t.id
		t.asks = append(t.asks, a)
	}
}

// giveBack notes that each count of a descriptor gets events back.
func (t *take) giveBack(m *meet, events int64) {
	for j := range m.rules {
		t.backs = append(t.backs, back{m.first + j, min(events, weir.MaxCost)})
	}
}

// settleBacks gives back what the request does, those of one count together: a receipt works
// once, and one made twice for the same count would be the same receipt.
//
// A request that gives back has no receipt. Limit.Refund makes one that stands for the newest
// events in use, whoever was charged for them.
func (t *take) settleBacks(ctx context.Context, store weir.Settler) error {
	if len(t.backs) == 0 {
		return nil
	}
	var all []*weir.Receipt
	id := rand.Uint64() | 1
	at := map[int]*weir.Receipt{}
	for _, b := range t.backs {
		a := &t.asks[b.ask]
		if receipt := at[b.ask]; receipt != nil {
			receipt.Cost = min(receipt.Cost+b.events, weir.MaxCost)
		} else if !a.Peek && b.events > 0 {
			if a.Policy.Lease > 0 {
				return weir.ErrNoRefund // the newest events in use may be ones that a process has yet to spend
			}
			at[b.ask] = a.Limit.Refund(a.State, b.events, id)
			all = append(all, at[b.ask])
		}
	}
	return weir.NewCharge(store, all).GiveBack(ctx)
}

// double finds an earlier descriptor that has the same counts as the i-th. All
// limits of a descriptor share place and key, so the first tells for all. It compares each with each:
// of at most 100 descriptors, and mostly of one or two.
func (t *take) double(i int) *meet {
	m := &t.meets[i]
	for j := range i {
		o := &t.meets[j]
		if o.asks() > 0 && o.key == m.key && o.rules[0].place == m.rules[0].place {
			return o
		}
	}
	return nil
}

// addUp adds the cost of a descriptor to the asks that it shares with an earlier one.
func (t *take) addUp(m *meet, cost int64) {
	for j, rule := range m.rules {
		a := &t.asks[m.first+j]
		a.Cost = min(a.Cost+costOf(rule, cost), weir.MaxCost)
	}
}

// costOf is what a rule is asked for when a descriptor costs so much. Work that is done
// is charged as far as can be; a request that costs more than any limit can hold is asked for at a cost
// that none allows.
func costOf(rule *Rule, cost int64) int64 {
	if rule.After {
		return min(cost, weir.MaxCount+1)
	}
	return weir.AskedCost(cost)
}

// quotas is how many of the asks are of quota limits. Envoy's quota limits deny only when all
// of them do, which explanations tell.
func (t *take) quotas() int {
	n := 0
	for i := range t.asks {
		if t.asks[i].Quota {
			n++
		}
	}
	return n
}

// collectEvidence has the store fill in the states that it decides on, when it denies.
func (t *take) collectEvidence() {
	t.evidence = slices.Grow(t.evidence[:0], len(t.asks))[:len(t.asks)]
	for i := range t.evidence {
		t.evidence[i].Clear()
		t.asks[i].Evidence = &t.evidence[i]
	}
}

// hasEvidence is whether the store has filled in all of it. A fallback fills in nothing, and
// with several servers each knows only its own states.
func (t *take) hasEvidence() bool {
	return !slices.ContainsFunc(t.evidence, func(e weir.Evidence) bool { return !e.Told })
}

// answer tells what was decided, of asks that the store has taken. It writes over a.
func (t *take) answer(r *Request, a *Answer) {
	n := 0
	for i := range t.meets {
		n += t.meets[i].asks()
	}
	verdict := weir.Judge(t.asks, t.out)
	*a = Answer{
		// An id names a denial in Denials and in logs. It is drawn, so that nobody can guess the id
		// of another client's denial and have it explained.
		id: rand.Uint64(), Allowed: verdict.Allowed, Decisive: -1, verdict: verdict,
		Decisions: slices.Grow(a.Decisions[:0], n), Unlimited: a.Unlimited[:0],
	}
	for i := range t.meets {
		m := &t.meets[i]
		if m.unlimited() {
			a.Unlimited = append(a.Unlimited, i)
			continue
		}
		cost := r.Descriptors[i].Cost
		if r.Descriptors[i].GiveBack {
			cost = 0 // it was decided as one of 0
		}
		for j, rule := range m.rules {
			k := m.first + j
			if k == a.verdict.Decisive && a.Decisive < 0 {
				a.Decisive = len(a.Decisions)
			}
			a.Decisions = append(a.Decisions, Decision{Descriptor: i, Rule: rule, Key: m.key, Decision: t.out[k]})
			d := &a.Decisions[len(a.Decisions)-1]
			d.idle = !a.verdict.Heeds(&t.asks[k], &t.out[k])
			d.Cost, d.Charged = cost, d.Charged && cost > 0
		}
	}
}

// onePlace is whether the store keeps all counts of the take together, by their co-location
// keys: then it decides them at one moment, even if it is several servers.
func (t *take) onePlace() bool {
	for i := range t.asks {
		if a, o := t.asks[i].State, t.asks[0].State; a.Key != o.Key || a.Placement() != o.Placement() {
			return false
		}
	}
	return true
}

package rules

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/here"
)

// Trial is what the active rules and a candidate said to one request.
type Trial struct {
	Request *Request
	// Item is the candidate.
	Item *Item
	// Active is what the client is told. It is the same as without a candidate.
	Active *Answer
	// Candidate is what would have been said if the candidate had been active in place of the item of its key and value since it
	// began to run. It has the decisions of the candidate's limits alone, and none where other active rules deny. It is nil when
	// the store could not decide.
	Candidate *Answer
}

// candidates are items that run beside the active ones. They never change: Try puts others in
// their place.
type candidates struct {
	// domains has those with a candidate, and no others. Requests of other domains have no trial.
	domains map[string]*rivals
	// told hears of each trial.
	told func(Trial)
	// apart is whether the store is elsewhere: then candidates are asked together with the active rules, so
	// that they travel together and nobody waits twice. A store in memory is asked after the
	// answer is made: a goroutine would cost more than it saves.
	apart bool
	// held are what candidates have charged and no receipt has settled. They go on from one
	// candidates to the next, as the receipts that callers have do.
	held *heldReceipts
}

// rivals are the candidates of one domain, by their places in its file.
type rivals struct {
	top   *level
	items map[*place]*Item
}

// maxTrials is how many candidates a request is tried by. Those beyond do not hear of it.
const maxTrials = 16

// A candidate is not a shadow rule. A shadow rule is in the active file and is decided with the
// enforced ones, all or nothing. A candidate stands in the place of an active item, and knows no other candidate: it is
// charged with a request that the other active rules let pass if its own limits do, too, as it would be if it were active.

// Try lets items run beside the active ones from now on, until it is called again; without items it ends that. Each request
// that would meet such an item if it were active, alone of them all, and that is no peek, is decided by it, too, by counts of its own:
// what it says denies nobody and charges none of the active counts. told gets both answers, on the
// goroutine of the request, and must not keep the Trial. Counts of a candidate
// begin unused, and stay when Try is called again with the same limits.
//
// Items of one domain are of one Set: what is of another than the first is left out. A request hears of 16 candidates at most.
//
// Receipts of the active rules settle what candidates have charged, too.
func (l *Limiter) Try(items []*Item, told func(Trial)) {
	if len(items) == 0 {
		l.candidates.Store(nil)
		return
	}
	c := &candidates{domains: map[string]*rivals{}, told: told, apart: l.store.Traits().Shared, held: new(heldReceipts)}
	if before := l.candidates.Load(); before != nil {
		c.held = before.held
	}
	for _, i := range items {
		r := c.domains[i.Domain()]
		if r == nil {
			r = &rivals{&i.domain.top, map[*place]*Item{}}
			c.domains[i.Domain()] = r
		}
		if r.top == &i.domain.top {
			r.items[i.place] = i
		}
	}
	l.candidates.Store(c)
}

// met is the candidates that an entry leads to. Each is met as if it were the only one: those before it that are not active either
// do not take the entry away from it.
func (r *rivals) met(active *domain, e Entry) iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		var winner *place
		if active != nil {
			winner = active.top.find(e)
		}
		for p := range r.top.fitting(e) {
			is := winner != nil && p.entry == winner.entry
			if !is && winner != nil && (active.top.written(p.entry) != nil || !p.precedes(winner)) {
				continue // the winner stands before it
			}
			if i := r.items[p]; i != nil && !yield(i) || is {
				return
			}
		}
	}
}

// precedes is whether an entry that fits both leads to p. Of two patterns that are in different files it can only be told about:
// where o was taken away, those that stood behind it have moved up.
func (p *place) precedes(o *place) bool {
	if a, b := p.width(), o.width(); a != b {
		return a < b
	}
	return p.order <= o.order
}

// width is 0 for an exact place, 1 for a pattern, and 2 for a key alone.
func (p *place) width() int {
	switch {
	case p.exact():
		return 0
	case p.entry.Value == "" && !p.keepKey:
		return 2
	}
	return 1
}

// trial is a candidate on its way beside a request. It never changes the request's answer:
// an error of it is dropped, and its counts have names of their own.
type trial struct {
	item *Item
	// met is by descriptor: whether it would meet the candidate, in place of what it meets now.
	met []bool
	// take is of the candidate's rules. While done is not nil and has told nothing, the
	// store may write to it.
	take *take
	// done tells the store's error, once. It has room for it, so that the goroutine ends even
	// where nobody listens. nil: the store is not asked yet.
	done chan error
}

// trials are those of one request.
type trials struct {
	of   *candidates
	each []trial
}

// try begins the trials of r, or none. In a store that is elsewhere they are decided
// while the active rules decide.
func (l *Limiter) try(ctx context.Context, set *Set, r *Request) trials {
	c := l.candidates.Load()
	if c == nil || here.Only(ctx) || r.Peek || c.domains[r.Domain] == nil {
		return trials{}
	}
	x := trials{of: c, each: l.meetRivals(c.domains[r.Domain], set.domains[r.Domain], r)}
	for i := range x.each {
		t := x.each[i].take
		t.replace()
		t.except(l.exceptions, l.store, true)
		if c.apart && !r.Receipt {
			t.id = rand.Uint64() | 1 // what others deny is given back
		}
		t.ask(r)
		for j := range t.asks {
			t.asks[j].State.Rule = candidatePlace(t.asks[j].State.Rule)
		}
		_ = t.settleBacks(ctx, l.store) // what is not given back stays charged: the candidate seems stricter than it is
		if c.apart && len(t.asks) > 0 {
			done := make(chan error, 1)
			x.each[i].done = done
			go func() { done <- l.store.Take(ctx, t.asks, t.out) }()
		}
	}
	return x
}

// meetRivals finds which candidates the descriptors of r meet.
func (l *Limiter) meetRivals(rivals *rivals, active *domain, r *Request) (all []trial) {
	for i := range r.Descriptors {
		d := &r.Descriptors[i]
		if d.Override != nil || len(d.Entries) == 0 || len(d.Entries) > MaxEntries {
			continue
		}
		if r.Wider != nil {
			rivals.top.widen(d, r.Wider)
		}
		for item := range rivals.met(active, d.Entries[0]) {
			at := slices.IndexFunc(all, func(x trial) bool { return x.item == item })
			if at < 0 {
				if len(all) == maxTrials {
					continue
				}
				at, all = len(all), append(all, trial{item: item, met: make([]bool, len(r.Descriptors)), take: l.emptyTake()})
				all[at].take.meets = append(all[at].take.meets, make([]meet, len(r.Descriptors))...)
			}
			all[at].met[i] = true
			if rules := item.place.lead(d.Entries); len(rules) > 0 {
				all[at].take.meets[i] = meet{rules: rules, key: rules[0].open.key(d.Entries)}
			}
		}
	}
	return all
}

// lead is the rules that entries lead to, the first of which leads to p.
func (p *place) lead(entries []Entry) []*Rule {
	if len(entries) == 1 {
		return p.rules
	}
	return p.below.rules(entries[1:])
}

// candidatePlace is where a candidate counts what is counted at place: beside it,
// so that a store keeps both together. The word is put behind the last #, for what stands before
// that is StateKey.Placement:
//
//	shop/user#name=day → shop/user#candidate/name=day
func candidatePlace(place string) string {
	i := strings.LastIndexByte(place, '#') + 1
	return place[:i] + "candidate/" + place[i:]
}

// end tells of the trials, when the active rules have answered: t is what they took. Without an answer it tells nothing.
func (l *Limiter) end(ctx context.Context, x trials, t *take, r *Request, active *Answer) {
	var held []*weir.Receipt
	for i := range x.each {
		one := &x.each[i]
		answer, err := l.decideTrial(ctx, one, t, r, active)
		l.release(one.take)
		if active == nil {
			continue
		}
		told := Trial{Request: r, Item: one.item, Active: active}
		if err == nil {
			told.Candidate = answer
			held = append(held, answer.Receipts()...)
		}
		x.of.told(told)
	}
	if r.Receipt && len(held) > 0 {
		l.hold(ctx, x.of, active, held)
	}
}

// decideTrial is what the request would be told if the candidate were active.
func (l *Limiter) decideTrial(ctx context.Context, x *trial, t *take, r *Request, active *Answer) (*Answer, error) {
	passes := active != nil && x.passesOthers(t)
	var err error
	switch {
	case x.done != nil:
		if err = <-x.done; err == nil && !passes {
			l.giveBack(ctx, x.take)
		}
	case passes && len(x.take.asks) > 0:
		err = l.store.Take(ctx, x.take.asks, x.take.out)
	}
	if err != nil || active == nil {
		return nil, err
	}
	if !passes {
		return &Answer{Decisive: -1}, nil
	}
	answer := new(Answer)
	x.take.answer(r, answer)
	if !r.Receipt {
		for i := range answer.Decisions {
			answer.Decisions[i].Receipt = nil // nobody has one
		}
	}
	if !answer.Allowed { // a quota may let pass what the candidate's denies
		asks, out := x.others(t)
		answer.Allowed = weir.Judge(append(asks, x.take.asks...), append(out, x.take.out...)).Allowed
	}
	return answer, nil
}

// passesOthers is whether the active rules, without those that the candidate takes the place of, let the request pass if the
// candidate does.
func (x *trial) passesOthers(t *take) bool {
	asks, out := x.others(t)
	for range x.take.asks {
		out = append(out, weir.Decision{Outcome: weir.Allowed})
	}
	return weir.Judge(append(asks, x.take.asks...), out).Allowed
}

// others is what t asked of the rules that would be active beside the candidate.
func (x *trial) others(t *take) (asks []weir.Ask, out []weir.Decision) {
	var replaced []string
	for i := range x.take.meets {
		for _, rule := range x.take.meets[i].rules {
			replaced = append(replaced, rule.Replaces...)
		}
	}
	for i := range t.meets {
		m := &t.meets[i]
		if m.asks() == 0 || slices.Contains(replaced, m.rules[0].EnvoyName) || x.met[i] {
			continue
		}
		asks, out = append(asks, t.asks[m.first:m.first+m.asks()]...), append(out, t.out[m.first:m.first+m.asks()]...)
	}
	return asks, out
}

// giveBack takes back what a candidate has charged for a request that others deny.
func (l *Limiter) giveBack(ctx context.Context, t *take) {
	var receipts []*weir.Receipt
	for i := range t.out {
		if receipt := t.out[i].Receipt; receipt != nil {
			receipts = append(receipts, receipt)
		}
	}
	_ = weir.NewCharge(l.store, receipts).GiveBack(ctx) // if it fails it stays charged: the candidate seems stricter than it is
}

// hold remembers what candidates have charged until the receipts of the active
// rules are settled. No caller will settle what only candidates let pass: its
// permits are freed, for the work that would have held them is not done.
func (l *Limiter) hold(ctx context.Context, c *candidates, active *Answer, receipts []*weir.Receipt) {
	if first := active.Receipts(); len(first) > 0 {
		c.held.add(first[0].ID, receipts)
		return
	}
	used := make([]int64, len(receipts))
	for i, receipt := range receipts {
		used[i] = receipt.Cost
	}
	_, _ = weir.NewCharge(l.store, receipts).Settle(ctx, used) // if it fails they are freed by their ttl
}

// settleTrial settles for the candidate what is settled for the active rules. The caller has
// receipts of the active rules only, and reports for them what the work has used: the same work
// is what the candidate's charges are for. All settlements are of one request, so the first tells
// which.
func (l *Limiter) settleTrial(ctx context.Context, settled []weir.Settlement) {
	c := l.candidates.Load()
	if c == nil {
		return
	}
	renew := settled[0].Renew
	receipts := c.held.find(settled[0].Receipt.ID, renew)
	mine := weir.NewCharge(l.store, receipts)
	if renew {
		_ = mine.Renew(ctx) // a permit that is not renewed is freed by its ttl
		return
	}
	used := make([]int64, len(receipts))
	for i, receipt := range receipts {
		used[i] = usedOf(receipt, settled)
	}
	_, _ = mine.Settle(ctx, used) // what is not settled stays charged: the candidate seems stricter than it is
}

// usedOf is what was used of the count that receipt charged: of the same one in
// force, or else the most of any.
func usedOf(receipt *weir.Receipt, settled []weir.Settlement) int64 {
	most := int64(0)
	for i := range settled {
		s := &settled[i]
		if candidatePlace(s.Receipt.State.Rule) == receipt.State.Rule && s.Receipt.State.Key == receipt.State.Key {
			return s.Used
		}
		most = max(most, s.Used)
	}
	return most
}

// maxHeld is how many requests with receipts candidates remember, so that a
// settlement is theirs, too; when there are as many, twice, the older half is
// forgotten and stays charged.
const maxHeld = 1 << 15

// heldReceipts are receipts of candidates by the ID of the active rules' receipts, in two
// generations: when one is full, the one before is dropped.
//
// Two generations bound memory without a list of ages: a receipt is kept for at least maxHeld
// later requests, and at most for twice as many.
type heldReceipts struct {
	mu sync.Mutex
	// now gets what comes, and has at most maxHeld. before is what now was before it was
	// full.
	now, before map[uint64][]*weir.Receipt
}

func (h *heldReceipts) add(id uint64, receipts []*weir.Receipt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.now == nil || len(h.now) == maxHeld {
		h.before, h.now = h.now, map[uint64][]*weir.Receipt{}
	}
	h.now[id] = receipts
}

// find takes out what is held by an id, unless it is to be kept.
func (h *heldReceipts) find(id uint64, keep bool) []*weir.Receipt {
	h.mu.Lock()
	defer h.mu.Unlock()
	receipts := h.now[id]
	if receipts == nil {
		receipts = h.before[id]
	}
	if !keep {
		delete(h.now, id)
		delete(h.before, id)
	}
	return receipts
}

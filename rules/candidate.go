package rules

import (
	"context"
	"strings"
	"sync"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/here"
)

// Trial is what the active rules and a candidate said to one request.
type Trial struct {
	Request *Request
	// Active is what the client is told. It is the same as without a candidate.
	Active *Answer
	// Candidate is what would have been said if the candidate had been active
	// since it began to run. It is nil when the store could not decide.
	Candidate *Answer
}

// candidates are rules that run beside the active ones. They never change: Try puts others in
// their place.
type candidates struct {
	// set has the domains that have a candidate, and no others. Requests of other domains
	// have no trial.
	set *Set
	// told hears of each trial.
	told func(Trial)
	// apart is whether the store is elsewhere: then both are asked at once, so
	// that they travel together and nobody waits twice. A store in memory is asked after the
	// answer is made: a goroutine would cost more than it saves.
	apart bool
	// held are what candidates have charged and no receipt has settled. They go on from one
	// candidates to the next, as the receipts that callers have do.
	held *heldReceipts
}

// A candidate is not a shadow rule. A shadow rule is in the active file and is decided with the
// enforced ones, all or nothing. A candidate is a whole other file: it charges a request that
// the active rules deny if its own rules let it pass, as they would if they were active.

// Try lets the domains of set run beside the active ones from now on, until it is
// called again; nil ends it. Each request of these domains that is no peek is
// decided by both, each with its own counts: what the candidate says denies
// nobody and charges none of the active counts. told gets both answers, on the
// goroutine of the request, and must not keep the Trial. Counts of a candidate
// begin unused, and stay when Try is called again with the same limits.
//
// Receipts of the active rules settle what the candidate has charged, too.
func (l *Limiter) Try(set *Set, told func(Trial)) {
	if set == nil {
		l.candidates.Store(nil)
		return
	}
	held := new(heldReceipts)
	if before := l.candidates.Load(); before != nil {
		held = before.held
	}
	l.candidates.Store(&candidates{set: set, told: told, apart: l.store.Traits().Shared, held: held})
}

// trial is a candidate on its way beside a request. It never changes the request's answer:
// an error of it is dropped, and its counts have names of their own.
type trial struct {
	of *candidates
	// take is of the candidate's rules. While done is not nil and has told nothing, the
	// store may write to it.
	take *take
	// done tells the store's error, once. It has room for it, so that the goroutine ends even
	// where nobody listens. nil: the store is not asked yet.
	done chan error
}

// try begins a trial of r, or none. In a store that is elsewhere it is decided
// while the active rules decide.
func (l *Limiter) try(ctx context.Context, r *Request) *trial {
	c := l.candidates.Load()
	if c == nil || here.Only(ctx) || r.Peek || c.set.domains[r.Domain] == nil {
		return nil
	}
	t := l.newTake(c.set, r)
	for i := range t.asks {
		t.asks[i].State.Rule = candidatePlace(t.asks[i].State.Rule)
	}
	_ = t.settleBacks(ctx, l.store) // what is not given back stays charged: the candidate seems stricter than it is
	x := &trial{of: c, take: t}
	if c.apart && len(t.asks) > 0 {
		x.done = make(chan error, 1)
		go func() { x.done <- l.store.Take(ctx, t.asks, t.out) }()
	}
	return x
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

// end tells of a trial, when the active rules have answered. Without an answer
// it tells nothing.
func (l *Limiter) end(ctx context.Context, x *trial, r *Request, active *Answer) {
	defer l.release(x.take)
	var err error
	switch {
	case x.done != nil:
		err = <-x.done
	case active != nil && len(x.take.asks) > 0:
		err = l.store.Take(ctx, x.take.asks, x.take.out)
	}
	if active == nil {
		return
	}
	told := Trial{Request: r, Active: active}
	if err == nil {
		told.Candidate = new(Answer)
		x.take.answer(r, told.Candidate)
		l.hold(ctx, x.of, told)
	}
	x.of.told(told)
}

// hold remembers what the candidate has charged until the receipts of the active
// rules are settled. No caller will settle what only the candidate let pass: its
// permits are freed, for the work that would have held them is not done.
func (l *Limiter) hold(ctx context.Context, c *candidates, t Trial) {
	receipts := t.Candidate.Receipts()
	if len(receipts) == 0 {
		return
	}
	if active := t.Active.Receipts(); len(active) > 0 {
		c.held.add(active[0].ID, receipts)
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

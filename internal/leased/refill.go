package leased

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

// sweepEvery is how often the node looks for portions that nobody asks for any more.
const sweepEvery = 250 * time.Millisecond

// keptTimes is for how many times as long as a portion lasts a node remembers how often a key is asked for,
// when nobody asks any more.
const keptTimes = 4

// keptFor is for how long the store remembers at most that a portion was given back: longer than one is
// held, and drains, and waits for its settlement. A receipt lives for longer, but nobody gives back twice, and each
// is memory in the store.
func keptFor(lease time.Duration) weir.Instant {
	return weir.Instant((3*Lasts(lease) + 10*time.Second) / time.Microsecond)
}

// begin begins to give back.
func (s *Store) begin() {
	s.running.Go(s.sweep)
	for range returners {
		s.running.Go(func() {
			for {
				select {
				case r := <-s.returns:
					s.settle(context.Background(), r)
				case <-s.done:
					return
				}
			}
		})
	}
}

// tend does what is due after a decision by e, which is locked: it gives a portion back that is over, and
// asks for the next one before somebody has to wait for it.
func (s *Store) tend(e *entry, now time.Duration, l *weir.Limit, p *weir.Policy) {
	h := &e.holding
	switch {
	case h.receipt == nil || e.flight != nil:
	case h.Low(now):
		s.fly(e, now, weir.Ask{State: e.Key, Limit: l, Policy: *p}, 0)
	case h.have == 0:
		s.giveBack(e, now)
	}
}

// refill asks for a portion of e, which is locked, or finds that somebody does. first tells that this
// caller began it, and has its events set aside when it is granted. It is nil when the caller has to ask
// the store by itself.
func (s *Store) refill(e *entry, a *weir.Ask) (f *flight, first bool) {
	now := s.now()
	switch {
	case e.flight != nil:
		return e.flight, false
	case now < e.failed || a.Cost > e.holding.whole:
		return nil, false
	}
	return s.fly(e, now, *a, a.Cost), true
}

// fly has the store asked for a portion of e, which is locked, for a request of this cost, or none. It is
// nil when too many are under way, or the store is about to reset the count.
func (s *Store) fly(e *entry, now time.Duration, a weir.Ask, cost int64) *flight {
	if s.closed.Load() || s.resets.has(e.Key) {
		return nil
	}
	select {
	case s.flying <- struct{}{}:
	default:
		return nil
	}
	f := &flight{over: make(chan struct{}), cost: cost}
	e.flight = f
	events, least := e.holding.Need(now, max(cost, 1))
	epoch := e.epoch
	a.State, a.Shadow, a.Quota = e.Key, false, false
	s.running.Go(func() {
		s.fetch(e, f, a, request{cost: max(cost, 1), events: events, least: least, epoch: epoch})
		<-s.flying
	})
	return f
}

// request is what a refill asks for: events, and how many at least; 0: all of them. cost is what the request
// needs that it is for, and epoch that of the entry when it began.
type request struct {
	cost, events, least int64
	epoch               int
}

// fetch asks the store for a portion. One that is asked for as a whole is quicker for a store than one that
// takes what there is; where it is denied, the second try takes what there is.
func (s *Store) fetch(e *entry, f *flight, a weir.Ask, r request) {
	var seen weir.Evidence
	var out [1]weir.Decision
	asked := s.now()
	var err error
	for range 2 {
		seen.Always, a.Evidence, a.Receipt = true, &seen, rand.Uint64()|1
		a.Cost, a.AtLeast = r.events, r.least
		asked = s.now()
		err = s.try(context.Background(), []weir.Ask{a}, out[:])
		if err != nil || out[0].Outcome == weir.Allowed || r.least > 0 || r.events == r.cost {
			break
		}
		r.least = r.cost
	}
	e.Lock()
	defer e.Unlock()
	e.flight = nil
	defer close(f.over)
	now := s.now()
	if err != nil || out[0].Degraded != "" {
		f.failed, e.failed = true, now+failedFor
		return
	}
	s.land(e, f, r, answer{asked, now, &out[0], &seen})
}

// answer is what the store said of a refill, between these times.
type answer struct {
	asked, heard time.Duration
	decision     *weir.Decision
	seen         *weir.Evidence
}

// land takes note of the store's answer about e, which is locked. A portion that comes after a reset, or a
// change of the limit, goes back.
func (s *Store) land(e *entry, f *flight, r request, a answer) {
	h, d := &e.holding, a.decision
	if d.Receipt == nil && r.epoch != e.epoch {
		f.failed = true
		return
	}
	if d.Receipt != nil {
		d.Receipt.Expires = min(d.Receipt.Expires, d.Receipt.Taken+keptFor(h.lease))
		s.counts.portions.Add(1)
		s.counts.taken.Add(d.Receipt.Cost)
		if r.epoch != e.epoch || !sameText(d.Receipt.Limit, h.limit) {
			s.enqueue(weir.Settlement{Receipt: d.Receipt})
			f.failed = true
			return
		}
		if !h.Keeps(a.heard, d.Receipt) {
			s.giveBack(e, a.heard)
		}
	}
	if a.seen.Told && d.Charged {
		a.seen.State = h.limit.Charge(a.seen.State, a.seen.At, d.Cost)
	}
	h.Hear(a.asked, a.heard, r.events, f.cost, d, a.seen)
	if f.cost > 0 {
		f.granted = d.Receipt
	}
	s.trim(e)
}

func sameText(a, b *weir.Limit) bool { return a == b || a.String() == b.String() }

// await waits for the end of a refill. It says no when the caller has left, or the store could not be
// asked. A first caller that leaves has nothing set aside any more.
func (s *Store) await(ctx context.Context, e *entry, f *flight, first bool) bool {
	select {
	case <-f.over:
		return !f.failed
	case <-ctx.Done():
	}
	if first {
		e.Lock()
		defer e.Unlock()
		if f.granted != nil {
			s.unspend(e, f.granted, f.cost)
		}
		f.cost = 0
	}
	return false
}

// giveBack takes the portion out of e, which is locked, and has it given back. If less than its rest could go
// back now, that waits until its events have drained, unless too many wait.
func (s *Store) giveBack(e *entry, now time.Duration) {
	b, worth := e.holding.Return(now)
	if !worth {
		return
	}
	if b.After > 0 && !s.closed.Load() {
		select {
		case s.waiting <- struct{}{}:
			s.running.Go(func() { s.giveBackLater(&b) })
			return
		default:
		}
	}
	b.Each(s.enqueue)
}

// giveBackLater gives a portion back when its events have drained, or what it can when the store is closed.
func (s *Store) giveBackLater(b *Back) {
	r := b.All
	select {
	case <-time.After(b.After):
	case <-s.done:
		r = b.Now
	}
	<-s.waiting
	s.enqueue(r)
}

// enqueue has a portion given back. Where too many wait, it is not: its events come back as the limit
// recovers.
func (s *Store) enqueue(r weir.Settlement) {
	select {
	case s.returns <- r:
	default:
		s.counts.lost.Add(r.Receipt.Cost - r.Used)
	}
}

// settle gives a portion back.
func (s *Store) settle(ctx context.Context, r weir.Settlement) {
	all := []weir.Settlement{r}
	if err := s.next.Settle(ctx, all); err != nil {
		s.counts.lost.Add(r.Receipt.Cost - r.Used)
		return
	}
	s.counts.returned.Add(r.Receipt.Cost - all[0].Charged)
	if e, ok := s.table.Find(r.Receipt.State); ok {
		e.holding.Returned(s.now())
		e.Unlock()
	}
}

// release gives back what this node holds of asks, and waits for that. It says whether there was something.
func (s *Store) release(ctx context.Context, asks []weir.Ask) (some bool) {
	for i := range asks {
		if asks[i].Policy.Lease <= 0 {
			continue
		}
		e, ok := s.table.Find(asks[i].State)
		if !ok {
			continue
		}
		left := e.holding.Left(s.now()) > 0
		b, _ := e.holding.Return(s.now())
		e.Unlock()
		if left {
			b.Each(func(r weir.Settlement) { s.settle(ctx, r) })
			some = true
		}
	}
	return some
}

// sweep gives back the portions of keys that nobody asks for any more, until the store is closed. That is
// how the table gets room: nothing else drops a key.
func (s *Store) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
		now := s.now()
		for _, e := range s.table.All(func(*entry) bool { return true }) {
			e.Lock()
			switch {
			case e.Dropped() || e.flight != nil:
			case now-e.asked >= keptTimes*Lasts(e.holding.lease):
				s.giveBack(e, now)
				s.table.Drop(e)
			case now-e.asked >= Lasts(e.holding.lease), e.holding.Left(now) == 0, e.holding.old(now):
				s.giveBack(e, now)
			}
			e.Unlock()
		}
	}
}

// Close gives back what this node holds, as far as the store can be reached in the time of ctx, and ends.
// Takes that come later are the store's to decide. A second Close does nothing, and does not wait for the
// first.
func (s *Store) Close(ctx context.Context) error {
	if !s.closed.CompareAndSwap(false, true) {
		return nil
	}
	s.began.Do(func() {})
	close(s.done)
	everything := s.table.All(func(e *entry) bool { // who had an entry locked before has begun its refill
		e.Lock()
		defer e.Unlock()
		return true
	})
	s.running.Wait()
	left := make(chan weir.Settlement, maxReturns+2*len(everything))
	for _, e := range everything {
		e.Lock()
		if b, worth := e.holding.Return(s.now()); worth {
			b.Each(func(r weir.Settlement) { left <- r })
		}
		e.Unlock()
	}
	for len(s.returns) > 0 { // last: until then takes under way may have given back
		left <- <-s.returns
	}
	close(left)
	var all sync.WaitGroup
	for range returners {
		all.Go(func() {
			for r := range left {
				s.settle(ctx, r)
			}
		})
	}
	all.Wait()
	return nil
}

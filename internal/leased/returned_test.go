package leased_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/leased"
	"github.com/weir-limit/weir/memstore"
)

var _ = edge.New

// a portion that has melted in its own stretch is given back with Used = spent: the store then
// has less in use than has passed just now.
func TestReleaseOfMelted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := node()
		a := ask("1000/s burst 2000", "k")
		warm(t, s, a)
		time.Sleep(3 * time.Second) // all is idle, given back and drained
		synctest.Wait()
		var p passed
		// a hot key again: takes until it holds a fresh portion, then a pause within lease time
		for s.Stats().Unspent < 100 {
			if take(t, s, a)[0].Outcome == weir.Allowed {
				p.add(1)
			}
			time.Sleep(time.Millisecond)
		}
		n0 := s.Stats().Unspent
		time.Sleep(time.Duration(n0/2) * time.Millisecond) // half melts
		for s.Stats().Unspent > 5 {                        // a burst
			if take(t, s, a)[0].Outcome == weir.Allowed {
				p.add(1)
			}
			if s.Stats().Unspent > n0 {
				t.Fatal("new portion")
			}
			if s.Stats().Unspent <= n0/16+10 {
				break
			}
		}
		// somebody asks why (weir explain, or /explain of the daemon)
		_, _, _ = s.Look(t.Context(), []weir.Ask{a})
		t.Logf("held %d; %+v", n0, s.Stats())
		// and all that the limit has passes
		for {
			b := a
			b.Receipt = uint64(len(p.at) + 1)
			if take(t, s, b)[0].Outcome != weir.Allowed {
				break
			}
			p.add(1)
		}
		t.Logf("%d in all", p.sum())
		if e, over := p.beyond(a.Limit); over {
			t.Errorf("at %v more than the limit", e.at.Time())
		}
		end(t, []*leased.Store{s})
	})
}

// the same by a request that wants a receipt, and no explanation.
func TestReleaseForReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := node()
		a := ask("1000/s burst 2000", "k")
		warm(t, s, a)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		var p passed
		for s.Stats().Unspent < 100 {
			if take(t, s, a)[0].Outcome == weir.Allowed {
				p.add(1)
			}
			time.Sleep(time.Millisecond)
		}
		n0 := s.Stats().Unspent
		time.Sleep(time.Duration(n0/2) * time.Millisecond)
		for s.Stats().Unspent > n0/16+10 {
			if take(t, s, a)[0].Outcome == weir.Allowed {
				p.add(1)
			}
		}
		b := a
		b.Receipt, b.Cost = 77, 2000-n0/4
		d := take(t, s, b)[0]
		if d.Outcome == weir.Allowed {
			p.add(b.Cost)
		}
		t.Logf("held %d, %d of a large request: %+v", n0, b.Cost, d.Outcome)
		if e, over := p.beyond(a.Limit); over {
			t.Errorf("at %v more than the limit: %d passed", e.at.Time(), p.sum())
		}
		end(t, []*leased.Store{s})
	})
}

// without Look or receipts: two nodes, one goes idle and gives back, the other's portion then lies
// at the front of the bucket and drains; it is returned at the next portion.
func TestReturnBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := memstore.New(memstore.Options{})
		one := leased.New(m, m.Take)
		a := ask("1000/s burst 2000", "k")
		warm(t, one, a)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		var p passed
		// somebody else's charge that is cancelled
		c := a
		c.Policy.Lease, c.Receipt, c.Cost = 0, 99, 1500
		got := take(t, m, c)[0]
		for one.Stats().Unspent < 100 {
			if take(t, one, a)[0].Outcome == weir.Allowed {
				p.add(1)
			}
			time.Sleep(time.Millisecond)
		}
		if err := m.Settle(t.Context(), []weir.Settlement{{Receipt: got.Receipt}}); err != nil {
			t.Fatal(err)
		}
		n0 := one.Stats().Unspent
		time.Sleep(time.Duration(n0*3/4) * time.Millisecond)
		before := one.Stats().Portions
		for one.Stats().Portions == before { // a burst, until the next portion comes and this one goes back
			if take(t, one, a)[0].Outcome == weir.Allowed {
				p.add(1)
			}
			synctest.Wait()
		}
		synctest.Wait()
		t.Logf("held %d, used in store %d, passed now %d, %+v", n0, used(t, m, a), p.sum(), one.Stats())
		for take(t, one, a)[0].Outcome == weir.Allowed {
			p.add(1)
			synctest.Wait()
		}
		c.Cost = 1
		for take(t, m, c)[0].Outcome == weir.Allowed {
			p.add(1)
		}
		if e, over := p.beyond(a.Limit); over {
			t.Errorf("at %v more than the limit: %d passed", e.at.Time(), p.sum())
		}
		end(t, []*leased.Store{one})
	})
}

// a portion that is spent slowly outlives its shortened receipt.
func TestReturnBeforeReceiptEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := node()
		time.Sleep(time.Until(time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)))
		a := ask("1000/day fixed-window", "k")
		n := warm(t, s, a)
		held := s.Stats().Unspent
		for range 80 { // below a portion's time, so it is held on
			time.Sleep(900 * time.Millisecond)
			if take(t, s, a)[0].Outcome == weir.Allowed {
				n++
			}
		}
		t.Logf("%d were held, then %d: %+v", held, s.Stats().Unspent, s.Stats())
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if u := used(t, m, a); u != n {
			t.Errorf("the store has charged %d, and %d have passed: %+v", u, n, s.Stats())
		}
		end(t, []*leased.Store{s})
	})
}

// a portion whose events drain for longer than its receipt lives.
func TestReturnBeforeDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := node()
		a := ask("60/min burst 1000", "k")
		passed := int64(0)
		for range 250 {
			if take(t, s, a)[0].Outcome == weir.Allowed {
				passed++
			}
			time.Sleep(4 * time.Millisecond)
		}
		held := s.Stats().Unspent
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if u := used(t, m, a); u > passed || held < 5 {
			t.Errorf("%d are in use of %d that passed, and %d were held: %+v", u, passed, held, s.Stats())
		}
		end(t, []*leased.Store{s})
	})
}

// a node is denied for what it holds itself, and for as long as somebody asks.
func TestNotDeniedByOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := node()
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		a := ask("1000/h fixed-window", "k")
		passed := warm(t, s, a)
		left := 1000 - passed
		b := a
		b.Cost = left // all that is left, which one node alone would have
		for i := range 600 {
			if take(t, s, b)[0].Outcome == weir.Allowed {
				t.Logf("passed after %d", i)
				break
			}
			if i == 599 {
				t.Errorf("%d passed and %d are charged; %d are denied for 5 minutes: %+v", passed, used(t, m, a), left, s.Stats())
			}
			time.Sleep(500 * time.Millisecond)
		}
		end(t, []*leased.Store{s})
	})
}

// denied is a node that asked for more than its limit, a while ago: the denial is over, and the next request asks.
func denied(t *testing.T) (*remote, *leased.Store, weir.Ask) {
	t.Helper()
	r := newRemote()
	s := open(r, 1)[0]
	time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
	a := ask("100/h fixed-window", "k")
	for range 300 {
		take(t, s, a)
		time.Sleep(2 * time.Millisecond)
	}
	time.Sleep(1100 * time.Millisecond)
	return r, s, a
}

// a denial from before a reset is remembered after it.
func TestStaleDenialOfReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s, a := denied(t)
		gone := make(chan struct{})
		slowed := r.late
		n := 0
		r.late = func() time.Duration {
			n++
			if n == 2 {
				return 50 * time.Millisecond
			}
			return moment
		} // the answer is slow
		go func() { defer close(gone); take(t, s, a) }()
		time.Sleep(10 * time.Millisecond)
		if err := s.Reset(t.Context(), []weir.StateKey{a.State}); err != nil {
			t.Fatal(err)
		}
		r.late = slowed
		began := time.Now()
		<-gone
		for take(t, s, a)[0].Outcome != weir.Allowed {
			time.Sleep(time.Millisecond)
			if time.Since(began) > 10*time.Second {
				break
			}
		}
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("denied for %v after a reset", d)
		}
		end(t, []*leased.Store{s})
	})
}

// a denial by the old limit is remembered for the new one.
func TestStaleDenialOfChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, a := denied(t)
		gone := make(chan struct{})
		go func() { defer close(gone); take(t, s, a) }()
		time.Sleep(100 * time.Microsecond)
		b := a
		b.Limit = weir.MustParseLimit("1000/h fixed-window")
		began := time.Now()
		for take(t, s, b)[0].Outcome != weir.Allowed {
			time.Sleep(time.Millisecond)
			if time.Since(began) > 10*time.Second {
				break
			}
		}
		<-gone
		if d := time.Since(began); d > 100*time.Millisecond {
			t.Errorf("denied for %v after a change", d)
		}
		end(t, []*leased.Store{s})
	})
}

// a very short lease.
func TestShortLease(t *testing.T) {
	_, s := node()
	a := ask("100/s", "k")
	a.Policy.Lease = 50 * time.Nanosecond
	for range 50 {
		take(t, s, a)
	}
	end(t, []*leased.Store{s})
}

var _ = context.Background

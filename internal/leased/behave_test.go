package leased_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/leased"
	"github.com/weir-limit/weir/memstore"
)

// node is one on a store in memory, of which nothing is lost.
func node() (*memstore.Store, *leased.Store) {
	m := memstore.New(memstore.Options{})
	return m, leased.New(m, m.Take)
}

// warm has a node hold a portion of the ask's count: it asks for a while.
func warm(t *testing.T, s *leased.Store, a weir.Ask) (passed int64) {
	t.Helper()
	for range 50 {
		if take(t, s, a)[0].Outcome == weir.Allowed {
			passed++
		}
		time.Sleep(4 * time.Millisecond)
	}
	if s.Stats().Unspent == 0 {
		t.Fatalf("it holds nothing: %+v", s.Stats())
	}
	return passed
}

// used is how many events of an ask's count the store has charged.
func used(t *testing.T, m *memstore.Store, a weir.Ask) int64 {
	t.Helper()
	now, states, err := m.Look(t.Context(), []weir.Ask{a})
	if err != nil {
		t.Fatal(err)
	}
	return a.Limit.Used(states[0], now)
}

// TestReturns: what a node holds goes back when nobody asks any more, when the limit changes, when the store
// denies a take that it has to decide, for an explanation, and at the end. Then the store has charged what has passed.
func TestReturns(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, s *leased.Store, a weir.Ask){
		"idle":     func(*testing.T, *leased.Store, weir.Ask) { time.Sleep(2 * leased.Lasts(lease)) },
		"close":    func(t *testing.T, s *leased.Store, _ weir.Ask) { end(t, []*leased.Store{s}) },
		"explains": func(t *testing.T, s *leased.Store, a weir.Ask) { _, _, _ = s.Look(t.Context(), []weir.Ask{a}) },
		"change": func(t *testing.T, s *leased.Store, a weir.Ask) {
			a.Policy.Lease *= 2
			take(t, s, a)
		},
		"denial": func(t *testing.T, s *leased.Store, a weir.Ask) {
			a.Receipt, a.Cost = 7, 900 // which only both together have
			if d := take(t, s, a)[0]; d.Outcome != weir.Allowed {
				t.Errorf("%+v: it holds what is missing", d)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, s := node()
				time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
				a := ask("1000/h fixed-window", "k")
				passed := warm(t, s, a)
				if used(t, m, a) <= passed {
					t.Fatal("nothing is held")
				}
				do(t, s, a)
				passed += map[string]int64{"change": 1, "denial": 900}[name]
				synctest.Wait()
				if got := used(t, m, a); got != passed {
					t.Errorf("the store has charged %d, and %d have passed: %+v", got, passed, s.Stats())
				}
				end(t, []*leased.Store{s})
			})
		})
	}
}

// TestReset: after a reset a node has its whole limit, and no more: nothing of a portion from before.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := node()
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		a := ask("1000/h fixed-window", "k")
		warm(t, s, a)
		if err := s.Reset(t.Context(), []weir.StateKey{a.State}); err != nil {
			t.Fatal(err)
		}
		if n := s.Stats().Unspent; n != 0 || used(t, m, a) != 0 {
			t.Errorf("%d are held of %d in use", n, used(t, m, a))
		}
		passed := 0
		for range 1500 {
			if take(t, s, a)[0].Outcome == weir.Allowed {
				passed++
			}
			time.Sleep(time.Millisecond)
		}
		if passed != 1000 {
			t.Errorf("%d passed after a reset", passed)
		}
		end(t, []*leased.Store{s})
	})
}

// TestSees: a peek and a decision tell what the node holds beside what remains in the store; a denial says
// when it ends, and what it stood on.
func TestSees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := node()
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		a := ask("100/h fixed-window", "k")
		passed := warm(t, s, a)
		peek := a
		peek.Peek = true
		if d := take(t, s, peek)[0]; d.Remaining != 100-passed || d.Charged {
			t.Errorf("%+v after %d", d, passed)
		}
		for ; passed < 100; passed++ {
			if d := take(t, s, a)[0]; d.Outcome != weir.Allowed || d.Remaining != 99-passed || d.ResetAfter == 0 {
				t.Fatalf("%+v after %d", d, passed)
			}
			time.Sleep(time.Millisecond)
		}
		for range 3 {
			a.Evidence = &weir.Evidence{}
			d := take(t, s, a)[0]
			left := time.Until(time.Now().Truncate(time.Hour).Add(time.Hour))
			if d.Outcome != weir.Denied || d.Charged || d.RetryAfter != left || d.NextAfter != left || d.Remaining != 0 {
				t.Errorf("%+v: it ends in %v", d, left)
			}
			if !a.Evidence.Told || a.Limit.Used(a.Evidence.State, a.Evidence.At) != 100 {
				t.Errorf("it stood on %+v", a.Evidence)
			}
			time.Sleep(10 * time.Millisecond)
		}
		end(t, []*leased.Store{s})
	})
}

// TestTogether: a take of two limits is charged whole or not at all, wherever its limits are decided.
func TestTogether(t *testing.T) {
	for _, both := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m, s := node()
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
			wide, narrow := ask("1000/h fixed-window", "k"), ask("10/h fixed-window", "k")
			if !both {
				narrow.Policy.Lease = 0
			}
			passed := int64(0)
			for range 100 {
				out := take(t, s, wide, narrow)
				if out[0].Charged != out[1].Charged {
					t.Fatalf("%+v", out)
				}
				if out[1].Charged {
					passed++
				}
				time.Sleep(3 * time.Millisecond)
			}
			end(t, []*leased.Store{s})
			if n, w := used(t, m, narrow), used(t, m, wide); passed != 10 || n != 10 || w != 10 {
				t.Errorf("both %v: %d passed, and %d and %d are charged", both, passed, w, n)
			}
		})
	}
}

// TestAway: a node goes on by its portion while the store is away, and then asks what decides in its place.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote()
		s := open(r, 1)[0]
		a := ask("1000/h fixed-window", "k")
		for range 50 {
			take(t, s, a)
			time.Sleep(4 * time.Millisecond)
		}
		r.away.Store(true)
		local, held := int64(0), s.Stats().Unspent
		var failed error
		for range 500 {
			out := make([]weir.Decision, 1)
			if failed = s.Take(t.Context(), []weir.Ask{a}, out); failed == nil && out[0].Outcome == weir.Allowed {
				local++
			}
			time.Sleep(time.Millisecond)
		}
		if local != held || held == 0 || failed == nil {
			t.Errorf("%d passed of %d held, then %v", local, held, failed)
		}
		end(t, []*leased.Store{s})
	})
}

// TestDiesAnywhere: a node dies before or after any of its messages, and another goes on. Nothing passes beyond
// the limit, and when the limit has recovered, all of it is there again.
func TestDiesAnywhere(t *testing.T) {
	for message := range 24 {
		for _, heard := range []bool{false, true} {
			t.Run(fmt.Sprintf("message %d, heard %v", message, heard), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := &dying{remote: newRemote(), heard: heard}
					r.left.Store(int64(message))
					first, next := leased.New(r, r.Take), leased.New(r.remote, r.remote.Take)
					a := ask("100/s burst 40", "k")
					var p passed
					for i := range 400 {
						s := next
						if i < 250 && r.left.Load() >= 0 {
							s = first
						}
						if take(t, s, a)[0].Outcome == weir.Allowed {
							p.add(1)
						}
						time.Sleep(2 * time.Millisecond)
					}
					if e, over := p.beyond(a.Limit); over {
						t.Errorf("at %v more than the limit", e.at.Time())
					}
					_ = first.Close(expired())
					end(t, []*leased.Store{next})
					time.Sleep(time.Second)
					if n := used(t, r.Store, a); n != 0 {
						t.Errorf("%d are in use after a rest", n)
					}
				})
			})
		}
	}
}

// dying is the way of a node to its store that ends with a message, before or after the store heard it.
type dying struct {
	*remote

	left  atomic.Int64 // messages; below 0 it is dead
	heard bool
}

func (d *dying) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	dead := d.left.Add(-1) < 0
	if dead && !d.heard {
		return errLost
	}
	if err := d.Store.Take(ctx, asks, out); err != nil || dead {
		return errLost
	}
	return nil
}

func (d *dying) Settle(ctx context.Context, settlements []weir.Settlement) error {
	dead := d.left.Add(-1) < 0
	if dead && !d.heard {
		return errLost
	}
	if err := d.Store.Settle(ctx, settlements); err != nil || dead {
		return errLost
	}
	return nil
}

// TestHoldsNoMore: what another limit denies is not held beyond what a node holds beforehand, however much
// the request costs, and whether it waits for its answer or not.
func TestHoldsNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote()
		s := open(r, 1)[0]
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		wide, narrow := ask("1000/h fixed-window", "k"), ask("10/h fixed-window", "k2")
		for range 10 {
			take(t, s, narrow)
		}
		time.Sleep(2 * time.Second)
		wide.Cost = 900
		most := leased.Largest(wide.Limit) + leased.Largest(narrow.Limit)
		for i := range 20 {
			if i%2 == 0 {
				take(t, s, wide, narrow)
			} else {
				ctx, cancel := context.WithTimeout(t.Context(), moment)
				_ = s.Take(ctx, []weir.Ask{wide}, make([]weir.Decision, 1))
				cancel()
				time.Sleep(10 * time.Millisecond)
			}
			if u := s.Stats().Unspent; u > most {
				t.Errorf("%d are held of at most %d", u, most)
			}
			time.Sleep(2 * time.Second)
			if err := r.Store.Reset(t.Context(), []weir.StateKey{wide.State}); err != nil {
				t.Error(err)
			}
		}
		end(t, []*leased.Store{s})
	})
}

// TestPeeksAtBoth: a peek allows what the node and the store have together.
func TestPeeksAtBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := node()
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		a := ask("1000/h fixed-window", "k")
		passed := warm(t, s, a)
		a.Peek = true
		for more := range int64(2) {
			a.Cost = 1000 - passed + more
			d := take(t, s, a)[0]
			if d.Remaining != 1000-passed || (d.Outcome == weir.Allowed) != (more == 0) || (d.RetryAfter > 0) != (more > 0) {
				t.Errorf("%d more: %+v after %d", more, d, passed)
			}
		}
		end(t, []*leased.Store{s})
	})
}

// TestClosesWhileAsked: a node that is asked while it closes gives back all that has not passed.
func TestClosesWhileAsked(t *testing.T) {
	lost := 0
	for range 300 {
		m, s := node()
		var asks []weir.Ask
		for k := range 8 {
			asks = append(asks, ask("1000000/h fixed-window", fmt.Sprint(k)))
		}
		var passed atomic.Int64
		var closing atomic.Bool
		var g sync.WaitGroup
		for c := range 4 {
			g.Go(func() {
				out := make([]weir.Decision, 1)
				for i := c; !closing.Load() || i%64 > 0; i++ {
					a := asks[i%len(asks)]
					a.Cost = 1 + int64(i%3)
					if err := s.Take(t.Context(), []weir.Ask{a}, out); err == nil && out[0].Outcome == weir.Allowed {
						passed.Add(a.Cost)
					}
				}
			})
		}
		time.Sleep(time.Millisecond)
		closing.Store(true)
		end(t, []*leased.Store{s})
		g.Wait()
		got := int64(0)
		for _, a := range asks {
			got += used(t, m, a)
		}
		if got != passed.Load() {
			lost++
			t.Logf("%d in use of %d that have passed: %+v", got, passed.Load(), s.Stats())
		}
	}
	if lost > 0 {
		t.Errorf("%d of 300 lost something", lost)
	}
}

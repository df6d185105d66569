package synced_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/synced"
	"github.com/weir-limit/weir/internal/unreported"
	"github.com/weir-limit/weir/memstore"
)

// remote is a store in memory, a moment away, that counts its calls.
type remote struct {
	*memstore.Store

	calls atomic.Int64
	away  atomic.Bool
}

const moment = 300 * time.Microsecond

var errRefused = errors.New("connection refused")

func (r *remote) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	r.calls.Add(1)
	if r.away.Load() {
		return errRefused
	}
	time.Sleep(moment)
	defer time.Sleep(moment)
	return r.Store.Take(ctx, asks, out)
}

func (r *remote) Reset(ctx context.Context, keys []weir.StateKey) error {
	if r.away.Load() {
		return errRefused
	}
	return r.Store.Reset(ctx, keys)
}

// open makes so many nodes on one store.
func open(t testing.TB, nodes int) (*remote, []*synced.Store) {
	t.Helper()
	r := &remote{Store: memstore.New(memstore.Options{})}
	all := make([]*synced.Store, nodes)
	for i := range all {
		all[i] = synced.New(guard.New(r, guard.Options{}))
	}
	return r, all
}

func end(t testing.TB, nodes []*synced.Store) {
	t.Helper()
	for _, s := range nodes {
		if err := s.Close(context.Background()); err != nil && !errors.Is(err, weir.ErrAway) && !errors.Is(err, errRefused) {
			t.Error(err)
		}
	}
}

func ask(limit, key string) weir.Ask {
	return weir.Ask{State: weir.StateKey{Rule: "r#" + limit, Key: key}, Limit: weir.MustParseLimit(limit), Cost: 1, Policy: weir.Policy{Sync: 100 * time.Millisecond}}
}

func take(t testing.TB, s weir.Store, asks ...weir.Ask) []weir.Decision {
	t.Helper()
	out := make([]weir.Decision, len(asks))
	if err := s.Take(t.Context(), asks, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestHotKey: a key that all nodes ask for thousands of times a second costs the
// store some calls a second, and passes what its limit lets, and no more than the
// bound beside it.
func TestHotKey(t *testing.T) {
	for _, text := range []string{"1000/s", "1000/s burst 20", "10/s", "1000/s fixed-window", "1000/s sliding-window 10", "60000/min fixed-window"} {
		synctest.Test(t, func(t *testing.T) {
			const seconds = 5
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
			store, nodes := open(t, 3)
			a, passed := ask(text, "hot"), make([]int64, len(nodes))
			var g sync.WaitGroup
			for i, s := range nodes {
				g.Go(func() {
					for range seconds * 2000 {
						time.Sleep(500*time.Microsecond + time.Duration(i)*time.Microsecond)
						if take(t, s, a)[0].Outcome == weir.Allowed {
							passed[i]++
						}
					}
				})
			}
			g.Wait()
			took, calls := 5*time.Second, store.calls.Load()
			sum := passed[0] + passed[1] + passed[2]
			bound := a.Limit.BoundSynced(took+20*time.Millisecond, a.Policy.Sync, len(nodes), 1)
			t.Logf("%s: %d passed (limit alone %d, bound %d), %v by node, %d calls, %+v", text, sum, a.Limit.Bound(took, 1), bound, passed, calls, nodes[0].Stats())
			if sum > bound {
				t.Errorf("%s: %d passed in %v, more than %d", text, sum, took, bound)
			}
			spec := a.Limit.Spec()
			if least := spec.Count * int64(took) / int64(spec.Period) * 9 / 10; sum < least {
				t.Errorf("%s: %d passed in %v, less than %d", text, sum, took, least)
			}
			end(t, nodes)
		})
	}
}

// TestCost: a key that one node asks for 4,000 times a second passes its limit
// exactly, and costs the store ten calls a second, or one for each three quarters
// of what may be unreported where those are more; both in a window that is
// spent at its beginning.
func TestCost(t *testing.T) {
	for text, want := range map[string]struct{ passed, calls int64 }{
		"1000/s": {1000, 14}, "1000/s burst 100": {1000, 14}, "1000000/s": {4000, 10},
		"10/s": {10, 10}, "1000/s fixed-window": {1000, 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			store, nodes := open(t, 1)
			a, passed := ask(text, "hot"), int64(0)
			for i := range 4 * 4000 {
				if i%4000 == 0 {
					calls := store.calls.Swap(0)
					if i > 4000 && (passed != want.passed || calls > want.calls) {
						t.Errorf("%s: %d passed in a second with %d calls, want %+v", text, passed, calls, want)
					}
					passed = 0
				}
				if take(t, nodes[0], a)[0].Outcome == weir.Allowed {
					passed++
				}
				time.Sleep(250 * time.Microsecond)
			}
			end(t, nodes)
		})
	}
}

// TestAway: with the store away, a node lets pass what may be unreported, then the
// fallback decides, and says so. When the store is back it hears of all.
func TestAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, nodes := open(t, 1)
		a := ask("600/min burst 300", "k")
		a.Policy.Fallback = weir.FallbackClosed
		a.Policy.Sync = time.Second // 10 unreported
		take(t, nodes[0], a)
		store.away.Store(true)
		local := 0
		for range 1000 {
			time.Sleep(time.Millisecond)
			d := take(t, nodes[0], a)[0]
			if d.Outcome == weir.Allowed {
				local++
			} else if d.Degraded != weir.FallbackClosed {
				t.Fatalf("after %d locally: %+v", local, d)
			}
		}
		if local != 10 {
			t.Errorf("%d passed locally, want the 10 that may be unreported", local)
		}
		store.away.Store(false)
		time.Sleep(3 * time.Second)
		if d := take(t, nodes[0], a)[0]; d.Outcome != weir.Allowed || d.Degraded != "" {
			t.Errorf("after the store's return: %+v", d)
		}
		if got := nodes[0].Stats().Events; got != 10 {
			t.Errorf("the store heard of %d events, want 10", got)
		}
		end(t, nodes)
	})
}

// TestResetFails: while the store can't be reset, a node forgets nothing either.
func TestResetFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, nodes := open(t, 1)
		s, a := nodes[0], ask("100/s fixed-window", "k")
		take(t, s, a) // the store's
		take(t, s, a)
		store.away.Store(true)
		if err := s.Reset(t.Context(), []weir.StateKey{a.State}); err == nil {
			t.Fatal("it was reset")
		}
		if d := take(t, s, a)[0]; d.Remaining != 97 {
			t.Errorf("after a reset that failed: %+v", d)
		}
		store.away.Store(false)
		if err := s.Reset(t.Context(), []weir.StateKey{a.State}); err != nil {
			t.Fatal(err)
		}
		if d := take(t, s, a)[0]; d.Remaining != 99 {
			t.Errorf("after a reset: %+v", d)
		}
		end(t, nodes)
	})
}

// TestChangedLimit: an entry of a limit that nobody asks for anymore is dropped,
// though its key is asked for.
func TestChangedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := open(t, 1)
		s, a := nodes[0], ask("100/s", "k")
		take(t, s, a)
		a.Limit = weir.MustParseLimit("100/s sliding-log") // which is never kept locally
		for range 20 {
			time.Sleep(50 * time.Millisecond)
			take(t, s, a)
		}
		if n := s.Stats().Keys; n != 0 {
			t.Errorf("%d keys are kept", n)
		}
		end(t, nodes)
	})
}

// TestOldDenial: a denial that the store has not confirmed for long is none: with
// the store away, the fallback decides.
func TestOldDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, nodes := open(t, 1)
		a := ask("1/h", "k")
		a.Policy.Fallback = weir.FallbackOpen
		for range 500 {
			take(t, nodes[0], a)
			time.Sleep(time.Millisecond)
		}
		store.away.Store(true)
		first := -1
		for i := range 500 {
			if d := take(t, nodes[0], a)[0]; d.Degraded == weir.FallbackOpen && first < 0 {
				first = i
			}
			time.Sleep(time.Millisecond)
		}
		if first < 50 || first > 250 {
			t.Errorf("the fallback decided after %d ms, want after some 200", first)
		}
		end(t, nodes)
	})
}

// TestTogether: limits of one request are charged all or none, whether they are
// kept locally or not.
func TestTogether(t *testing.T) {
	for _, second := range []time.Duration{100 * time.Millisecond, 0} {
		synctest.Test(t, func(t *testing.T) {
			_, nodes := open(t, 1)
			wide, narrow := ask("1000/h", "k"), ask("20/h burst 20", "k")
			narrow.Policy.Sync = second
			passed := 0
			for range 200 {
				time.Sleep(time.Millisecond)
				if out := take(t, nodes[0], wide, narrow); out[0].Charged != out[1].Charged {
					t.Fatalf("charged %v and %v", out[0].Charged, out[1].Charged)
				} else if out[0].Charged {
					passed++
				}
			}
			wide.Peek = true
			if d := take(t, nodes[0], wide)[0]; passed != 20 || d.Remaining != 980 {
				t.Errorf("sync %v: %d passed, want 20; %d remain of 1000, want 980", second, passed, d.Remaining)
			}
			end(t, nodes)
		})
	}
}

// TestDenied: a key that is denied costs the store a look now and then, and is let
// pass again soon after a reset by another node.
func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, nodes := open(t, 2)
		a := ask("5/h", "k")
		for range 1000 {
			time.Sleep(time.Millisecond)
			take(t, nodes[0], a)
		}
		if calls := store.calls.Load(); calls > 30 {
			t.Errorf("%d calls in a second", calls)
		}
		if err := nodes[1].Reset(t.Context(), []weir.StateKey{a.State}); err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			if take(t, nodes[0], a)[0].Outcome == weir.Allowed {
				break
			}
			if i > 250 {
				t.Errorf("denied %d ms after the reset", i)
				break
			}
			time.Sleep(time.Millisecond)
		}
		end(t, nodes)
	})
}

// TestStoreDecides what a node must not: receipts, work reported, taking what fits.
func TestStoreDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := open(t, 1)
		a := ask("100/s", "k")
		take(t, nodes[0], a)
		b, c, d, e := a, a, a, a
		b.Receipt, c.After, d.AtLeast, d.Cost, e.Cost = 7, true, 1, 5, 50
		for i, a := range []weir.Ask{b, c, d, e} {
			before := nodes[0].Stats()
			out := take(t, nodes[0], a)[0]
			if after := nodes[0].Stats(); after.Store != before.Store+1 || !out.Charged {
				t.Errorf("%d: %+v, %+v", i, out, after)
			}
		}
		out := take(t, nodes[0], b)[0]
		if err := nodes[0].Settle(t.Context(), []weir.Settlement{{Receipt: out.Receipt}}); err != nil {
			t.Error(err)
		}
		end(t, nodes)
	})
}

// TestBounded: there is room for so many keys. Others are decided by the store;
// what nobody asks for any more is dropped.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := open(t, 1)
		s := nodes[0]
		var g sync.WaitGroup
		for i := range 64 {
			g.Go(func() {
				for j := range (unreported.MaxKeys + 2048) / 64 {
					a := ask("100/s", fmt.Sprint(i, "/", j))
					a.Policy.Sync = weir.MaxSync
					if d := take(t, s, a)[0]; !d.Charged {
						t.Errorf("%d/%d: %+v", i, j, d)
					}
					if keys := s.Stats().Keys; keys > unreported.MaxKeys {
						t.Errorf("%d keys", keys)
						return
					}
				}
			})
		}
		g.Wait()
		if st := s.Stats(); st.NoRoom == 0 || st.Keys < unreported.MaxKeys/2 {
			t.Errorf("the test tests nothing: %+v", st)
		}
		time.Sleep(2 * weir.MaxSync)
		if st := s.Stats(); st.Keys != 0 {
			t.Errorf("when nobody has asked for long: %+v", st)
		}
		end(t, nodes)
	})
}

// TestClose: what is unreported is told at the end.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, nodes := open(t, 1)
		a := ask("1000/h burst 1000", "k")
		a.Policy.Sync = weir.MaxSync // 3 unreported
		for range 3 {
			take(t, nodes[0], a)
		}
		end(t, nodes)
		out := make([]weir.Decision, 1)
		a.Peek = true
		if err := store.Take(t.Context(), []weir.Ask{a}, out); err != nil || out[0].Remaining != 997 {
			t.Errorf("%d remain, want 997; %v", out[0].Remaining, err)
		}
	})
}

// TestCloseSeeks: a store that was away a moment ago is looked for before it is told what is unreported.
// What it does not hear is lost, and Close says so.
func TestCloseSeeks(t *testing.T) {
	for _, lost := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, nodes := open(t, 1)
			a, other := ask("1000/h burst 1000", "k"), ask("1000/h", "other")
			a.Policy.Sync = weir.MaxSync // 3 unreported
			for range 3 {
				take(t, nodes[0], a)
			}
			store.away.Store(true)
			other.Policy = weir.Policy{Fallback: weir.FallbackClosed}
			for range guard.Enough {
				take(t, nodes[0], other)
			}
			store.away.Store(lost)
			err := nodes[0].Close(t.Context())
			if errors.Is(err, weir.ErrAway) != lost || !lost && err != nil {
				t.Errorf("closed with %v; lost is %v", err, lost)
			}
			d, out := []weir.Ask{a}, make([]weir.Decision, 1)
			d[0].Peek = true
			if err := store.Store.Take(t.Context(), d, out); err != nil || !lost && out[0].Remaining != 997 {
				t.Errorf("%d remain, want 997; %v", out[0].Remaining, err)
			}
		})
	}
}

// TestCloseFull: another node has used up limits that recover while the last reports are under way. That
// loses no key: the store was told all that it had room for when the node closed. Where it has room for a
// part, it is told that part.
func TestCloseFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, nodes := open(t, 1)
		var asks []weir.Ask
		for i := range 150 { // three calls, a moment each
			asks = append(asks, ask("10000/s", fmt.Sprint(i)))
		}
		asks = append(asks, ask("10000/h burst 1000", "part"))
		for i := range asks {
			asks[i].Policy.Sync = weir.MaxSync
			unreported := 20 // more than recovers in these calls
			if asks[i].State.Key == "part" {
				unreported = 2
			}
			for range 1 + unreported { // the first is the store's
				take(t, nodes[0], asks[i])
			}
		}
		for _, a := range asks {
			a.AtLeast, a.Cost = 1, 20000
			if a.State.Key == "part" {
				a.Cost = 998
			}
			if err := store.Store.Take(t.Context(), []weir.Ask{a}, make([]weir.Decision, 1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := nodes[0].Close(t.Context()); err != nil {
			t.Error(err)
		}
		a, out := asks[len(asks)-1], make([]weir.Decision, 1)
		a.Peek = true
		if err := store.Store.Take(t.Context(), []weir.Ask{a}, out); err != nil || out[0].Remaining != 0 {
			t.Errorf("%d remain, want none; %v", out[0].Remaining, err)
		}
	})
}

// TestNewKeys: while one take learns of a key, others of the same key are decided, and its state is
// looked at.
func TestNewKeys(t *testing.T) {
	s := synced.New(guard.New(memstore.New(memstore.Options{}), guard.Options{}))
	for n := range 5000 {
		var g sync.WaitGroup
		a := ask("1000/s", fmt.Sprint(n))
		for range 3 {
			g.Go(func() { take(t, s, a) })
		}
		g.Go(func() {
			if _, _, err := s.Look(t.Context(), []weir.Ask{a}); err != nil {
				t.Error(err)
			}
		})
		g.Wait()
	}
	end(t, []*synced.Store{s})
}

// TestRaces: many goroutines, several keys and limits at once, for the race
// detector and for deadlocks.
func TestRaces(t *testing.T) {
	_, nodes := open(t, 2)
	var g sync.WaitGroup
	for i := range 8 {
		g.Go(func() {
			for j := range 200 {
				a, b := ask("1000/s", fmt.Sprint(j%3)), ask("500/s fixed-window", fmt.Sprint(i%2))
				a.Policy.Sync, b.Policy.Sync = time.Millisecond, time.Millisecond
				asks := []weir.Ask{a, b}
				if i%2 == 0 {
					asks = []weir.Ask{b, a}
				}
				take(t, nodes[i%2], asks...)
				if j%50 == 0 {
					if err := nodes[i%2].Reset(t.Context(), []weir.StateKey{a.State}); err != nil && !errors.Is(err, weir.ErrAway) {
						t.Error(err)
					}
				}
			}
		})
	}
	g.Wait()
	end(t, nodes)
}

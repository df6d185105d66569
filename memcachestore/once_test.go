package memcachestore

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/proxytest"
)

// TestNotesLeaveTheItem: more receipts are settled, and more takes asked for
// Once, than an item keeps notes of. Each works once all the same, asked by
// many at a time in two stores.
func TestNotesLeaveTheItem(t *testing.T) {
	server := memcachedtest.Start(t)
	stores := []*Store{open(t, server, t.Name()), open(t, server, t.Name())}
	const takes = 300
	limit := weir.MustParseLimit("1000000/day fixed-window")
	var receipts [takes]atomic.Pointer[weir.Receipt]
	everyone(t, takes, stores, func(s *Store, n int) error {
		out := make([]weir.Decision, 1)
		err := s.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 10, Receipt: uint64(n + 1), Once: true}}, out)
		if err == nil {
			receipts[n].Store(out[0].Receipt)
		}
		return err
	})
	if n := remaining(t, stores[0], limit.String(), "r", "k"); n != 1_000_000-10*takes {
		t.Errorf("%d remain", n)
	}
	var settled atomic.Int64
	everyone(t, takes, stores, func(s *Store, n int) error {
		err := s.Settle(t.Context(), []weir.Settlement{{Receipt: receipts[n].Load(), Used: 4}})
		if err == nil {
			settled.Add(1)
		}
		if errors.Is(err, weir.ErrSettled) {
			return nil
		}
		return err
	})
	if n := remaining(t, stores[0], limit.String(), "r", "k"); n != 1_000_000-4*takes || settled.Load() != takes {
		t.Errorf("%d remain, %d were settled", n, settled.Load())
	}
	if n := stores[0].Stats().Spilled + stores[1].Stats().Spilled; n < takes {
		t.Errorf("%d notes left the item", n)
	}
}

// everyone does each of n things twice in each store, all at a time, until it is
// answered.
func everyone(t *testing.T, n int, stores []*Store, do func(s *Store, n int) error) {
	t.Helper()
	var wg sync.WaitGroup
	for i := range n {
		for _, s := range append(stores, stores...) {
			wg.Go(func() {
				for {
					if err := do(s, i); !errors.Is(err, weir.ErrBusy) {
						if err != nil {
							t.Error(err)
						}
						return
					}
				}
			})
		}
	}
	wg.Wait()
}

// TestTogether: takes that meet in a process share round trips, and never try
// against each other.
func TestTogether(t *testing.T) {
	s := open(t, memcachedtest.Start(t), t.Name())
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for range 100 {
				if _, err := take(t.Context(), s, "10000/day", "r", "k"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := remaining(t, s, "10000/day", "r", "k"); n != 3600 {
		t.Errorf("%d remain, want 3600", n)
	}
	if st := s.Stats(); st.Trips > 3200 || st.Lost != 0 || st.Busy != 0 {
		t.Errorf("%+v", st)
	}
}

// TestRoundTrips: a denial and a first charge of a key cost what the package's
// comment says.
func TestRoundTrips(t *testing.T) {
	server := memcachedtest.Start(t)
	a, b := open(t, server, t.Name()), open(t, server, t.Name())
	for n, step := range []struct {
		store *Store
		trips int64
	}{
		{a, 2}, // nobody has seen the key
		{a, 1}, // a was the last to write
		{b, 2}, // b has not seen it
		{a, 3}, // a finds out
		{b, 3},
		{b, 2}, // b looks, for others wrote
		{b, 1}, // and has it to itself
		{b, 1}, // denied: what is known may be old, so b looks
		{b, 0}, // denied by what it has just seen
		{a, 1},
	} {
		before := step.store.Stats().Trips
		d, err := take(t.Context(), step.store, "7/day", "r", "k")
		if trips := step.store.Stats().Trips - before; err != nil || trips != step.trips || (d.Outcome == weir.Allowed) != (n < 7) {
			t.Errorf("take %d: %d trips, want %d; %+v, %v", n, trips, step.trips, d, err)
		}
	}
}

// TestSkew: what processes with different clocks let through in any interval is
// what the limit promises of one that is longer by the skew.
func TestSkew(t *testing.T) {
	server := memcachedtest.Start(t)
	for _, text := range []string{"5/100us", "7/100us burst 3", "5/100us fixed-window", "5/100us sliding-window", "4/100us sliding-window 5", "3/50us leaky-queue queue 2"} {
		t.Run(text, func(t *testing.T) {
			limit, trial := weir.MustParseLimit(text), 0
			rapid.Check(t, func(rt *rapid.T) {
				trial++
				if trial > 25 {
					return
				}
				skew := rapid.Int64Range(0, 120).Draw(rt, "skew")
				holdSkew(rt, server, fmt.Sprint(t.Name(), trial), limit, skew)
			})
		})
	}
}

func holdSkew(t *rapid.T, server *memcachedtest.Server, name string, limit *weir.Limit, skew int64) {
	now := int64(1_800_000_000_000_000)
	var stores []*Store
	for i := range int64(2) {
		s, err := Dial("memcached://"+server.Addr, Options{Prefix: fmt.Sprintf("s%x-%x:", hash(name), skew)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		s.At(func() weir.Instant { return weir.Instant(now + i*skew) }, 0)
		stores = append(stores, s)
	}
	var passed []int64
	for range 150 {
		now += rapid.Int64Range(0, 9).Draw(t, "step")
		s := stores[rapid.IntRange(0, 1).Draw(t, "store")]
		out := make([]weir.Decision, 1)
		if err := s.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 1}}, out); err != nil {
			t.Fatal(err)
		}
		if out[0].Charged {
			passed = append(passed, now+int64(out[0].Hold/time.Microsecond))
		}
	}
	for i := range passed {
		for j := i; j < len(passed); j++ {
			width := time.Duration(passed[j]-passed[i]+1) * time.Microsecond
			if n, most := int64(j-i+1), limit.Bound(width+time.Duration(skew)*time.Microsecond, 1); n > most {
				t.Fatalf("%s, skew %d us: %d passed in %v, and the bound is %d", limit, skew, n, width, most)
			}
		}
	}
}

// TestCutAfterSpill: a connection that ends after notes have left the item and
// before the item is written leaves the receipt unused.
func TestCutAfterSpill(t *testing.T) {
	server := memcachedtest.Start(t)
	var armed, cutting atomic.Bool
	addr := proxytest.Start(t, server.Addr, func(answer bool, b []byte) (int, bool) {
		first, _, _ := bytes.Cut(b, []byte("\r\n"))
		if !answer && armed.Load() && bytes.HasPrefix(first, []byte("ms ")) && bytes.Contains(first, []byte("|s")) {
			cutting.Store(true) // notes leave
			return len(b), false
		}
		if !answer && cutting.CompareAndSwap(true, false) {
			return 0, true
		}
		return len(b), false
	})
	s := open(t, &memcachedtest.Server{Addr: addr}, t.Name())
	limit, cuts := weir.MustParseLimit("1000/day fixed-window"), 0
	for n := range 128 {
		asks := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 1, Receipt: uint64(n + 1)}}
		out := make([]weir.Decision, 1)
		if err := s.Take(t.Context(), asks, out); err != nil {
			t.Fatal(err)
		}
		armed.Store(true)
		err := s.Settle(t.Context(), []weir.Settlement{{Receipt: out[0].Receipt}})
		armed.Store(false)
		if err != nil {
			cuts++
			want(t, err, "may have been a charge")
			err = s.Settle(t.Context(), []weir.Settlement{{Receipt: out[0].Receipt}})
		}
		if err != nil {
			t.Errorf("receipt %d: %v", n, err)
		}
	}
	if n := remaining(t, s, limit.String(), "r", "k"); n != 1000 || cuts == 0 {
		t.Errorf("%d remain after %d cuts", n, cuts)
	}
}

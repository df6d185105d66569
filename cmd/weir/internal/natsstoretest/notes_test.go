package natsstoretest

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
	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/internal/proxytest"
	"github.com/weir-limit/weir/natsstore"
)

// TestNotesLeaveTheItem: more receipts are settled, and more takes asked for Once, than an item keeps
// notes of. Each works once all the same, asked by many at a time in two stores.
func TestNotesLeaveTheItem(t *testing.T) {
	url := "nats://" + natstest.StartCluster(t, 3).Addrs() + "?replicas=3"
	stores := []*natsstore.Store{dial(t, url), dial(t, url)}
	for _, s := range stores {
		passes(t, s, "10/day", "first")
	}
	const takes, each = 200, "1000000/day fixed-window"
	limit := weir.MustParseLimit(each)
	var receipts [takes]atomic.Pointer[weir.Receipt]
	everyone(t, takes, stores, func(s *natsstore.Store, n int) error {
		out := make([]weir.Decision, 1)
		err := s.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 10, Receipt: uint64(n + 1), Once: true}}, out)
		if err == nil && out[0].Receipt == nil {
			return fmt.Errorf("no receipt in %+v", out[0])
		}
		if err == nil {
			receipts[n].Store(out[0].Receipt)
		}
		return err
	})
	if t.Failed() {
		t.FailNow()
	}
	if d := passes(t, stores[0], each, "k"); d.Remaining != 1_000_000-10*takes-1 {
		t.Errorf("%+v", d)
	}
	var settled atomic.Int64
	everyone(t, takes, stores, func(s *natsstore.Store, n int) error {
		err := s.Settle(t.Context(), []weir.Settlement{{Receipt: receipts[n].Load(), Used: 4}})
		if err == nil {
			settled.Add(1)
		}
		if errors.Is(err, weir.ErrSettled) {
			return nil
		}
		return err
	})
	if d := passes(t, stores[0], each, "k"); d.Remaining != 1_000_000-4*takes-2 || settled.Load() != takes {
		t.Errorf("%+v, %d were settled", d, settled.Load())
	}
	if n := stores[0].Stats().Spilled + stores[1].Stats().Spilled; n < takes {
		t.Errorf("%d notes left the item", n)
	}
}

// everyone does each of n things twice in each store, all at a time, until it is answered.
func everyone(t *testing.T, n int, stores []*natsstore.Store, do func(s *natsstore.Store, n int) error) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		for _, s := range append(stores, stores...) {
			all.Go(func() {
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
	all.Wait()
}

// TestSkew: what processes with different clocks let through in any interval is what the limit
// promises of one that is longer by the skew.
func TestSkew(t *testing.T) {
	addr := natstest.Start(t).Addr
	for _, text := range []string{"5/100us", "7/100us burst 3", "5/100us fixed-window", "5/100us sliding-window", "4/100us sliding-window 5", "3/50us leaky-queue queue 2"} {
		t.Run(text, func(t *testing.T) {
			limit, trial := weir.MustParseLimit(text), 0
			stores := []*natsstore.Store{dial(t, "nats://"+addr), dial(t, "nats://"+addr)}
			rapid.Check(t, func(rt *rapid.T) {
				if trial++; trial <= 15 {
					holdSkew(rt, stores, fmt.Sprint(text, trial), limit, rapid.Int64Range(0, 120).Draw(rt, "skew"))
				}
			})
		})
	}
}

// TestClocksFarApart: clocks that are 10 minutes apart let more pass, as any clock does that is ahead;
// all go on, and no charge is lost.
func TestClocksFarApart(t *testing.T) {
	url := "nats://" + natstest.Start(t).Addr
	stores := []*natsstore.Store{dial(t, url), dial(t, url), dial(t, url)}
	noon := weir.InstantOf(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))
	for i, s := range stores {
		s.At(func() weir.Instant { return noon + weir.Instant(i-1)*600_000_000 }, 0)
	}
	for limit, most := range map[string]int{"100/day fixed-window": 100, "144/day": 144 + 2} { // 2: what comes back in 20 minutes
		passed := 0
		for n := range 600 {
			d, err := take(t.Context(), stores[n%3], limit, limit)
			if err != nil {
				t.Fatal(err)
			}
			if d.Charged {
				passed++
			}
		}
		if passed > most || passed < most-2 {
			t.Errorf("%s: %d passed, want %d", limit, passed, most)
		}
	}
}

// TestClockFarOff: a process that connects with a clock 10 minutes from the server's decides nothing, says why, and goes
// on when they are near.
func TestClockFarOff(t *testing.T) {
	server := natstest.Start(t)
	var off atomic.Int64 // by how much the server's clock seems to be ahead
	addr := proxytest.Change(t, server.Addr, func(b []byte) []byte {
		const form = "2006-01-02T15:04:05"
		if _, ts, found := bytes.Cut(b, []byte(`"ts":"`)); found && len(ts) > len(form) {
			if at, err := time.Parse(form, string(ts[:len(form)])); err == nil {
				copy(ts, at.Add(time.Duration(off.Load())).Format(form))
			}
		}
		return b
	})
	for _, wrong := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		off.Store(int64(wrong))
		s := dial(t, "nats://"+addr)
		_, err := take(t.Context(), s, "10/day", "k")
		want(t, err, "nothing was decided", "the server's is apart from it by "+wrong.String()[:3], "run NTP on both")
		if _, err := s.Status(t.Context()); !natsstore.Answers(err) {
			t.Errorf("the status is %v", err)
		}
		off.Store(0)
		passes(t, s, "10/day", "k")
	}
}

func holdSkew(t *rapid.T, stores []*natsstore.Store, key string, limit *weir.Limit, skew int64) {
	now := int64(1_800_000_000_000_000)
	for i, s := range stores {
		s.At(func() weir.Instant { return weir.Instant(now + int64(i)*skew) }, 0)
	}
	var passed []int64
	for range 150 {
		now += rapid.Int64Range(0, 9).Draw(t, "step")
		s := stores[rapid.IntRange(0, 1).Draw(t, "store")]
		out := make([]weir.Decision, 1)
		if err := s.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "r", Key: key}, Limit: limit, Cost: 1}}, out); err != nil {
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

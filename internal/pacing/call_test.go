package pacing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

func table(t *testing.T, o Options) *Table {
	t.Helper()
	table, err := NewTable(o)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestLanes: idle lanes make place; those in use, and those that a server holds,
// are kept; who finds no place shares one.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		table := table(t, Options{})
		held := table.Begin("held")
		if err := held.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		held.Heard(ctx, Reply{Denied: true, Told: true, After: 30 * time.Second})
		held.End(ctx)
		used := table.Begin("used")
		for i := range 2 * MaxLanes {
			c := table.Begin(fmt.Sprint("idle ", i))
			c.End(ctx)
		}
		if len(table.lanes) != MaxLanes || table.lanes["held"] != held.lane || table.lanes["used"] != used.lane {
			t.Errorf("%d lanes, held %p, used %p", len(table.lanes), table.lanes["held"], table.lanes["used"])
		}

		var busy []*Call
		for i := range 2 * MaxLanes {
			busy = append(busy, table.Begin(fmt.Sprint("busy ", i)))
		}
		last := busy[len(busy)-1]
		if len(table.lanes) != MaxLanes || last.lane != table.rest || last.key == "" {
			t.Errorf("%d lanes, the last is %p", len(table.lanes), last.lane)
		}
		if err := last.Wait(ctx); err != nil {
			t.Error(err)
		}
		last.Heard(ctx, Reply{})
		for _, c := range busy {
			c.End(ctx)
		}
		if c := table.Begin("late"); c.lane == table.rest {
			t.Error("there is place, and it was not found")
		}
	})
}

// TestRetriesKeepTheirPlace: a call that is tried again goes before those that
// came after it.
func TestRetriesKeepTheirPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		table := table(t, Options{})
		first := table.Begin("")
		if err := first.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if !first.Heard(ctx, Reply{Denied: true, Replay: true, Told: true, After: 5 * time.Second}) {
			t.Fatal("it is not tried again")
		}
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i := range 3 {
			all.Go(func() {
				c := table.Begin("")
				defer c.End(ctx)
				if err := c.Wait(ctx); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				c.Heard(ctx, Reply{})
			})
			synctest.Wait()
		}
		if err := first.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if len(order) > 0 {
			t.Errorf("%v went before", order)
		}
		mu.Unlock()
		first.Heard(ctx, Reply{})
		all.Wait()
		if fmt.Sprint(order) != "[0 1 2]" {
			t.Error(order)
		}
	})
}

// away is a store that can't be asked.
type away struct{ weir.Store }

func (away) Take(context.Context, []weir.Ask, []weir.Decision) error { return weir.ErrAway }

// TestOwnStoreAway: its error reaches the caller, and the next call is not held up.
func TestOwnStoreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := table(t, Options{Limiter: weir.NewLimiter(away{memstore.New(memstore.Options{})}, "own", weir.MustParseLimit("1/s"))})
		for range 3 {
			c := table.Begin("")
			if err := c.Wait(t.Context()); !errors.Is(err, weir.ErrAway) {
				t.Error(err)
			}
			c.End(t.Context())
		}
		if l := table.lanes[""]; len(l.queue.calls) > 0 || l.flying > 0 || l.paying != nil || l.users > 0 {
			t.Errorf("left behind: %+v", l)
		}
	})
}

// TestSeveralOwnLimits: permits and a rate together; both are kept, permits come
// back at the end, and by their ttl if there is none.
func TestSeveralOwnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Options{})
		own := weir.NewLimiter(store, "own", weir.MustParseLimit("10/s burst 1"), weir.MustParseLimit("2 concurrent ttl 5s"))
		table := table(t, Options{Limiter: own})
		began := time.Now()
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				c := table.Begin("")
				if err := c.Wait(t.Context()); err != nil {
					t.Error(err)
				}
				want := time.Duration(i) * 100 * time.Millisecond
				if i >= 2 {
					want = 4*time.Second + time.Duration(i-2)*100*time.Millisecond
				}
				// Who waits for a permit is woken when one comes back.
				if d := time.Since(began); d != want {
					t.Errorf("call %d went after %v, want %v", i, d, want)
				}
				time.Sleep(4 * time.Second)
				c.Heard(t.Context(), Reply{})
				c.End(t.Context())
			})
			synctest.Wait()
		}
		all.Wait()

		lost := table.Begin("")
		also := table.Begin("")
		late := table.Begin("")
		for _, c := range []*Call{lost, also} {
			if err := c.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		from := time.Now()
		if err := late.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(from); d < 4*time.Second || d > 5*time.Second+maxPoll*2 {
			t.Errorf("a permit was free after %v, its ttl is 5s", d)
		}
	})
}

// TestHoldReachesAllWhoWait: those further back in the queue learn at once that they
// have not the time for a hold.
func TestHoldReachesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := table(t, Options{Limiter: weir.NewLimiter(memstore.New(memstore.Options{}), "own", weir.MustParseLimit("1/10s"))})
		sent := table.Begin("")
		if err := sent.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var all sync.WaitGroup
		all.Go(func() {
			if err := table.Begin("").Wait(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			err := table.Begin("").Wait(ctx)
			if _, ok := errors.AsType[*weir.DeniedError](err); !ok || time.Since(began) != time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
		time.Sleep(time.Second)
		sent.Heard(t.Context(), Reply{Denied: true, Told: true, After: 40 * time.Second})
		all.Wait()
	})
}

// TestPaceYieldsToDeadlines: who has not the time to go slowly goes at once.
func TestPaceYieldsToDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := table(t, Options{})
		pace := func(ctx context.Context, want time.Duration) {
			t.Helper()
			began := time.Now()
			c := table.Begin("")
			defer c.End(ctx)
			if err := c.Wait(ctx); err != nil || time.Since(began) != want {
				t.Errorf("%v after %v, want %v", err, time.Since(began), want)
			}
			c.Heard(ctx, Reply{Quotas: []Quota{{Remaining: 4, Limit: 100, Reset: 50 * time.Second}}})
		}
		pace(t.Context(), 0)
		pace(t.Context(), 10*time.Second)
		short, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		pace(short, 0)
	})
}

// TestMaxWaitIsOverAllTries: a call does not wait for a minute in each of them.
func TestMaxWaitIsOverAllTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := table(t, Options{})
		c := table.Begin("")
		defer c.End(t.Context())
		for try := 1; ; try++ {
			if err := c.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Second) // is the server's time
			again := c.Heard(t.Context(), Reply{Denied: true, Replay: true, Told: true, After: 25 * time.Second})
			if again != (try < 3) {
				t.Fatalf("try %d: again %v", try, again)
			}
			if !again {
				return
			}
		}
	})
}

// TestWhoHasPaidGoes: a call that has its slot of the own limit is not passed by
// one of a higher priority that has none.
func TestWhoHasPaidGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := table(t, Options{Limiter: weir.NewLimiter(memstore.New(memstore.Options{}), "own", weir.MustParseLimit("1/10s leaky-queue"))})
		began := time.Now()
		var all sync.WaitGroup
		for i, priority := range []int{0, 0, 5} {
			all.Go(func() {
				c := table.Begin("")
				c.Priority = priority
				defer c.End(t.Context())
				if err := c.Wait(t.Context()); err != nil || time.Since(began) != time.Duration(i)*10*time.Second {
					t.Errorf("call %d went after %v: %v", i, time.Since(began), err)
				}
				c.Heard(t.Context(), Reply{})
			})
			synctest.Wait()
			time.Sleep(time.Second)
		}
		all.Wait()
	})
}

// TestLostIsNoLongerOnItsWay: a try without an answer holds nobody up.
func TestLostIsNoLongerOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := table(t, Options{})
		began := time.Now()
		for i := range 5 {
			c := table.Begin("")
			if err := c.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				c.Lost()
			} else {
				c.Heard(t.Context(), Reply{Quotas: []Quota{{Remaining: 0}}})
			}
			c.End(t.Context())
		}
		if d := time.Since(began); d > 0 {
			t.Errorf("it took %v", d)
		}
	})
}

// TestEverybodyGoes: under any load that fits, nobody is forgotten.
func TestEverybodyGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := weir.NewLimiter(memstore.New(memstore.Options{}), "own", weir.MustParseLimit("100/s burst 5"))
		table := table(t, Options{Limiter: own, MaxWait: time.Hour, Tries: 10, RetryPercent: 100})
		var all sync.WaitGroup
		var mu sync.Mutex
		sent, left := 0, 0
		for i := range 900 {
			all.Go(func() {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%9 == 0 {
					time.AfterFunc(time.Duration(i)*time.Millisecond, cancel)
				}
				c := table.Begin("")
				defer c.End(ctx)
				c.Priority = i % 3
				for {
					if err := c.Wait(ctx); err != nil {
						mu.Lock()
						left++
						mu.Unlock()
						return
					}
					time.Sleep(time.Duration(i%7) * time.Millisecond)
					if i%50 == 0 && i%100 > 0 {
						c.Lost()
					} else if c.Heard(ctx, Reply{Denied: (i+c.tries)%11 == 0, Replay: true, Told: i%2 == 0, After: time.Duration(i) * time.Millisecond}) {
						continue
					}
					mu.Lock()
					sent++
					mu.Unlock()
					return
				}
			})
		}
		all.Wait()
		if sent+left != 900 || sent < 800 {
			t.Errorf("%d were sent, %d left", sent, left)
		}
		if l := table.lanes[""]; len(l.queue.calls) > 0 || l.flying > 0 || l.paying != nil || l.users > 0 {
			t.Errorf("left behind: %d in the queue, %d flying, %d users", len(l.queue.calls), l.flying, l.users)
		}
	})
}

func TestOptions(t *testing.T) {
	for field, o := range map[string]Options{
		"MaxWaiting is -1": {Waiting: -1}, "MaxTries is -5": {Tries: -5}, "RetryPercent is -1": {RetryPercent: -1},
		"RetryPercent is 101": {RetryPercent: 101}, "MaxWait is -1ns": {MaxWait: -1}, "MaxWait is 24h0m1s": {MaxWait: 24*time.Hour + time.Second},
	} {
		if _, err := NewTable(o); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v, want %q", err, field)
		}
	}
}

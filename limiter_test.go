package weir_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

func newLimiter(texts ...string) *weir.Limiter {
	var more []*weir.Limit
	for _, text := range texts[1:] {
		more = append(more, weir.MustParseLimit(text))
	}
	return weir.NewLimiter(memstore.New(memstore.Options{}), "test", weir.MustParseLimit(texts[0]), more...)
}

func mustTake(t *testing.T, l *weir.Limiter, key string, cost int64, want weir.Outcome) weir.Answer {
	t.Helper()
	a, err := l.Take(t.Context(), key, cost)
	if err != nil {
		t.Fatal(err)
	}
	if a.Outcome != want {
		t.Errorf("take %d of %q is %+v, want %v", cost, key, a.Decision, want)
	}
	return a
}

func TestLimiterTakesAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter("3/s burst 3", "5/min", "4/min") // the last two need states of their own
		mustTake(t, l, "a", 3, weir.Allowed)
		if a := mustTake(t, l, "a", 1, weir.Denied); len(a.Each) != 3 || a.Each[1].Remaining != 2 {
			t.Errorf("a denial by the first limit leaves %+v", a.Each)
		}
		time.Sleep(time.Second)
		mustTake(t, l, "a", 1, weir.Allowed)
		if a := mustTake(t, l, "a", 1, weir.Denied); a.RetryAfter != 14*time.Second {
			t.Errorf("the decisive limit is 4/min, but the answer is %+v", a.Decision)
		}
		mustTake(t, l, "b", 3, weir.Allowed)
		if err := l.Reset(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		mustTake(t, l, "a", 3, weir.Allowed)
	})
}

func TestLimiterRefusesBadCosts(t *testing.T) {
	l := newLimiter("5/s")
	for _, r := range []weir.Request{{Cost: -1}, {Cost: weir.MaxCount + 1}, {Cost: 1 << 62}, {Cost: 2, AtLeast: 3}, {Cost: 2, AtLeast: -1}} {
		if _, err := l.Ask(t.Context(), r); err == nil || !strings.Contains(err.Error(), "a cost is 0…") {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if a, err := l.Ask(t.Context(), weir.Request{Key: "k", Cost: 9, AtLeast: 1, Peek: true}); err != nil || a.Cost != 5 || a.Charged {
		t.Errorf("a peek at most 9 is %+v, %v", a, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Take(ctx, "k", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a take under a cancelled context gives %v", err)
	}
	if err := l.Reset(ctx, "k"); !errors.Is(err, context.Canceled) {
		t.Errorf("a reset under a cancelled context gives %v", err)
	}
}

// TestWaitIsFirstComeFirstServed: waiters of a bucket go in order, one interval
// apart.
func TestWaitIsFirstComeFirstServed(t *testing.T) {
	for _, text := range []string{"1/s burst 1", "1/s leaky-queue queue 9", "1/s warm-up 1us cold 2"} {
		synctest.Test(t, func(t *testing.T) {
			l, start := newLimiter(text), time.Now()
			var mu sync.Mutex
			var order []int
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() {
					if _, err := l.Wait(t.Context(), "k", 1); err != nil {
						t.Error(err)
					}
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					if gone := time.Since(start).Round(100 * time.Microsecond); gone != time.Duration(i)*time.Second {
						t.Errorf("%s: waiter %d goes after %v", text, i, gone)
					}
				})
				synctest.Wait() // each takes its place before the next one comes
			}
			wg.Wait()
			for i := range order {
				if order[i] != i {
					t.Fatalf("%s: they went in the order %v", text, order)
				}
			}
		})
	}
}

// TestWaitAsksAgain: limits that can't be reserved are asked again when they
// may pass.
func TestWaitAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, start := newLimiter("2/10s sliding-log", "2/3s burst 2"), time.Now()
		for range 3 {
			if _, err := l.Wait(t.Context(), "k", 1); err != nil {
				t.Fatal(err)
			}
		}
		if gone := time.Since(start); gone != 10*time.Second {
			t.Errorf("the third of 2/10s goes after %v", gone)
		}
	})
}

func TestWaitForPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, start := newLimiter("1 concurrent ttl 1h"), time.Now()
		first, err := l.Wait(t.Context(), "k", 1)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(3 * time.Second)
			if _, err := l.Settle(t.Context(), first, 1); err != nil {
				t.Error(err)
			}
		}()
		if _, err := l.Wait(t.Context(), "k", 1); err != nil {
			t.Fatal(err)
		}
		if gone := time.Since(start); gone < 3*time.Second || gone > 3200*time.Millisecond {
			t.Errorf("a permit that came back after 3s was taken after %v", gone)
		}
	})
}

// TestNothingToLimit: a limiter without a store or a limit says what to pass.
func TestNothingToLimit(t *testing.T) {
	limit := weir.MustParseLimit("1/s")
	for want, make := range map[string]func(){
		"weir: NewLimiter needs a store: pass one": func() { weir.NewLimiter(nil, "x", limit) },
		"weir: NewLimiter needs limits":            func() { weir.NewLimiter(memstore.New(memstore.Options{}), "x", limit, nil) },
	} {
		func() {
			defer func() {
				if said, _ := recover().(string); !strings.HasPrefix(said, want) {
					t.Errorf("%q, want %q", said, want)
				}
			}()
			make()
		}()
	}
}

// TestWaitGivesUpAtOnce: where waiting can't help, Wait does not wait.
func TestWaitGivesUpAtOnce(t *testing.T) {
	for text, reason := range map[string]string{
		"1/h":                             "retry after",
		"1/h leaky-queue queue 0":         "retry after",
		"1/h fixed-window anchored":       "retry after",
		"0/s":                             "can never pass",
		"1 concurrent ttl 1h":             "",
		"1/h burst 1 strict":              "retry after",
		"1/h sliding-window conservative": "retry after",
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(text)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, _ = l.Take(ctx, "k", 1)
			start := time.Now()
			_, err := l.Wait(ctx, "k", 1)
			if reason == "" { // a permit may come back until the last moment
				var denied *weir.DeniedError
				if !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &denied) {
					t.Errorf("%s: %v", text, err)
				}
				return
			}
			var denied *weir.DeniedError
			if !errors.As(err, &denied) || !strings.Contains(err.Error(), reason) || time.Since(start) != 0 {
				t.Errorf("%s: %v after %v, want %q at once", text, err, time.Since(start), reason)
			}
		})
	}
}

// TestWaitGivesBack: who leaves the queue gives its slot back.
func TestWaitGivesBack(t *testing.T) {
	for _, text := range []string{"1/s burst 1", "1/s leaky-queue"} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(text + " ")
			mustTake(t, l, "k", 1, weir.Allowed)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				time.Sleep(300 * time.Millisecond)
				cancel()
			}()
			if _, err := l.Wait(ctx, "k", 1); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", text, err)
			}
			start := time.Now()
			if _, err := l.Wait(t.Context(), "k", 1); err != nil {
				t.Fatal(err)
			}
			if gone := time.Since(start); gone != 700*time.Millisecond {
				t.Errorf("%s: the slot that came back is taken after %v, want 700ms", text, gone)
			}
		})
	}
}

func TestReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter("1/s burst 1")
		var last weir.Reservation
		for i := range 3 {
			r, err := l.Reserve(t.Context(), "k", 1, time.Minute)
			if err != nil || r.Hold != time.Duration(i)*time.Second {
				t.Fatalf("reservation %d is held for %v, %v", i, r.Hold, err)
			}
			last = r
		}
		if err := last.Cancel(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := last.Cancel(t.Context()); !errors.Is(err, weir.ErrSettled) {
			t.Errorf("cancelled twice: %v", err)
		}
		if r, err := l.Reserve(t.Context(), "k", 1, time.Minute); err != nil || r.Hold != 2*time.Second {
			t.Errorf("after a cancel the next one is held for %v, %v", r.Hold, err)
		}
		if r, err := l.Reserve(t.Context(), "k", 1, time.Second); err != nil || r.Outcome != weir.Denied || r.RetryAfter != 2*time.Second {
			t.Errorf("held for at most 1s: %+v, %v", r.Decision, err)
		}
		if _, err := newLimiter("1/s", "9/min").Reserve(t.Context(), "k", 1, time.Second); !errors.Is(err, weir.ErrReserve) {
			t.Errorf("two limits reserve: %v", err)
		}
	})
}

// TestDo is the queue of the literature: work runs when its slot comes.
func TestDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, start := newLimiter("2/s leaky-queue queue 3"), time.Now()
		var mu sync.Mutex
		ran, refused := 0, 0
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				err := l.Do(t.Context(), "k", 1, func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					ran++
					return nil
				})
				var denied *weir.DeniedError
				if errors.As(err, &denied) {
					mu.Lock()
					refused++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if ran != 4 || refused != 2 || time.Since(start) != 1500*time.Millisecond {
			t.Errorf("%d ran and %d were refused in %v, want 4 and 2 in 1.5s", ran, refused, time.Since(start))
		}
		// The maximum age: no slot within the deadline, no place in the queue.
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		if err := l.Do(ctx, "k", 1, func(context.Context) error { return nil }); err == nil {
			t.Error("work ran although its slot came after the deadline")
		}
	})
}

func TestDoFreesPermits(t *testing.T) {
	l := newLimiter("1 concurrent", "100/min")
	failed := errors.New("failed")
	if err := l.Do(t.Context(), "k", 1, func(context.Context) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = l.Do(t.Context(), "k", 1, func(context.Context) error { panic("at work") })
	}()
	a := mustTake(t, l, "k", 1, weir.Allowed)
	if a.Each[1].Remaining != 97 {
		t.Errorf("Do gave back events: %d remain of 100 after three", a.Each[1].Remaining)
	}
}

func TestRenewAndSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter("1 concurrent ttl 1s", "10/h")
		a, err := l.Ask(t.Context(), weir.Request{Key: "k", Cost: 1, Receipt: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			time.Sleep(900 * time.Millisecond)
			if err := l.Renew(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		mustTake(t, l, "k", 1, weir.Denied)
		if _, err := l.Settle(t.Context(), a, 0); err != nil {
			t.Fatal(err)
		}
		if err := l.Renew(t.Context(), a); !errors.Is(err, weir.ErrSettled) {
			t.Errorf("renewed after it was freed: %v", err)
		}
		if a := mustTake(t, l, "k", 1, weir.Allowed); a.Each[1].Remaining != 9 {
			t.Errorf("%d remain of 10 after one was given back and one taken", a.Each[1].Remaining)
		}
		b, _ := l.Ask(t.Context(), weir.Request{Key: "other", Cost: 1, Receipt: true})
		time.Sleep(2 * time.Second)
		if err := l.Renew(t.Context(), b); !errors.Is(err, weir.ErrExpired) {
			t.Errorf("renewed a permit that had run out: %v", err)
		}
		none := mustTake(t, l, "k", 0, weir.Allowed)
		if _, err := l.Settle(t.Context(), none, 0); err != nil {
			t.Errorf("settling an answer without receipts: %v", err)
		}
	})
}

// TestLimiterLimitsChangePlaces makes a limiter anew with its limits in another
// order: each keeps its own count.
func TestLimiterLimitsChangePlaces(t *testing.T) {
	day, minute := weir.MustParseLimit("1000/day fixed-window anchored"), weir.MustParseLimit("100/min fixed-window anchored")
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Options{})
		for range 2 { // 90 of the minute's 100, twice
			if _, err := weir.NewLimiter(store, "api", day, minute).Take(t.Context(), "ann", 90); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Minute)
		}
		a, err := weir.NewLimiter(store, "api", minute, day).Take(t.Context(), "ann", 1)
		if err != nil || a.Each[0].Remaining != 99 || a.Each[1].Remaining != 819 {
			t.Errorf("remaining %d of the minute and %d of the day, error %v; want 99 and 819", a.Each[0].Remaining, a.Each[1].Remaining, err)
		}
	})
}

// TestUnreceipted: what was charged without a receipt can't be settled or renewed, and the
// caller is told what to do instead.
func TestUnreceipted(t *testing.T) {
	l := weir.NewLimiter(memstore.New(memstore.Options{}), "r", weir.MustParseLimit("1 concurrent ttl 1min"))
	a, err := l.Take(t.Context(), "k", 1)
	if err != nil || a.Outcome != weir.Allowed {
		t.Fatal(a, err)
	}
	for what, err := range map[string]error{"renewed": l.Renew(t.Context(), a), "settled": second(l.Settle(t.Context(), a, 0))} {
		if err == nil || !strings.Contains(err.Error(), "Request.Receipt") {
			t.Errorf("%s without a receipt: %v", what, err)
		}
	}
	denied, err := l.Take(t.Context(), "k", 1)
	if err != nil || denied.Outcome != weir.Denied {
		t.Fatal(denied, err)
	}
	if _, err := l.Settle(t.Context(), denied, 0); err != nil {
		t.Errorf("nothing was charged, and a settlement fails: %v", err)
	}
}

func second(_ int64, err error) error { return err }

// TestSettleRefuses: a cost that no request can have is refused, and the receipt stays good.
func TestSettleRefuses(t *testing.T) {
	l := weir.NewLimiter(memstore.New(memstore.Options{}), "r", weir.MustParseLimit("10/min"))
	a, err := l.Ask(t.Context(), weir.Request{Key: "k", Cost: 5, Receipt: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, used := range []int64{-1, weir.MaxCost + 1} {
		if _, err := l.Settle(t.Context(), a, used); err == nil {
			t.Errorf("settled for %d", used)
		}
	}
	if _, err := l.Settle(t.Context(), a, 0); err != nil {
		t.Error(err)
	}
	if _, err := l.With(weir.Policy{Nodes: weir.MaxNodes + 1}); err == nil {
		t.Error("more nodes than there may be")
	}
}

package leased_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/leased"
)

// a denial by the old limit is remembered for the new one.
func TestChangeUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, a := denied(t)
		go func() {
			out := make([]weir.Decision, 1)
			_ = s.Take(context.Background(), []weir.Ask{a}, out)
		}()
		time.Sleep(100 * time.Microsecond)
		b := a
		b.Limit = weir.MustParseLimit("1000/h fixed-window")
		began := time.Now()
		out := take(t, s, b)
		t.Logf("%v %+v %+v", time.Since(began), out, s.Stats())
		n := 0
		for time.Since(began) < 900*time.Millisecond {
			if take(t, s, b)[0].Outcome == weir.Allowed {
				n++
			}
			time.Sleep(time.Millisecond)
		}
		t.Logf("%d passed", n)
		if n == 0 {
			t.Errorf("all are denied by the limit of before")
		}
		end(t, []*leased.Store{s})
	})
}

// two limiters of one process with the same limit, and different lease: no wrong counts.
func TestTwoPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := node()
		time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
		a := ask("1000/h fixed-window", "k")
		b := a
		b.Policy.Lease *= 3
		n := int64(0)
		for i := range 3000 {
			c := a
			if i%2 == 0 {
				c = b
			}
			if take(t, s, c)[0].Outcome == weir.Allowed {
				n++
			}
			time.Sleep(time.Millisecond)
		}
		if n != 1000 {
			t.Errorf("%d passed; %d used, %+v", n, used(t, m, a), s.Stats())
		}
		end(t, []*leased.Store{s})
	})
}

// a large request of two limits, the second denied: how often it is asked.
func TestUnfit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote()
		s := open(r, 1)[0]
		a := ask("100/h sliding-log", "k")
		a.Limit = weir.MustParseLimit("100/h sliding-log")
		n := 0
		for range 300 {
			if take(t, s, a)[0].Outcome == weir.Allowed {
				n++
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Logf("%d passed %+v", n, s.Stats())
		end(t, []*leased.Store{s})
	})
}

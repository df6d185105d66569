package leased_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/leased"
)

// portions lost by expired receipts add up beyond what lint prints, until the window ends.
func TestSlowWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := node()
		time.Sleep(time.Until(time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)))
		a := ask("100000/day fixed-window", "k")
		n := int64(0)
		for range 6 {
			for range 100 { // busy
				for range 40 {
					if take(t, s, a)[0].Outcome == weir.Allowed {
						n++
					}
				}
				time.Sleep(time.Millisecond)
			}
			for range 80 { // slow
				if take(t, s, a)[0].Outcome == weir.Allowed {
					n++
				}
				time.Sleep(900 * time.Millisecond)
			}
			time.Sleep(5 * time.Second) // idle
		}
		synctest.Wait()
		if u := used(t, m, a); u > n+leased.Largest(a.Limit) {
			t.Errorf("%d are missing, of at most %d: %+v", u-n, leased.Largest(a.Limit), s.Stats())
		} else {
			t.Logf("%d are missing, of at most %d: %+v", u-n, leased.Largest(a.Limit), s.Stats())
		}
		end(t, []*leased.Store{s})
	})
}

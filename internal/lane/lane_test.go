package lane

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
)

type call struct {
	Call

	n int
}

// carried is a lane whose calls take a second, and keeps which travelled together. Three
// fit in one.
func carried(alone bool) (*Lane[*call], *[][]int) {
	var mu sync.Mutex
	flights := &[][]int{}
	return &Lane[*call]{
		Name: "test", Together: func(calls []*call) int { return min(len(calls), 3) },
		Alone: func(context.Context) bool { return alone },
		Run: func(_ context.Context, calls []*call) {
			var together []int
			for _, c := range calls {
				together = append(together, c.n)
				if c.n == 4 {
					c.Err = weir.ErrBusy
				}
			}
			mu.Lock()
			*flights = append(*flights, together)
			mu.Unlock()
			time.Sleep(time.Second)
		},
	}, flights
}

// TestTogether: two calls fly at once, those that come meanwhile travel together, each
// caller has its own error, and Close waits for all.
func TestTogether(t *testing.T) {
	for _, alone := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l, flights := carried(alone)
			var all sync.WaitGroup
			for n := range 6 {
				all.Go(func() {
					if err := l.Do(t.Context(), &call{n: n}); errors.Is(err, weir.ErrBusy) != (n == 4) {
						t.Errorf("%d: %v", n, err)
					}
				})
				synctest.Wait() // so that they come in this order
			}
			l.Close()
			all.Wait()
			want := [][]int{{0}, {1}, {2, 3, 4}, {5}}
			slices.SortFunc(*flights, slices.Compare) // the last two leave at one moment
			if !slices.EqualFunc(*flights, want, slices.Equal) {
				t.Errorf("%v, want %v", *flights, want)
			}
			if err := l.Do(t.Context(), &call{}); !errors.Is(err, weir.ErrAway) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

// TestLeave: a caller that leaves before its call has left takes it back; one that leaves
// later does not know what became of it.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, flights := carried(false)
		began := time.Now()
		for n := range 2 {
			go func() { _ = l.Do(t.Context(), &call{n: n}) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := l.Do(ctx, &call{n: 2})
		if err == nil || err.Error() != "test: nothing was decided: context deadline exceeded" {
			t.Error(err)
		}
		l.Close()
		late, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		l, _ = carried(false)
		if err := l.Do(late, &call{}); err == nil || err.Error() != Late("test", context.DeadlineExceeded).Error() {
			t.Error(err)
		}
		l.Close()
		if len(*flights) != 2 || time.Since(began) != 2*time.Second {
			t.Errorf("%v in %v", *flights, time.Since(began))
		}
	})
}

// TestFull: of more takes than may wait the next fails at once.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := carried(false)
		ctx, leave := context.WithCancel(t.Context())
		for n := range maxFlying + maxWaiting {
			go func() { _ = l.Do(ctx, &call{n: n + 5}) }()
		}
		synctest.Wait()
		if err := l.Do(ctx, &call{}); !errors.Is(err, weir.ErrBusy) {
			t.Error(err)
		}
		leave()
		synctest.Wait()
		l.Close()
	})
}

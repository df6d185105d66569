package leased_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/leased"
	"github.com/weir-limit/weir/memstore"
)

// shadow and quota asks with a lease are counted as on the store alone.
func TestModes(t *testing.T) {
	for _, mode := range []string{"shadow", "quota"} {
		synctest.Test(t, func(t *testing.T) {
			m, s := node()
			alone := memstore.New(memstore.Options{})
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
			a, b := ask("500/h fixed-window", "k"), ask("200/h fixed-window", "k")
			if mode == "shadow" {
				b.Shadow = true
			} else {
				a.Quota, b.Quota = true, true
			}
			n, want := 0, 0
			for range 2000 {
				o1, o2 := take(t, s, a, b), take(t, alone, a, b)
				if weir.Judge([]weir.Ask{a, b}, o1).Allowed {
					n++
				}
				if weir.Judge([]weir.Ask{a, b}, o2).Allowed {
					want++
				}
				time.Sleep(time.Millisecond)
			}
			end(t, []*leased.Store{s})
			if n != want || used(t, m, a) != used(t, alone, a) || used(t, m, b) != used(t, alone, b) {
				t.Errorf("%s: %d for %d; %d %d for %d %d", mode, n, want, used(t, m, a), used(t, m, b), used(t, alone, a), used(t, alone, b))
			}
		})
	}
}

// a node with keys asked once: the goroutines and entries go.
func TestCloseOfMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s := node()
		a := ask("1000/h fixed-window", "k")
		for i := range 5000 {
			a.State.Key = string(rune(i + 0x4e00))
			take(t, s, a)
			take(t, s, a)
		}
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if s.Stats().Keys != 0 {
			t.Errorf("%+v", s.Stats())
		}
		end(t, []*leased.Store{s})
	})
}

package leased_test

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
)

// TestWarm: of many keys, some of them much busier than others, the store has few calls, though most keys are asked
// for only some times a second at each node.
func TestWarm(t *testing.T) {
	const keys, rate, of = 2000, 200_000, 4
	sums, sum := make([]float64, keys), 0.0
	for i := range sums {
		sum += 1 / float64(i+1)
		sums[i] = sum
	}
	for limit, most := range map[string]float64{"1000000/min": 0.075, "1000000/min fixed-window": 0.045} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
			r := newRemote()
			r.late = func() time.Duration { return 0 } // so that one caller can ask as often
			nodes := open(r, of)
			asks := make([]weir.Ask, keys)
			for i := range asks {
				asks[i] = ask(limit, fmt.Sprint("key", i))
				asks[i].Policy.Nodes = of
			}
			draw, out := rand.New(rand.NewPCG(1, 2)), make([]weir.Decision, 1)
			takes, settles := int64(0), int64(0)
			for second := range 6 {
				takes, settles = r.takes.Load(), r.settles.Load()
				for range 1000 {
					time.Sleep(time.Millisecond)
					for range rate / 1000 {
						k := sort.SearchFloat64s(sums, draw.Float64()*sum)
						if err := nodes[draw.IntN(of)].Take(t.Context(), asks[k:k+1], out); err != nil || out[0].Outcome != weir.Allowed {
							t.Fatalf("second %d: %+v %v", second, out, err)
						}
					}
				}
			}
			takes, settles = r.takes.Load()-takes, r.settles.Load()-settles
			t.Logf("%s: %d takes and %d settlements for %d requests", limit, takes, settles, rate)
			if calls := float64(takes+settles) / rate; calls > most {
				t.Errorf("%s: %.3f calls a request", limit, calls)
			}
			end(t, nodes)
		})
	}
}

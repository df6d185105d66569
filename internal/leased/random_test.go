package leased_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/leased"
	"github.com/weir-limit/weir/memstore"
)

// nodes with leases that ask in bursts, beside charges that are cancelled in full, and now
// and then somebody takes all there is.
func TestUseCoversPassed(t *testing.T) {
	limits := []string{"1000/s burst 2000", "200/s burst 50", "100/s burst 400", "1000/s fixed-window", "1000/s sliding-window 4"}
	bad := 0
	for seed := range uint64(1000) {
		text := limits[seed%uint64(len(limits))]
		t.Run(fmt.Sprint(seed, " ", text), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				draw := rand.New(rand.NewPCG(seed, 9))
				m := memstore.New(memstore.Options{})
				nodes := []*leased.Store{leased.New(m, m.Take), leased.New(m, m.Take), leased.New(m, m.Take)}
				a := ask(text, "k")
				var p passed
				var open []*weir.Receipt
				id := uint64(1)
				var b weir.State
				heard := 0
				for range 3000 {
					for ; heard < len(p.at); heard++ { // what a bucket of what has passed would be
						c := weir.Ask{Limit: a.Limit, Cost: p.at[heard].cost}
						d := weir.Decision{Outcome: weir.Allowed, Cost: c.Cost, Charged: true}
						b = a.Limit.Commit(b, p.at[heard].at, &c, &d)
					}
					now := weir.InstantOf(time.Now())
					if got, want := used(t, m, a), a.Limit.Used(b, now); got < want {
						bad++
						t.Errorf("at %v the store has %d in use, and of what passed %d are", now.Time(), got, want)
						break
					}
					switch n := draw.IntN(100); {
					case n < 60:
						time.Sleep(time.Duration(draw.Int64N(4000000/a.Limit.Spec().Count)) * time.Microsecond)
					case n < 62:
						time.Sleep(time.Duration(draw.IntN(150)) * time.Millisecond)
					case n < 63 && draw.IntN(40) == 0: // all that there is
						b := a
						b.Policy.Lease, b.AtLeast, b.Cost = 0, 1, a.Limit.Spec().Count
						if d := take(t, m, b)[0]; d.Outcome == weir.Allowed {
							p.add(d.Cost)
						}
					case n < 64 && len(open) < 5:
						b := a
						id++
						b.Policy.Lease, b.Receipt, b.AtLeast, b.Cost = 0, id, 1, 1+draw.Int64N(a.Limit.Spec().Count/2)
						if d := take(t, m, b)[0]; d.Outcome == weir.Allowed {
							open = append(open, d.Receipt)
						}
					case n < 65 && len(open) > 0:
						_ = m.Settle(t.Context(), []weir.Settlement{{Receipt: open[0]}})
						open = open[1:]
					case n < 66:
						_, _, _ = nodes[draw.IntN(3)].Look(t.Context(), []weir.Ask{a})
					default:
						s := nodes[draw.IntN(3)]
						for range 1 + (draw.IntN(15)/14)*draw.IntN(int(a.Limit.Spec().Count)/8) {
							if take(t, s, a)[0].Outcome == weir.Allowed {
								p.add(1)
							}
						}
						if draw.IntN(2) == 0 {
							synctest.Wait()
						}
					}
				}
				if e, over := p.beyond(a.Limit); over {
					bad++
					t.Errorf("at %v more than the limit", e.at.Time())
				}
				end(t, nodes)
			})
		})
	}
	t.Logf("%d of 1000", bad)
}

package cas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
)

var errLostAnswer = errors.New("lost")

// lossy loses answers of swaps, after or before they were done.
type lossy struct{ process }

func (p lossy) Swap(ctx context.Context, at string, swaps []Swap) (bool, error) {
	switch rand.IntN(12) {
	case 0:
		return false, errLostAnswer
	case 1:
		_, _ = p.process.Swap(ctx, at, swaps)
		return false, errLostAnswer
	}
	return p.process.Swap(ctx, at, swaps)
}

// Look reads names[0], and the others one by one, in the order given, each at its own moment.
func (p lossy) Look(_ context.Context, _ string, names []string, cells []Cell) error {
	for i, name := range names {
		time.Sleep(rand.N(p.delay/4 + 1))
		p.mu.Lock()
		cells[i] = p.cells[name]
		p.mu.Unlock()
	}
	return nil
}

// TestOnceUnderLoss: joint takes with Once, tried again by any process until answered, charge once; each
// receipt gives back once.
func TestOnceUnderLoss(t *testing.T) {
	for seed := range 3 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				limit := weir.MustParseLimit("1000000/day fixed-window")
				var es []*Engine
				for range 3 {
					e := New(Config{
						Package: "cas", Cells: lossy{process{server: s, delay: 4 * time.Millisecond}}, MaxValue: 1 << 20, Together: true, NoteMark: "|",
						Traits: weir.Traits{Shared: true, Atomic: true, Evidence: true, Unfit: unfit},
						Name:   func(k weir.StateKey) string { return fmt.Sprintf("%q:%q", k.Placement(), k.Key) },
					})
					es = append(es, e)
				}
				defer func() {
					for _, e := range es {
						_ = e.Close()
					}
				}()
				var charged [6]atomic.Int64
				var id atomic.Uint64
				var wg sync.WaitGroup
				var busy, tries atomic.Int64
				for range 30 {
					wg.Go(func() {
						for range 40 {
							perm := rand.Perm(6)[:1+rand.IntN(3)]
							rid := id.Add(1)
							asks := make([]weir.Ask, len(perm))
							for i, n := range perm {
								asks[i] = weir.Ask{State: weir.StateKey{Rule: "r", Key: fmt.Sprint(n)}, Limit: limit, Cost: 1, Receipt: rid, Once: true}
							}
							out := make([]weir.Decision, len(asks))
							began := time.Now()
							for time.Since(began) < 40*time.Second {
								tries.Add(1)
								ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(60))*time.Millisecond)
								err := es[rand.IntN(3)].Take(ctx, asks, out)
								cancel()
								if err == nil {
									break
								}
								if errors.Is(err, weir.ErrBusy) {
									busy.Add(1)
								}
							}
							for i, n := range perm {
								if !out[i].Charged {
									t.Errorf("not charged after all: %+v", out[i])
								}
								charged[n].Add(1)
							}
							if rand.IntN(2) == 0 {
								continue
							}
							var all []weir.Settlement
							for i := range out {
								all = append(all, weir.Settlement{Receipt: out[i].Receipt})
							}
							for range 2 { // the second is to do nothing
								for {
									ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(60))*time.Millisecond)
									err := es[rand.IntN(3)].Settle(ctx, all)
									cancel()
									if err == nil || errors.Is(err, weir.ErrSettled) {
										break
									}
									if errors.Is(err, weir.ErrBusy) {
										busy.Add(1)
									}
								}
							}
							for _, n := range perm {
								charged[n].Add(-1)
							}
						}
					})
				}
				wg.Wait()
				time.Sleep(10 * time.Second)
				check := open(t, process{server: s}, true)
				for n := range charged {
					out := make([]weir.Decision, 1)
					if err := check.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "r", Key: fmt.Sprint(n)}, Limit: limit}}, out); err != nil {
						t.Fatal(err)
					}
					if used := 1000000 - out[0].Remaining; used != charged[n].Load() {
						t.Errorf("item %d: %d used, %d charged", n, used, charged[n].Load())
					}
				}
				sp := int64(0)
				for _, e := range es {
					sp += e.Stats().Spilled
				}
				t.Logf("busy %d of %d tries, spilled %d", busy.Load(), tries.Load(), sp)
			})
		})
	}
}

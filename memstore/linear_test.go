package memstore_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// question is what a goroutine asked of one key or two: to take or look, or to
// forget the first.
type question struct {
	keys  []int
	peek  bool
	reset bool
}

// answer is what it was told: whether it was charged, and what remains of each.
type answer struct {
	charged bool
	remain  [2]int64
}

const linearKeys, linearCount = 3, 4

// sequential is the store as a machine that answers one question at a time: how
// much of each key is used.
var sequential = porcupine.Model{
	Init: func() any { return [linearKeys]int64{} },
	Step: func(state, input, output any) (bool, any) {
		used, q, got := state.([linearKeys]int64), input.(question), output.(answer)
		if q.reset {
			used[q.keys[0]] = 0
			return true, used
		}
		fits := true
		for _, k := range q.keys {
			fits = fits && used[k] < linearCount
		}
		want := answer{charged: fits && !q.peek}
		for i, k := range q.keys {
			if want.charged {
				used[k]++
			}
			want.remain[i] = linearCount - used[k]
		}
		return got == want, used
	},
}

// TestLinearizable: whatever goroutines are told of keys that they share, while
// their table grows, there is an order in which one alone would be told the same. In every
// other history each key has a rule of its own: then takes of two keys are denied by copies,
// for in one segment two keys that are denied by turns put each other out.
func TestLinearizable(t *testing.T) {
	const histories, clients, each = 120, 4, 8
	for n := range histories {
		text := []string{"4/day", "4/day fixed-window", "4/day sliding-log", "4/day sliding-window 12"}[n%4]
		store, limit := memstore.New(memstore.Options{}), weir.MustParseLimit(text)
		var mu sync.Mutex
		var history []porcupine.Operation
		var stop atomic.Bool
		var noise, wg sync.WaitGroup
		begin := time.Now()
		noise.Go(func() { grow(t, store, limit, &stop) })
		for client := range clients {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(uint64(n), uint64(client)))
				for range each {
					q := question{keys: r.Perm(linearKeys)[:1+r.IntN(2)], peek: r.IntN(4) == 0, reset: r.IntN(8) == 0}
					call := time.Since(begin)
					got := put(t, store, limit, q, n/4%2 == 0)
					op := porcupine.Operation{ClientId: client, Input: q, Output: got, Call: int64(call), Return: int64(time.Since(begin))}
					mu.Lock()
					history = append(history, op)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		stop.Store(true)
		noise.Wait()
		if !porcupine.CheckOperations(sequential, history) {
			t.Fatalf("%s: no order explains %+v", limit, history)
		}
	}
}

// put asks store a question.
func put(t *testing.T, store *memstore.Store, limit *weir.Limit, q question, apart bool) (got answer) {
	name := func(k int) weir.StateKey {
		if apart {
			return weir.StateKey{Rule: fmt.Sprint("r", k), Key: "key"}
		}
		return weir.StateKey{Rule: "r", Key: fmt.Sprint("key", k)}
	}
	if q.reset {
		if err := store.ResetAt(1, []weir.StateKey{name(q.keys[0])}); err != nil {
			t.Error(err)
		}
		return got
	}
	asks, out := make([]weir.Ask, len(q.keys)), make([]weir.Decision, len(q.keys))
	for i, k := range q.keys {
		asks[i] = weir.Ask{State: name(k), Limit: limit, Cost: 1, Peek: q.peek}
	}
	if err := store.TakeAt(1, asks, out); err != nil {
		t.Error(err)
	}
	for i := range out {
		got.charged = out[i].Charged
		got.remain[i] = out[i].Remaining
	}
	return got
}

// grow takes for new keys, so that segments are laid out anew and split.
func grow(t *testing.T, store *memstore.Store, limit *weir.Limit, stop *atomic.Bool) {
	asks, out := make([]weir.Ask, 1), make([]weir.Decision, 1)
	for i := 0; !stop.Load() && i < 5000; i++ {
		asks[0] = weir.Ask{State: weir.StateKey{Rule: "r", Key: fmt.Sprint("noise", i)}, Limit: limit, Cost: 1}
		if err := store.TakeAt(1, asks, out); err != nil {
			t.Error(err)
		}
	}
}

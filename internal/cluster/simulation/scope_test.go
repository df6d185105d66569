//go:build !race

package simulation

import (
	"flag"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

var explore = flag.Duration("explore", 0, "how long TestExplore goes on with larger scopes; 0: only those of scopes")

// scopes are small enough to be explored whole, and large enough for a mutant to show itself in each
// but the last ones. Limits of two events, but for leases that last: they need plenty.
func scopes() []scope {
	limit := weir.MustParseLimit
	return []scope{
		{ // two leases at a time, answers that come late, and time past a Life
			name: "leases", nodes: 2, keys: 1, limit: limit("100/s burst 2"), asks: []request{{0, 0, 2, 1}, {1, 0, 1, 2}, {1, 0, 2, 1}},
			waits: []time.Duration{150 * ms}, most: 2, may: budget{waits: 3}, mutants: []Mutant{CapIgnores, Credits, Overstays},
		},
		{ // messages that come twice
			name: "doubles", nodes: 2, keys: 1, limit: limit("2/min burst 2"), asks: []request{{0, 0, 1, 1}, {1, 0, 1, 1}, {1, 0, 2, 1}},
			waits: []time.Duration{250 * ms}, most: 4, may: budget{waits: 2, doubles: 1}, mutants: []Mutant{Credits},
		},
		{
			name: "crashes", nodes: 2, keys: 1, limit: limit("2/min burst 2"), asks: []request{{0, 0, 1, 1}, {0, 0, 2, 1}, {1, 0, 1, 1}},
			waits: []time.Duration{60 * ms, 1060 * ms}, most: 3, may: budget{waits: 2, crashes: 1}, mutants: []Mutant{StartsFull},
		},
		{ // the owner is killed, or who keeps its backups, or both
			name: "backups", nodes: 3, keys: 1, limit: limit("2/h burst 2"), asks: []request{{0, 0, 2, 1}, {2, 0, 2, 1}},
			waits: []time.Duration{1060 * ms}, most: 2, may: budget{waits: 2, crashes: 2}, mutants: []Mutant{Unsaved, Trusts},
		},
		{ // each has half of the limit while one does not hear the other, and all of it afterwards
			name: "cuts", nodes: 2, keys: 1, limit: limit("2/s burst 2"), asks: []request{{0, 0, 2, 1}, {1, 0, 1, 1}},
			waits: []time.Duration{150 * ms, 900 * ms}, most: 2, may: budget{waits: 3, cuts: 1}, mutants: []Mutant{Inherits},
		},
		{ // leases that heartbeats prolong
			name: "lasting", nodes: 2, keys: 1, limit: limit("10/s burst 100"), policy: protocol.Closed, asks: []request{{0, 0, 100, 1}, {1, 0, 1, 3}},
			waits: []time.Duration{550 * ms}, most: 3, may: budget{waits: 2, cuts: 1}, mutants: []Mutant{Prolongs},
		},
		{ // two nodes of one process hand over
			name: "shards", nodes: 2, keys: 2, limit: limit("2/min burst 2"), asks: []request{{0, 0, 2, 1}, {0, 1, 2, 1}, {1, 1, 2, 1}},
			waits: []time.Duration{900 * ms}, most: 2, may: budget{waits: 3, leaves: 1}, mutants: []Mutant{Confuses},
		},
		{ // the one that joins owns the key from then on
			name: "joins", nodes: 3, keys: 1, limit: limit("2/s burst 2"), asks: []request{{0, 0, 2, 1}, {1, 0, 1, 1}, {2, 0, 1, 1}},
			waits: []time.Duration{150 * ms, 1200 * ms}, most: 2, may: budget{waits: 2, joins: 1},
		},
		{ // the owner leaves in order, while leases of it are in use
			name: "leaves", nodes: 3, keys: 1, limit: limit("2/s burst 2"), policy: protocol.Closed, asks: []request{{0, 0, 2, 1}, {1, 0, 1, 1}},
			waits: []time.Duration{60 * ms, 450 * ms}, most: 2, may: budget{waits: 2, leaves: 1}, mutants: []Mutant{Hasty},
		},
		{ // one joins and leaves again, or another leaves meanwhile
			name: "joins and leaves", nodes: 3, keys: 1, limit: limit("2/min burst 2"), asks: []request{{0, 0, 2, 1}, {1, 0, 2, 1}},
			waits: []time.Duration{20 * ms, 710 * ms}, most: 2, may: budget{waits: 3, joins: 1, leaves: 1},
		},
		{
			name: "three", nodes: 3, keys: 1, limit: limit("2/s burst 2"), asks: []request{{0, 0, 2, 1}, {1, 0, 1, 1}, {2, 0, 1, 1}},
			waits: []time.Duration{900 * ms}, most: 2, may: budget{waits: 2, cuts: 1},
		},
	}
}

// TestExplore looks at all that can happen in each scope (I1), and with -explore at larger ones, of
// which each has an equal part of the time that is left.
func TestExplore(t *testing.T) {
	t.Parallel()
	end := time.Now().Add(*explore)
	if *explore > 0 {
		defer debug.SetGCPercent(debug.SetGCPercent(100)) // there are many states to remember
	}
	for larger, all := 0, scopes(); len(all) > 0; larger++ {
		var whole []scope
		for i, s := range all {
			x := newExplorer(s, NoMutant)
			if larger > 0 { // not all may be looked at, so it is not to be the same each time
				x.until = time.Now().Add(time.Until(end) / time.Duration(len(all)-i))
				x.random = rand.New(rand.NewPCG(uint64(larger), 6))
			}
			since := time.Now()
			x.report(t, x.explore(x.first()), since)
			if s.grow(); !x.stopped && time.Now().Before(end) {
				whole = append(whole, s)
			}
		}
		all = whole
	}
}

// grow allows more of what may happen.
func (s *scope) grow() {
	s.most = min(s.most+1, 8)
	s.asks = slices.Clone(s.asks)
	for i := range s.asks {
		s.asks[i].times++
	}
	for _, n := range []*int8{&s.may.waits, &s.may.doubles, &s.may.cuts, &s.may.crashes} {
		if *n > 0 {
			*n++
		}
	}
}

func (x *explorer) report(t *testing.T, over bool, since time.Time) {
	t.Helper()
	whole := "all"
	if x.stopped {
		whole = "not all"
	}
	t.Logf("%s: %s: %+v, %d messages: %d states, %d steps, up to %d deep, %.1f s", x.name, whole, x.may, x.most, len(x.seen), x.steps, x.deepest, time.Since(since).Seconds())
	if over {
		t.Errorf("%s: more passed than the limit lets pass:\n%s", x.name, x.story())
	}
}

// TestExploreMutants holds the scopes to finding each mutant.
func TestExploreMutants(t *testing.T) {
	found := map[Mutant]bool{}
	for _, s := range scopes() {
		for _, m := range s.mutants {
			x := newExplorer(s, m)
			if begun := time.Now(); x.explore(x.first()) {
				found[m] = true
				t.Logf("mutant %d: found by %s after %d states, %d deep, %.2f s\n%s", m, s.name, len(x.seen), len(x.trace), time.Since(begun).Seconds(), x.story())
			} else {
				t.Errorf("mutant %d: not found by %s in %d states", m, s.name, len(x.seen))
			}
		}
	}
	for m := NoMutant + 1; m < Mutants; m++ {
		if !found[m] {
			t.Errorf("mutant %d: no scope finds it", m)
		}
	}
}

// walked is a random way through a scope: each world, and the digest of it when it was made.
func walked(x *explorer, seed uint64) (worlds []*world, sums []uint64, ways []action) {
	random := rand.New(rand.NewPCG(seed, 5))
	w := x.first()
	for all := w.next(nil); len(all) > 0; all = w.next(nil) {
		a := all[random.IntN(len(all))]
		w = w.after(a)
		worlds, sums, ways = append(worlds, w), append(sums, w.sum()), append(ways, a)
	}
	return worlds, sums, ways
}

// TestCopies holds copies of nodes to share nothing that changes with what they are copied from, and to
// do the same.
func TestCopies(t *testing.T) {
	for seed := range uint64(200) {
		all := scopes()
		x := newExplorer(all[seed%uint64(len(all))], NoMutant)
		worlds, sums, ways := walked(x, seed)
		again := x.first()
		for i, w := range worlds {
			for _, a := range w.actors {
				if a != nil {
					a.sums = [2]uint64{}
				}
			}
			if w.sum() != sums[i] {
				t.Fatalf("%s, seed %d: what came after %v changed the world after it", x.name, seed, ways[i])
			}
			if again = again.after(ways[i]); again.sum() != sums[i] {
				t.Fatalf("%s, seed %d: %v was followed by something else the second time", x.name, seed, ways[i])
			}
		}
	}
}

// BenchmarkExplore is what a step costs from a copy of the state before, and from the beginning.
func BenchmarkExplore(b *testing.B) {
	x := newExplorer(scopes()[0], NoMutant)
	worlds, _, ways := walked(x, 1)
	last := len(ways) - 1
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			worlds[last-1].after(ways[last])
		}
	})
	b.Run("replay", func(b *testing.B) {
		for b.Loop() {
			w := x.first()
			for i := range w.own {
				w.own[i] = [2]bool{true, true}
			}
			for _, a := range ways {
				n := w.after(a)
				w = n
			}
		}
	})
}

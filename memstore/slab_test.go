package memstore

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weir-limit/weir"
)

// TestSlabs: states of all lengths that come, grow, shrink and go keep their
// words, and no two share a place; what was given back is used again.
func TestSlabs(t *testing.T) {
	var s slabs
	r := rand.New(rand.NewPCG(1, 2))
	type kept struct {
		h    handle
		want weir.State
	}
	all := make([]kept, 3000)
	lengths := []int{0, 1, 2, 4, 5, 6, 9, 10, 17, 18, 33, 100, 500}
	for step := range 60_000 {
		k := &all[r.IntN(len(all))]
		if got := s.state(k.h); !slices.Equal(got, k.want) {
			t.Fatalf("step %d: %v, want %v", step, got, k.want)
		}
		n := lengths[r.IntN(len(lengths))]
		if step%5000 == 0 {
			n = 10_001 + step // up to a class of one state a chunk
		}
		next := make(weir.State, n)
		for i := range next {
			next[i] = r.Uint64()
		}
		if shrunk := s.state(k.h); r.IntN(4) == 0 && len(shrunk) > 1 {
			next = shrunk[:len(shrunk)/2] // in place
		}
		k.want = slices.Clone(next)
		k.h = s.keep(k.h, next)
	}
	for i := range all {
		if got := s.state(all[i].h); !slices.Equal(got, all[i].want) {
			t.Fatalf("at the end: %v, want %v", got, all[i].want)
		}
		s.keep(all[i].h, nil)
	}
	var made [slabClasses]uint64
	for c := range made {
		made[c] = s.classes[c].made
	}
	for range 3000 {
		s.keep(0, make(weir.State, 5))
	}
	if got := s.classes[0].made; got > made[0]+3000 || made[0] > 0 && got > max(made[0], 3000) {
		t.Errorf("%d places of the smallest class, there were %d", got, made[0])
	}
}

// TestSlabPlaces: every place has words of its own.
func TestSlabPlaces(t *testing.T) {
	for class := range slabClasses {
		i, at := -1, uint64(0)
		for place := range uint64(5000) {
			c, a := chunk(class, place)
			switch {
			case c == i && a == at+1:
			case c == i+1 && a == 0:
			default:
				t.Fatalf("class %d: place %d is %d of chunk %d, after %d of %d", class, place, a, c, at, i)
			}
			if i, at = c, a; at >= 1<<min(i, chunkBits(class)) {
				t.Fatalf("class %d: place %d is %d of chunk %d", class, place, at, i)
			}
		}
	}
	for n := 1; n <= 1+3*weir.MaxHolders; n++ {
		if c := classOf(n); slabWords(c) < n || c > 0 && slabWords(c-1) >= n || c >= slabClasses {
			t.Fatalf("%d words are of class %d", n, c)
		}
	}
}

package sim

import (
	"math/bits"
	"math/rand/v2"
)

// draw is chance from a seed. All it gives is computed in integers, for floats
// round differently from one machine to the next.
//
// A draw is for one goroutine. Two draws with the same seed and stream give the same numbers for
// ever: PCG is a fixed algorithm, and a change of it would change every golden file.
type draw struct {
	pcg *rand.PCG
}

// newDraw begins a stream of chance. Streams of one seed don't depend on each other.
//
// The streams are 'a' who asks and at what cost, 'm' the moments, 'n' the nodes, and 's' the
// search.
func newDraw(seed, stream uint64) *draw { return &draw{rand.NewPCG(seed, stream)} }

// below is one of 0…n−1, for n ≥ 1.
//
// It is the upper half of a product, without a second draw: some numbers come more often than
// others by a part of n/2^64, which no run could show.
func (d *draw) below(n uint64) uint64 {
	hi, _ := bits.Mul64(d.pcg.Uint64(), n)
	return hi
}

// exponential is how many times the mean an exponential waiting time is:
// whole + part/2^64. It is von Neumann's method, which compares random numbers and
// computes none: "Various techniques used in connection with random digits" (1951).
// An attempt draws until a number is not below the one before; it succeeds, with
// its first number as the part, when it drew an even number of them. Each attempt
// that fails is one more whole.
//
// An attempt succeeds with a chance of 1 − 1/e, so the loop ends after one or two of them as a
// rule.
func (d *draw) exponential() (whole, part uint64) {
	for ; ; whole++ {
		first := d.pcg.Uint64()
		n := 1
		for last := first; ; n++ {
			next := d.pcg.Uint64()
			if next >= last {
				break
			}
			last = next
		}
		if n%2 == 1 {
			return whole, first
		}
	}
}

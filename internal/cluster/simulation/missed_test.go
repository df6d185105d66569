package simulation

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
)

// TestMissed: three members, a first in the rank, then b, then m. b has the shares of b and m, for a hears nobody. While b does not
// hear m, a does for a moment: long enough to have the share of m, and to use it. b bears with m, which was silent twice before, so
// it goes on with the same share. It must charge what a may have used of it (I10), also if a has left meanwhile.
func TestMissed(t *testing.T) {
	t.Parallel()
	const healed = 9200 * ms // a and m hear each other again
	r := rankOf(3, new(Settings).key(0))
	a, b, m := r[0], r[1], r[2]
	pair := func(x, y int) func(int, int) bool {
		return func(from, to int) bool { return from == x && to == y || from == y && to == x }
	}
	oneWay := func(x, y int) func(int, int) bool { return func(from, to int) bool { return from == x && to == y } }
	for _, limit := range []string{"1000/s burst 2000", "3000/h burst 2000"} {
		for deaf := 1500 * ms; deaf <= 1700*ms; deaf += 50 * ms {
			for _, leaves := range []time.Duration{0, 800 * ms} {
				s := Settings{
					Seed: 1, Nodes: 3, Keys: 1, Limit: weir.MustParseLimit(limit), For: 14 * time.Second, Found: true,
					Parts: []Part{
						{From: 1500 * ms, To: time.Minute, Deaf: pair(a, b)},
						{From: 1500 * ms, To: healed, Deaf: pair(a, m)},
						{From: healed + 900*ms, To: time.Minute, Deaf: pair(a, m)},
						{From: healed, To: healed + deaf, Deaf: oneWay(m, b)},
						{From: 4000 * ms, To: 4400 * ms, Deaf: oneWay(b, m)},
						{From: 5000 * ms, To: 5400 * ms, Deaf: oneWay(b, m)},
					},
				}
				if leaves > 0 {
					s.Acts = []Act{{At: healed + leaves, What: Leave, Node: a}}
				}
				asks := 0
				s.Where = func(since time.Duration) int {
					asks++
					switch {
					case since < 6*time.Second && (since < 1200*ms || asks%300 > 0): // what passes is over when it matters
						return -1
					case since < 6*time.Second:
						return []int{a, b}[asks/300%2]
					case since >= healed && since < healed+1770*ms:
						return a
					}
					return []int{a, b}[asks%2]
				}
				s.Load = 6
				if limit == "3000/h burst 2000" {
					s.asks(6000)
				}
				if got := run(t, s); got.Over > 0 {
					t.Errorf("%s, b does not hear m for %v, a leaves after %v: %d over", limit, deaf, leaves, got.Over)
				}
			}
		}
	}
}

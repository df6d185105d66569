package weir_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// guava is SmoothWarmingUp as its authors describe it, in fractions: permits
// stored while idle, and an interval that falls in a straight line from cold to
// stable as they are used. Microseconds.
type guava struct {
	stable, cold, threshold, most, slope, cooldown *big.Rat
	stored, next                                   *big.Rat
}

func newGuava(s weir.Spec) *guava {
	warm := big.NewRat(s.WarmUp.Microseconds(), 1)
	g := &guava{stable: big.NewRat(s.Period.Microseconds(), s.Count), next: new(big.Rat)}
	g.cold = product(g.stable, big.NewRat(s.Cold, 1))
	g.threshold = new(big.Rat).Quo(product(big.NewRat(1, 2), warm), g.stable)
	g.most = sum(g.threshold, new(big.Rat).Quo(product(big.NewRat(2, 1), warm), sum(g.stable, g.cold)))
	g.slope = new(big.Rat).Quo(difference(g.cold, g.stable), difference(g.most, g.threshold))
	g.cooldown = new(big.Rat).Quo(warm, g.most)
	g.stored = g.most
	return g
}

// resync lets permits build up until now.
func (g *guava) resync(now *big.Rat) {
	if now.Cmp(g.next) > 0 {
		g.stored = sum(g.stored, new(big.Rat).Quo(difference(now, g.next), g.cooldown))
		if g.stored.Cmp(g.most) > 0 {
			g.stored = g.most
		}
		g.next = now
	}
}

// reserve is when cost events may go.
func (g *guava) reserve(now *big.Rat, cost int64) *big.Rat {
	g.resync(now)
	at, use := g.next, big.NewRat(cost, 1)
	if use.Cmp(g.stored) > 0 {
		use = g.stored
	}
	fresh := difference(big.NewRat(cost, 1), use)
	g.next = sum(g.next, sum(g.waitFor(use), product(fresh, g.stable)))
	g.stored = difference(g.stored, use)
	return at
}

// waitFor is the time that permits take which are used from the stored ones.
func (g *guava) waitFor(use *big.Rat) *big.Rat {
	above := difference(g.stored, g.threshold)
	wait := new(big.Rat)
	if above.Sign() > 0 {
		k := use
		if above.Cmp(k) < 0 {
			k = above
		}
		// the mean of the intervals at both ends, times k
		ends := sum(product(big.NewRat(2, 1), g.stable), product(g.slope, difference(sum(above, above), k)))
		wait = product(product(k, ends), big.NewRat(1, 2))
		use = difference(use, k)
	}
	return sum(wait, product(use, g.stable))
}

// TestWarmUpIsGuavas: events go when Guava lets them, to the few microseconds
// that rounding idle time and surcharge to whole ones makes, however many went
// before.
func TestWarmUpIsGuavas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := weir.Spec{
			Algorithm: weir.WarmUp, Count: rapid.Int64Range(1, 1000).Draw(t, "count"), Period: time.Second,
			WarmUp: time.Duration(rapid.Int64Range(1, 60).Draw(t, "warm-up")) * time.Second, Cold: rapid.Int64Range(2, 10).Draw(t, "cold"),
		}
		l, g := makeLimit(t, spec), newGuava(spec)
		var s weir.State
		now := int64(0)
		for range rapid.IntRange(1, 80).Draw(t, "asks") {
			now += wide(t, 0, 5_000_000, "step")
			cost := rapid.Int64Range(1, 50).Draw(t, "cost")
			var d weir.Decision
			s, d = take(l, s, weir.Instant(now), weir.Ask{Cost: cost, MaxHold: weir.MaxWait})
			if d.Outcome != weir.Allowed {
				t.Fatalf("%s: not held but %v", l, d.Outcome)
			}
			want := g.reserve(big.NewRat(now, 1), cost)
			off := difference(big.NewRat(now+d.Hold.Microseconds(), 1), want)
			if off.Abs(off).Cmp(big.NewRat(100, 1)) > 0 {
				t.Fatalf("%s at %d: goes at %d, Guava says %s", l, now, now+d.Hold.Microseconds(), want.FloatString(3))
			}
		}
	})
}

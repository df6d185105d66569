package rlqs

import (
	"math/rand/v2"
	"testing"

	"github.com/weir-limit/weir"
)

// TestBook: proxies that are promised all that a book has, hear of it as late as may be, and pass all that they can at
// the worst moments, pass no more in any interval than the burst and the pace.
func TestBook(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := Book{Terms: Terms{Pace: 60 * (20 + r.Int64N(100)), Burst: 2 + r.Int64N(60)}}
		type tokens struct{ level, holds, rate, until float64 }
		type proxy struct {
			claim Claim
			has   tokens
			told  []tokens // on their way; until is when they arrive
			sent  float64
			known bool
		}
		proxies := make([]proxy, 1+r.IntN(5))
		used, worst := 0.0, 0.0
		often := seed%2 == 0 // buckets change all the time, and want all of the pace
		const step = 0.05
		for i := range 4000 {
			at := 1e6 + float64(i)*step
			now := weir.Instant(at * 1e6)
			used = max(used-float64(b.Pace)/60*step, 0)
			first, _, last := span(now)
			for s := first; s <= last; s++ {
				b.page(s).bought = b.Pace
			}
			for j := range proxies {
				p := &proxies[j]
				if often && r.IntN(3) == 0 || r.IntN(20) == 0 {
					pace := 1 + r.Int64N(b.Pace)
					if often {
						pace = b.Pace - r.Int64N(b.Pace/4)
					}
					if !p.known || often || r.IntN(3) == 0 {
						pace, holds, ok := b.Give(now, &p.claim, pace, 1+r.Int64N(b.Burst), 0)
						if p.known = ok || p.known && at+2 < p.sent+10; ok {
							p.told = append(p.told, tokens{float64(holds), float64(holds), float64(pace) / 60, at + r.Float64()*1.9})
							p.sent = at
						}
					} else if at+2 < p.sent+10 && b.Extend(now, &p.claim) {
						p.told = append(p.told, tokens{-1, 0, 0, at + r.Float64()*1.9})
						p.sent = at
					} else if at+2 >= p.sent+10 {
						p.known = false
					}
				}
				p.has.level = min(p.has.level+p.has.rate*step, p.has.holds)
				for len(p.told) > 0 && p.told[0].until <= at {
					n := p.told[0]
					p.told = p.told[1:]
					if r.IntN(2) == 0 { // the bucket before, at the last moment
						used, p.has.level = used+p.has.level, 0
					}
					if n.level >= 0 {
						p.has = n
					}
					p.has.until = at + TTL.Seconds()
				}
				if at >= p.has.until {
					p.has = tokens{}
				}
				if often && i/400%4 != 0 || !often && i/200%2 == 0 || r.IntN(40) == 0 { // all at once, after a time of saving
					used, p.has.level = used+p.has.level, 0
				}
			}
			worst = max(worst, used-float64(2*b.Burst))
		}
		if worst > 1e-6 {
			t.Fatalf("seed %d: %.2f events over, of a pace of %d/min and a burst of %d", seed, worst, b.Pace, 2*b.Burst)
		}
	}
}

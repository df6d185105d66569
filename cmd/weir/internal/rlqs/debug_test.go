package rlqs

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 5, "2000/s burst 2000", "    quota: 100%", 1, 5)
		for move := range 3 {
			f.demands(2400*1, (move+1)%3)
			if move == 0 {
				f.demands(2400*1, 0)
			}
			for range 9 {
				before := f.passes()
				f.run(5 * time.Second)
				fmt.Printf("t %5.2f%%: ", 100*float64(f.passes()-before)/float64(f.ideal(5*time.Second)))
				for _, p := range f.proxies {
					for _, h := range p.session.holders {
						fmt.Printf(" [%.0f: d %d pace %d holds %d, %d]", p.demand, h.demand/60, h.pace()/60, h.given.holds, h.given.strategy)
					}
				}
				b := f.servers[0].buckets["shop\x00user\x00ann\x00"]
				c := b.counts[0]
				fi, _, la := span(b.touched)
				fmt.Printf(" plan lvl %d want %d spread %d keep %d part %d:", b.plan.level/60, b.plan.wanted/60, b.plan.spread, b.plan.keep, c.part/60)
				for s := fi; s <= la; s++ {
					p := c.book.page(s)
					fmt.Printf(" %d/%d+%d", p.pace/60, p.bought/60, p.fresh*12/60)
				}
				fmt.Println()
			}
		}
		fmt.Println(f.audits[0].over)
	})
}

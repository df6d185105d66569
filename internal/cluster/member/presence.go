package member

import (
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/rank"
)

// Presence is a member, and whether it is heard.
type Presence struct {
	Name   string
	Silent bool
	Open   bool // all that are heard reach it, so that it may be a hub
}

// Presence is which nodes share by this view, and which of them are heard.
func (v *View) Presence() []Presence {
	all, open := make([]Presence, 0, len(v.members)), v.open()
	for i := range v.members {
		s := &v.members[i]
		if !s.counts {
			continue
		}
		silent := false
		if v.self >= 0 && i != v.self {
			stand := v.members[v.self].stand(i)
			silent = stand == Leaving || stand == Out
		}
		all = append(all, Presence{s.name, silent, open[i]})
	}
	return all
}

// open is which members may be hubs.
func (v *View) open() []bool {
	settled := v.self >= 0 && v.members[v.self].stands == nil
	for i := 0; i < len(v.members) && settled; i++ {
		settled = v.members[i].stands == nil
	}
	if settled || v.self < 0 {
		return slices.Repeat([]bool{settled}, len(v.members))
	}
	return OpenTo(v.self, len(v.members), func(by int) (deaf []int) {
		for of := range v.members[by].stands {
			if v.members[of].counts && !reaches(v.members[by].stands[of].Stand) {
				deaf = append(deaf, of)
			}
		}
		return deaf
	})
}

// OpenTo is which of n nodes may be hubs, as the one numbered self knows: those that it hears, and that hear all
// that somebody hears, and are heard by them. deaf is whom a node does not hear: where all is well nobody, so that
// many nodes cost little.
func OpenTo(self, n int, deaf func(by int) []int) []bool {
	heard := slices.Repeat([]bool{true}, n)
	for _, of := range deaf(self) {
		heard[of] = of == self
	}
	misses, hearing, missed := make([][]int, n), 0, make([]int, n)
	for by := range n {
		if !heard[by] {
			continue
		}
		hearing++
		misses[by] = deaf(by)
		for _, of := range misses[by] {
			missed[of]++
		}
	}
	open := slices.Clone(heard)
	for by := range n {
		for _, of := range misses[by] {
			if alive := heard[of] || missed[of] < hearing; alive && of != by {
				open[by], open[of] = false, false
			}
		}
	}
	return open
}

// Hub is the hub of a rule, as a process sees it; empty while there is none, so that nodes tell all others.
func (v *View) Hub(rule string) string {
	var open []string
	for _, m := range v.Presence() {
		if m.Open {
			open = append(open, m.Name)
		}
	}
	return rank.First(weir.StateKey{Rule: rank.Mark(0) + rule}, open)
}

package fields

import "github.com/weir-limit/weir/rules"

// Standings picks the enforced rules of an answer in its order, each once with
// its tightest decision.
func Standings(a *rules.Answer) []*rules.Decision {
	var all []*rules.Decision
	for i := range a.Decisions {
		d := &a.Decisions[i]
		if d.Rule.Shadow {
			continue
		}
		j := 0
		for j < len(all) && all[j].Rule.Name != d.Rule.Name {
			j++
		}
		switch {
		case j == len(all):
			all = append(all, d)
		case tighter(d, all[j]):
			all[j] = d
		}
	}
	return all
}

// tighter orders the decisions of one rule about several keys.
func tighter(d, o *rules.Decision) bool {
	if d.Remaining != o.Remaining {
		return d.Remaining < o.Remaining
	}
	return d.RetryAfter > o.RetryAfter
}

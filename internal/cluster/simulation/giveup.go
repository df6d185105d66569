package simulation

import (
	"time"

	"github.com/weir-limit/weir"
)

// watchers are what processes do in place of cmd/weir/internal/gossip: each by itself takes members
// for gone that it has not reached for long, while it reaches most of those that it knows.
type watchers struct {
	reached [][]weir.Instant // [by][member]: last
	gone    [][]bool         // [by][member]
}

// begin makes a process that starts know of all.
func (w *watchers) begin(now weir.Instant, i int) {
	for j := range w.gone[i] {
		w.reached[i][j], w.gone[i][j] = now, false
	}
}

// watchEvery is how often a process looks whom it reaches.
const watchEvery = weir.Instant(100 * time.Millisecond / time.Microsecond)

// watch makes processes give each other up, if that is simulated.
func (s *simulation) watch() {
	n := len(s.machines)
	for i := range n {
		s.watchers.reached = append(s.watchers.reached, make([]weir.Instant, n))
		s.watchers.gone = append(s.watchers.gone, make([]bool, n))
		if s.GiveUp > 0 {
			confirm := weir.Instant((s.GiveUp + time.Duration(s.random.Int64N(int64(2*time.Second)))) / time.Microsecond)
			s.at(start+weir.Instant(s.random.Int64N(int64(watchEvery))), func(now weir.Instant) { s.look(now, i, confirm) })
		}
	}
}

// look sees whom the i-th process reaches.
func (s *simulation) look(now weir.Instant, i int, confirm weir.Instant) {
	s.at(now+watchEvery, func(now weir.Instant) { s.look(now, i, confirm) })
	if m := s.machines[i]; !m.runs() || m.away > now {
		return
	}
	reached, gone := s.watchers.reached[i], s.watchers.gone[i]
	heard, all, first, changed := 0, 0, -1, false
	for j, m := range s.machines {
		reaches := i == j || s.reaches(now, i, j) && s.reaches(now, j, i)
		if reaches {
			changed = changed || gone[j]
			reached[j], gone[j] = now, false
		}
		if m.member && !gone[j] {
			all++
			heard += int(count(reaches))
			if first < 0 {
				first = j // names are in the order of their numbers
			}
		}
	}
	most := 2*heard > all || 2*heard == all && reached[first] == now
	for j, m := range s.machines {
		if most && m.member && !gone[j] && now >= reached[j]+confirm {
			gone[j], changed = true, true
		}
	}
	if changed {
		s.tell(now, i)
	}
}

// reaches is whether what one process sends could reach another now.
func (s *simulation) reaches(now weir.Instant, from, to int) bool {
	m := s.machines[from]
	return m.runs() && m.away <= now && s.cut[from][to] <= now && !s.parted(now, from, to)
}

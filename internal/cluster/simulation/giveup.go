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
	heard, all, first, with, changed, way := 0, 0, -1, false, false, [][]bool(nil)
	if s.Gossip {
		way = s.chains(now)
	}
	for j, m := range s.machines {
		reaches := i == j || s.reaches(now, i, j) && s.reaches(now, j, i)
		lives := reaches
		if s.Gossip { // news of it take any way
			lives = way[i][j] && way[j][i]
			lives = lives && (!gone[j] || s.whole(way)) // one that was given up is a member again when all can know
		}
		if lives {
			changed = changed || gone[j]
			reached[j], gone[j] = now, false
		}
		if s.isMember(i, j, m) && !gone[j] {
			all++
			heard += int(count(reaches))
			if first < 0 {
				first, with = j, reaches // names are in the order of their numbers
			}
		}
	}
	most := 2*heard > all || 2*heard == all && with
	for j, m := range s.machines {
		if most && s.isMember(i, j, m) && !gone[j] && now >= reached[j]+confirm && s.agree(now, i, j, confirm) {
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

// isMember is whether the j-th machine is a member, as the i-th process knows.
func (s *simulation) isMember(i, j int, m *machine) bool {
	if s.Gossip {
		return s.news.known[i][j].life%2 == 1
	}
	return m.member
}

// agree is whether most of the members that the i-th process knows have not reached the j-th machine either.
func (s *simulation) agree(now weir.Instant, i, j int, confirm weir.Instant) bool {
	if !s.Gossip {
		return true
	}
	say, all, first := 0, 0, false
	for k, m := range s.machines {
		if !s.isMember(i, k, m) || s.watchers.gone[i][k] {
			continue
		}
		says := k == i || s.reaches(now, i, k) && s.reaches(now, k, i) && now >= s.watchers.reached[k][j]+confirm
		if all++; all == 1 {
			first = says
		}
		say += int(count(says))
	}
	return 2*say > all || 2*say == all && first
}

// whole is whether all processes that run can hear of each other.
func (s *simulation) whole(way [][]bool) bool {
	for i, m := range s.machines {
		for j, of := range s.machines {
			if m.runs() && of.runs() && !m.usurped && !of.usurped && !(way[i][j] && way[j][i]) {
				return false
			}
		}
	}
	return true
}

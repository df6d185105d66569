package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// Each direction of each link goes on and off by itself, for tenths of seconds, for seconds, or for long. How many are up
// changes, too: where all go by one rule, either all is well or nobody reaches anybody, and a swarm finds little.

// links are which directions of links are down, and how that goes on.
type links struct {
	down  [][]bool     // [from][to]
	up    float64      // how long a link is up, in the mean, as a part of how long it is down
	on    weir.Instant // 0: as up says; else about how long links are up
	off   weir.Instant // and down
	pairs bool         // both directions of a link go on and off together
}

// link has links go on and off, if that is simulated.
func (s *simulation) link() {
	for range s.machines {
		s.links.down = append(s.links.down, make([]bool, len(s.machines)))
	}
	if !s.Links {
		return
	}
	if s.links.pairs = s.random.IntN(3) == 0; s.random.IntN(3) > 0 {
		s.links.on, s.links.off = second/8<<s.random.IntN(5), second/8<<s.random.IntN(5)
	} else {
		s.mood(start + 2*second)
	}
	for from := range s.machines {
		for to := range s.machines {
			if from != to && (from < to || !s.links.pairs) && s.random.IntN(4) > 0 {
				slow := []weir.Instant{1, 1, 2, 4, 16}[s.random.IntN(5)]
				s.at(start+second+weir.Instant(s.random.Int64N(int64(4*second))), func(now weir.Instant) { s.flip(now, from, to, slow) })
			}
		}
	}
}

// second is one in the simulation's time.
const second = weir.Instant(time.Second / time.Microsecond)

// mood changes how many links are up, and now and then all of some nodes.
func (s *simulation) mood(now weir.Instant) {
	s.links.up = []float64{0.3, 1, 3, 10, 30}[s.random.IntN(5)]
	switch side := s.sides(); s.random.IntN(6) {
	case 0: // all is well for a moment
		for from := range s.links.down {
			clear(s.links.down[from])
		}
	case 1: // two sides, or one direction between them
		both := s.random.IntN(2) == 0
		for from := range s.links.down {
			for to := range s.links.down[from] {
				s.links.down[from][to] = side[from] != side[to] && (both || side[from])
			}
		}
	}
	s.at(now+second/2+weir.Instant(s.random.Int64N(int64(12*second))), s.mood)
}

// sides puts each machine on one of two sides.
func (s *simulation) sides() []bool {
	side := make([]bool, len(s.machines))
	for i := range side {
		side[i] = s.random.IntN(2) == 0
	}
	return side
}

// flip turns a direction of a link on or off, and again later.
func (s *simulation) flip(now weir.Instant, from, to int, slow weir.Instant) {
	down := !s.links.down[from][to]
	s.links.down[from][to] = down
	if s.links.pairs {
		s.links.down[to][from] = down
	}
	long := weir.Instant(0)
	switch {
	case s.links.on > 0 && down:
		long = second/20 + weir.Instant(s.random.Int64N(int64(s.links.off*slow)))
	case s.links.on > 0:
		long = second/50 + weir.Instant(s.random.Int64N(int64(s.links.on)))
	default:
		mean := []weir.Instant{second / 20, second / 3, second, 3 * second, 20 * second}[[]int{0, 1, 1, 1, 2, 2, 2, 3, 3, 4}[s.random.IntN(10)]]
		if !down {
			mean = min(weir.Instant(float64(mean)*s.links.up), 20*second)
		}
		long = second/50 + weir.Instant(s.random.Float64()*2*float64(mean))
	}
	s.at(now+long, func(now weir.Instant) { s.flip(now, from, to, slow) })
}

// known is what a process knows of a node: that it is a member, where life is odd. Each change is a later life.
type known struct {
	life        int
	incarnation uint64
}

// news is what each process knows of each node where news take their way from one to another, as cmd/weir/internal/gossip brings them.
type news struct {
	own   []known   // of each machine, as it is
	known [][]known // [by][of]
}

// begins has all processes know of those that are members from the start.
func (s *simulation) begins() {
	for range s.machines {
		s.news.known = append(s.news.known, make([]known, len(s.machines)))
	}
	for _, m := range s.machines {
		s.news.own = append(s.news.own, known{int(count(m.member)), 1})
	}
	for i := range s.machines {
		copy(s.news.known[i], s.news.own)
	}
	if s.Gossip {
		s.at(start, s.spread)
	}
}

// appear makes the i-th machine a member of a later life. Its process knows of nobody, or of those that the one before knew.
func (s *simulation) appear(i int, remembers bool) {
	own := &s.news.own[i]
	own.life, own.incarnation = own.life+1+own.life%2, s.machines[i].incarnation
	if !remembers {
		clear(s.news.known[i])
	}
	s.news.known[i][i] = *own
}

// vanish tells those that hear the i-th machine that it is none any more.
func (s *simulation) vanish(now weir.Instant, i int, heard []bool) {
	if !s.Gossip {
		return
	}
	s.news.own[i].life++
	for k := range s.machines {
		if heard[k] {
			s.news.known[k][i] = s.news.own[i]
			s.tell(now, k)
		}
	}
}

// hearing is who hears the i-th machine now.
func (s *simulation) hearing(now weir.Instant, i int) []bool {
	heard := make([]bool, len(s.machines))
	for k := range heard {
		heard[k] = k != i && s.reaches(now, i, k) && s.reaches(now, k, k)
	}
	return heard
}

// spread brings news from each process to those that hear it.
func (s *simulation) spread(now weir.Instant) {
	s.at(now+second/10, s.spread)
	for i := range s.machines {
		changed := false
		for k := range s.machines {
			if i == k || !s.machines[k].met || !s.reaches(now, k, i) || !s.reaches(now, i, i) { // two that are new are no cluster
				continue
			}
			for j, of := range s.news.known[k] {
				if j != i && of.life > s.news.known[i][j].life {
					s.news.known[i][j], changed = of, true
					s.watchers.reached[i][j], s.watchers.gone[i][j] = now, false
				}
				if s.watchers.gone[k][j] && !s.watchers.gone[i][j] && j != i && of.life == s.news.known[i][j].life && now > s.watchers.reached[i][j]+5*second {
					s.watchers.gone[i][j], changed = true, true
				}
			}
		}
		if changed {
			s.tell(now, i)
		}
	}
}

// members are those that the i-th process knows of, but for those that it has given up.
func (s *simulation) membersOf(i int) (members []member.Member) {
	for j, m := range s.machines {
		is, incarnation := m.member || m.going, m.incarnation
		if s.Gossip {
			is, incarnation = s.news.known[i][j].life%2 == 1, s.news.known[i][j].incarnation
		}
		if is && !s.watchers.gone[i][j] {
			members = append(members, member.Member{Name: m.name, Incarnation: incarnation})
		}
	}
	return members
}

// chains is who reaches whom, and is reached, by others in between: news that one lives take that way.
func (s *simulation) chains(now weir.Instant) [][]bool {
	n := len(s.machines)
	way := make([][]bool, n)
	for from := range n {
		way[from] = make([]bool, n)
		for to := range n {
			way[from][to] = from == to || s.reaches(now, from, to) && s.reaches(now, to, to)
		}
	}
	for by := range n {
		for from := range n {
			for to := range n {
				way[from][to] = way[from][to] || way[from][by] && way[by][to]
			}
		}
	}
	return way
}

// lookEvery is how often the simulation looks who is the first of a key.
const lookEvery = second / 100

// lookFirsts counts the moments in which two processes may be the first of one key. One that stands still may go on at any moment.
func (s *simulation) lookFirsts(now weir.Instant) {
	s.at(now+1+weir.Instant(s.random.Int64N(int64(2*lookEvery))), s.lookFirsts)
	for k := range min(len(s.keys), 2) {
		key, firsts := s.keys[k].state, []string(nil)
		for _, m := range s.machines {
			if m.runs() && m.node(key).First(m.clock(now), key) {
				firsts = append(firsts, m.name)
			}
		}
		s.Looks++
		s.Led += count(len(firsts) > 0)
		if len(firsts) > 1 {
			if s.Firsts == 0 {
				s.FirstFirsts = fmt.Sprintf("%v of key %d at %v", firsts, k, (now - start).Duration())
			}
			s.Firsts++
		}
	}
}

// Edges is settings in which each direction of each link goes on and off by itself, while nodes join, leave, are killed, and stand still: what
// finds two firsts of one key.
func Edges(seed uint64) Settings {
	r := rand.New(rand.NewPCG(seed, 7))
	s := Settings{
		Seed: seed, Nodes: 2 + r.IntN(6), Spare: r.IntN(3), Shards: 1 + r.IntN(2), Keys: 1 + r.IntN(2), For: time.Duration(20+r.IntN(25)) * time.Second, Found: true,
		Links: true, Gossip: true, Look: true, Remember: r.IntN(2) == 0, GiveUp: 30 * time.Second,
	}
	if r.IntN(2) == 0 {
		s.Nodes = 3 + r.IntN(2)
	}
	if r.IntN(6) == 0 { // long enough for some to be given up
		s.For = time.Duration(50+r.IntN(60)) * time.Second
	}
	limits := []string{"10/s burst 20", "5/s burst 100", "100/s burst 20", "100/10s fixed-window", "100/10s sliding-log", "100/h", "20/s burst 200"}
	s.Limit = weir.MustParseLimit(limits[r.IntN(len(limits))])
	s.Policy = []protocol.Policy{protocol.Closed, protocol.Closed, protocol.Closed, protocol.Reserve}[r.IntN(4)]
	switch r.IntN(8) {
	case 0, 1: // keys that are forgotten in between
		s.Turn, s.Keys = time.Duration(300+r.IntN(4000))*time.Millisecond, 2+r.IntN(7)
	case 2: // many, that are not handed over at once
		s.Keys, s.Wave, s.Skewed, s.Limit = 20+r.IntN(40), time.Duration(500+r.IntN(2000))*time.Millisecond, true, weir.MustParseLimit([]string{"6/s burst 40", "50/10s sliding-log"}[r.IntN(2)])
	}
	s.asks(5 + r.Int64N(40) + int64(10*s.Keys))
	some := func(n int) int { return r.IntN(3) / 2 * r.IntN(n) }
	s.Faults = Faults{Drift: some(4950), Loss: some(200), Double: some(100), Delay: time.Duration(some(150)) * time.Millisecond}
	n := s.Nodes + s.Spare
	between := func(a, b int) time.Duration { return time.Duration(a+r.IntN(b-a)) * time.Millisecond }
	changes, pauses := r.IntN(2) > 0, r.IntN(2) > 0
	for at := between(1500, 5000); at < s.For && (changes || pauses); at += between(100, []int{2000, 8000, 20000}[r.IntN(3)]) {
		a := Act{At: at, Node: r.IntN(n)}
		switch k := r.IntN(10); {
		case pauses && (k < 4 || !changes):
			a.What, a.Long = Pause, between(100, []int{1000, 4000, 30000}[r.IntN(3)])
		case !changes:
			continue
		case k == 4:
			a.What = Kill
		case k == 5:
			a.What = Crash
		case k < 8:
			a.What = Leave
		default:
			a.What = Join
		}
		s.Acts = append(s.Acts, a)
		if a.What == Kill || a.What == Leave {
			s.Acts = append(s.Acts, Act{At: at + between(1000, 12000), What: Join, Node: a.Node})
		}
	}
	if r.IntN(10) == 0 && s.Nodes > 2 { // a process begins by the name of another that is cut off, and lives
		s.usurps(r.IntN(s.Nodes), time.Duration(2+r.IntN(20))*time.Second)
	}
	return s
}

// usurps has the process on the machine after the last node take the name of one that nobody reaches any more. With two nodes the first by name
// would be most of them, and go on for good.
func (s *Settings) usurps(of int, at time.Duration) {
	s.Spare, s.Fence = 1, s.GiveUp
	s.Parts = []Part{{From: at, To: s.For + time.Second, Deaf: func(from, to int) bool { return from == of || to == of }}}
	s.Acts = slices.DeleteFunc(s.Acts, func(a Act) bool { return a.What != Pause || a.Node >= s.Nodes })
	s.Acts = append(s.Acts, Act{At: at + 400*time.Millisecond, What: Usurp, Node: of})
}

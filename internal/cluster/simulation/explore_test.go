//go:build !race

package simulation

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/lease"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/cluster/rank"
)

// The race detector has nothing to find here, and takes ten times as long.

// scope is what is explored: all that can happen to a small cluster whose nodes have met, in
// every order. How often each may happen is bounded, so all ends some time.
type scope struct {
	name   string
	nodes  int
	keys   int // the first process has a node for each, the others have one for all
	limit  *weir.Limit
	policy protocol.Policy
	asks   []request       // that may be made
	waits  []time.Duration // time steps
	// most is how many messages are on their way at most. When there is one more, the first is
	// lost. Else a message that is lost is one that never arrives.
	most    int
	may     budget
	mutants []Mutant // that have to be found
}

// request is one that may be made.
type request struct {
	node, key int
	cost      int64
	times     int8
}

// budget is how often something may happen still.
type budget struct {
	asks                                         [4]int8 // by the requests of the scope
	waits, doubles, cuts, crashes, leaves, joins int8
}

// actor is a process. It is never changed once it is part of a world: what happens to it
// happens to a copy.
type actor struct {
	peers       *member.Peers
	view        *member.View // that nodes have
	nodes       []*lease.Node
	incarnation uint64
	began       weir.Instant // crashed, and began again; 0: not
	away        weir.Instant // until then it stands still
	missed      []letter     // heartbeats meanwhile
	leaves      weir.Instant // when it ends; 0: it does not
	sums        [2]uint64    // of peers, and of nodes; 0: not known
}

// world is a state of all that is explored.
type world struct {
	*explorer
	now    weir.Instant
	actors []*actor  // nil: it does not run
	own    [][2]bool // which peers and nodes of these no other world has
	flight []parcel
	deaf   [][]bool // [from][to]: heartbeats are lost
	audits []debtAuditor
	may    budget
	fx     protocol.Effects
	beats  []member.HeartbeatTo
}

// parcel is a message on its way, and the digest of it.
type parcel struct {
	letter
	sum uint64
}

// action is one thing that happens.
type action struct {
	do   string
	node int
	to   int
	key  int
	cost int64
	wait time.Duration
}

func (a action) String() string {
	switch a.do {
	case "ask":
		return fmt.Sprintf("node%d is asked for %d of key%d", a.node, a.cost, a.key)
	case "wait":
		return fmt.Sprintf("%v pass", a.wait)
	case "deliver", "double":
		return fmt.Sprintf("%s number %d in flight", a.do, a.node)
	case "cut", "heal":
		return fmt.Sprintf("%s node%d → node%d", a.do, a.node, a.to)
	}
	return fmt.Sprintf("node%d: %s", a.node, a.do)
}

// explorer looks at every state that can be reached.
type explorer struct {
	scope
	walk
	mutant    Mutant
	names     []string
	states    []weir.StateKey
	seen      map[uint64]struct{} // the digests of states
	seed      maphash.Seed
	bytes     []byte
	scratch   []byte
	steps     int64
	deepest   int
	until     time.Time // then it gives up; zero: never
	trace     []action
	converged []bool                                     // of stories: each process
	note      func(w *world, format string, args ...any) // of stories; nil: nobody listens
	stopped   bool
	random    *rand.Rand // shuffles what may happen; nil: no
}

func newExplorer(s scope, mutant Mutant) *explorer {
	x := &explorer{scope: s, walk: walk{all: shapes{}}, seen: map[uint64]struct{}{}, seed: maphash.MakeSeed(), mutant: mutant}
	for i, r := range s.asks {
		x.may.asks[i] = r.times
	}
	for i := range s.nodes {
		x.names = append(x.names, fmt.Sprintf("node%d", i))
	}
	for n := 0; len(x.states) < s.keys; n++ { // keys whose owner is the first, and then the second
		key := weir.StateKey{Rule: "api", Key: fmt.Sprint("k", n)}
		if rank.First(key, x.names) == x.names[0] && rank.First(key, x.names[1:]) == x.names[1] {
			x.states = append(x.states, key)
		}
	}
	return x
}

// first is the world in which all processes have met, and nothing has been asked.
func (x *explorer) first() *world {
	w := &world{explorer: x, now: start, may: x.scope.may, own: make([][2]bool, x.nodes), actors: make([]*actor, x.nodes)}
	for i := int(x.may.joins); i < x.nodes; i++ {
		w.boot(i, 1)
		w.actors[i].peers.Found()
	}
	for range x.nodes {
		w.deaf = append(w.deaf, make([]bool, x.nodes))
	}
	for range x.keys {
		w.audits = append(w.audits, *audit(x.limit, 0).(*debtAuditor))
	}
	w.tell()
	w.pass(2 * time.Second)
	return w
}

func (w *world) boot(i int, incarnation uint64) {
	a := &actor{incarnation: incarnation, peers: member.NewPeers(w.now, w.names[i], incarnation)}
	shards := 1
	if i == 0 {
		shards = w.keys
	}
	for n := range shards {
		node, err := lease.NewNode(lease.Settings{Name: w.names[i], Incarnation: incarnation, Shard: uint64(n), Keys: 16, Seed: w.seed})
		if err != nil {
			panic(err)
		}
		a.nodes = append(a.nodes, node)
	}
	w.actors[i], w.own[i] = a, [2]bool{true, true}
}

// tell tells all processes who the members are.
func (w *world) tell() {
	for i, a := range w.actors {
		if a == nil {
			continue
		}
		var members []member.Member
		for j, other := range w.actors {
			if other != nil && other.leaves == 0 {
				members = append(members, member.Member{Name: w.names[j], Incarnation: other.incarnation})
			}
		}
		w.actor(i).peers.Agree(w.now, members, &w.beats)
		w.effects(i)
	}
}

// actor is the i-th process, to be changed.
func (w *world) actor(i int) *actor {
	a := w.host(i)
	if !w.own[i][0] {
		w.own[i][0], a.sums[0], a.peers = true, 0, copied(&w.walk, a.peers)
	}
	return a
}

// host is the i-th process, whose nodes are to be changed.
func (w *world) host(i int) *actor {
	if w.own[i][1] {
		return w.actors[i]
	}
	a := *w.actors[i]
	a.sums[1], a.nodes = 0, slices.Clone(a.nodes)
	for n := range a.nodes {
		a.nodes[n] = copied(&w.walk, a.nodes[n])
	}
	w.actors[i], w.own[i][1] = &a, true
	return &a
}

// node is the one of a process that has a key.
func (a *actor) node(key int) *lease.Node { return a.nodes[min(key, len(a.nodes)-1)] }

// pass lets time pass: processes do what is due, and heartbeats arrive at once.
func (w *world) pass(d time.Duration) {
	end := w.now + weir.Instant(d/time.Microsecond)
	for {
		next, who, due := end+1, -1, -1
		for i, a := range w.actors {
			if a == nil || a.away > end {
				continue
			}
			if a.away > 0 && a.away < next {
				next, who, due = a.away, i, -4
			}
			if a.away > 0 {
				continue
			}
			if at := a.peers.Next(); at < next {
				next, who, due = at, i, -1
			}
			for n, node := range a.nodes {
				if at, ok := node.Next(); ok && at < next {
					next, who, due = at, i, n
				}
			}
			if a.leaves > 0 && a.leaves < next {
				next, who, due = a.leaves, i, -2
			}
			if at := a.began + weir.Instant(settling/time.Microsecond); w.mutant == StartsFull && a.began > 0 && at < next {
				next, who, due = at, i, -3
			}
		}
		if who < 0 {
			break
		}
		w.now = max(w.now, next)
		w.due(who, due)
	}
	w.now = end
}

func (w *world) due(who, what int) {
	switch a := w.actor(who); what {
	case -1:
		moving := w.mutant != Hasty && slices.ContainsFunc(a.nodes, (*lease.Node).Moving)
		saved := !slices.ContainsFunc(a.nodes, func(n *lease.Node) bool { return !n.Saved() })
		a.peers.Tick(w.now, moving, saved, &w.beats)
		w.effects(who)
	case -4:
		missed := a.missed
		a.away, a.missed = 0, nil
		for i := range missed {
			a.peers.Receive(w.now, w.names[missed[i].from], &missed[i].heartbeat)
			w.effects(who)
		}
	case -2:
		w.actors[who] = nil
		w.tell()
	case -3:
		a.began = 0
		full := protocol.Message{
			Kind: protocol.Handoff, State: w.states[0], Limit: w.limit.String(), Incarnation: 1 << 40, Epoch: a.incarnation, ID: 1,
			At: w.now, Part: 1, Of: 1, Wait: time.Second,
		}
		a.nodes[0].Receive(w.now, w.names[(who+1)%w.nodes], &full, &w.fx)
		w.effects(who)
	default:
		a.nodes[what].Tick(w.now, &w.fx)
		w.effects(who)
	}
}

// effects does what the i-th process wants done.
func (w *world) effects(i int) {
	a := w.actors[i]
	if v := a.peers.View(); v != a.view {
		a.view = v
		for _, n := range a.nodes {
			n.View(w.now, v, &w.fx)
		}
	}
	fx, beats := w.fx, w.beats
	w.fx, w.beats = protocol.Effects{}, nil
	if w.note != nil {
		w.tells(i, &fx)
	}
	for _, answer := range fx.Answers {
		if answer.Decision.Outcome == weir.Allowed {
			w.audits[answer.ID].pass(w.now, answer.Decision.Cost)
		}
	}
	for _, e := range fx.Messages {
		w.post(letter{from: i, to: slices.Index(w.names, e.Peer), message: e.Message})
	}
	for _, b := range beats {
		to := slices.Index(w.names, b.Peer)
		if w.actors[to] == nil || w.deaf[i][to] {
			continue
		}
		l := letter{from: i, to: to, isHeartbeat: true, heartbeat: b.Heartbeat}
		w.tamper(&l)
		if of := w.actor(to); of.away > 0 {
			of.missed = append(slices.Clip(of.missed), l)
			continue
		}
		w.actor(to).peers.Receive(w.now, w.names[i], &l.heartbeat)
		w.effects(to)
	}
}

// post sends a message. One that is sent again takes the place of the same on its way.
func (w *world) post(l letter) {
	w.flight = slices.DeleteFunc(w.flight, func(p parcel) bool {
		m, n := &p.message, &l.message
		return p.from == l.from && p.to == l.to && m.Kind == n.Kind && m.State == n.State && m.ID == n.ID && m.Lease == n.Lease && m.Spent == n.Spent && m.Shard == n.Shard
	})
	if len(w.flight) == w.most {
		w.flight = slices.Delete(w.flight, 0, 1)
	}
	w.bytes = written(&w.walk, w.bytes[:0], &l)
	w.flight = append(w.flight, parcel{l, maphash.Bytes(w.seed, w.bytes)})
}

// tamper makes a mutant of what is delivered, as the simulation does.
func (w *world) tamper(l *letter) {
	if w.mutant == CapIgnores && l.message.Kind == protocol.Grant && w.actors[l.from] != nil {
		lie := l.message
		lie.Kind, lie.Spent = protocol.Release, lie.Granted
		var none protocol.Effects
		w.host(l.from).node(w.key(lie.State)).Receive(w.now, w.names[l.to], &lie, &none)
	}
	w.mutant.tamper(l)
}

func (w *world) key(state weir.StateKey) int { return slices.Index(w.states, state) }

// next is what may happen in a world.
func (w *world) next(all []action) []action {
	for i := range w.flight {
		all = append(all, action{do: "deliver", node: i})
	}
	up := 0
	for i, a := range w.actors {
		if a == nil {
			if w.may.joins > 0 {
				all = append(all, action{do: "join", node: i})
			}
			continue
		}
		up++
		for n, r := range w.asks {
			if r.node == i && w.may.asks[n] > 0 {
				all = append(all, action{do: "ask", node: i, to: n, key: r.key, cost: r.cost})
			}
		}
	}
	for _, d := range w.waits {
		if w.may.waits > 0 {
			all = append(all, action{do: "wait", wait: d})
		}
	}
	for i := range w.flight {
		if w.may.doubles > 0 {
			all = append(all, action{do: "double", node: i})
		}
	}
	for from, a := range w.actors {
		if a == nil {
			continue
		}
		if w.may.crashes > 0 {
			all = append(all, action{do: "crash", node: from})
		}
		if w.may.leaves > 0 && a.leaves == 0 && up > 1 {
			all = append(all, action{do: "leave", node: from})
		}
		for to := range w.actors {
			switch {
			case from == to:
			case w.deaf[from][to]:
				all = append(all, action{do: "heal", node: from, to: to})
			case w.may.cuts > 0:
				all = append(all, action{do: "cut", node: from, to: to})
			}
		}
	}
	return all
}

// after is the world after an action.
func (w *world) after(a action) *world {
	n := &world{
		explorer: w.explorer, now: w.now, actors: slices.Clone(w.actors), own: make([][2]bool, w.nodes),
		flight: slices.Clone(w.flight), deaf: w.deaf, audits: slices.Clone(w.audits), may: w.may,
	}
	switch a.do {
	case "ask":
		n.may.asks[a.to]--
		r := protocol.Request{ID: uint64(a.key), State: w.states[a.key], Limit: w.limit, Cost: a.cost, Policy: w.policy}
		n.host(a.node).node(a.key).Ask(n.now, &r, &n.fx)
		n.effects(a.node)
	case "deliver", "double":
		l := n.flight[a.node].letter
		if n.may.doubles--; a.do == "deliver" {
			n.may.doubles++
			n.flight = slices.Delete(n.flight, a.node, a.node+1)
		}
		if n.note != nil {
			n.note(n, "%s hears the %s", n.names[l.to], says(&l.message))
		}
		if n.actors[l.to] != nil {
			n.tamper(&l)
			n.host(l.to).node(w.key(l.message.State)).Receive(n.now, w.names[l.from], &l.message, &n.fx)
			n.effects(l.to)
		}
	case "wait":
		n.may.waits--
		n.pass(a.wait)
	case "crash":
		n.may.crashes--
		n.boot(a.node, n.actors[a.node].incarnation+1)
		n.actors[a.node].began = n.now
		n.tell()
	case "join":
		n.may.joins--
		n.boot(a.node, 1)
		n.tell()
	case "leave":
		n.may.leaves--
		of := n.actor(a.node)
		of.leaves = n.now + weir.Instant(time.Second/time.Microsecond)
		of.peers.Leave(n.now, &n.beats)
		n.effects(a.node)
	case "cut", "heal":
		n.cut(a.node, a.to, a.do == "cut")
	}
	return n
}

// cut has heartbeats be lost from one process to another, or no more.
func (w *world) cut(from, to int, lost bool) {
	w.may.cuts -= int8(count(lost))
	w.deaf = slices.Clone(w.deaf)
	w.deaf[from] = slices.Clone(w.deaf[from])
	w.deaf[from][to] = lost
}

// sum is the digest of a world: the same for two that differ in nothing. A digest has 64 bits, so two
// of a hundred million states are taken for one by a chance of 1 to 3,000.
func (w *world) sum() uint64 {
	b := w.bytes[:0]
	sum := func(n uint64) { b = binary.LittleEndian.AppendUint64(b, n) }
	sum(uint64(w.now))
	for from := range w.deaf {
		for to := range w.deaf {
			sum(uint64(count(w.deaf[from][to])))
		}
	}
	for i := range w.audits {
		a := w.audits[i]
		a.pass(w.now, 0)
		sum(uint64(a.level))
	}
	sums := make([]uint64, 0, 8)
	for i := range w.flight {
		sums = append(sums, w.flight[i].sum)
	}
	if len(sums) < w.most {
		slices.Sort(sums) // else it matters which is the first
	}
	for _, s := range sums {
		sum(s)
	}
	for _, a := range w.actors {
		if a == nil {
			sum(0)
			continue
		}
		w.digest(a)
		for _, n := range []uint64{a.sums[0], a.sums[1], a.incarnation, uint64(a.began), uint64(a.leaves)} {
			sum(n)
		}
	}
	b = written(&w.walk, b, &w.may)
	w.bytes = b
	return maphash.Bytes(w.seed, b)
}

// digest notes the digests of a process.
func (w *world) digest(a *actor) {
	if a.sums[0] == 0 {
		w.scratch = written(&w.walk, w.scratch[:0], a.peers)
		a.sums[0] = maphash.Bytes(w.seed, w.scratch)
	}
	if a.sums[1] == 0 {
		w.scratch = w.scratch[:0]
		for _, n := range a.nodes {
			w.scratch = written(&w.walk, w.scratch, n)
		}
		a.sums[1] = maphash.Bytes(w.seed, w.scratch)
	}
}

func (w *world) over() bool {
	return slices.ContainsFunc(w.audits, func(a debtAuditor) bool { return a.over() > 0 })
}

// explore looks at all that can follow, the depth first. It is true, with the trace, where more
// passed than the limit lets pass.
func (x *explorer) explore(w *world) (over bool) {
	x.steps++
	if w.over() {
		return true
	}
	sum := w.sum()
	if _, ok := x.seen[sum]; ok {
		return false
	}
	x.seen[sum] = struct{}{}
	x.deepest = max(x.deepest, len(x.trace))
	x.stopped = x.stopped || x.steps%1024 == 0 && !x.until.IsZero() && time.Now().After(x.until)
	if x.stopped {
		return false
	}
	all := w.next(nil)
	if x.random != nil {
		x.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
	for _, a := range all {
		x.trace = append(x.trace, a)
		if x.explore(w.after(a)) {
			return true
		}
		x.trace = x.trace[:len(x.trace)-1]
	}
	return false
}

// story is a trace as it is told.
func (x *explorer) story() string {
	var b strings.Builder
	w := x.first()
	for _, a := range x.trace {
		fmt.Fprintf(&b, "%8s  %v", (w.now-start).Duration()-2*time.Second, a)
		if a.do == "deliver" || a.do == "double" {
			m := &w.flight[a.node]
			fmt.Fprintf(&b, ": %s → %s kind %d id %d lease %d spent %d granted %d", x.names[m.from], x.names[m.to], m.message.Kind, m.message.ID, m.message.Lease, m.message.Spent, m.message.Granted)
		}
		before := w
		w = w.after(a)
		for k := range w.audits {
			if level := w.audits[k].level; level != before.audits[k].level || w.audits[k].last != before.audits[k].last {
				fmt.Fprintf(&b, "  [key%d: %.2f left]", k, float64(level)/float64(w.audits[k].event))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Package counter lets nodes keep one limit together of which each decides by itself: by mesh, gossip, a hub, an event log,
// or parts. A Replica counts what its own process has let pass, and hears the counts of all other processes. Counts of a
// process only grow, and the largest holds, so messages may be lost, doubled, late and in any order. Together the nodes
// may let more pass than the limit, by as much as package bounds says.
//
// A Replica is a state machine without clock, network and goroutine, as lease.Node is: its caller tells it what happens and
// when, and sends what it wants sent.
//
// In the code, replica.go decides, tally.go is what is kept of a key, merge.go what is heard, sync.go what is told, and
// message.go how. view.go is what a replica does while it does not hear all. hub.go has one node tell all others. log.go
// and entry.go tell others by an event log.
package counter

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/frame"
	"github.com/weir-limit/weir/internal/cluster/table"
	"github.com/weir-limit/weir/internal/record"
)

// The times of replicas.
const (
	// Sync is how often a replica tells others what has changed.
	Sync = bounds.TellEvery
	// Gather is how long a change waits for other changes to travel with, when nothing was told for
	// a Sync.
	Gather = 5 * time.Millisecond
	// Sweep is how often a replica also tells one other of what has not changed, in
	// case that it was lost.
	Sweep = 10 * Sync
	// Memory is how much longer a replica remembers a count than its events are in
	// use: events that other nodes have let pass beyond the limit are in use for longer.
	Memory = time.Minute
)

// Settings say what a replica is.
type Settings struct {
	// Name is the node's, and Incarnation more than that of every process that had
	// the name before.
	Name        string
	Incarnation uint64
	// Sharing is weir.SharingMesh, SharingGossip, SharingHub or SharingDivided, or bounds.Log: then
	// View, Tick and Receive are not called, but Entries and Hear.
	Sharing weir.Sharing
	// Keys is how many keys are kept at a time; requests for more are denied. At
	// least 1.
	Keys int
}

// Replica is one of several nodes that each decide by themselves, and tell each
// other what they let pass. All nodes together may let more pass than
// the limit does, by no more than bounds.Shared says.
type Replica struct {
	settings Settings
	began    weir.Instant
	random   *rand.Rand

	peers  []neighbor // all that were ever heard of, this node the first
	ids    map[string]int32
	free   []int32 // of peers, of nobody now
	views  uint64  // how often View was called
	others []int32 // members but this node, in an order that is this node's own
	turn   int     // of others, who is told next
	view   view
	hubs   map[string]int32 // by placement; at most table.MaxRules

	tallies table.Table[*tally]
	forms   map[string]*form
	slots   uint64 // given so far

	changed   []*tally     // that somebody is to be told of
	since     weir.Instant // when the first of them came to be
	synced    weir.Instant // when others were last told
	swept     weir.Instant
	sweep     int          // which tally was swept last
	reclaimed weir.Instant // when numbers of nodes were last, 0: never
	lost      weir.Instant // when counts were dropped because too many keys are kept
	stats     Stats
}

// Stats are counters since the replica began.
type Stats struct {
	Sent    int64 // messages, each to one peer
	Bytes   int64 // of them
	Heard   int64 // counts that were news
	Dropped int64 // counts that were not kept, because of a bound
	Keys    int   // kept now
	Waiting int   // keys that others are to be told of
}

// Post is a message that a replica wants sent to each of some peers. They are of
// one kind for all replicas of a Sharing.
type Post struct {
	Peers   []string
	Message []byte
}

// New is a replica that starts now. Until it has heard from all members it
// passes no more than its part.
func New(now weir.Instant, s Settings) (*Replica, error) {
	ways := []weir.Sharing{weir.SharingMesh, weir.SharingGossip, weir.SharingHub, weir.SharingDivided, bounds.Log}
	switch {
	case !slices.Contains(ways, s.Sharing):
		return nil, fmt.Errorf("replicas share by one of %v, not by %q", ways, s.Sharing)
	case s.Keys < 1 || s.Name == "" || len(s.Name) > frame.MaxText:
		return nil, fmt.Errorf("a replica needs a bound for its keys, and a name of at most %d bytes", frame.MaxText)
	}
	p := &Replica{
		settings: s, began: now, random: rand.New(rand.NewPCG(s.Incarnation, record.Hash(record.Basis, s.Name))),
		ids: map[string]int32{}, hubs: map[string]int32{}, forms: map[string]*form{}, tallies: table.New[*tally](s.Keys, maphash.MakeSeed()),
		view: view{members: 1, heard: 1, at: now}, synced: now - bounds.Micros(Sync), swept: now, lost: now - bounds.Micros(weir.MaxPeriod),
	}
	p.id(now, s.Name)
	return p, nil
}

// Stats are the counters.
func (p *Replica) Stats() Stats {
	s := p.stats
	s.Keys, s.Waiting = len(p.tallies.Rows), len(p.changed)
	return s
}

// id is the number of a node by its name; −1 when too many are known.
func (p *Replica) id(now weir.Instant, name string) int32 {
	if id, ok := p.ids[name]; ok {
		return id
	}
	if len(p.peers) >= MaxPeers && len(p.free) == 0 {
		p.reclaim(now)
	}
	id := int32(len(p.peers))
	switch n := len(p.free); {
	case n > 0:
		id, p.free = p.free[n-1], p.free[:n-1]
	case n == 0 && id >= MaxPeers:
		return -1
	default:
		p.peers = append(p.peers, neighbor{})
	}
	p.peers[id] = neighbor{name: name}
	p.ids[name] = id
	return id
}

// reclaim frees the numbers of nodes that are no members, and of which nothing is in
// use. It looks at everything, so it does that once in a Sweep.
func (p *Replica) reclaim(now weir.Instant) {
	if p.reclaimed != 0 && now < p.reclaimed+bounds.Micros(Sweep) {
		return
	}
	p.reclaimed = now
	used := make([]bool, len(p.peers))
	used[0] = true
	for _, row := range p.tallies.Rows {
		row.Of.prune(now)
		for i := range row.Of.lines {
			used[row.Of.lines[i].node] = true
		}
	}
	for id := range p.peers {
		if q := &p.peers[id]; !used[id] && !q.member {
			delete(p.ids, q.name)
			p.free = append(p.free, int32(id))
		}
	}
}

// Take decides the asks together, as a weir.Store does. It asks no other node: they hear of it by
// messages of Tick. Sync and Once of the asks do nothing.
func (p *Replica) Take(now weir.Instant, asks []weir.Ask, out []weir.Decision) {
	p.view.to(now)
	if len(asks) == 1 {
		if r := p.tally(now, &asks[0]); r != nil && p.take(now, r, &asks[0], &out[0]) {
			return
		}
	}
	for i := range asks {
		out[i] = weir.Decision{Cost: asks[i].Cost, RetryAfter: table.MaxDeny}
		if r := p.tally(now, &asks[i]); r != nil {
			own, _ := p.weights(now, r, asks[i].Policy.Partition, asks[i].Policy.Nodes)
			r.decide(now, own, &asks[i], &out[i])
		}
	}
	weir.Resolve(asks, out)
	for i := range asks {
		r, ok := p.tallies.Get(asks[i].State)
		if !ok {
			out[i].Charged = false
			continue
		}
		own, _ := p.weights(now, r, asks[i].Policy.Partition, asks[i].Policy.Nodes)
		fresh := r.form.limit.Fresh(r.state, now)
		if events := r.commit(now, own, &asks[i], &out[i]); events > 0 {
			p.passed(now, r, events, fresh)
		}
	}
}

// take is Take for one plain ask while an event counts as one.
func (p *Replica) take(now weir.Instant, r *tally, a *weir.Ask, d *weir.Decision) bool {
	if a.Peek || a.After || a.Quota || a.AtLeast > 0 || a.MaxHold > 0 || a.Receipt != 0 || a.Cost < 1 {
		return false
	}
	if own, _ := p.weights(now, r, a.Policy.Partition, a.Policy.Nodes); own != (weight{1, 1}) {
		return false
	}
	fresh := r.form.limit.Fresh(r.state, now)
	r.state = r.form.limit.Take(r.state, now, a.Cost, d)
	if d.Charged {
		r.hear(now, d.Cost)
		p.passed(now, r, d.Cost, fresh)
	}
	return true
}

// passed counts what this node has let pass, to be told. It begins a new slot where
// the state was fresh, and other nodes have heard of all that was counted before.
func (p *Replica) passed(now weir.Instant, r *tally, events int64, fresh bool) {
	own := r.line(0, p.settings.Incarnation)
	if own.slot == 0 || fresh && own.left == 0 && now-own.changed >= bounds.Micros(2*Sweep) {
		p.slots++
		own.slot, own.count, own.appended, own.opened = p.slots, 0, 0, now
	}
	own.count += events
	own.changed = now
	if r.echo != nil && r.hub > itself {
		r.echo.passes(now)
	}
	p.tell(now, r, own, p.repeats())
}

// repeats is in how many turns this node tells what it has let pass: all members
// directly, and twice, since one message may be lost.
func (p *Replica) repeats() uint8 {
	switch p.settings.Sharing {
	case weir.SharingGossip:
		return uint8(min(max((len(p.others)+bounds.TellSome-1)/bounds.TellSome, 2), 255))
	case weir.SharingMesh, weir.SharingHub:
		return 2
	case bounds.Log:
		return 1
	default:
		return 0
	}
}

// tell lines r up, for one of its lines to be told in so many turns.
func (p *Replica) tell(now weir.Instant, r *tally, of *line, turns uint8) {
	if len(p.others) == 0 && p.settings.Sharing != bounds.Log {
		return
	}
	of.left = max(of.left, turns)
	if r.queued || of.left == 0 {
		return
	}
	if len(p.changed) == 0 {
		p.since = now
	}
	r.queued = true
	p.changed = append(p.changed, r)
}

// tally is what is kept of a key that is asked about, or nil if no more can be.
func (p *Replica) tally(now weir.Instant, a *weir.Ask) *tally {
	if r, ok := p.tallies.Get(a.State); ok {
		r.adopt(now, p, a.Limit)
		r.policy, r.nodes = a.Policy.Partition, a.Policy.Nodes
		return r
	}
	r := p.keep(now, a.State, a.Limit)
	if r != nil {
		r.policy, r.nodes = a.Policy.Partition, a.Policy.Nodes
	}
	return r
}

// keep begins to keep a key.
func (p *Replica) keep(now weir.Instant, key weir.StateKey, l *weir.Limit) *tally {
	if max(len(key.Rule), len(key.Key), len(l.String())) > frame.MaxText || !p.tallies.Room(now) {
		return nil
	}
	key = weir.StateKey{Rule: strings.Clone(key.Rule), Key: strings.Clone(key.Key)}
	r := &tally{key: key, form: p.form(l), born: now, mark: p.view.gap, cold: p.settings.Sharing != weir.SharingDivided && p.settings.Sharing != bounds.Log}
	if p.settings.Sharing == weir.SharingHub {
		r.hub, r.echo = p.hubOf(key), &echo{}
	}
	p.tallies.Add(key, r)
	return r
}

// Settle settles a receipt of Take, as Limit.Settle does; that it works once is for
// the caller to see to. Other nodes hear of events used beyond it, but not of events given back.
func (p *Replica) Settle(now weir.Instant, st *weir.Settlement) error {
	p.view.to(now)
	r, ok := p.tallies.Get(st.Receipt.State)
	if !ok {
		_, err := st.Receipt.Limit.Settle(nil, now, now, st)
		return err
	}
	own, _ := p.weights(now, r, r.policy, r.nodes)
	receipt, scaled := *st.Receipt, *st
	if receipt.Limit.String() == r.form.limit.String() {
		receipt.Limit = r.form.owing
	}
	receipt.Cost, _ = r.events(st.Receipt.Cost, own)
	scaled.Used, _ = r.events(max(st.Used, 0), own)
	scaled.Receipt = &receipt
	state, err := r.form.owing.Settle(r.state, now, max(r.born, r.since), &scaled)
	if err != nil {
		return err
	}
	r.state = state
	// More than was used where less was outstanding, and less where not all of it fits.
	over, lost := scaled.Charged-scaled.Used, scaled.Used-scaled.Charged
	st.Charged = min(st.Used+bounds.Part(over, own.den, own.num), max(st.Used, st.Receipt.Cost)) - bounds.Part(lost, own.den, own.num)
	if more := st.Used - st.Receipt.Cost; more > 0 {
		r.hear(now, scaled.Charged-receipt.Cost)
		p.passed(now, r, more, false)
	}
	return nil
}

// Reset forgets what was used of a key, at this node. Receipts of it from before give
// nothing back.
func (p *Replica) Reset(now weir.Instant, key weir.StateKey) {
	if r, ok := p.tallies.Get(key); ok {
		r.state, r.earlier, r.rest, r.owed = nil, nil, 0, 0
		r.since = max(r.since, max(now, r.given)+1) // the clock may have stepped back
	}
}

// Look is the state of a key as the replica knows it, as limit would be given it.
func (p *Replica) Look(now weir.Instant, limit *weir.Limit, key weir.StateKey) weir.State {
	r, ok := p.tallies.Get(key)
	if !ok {
		return nil
	}
	k := r.kept()
	return k.View(limit, now)
}

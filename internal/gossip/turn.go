package gossip

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/memberlist"
)

// watchEvery is how often members are looked at.
const watchEvery = 25 * time.Millisecond

// watch sends beats, and notices who is silent or gone.
func (g *Gossip) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-g.done:
			return
		case <-tick.C:
		case <-g.nudged:
		}
		now := sinceBoot()
		g.awake(now)
		g.turned.Store(int64(now))
		g.beats(now)
		if g.noticed(now) {
			g.tell()
		}
	}
}

// nudge has watch look at once.
func (g *Gossip) nudge() {
	select {
	case g.nudged <- struct{}{}:
	default:
	}
}

// look has find look at once.
func (g *Gossip) look() {
	select {
	case g.lookNow <- struct{}{}:
	default:
	}
}

// awake notices that this process has missed so much time that the others took it
// for silent: it was stopped, or the machine suspended. What comes next may
// be from before. So a new round begins, and nobody counts as hearing this process
// until its packets say that they have heard of this round.
func (g *Gossip) awake(now time.Duration) {
	last := g.turned.Load()
	if now-time.Duration(last) < time.Duration(g.limit.Load()) || !g.turned.CompareAndSwap(last, int64(now)) {
		return
	}
	if last == 0 {
		return // it begins
	}
	g.round.Store(g.round.Load()%255 + 1)
	for _, p := range *g.numbers.Load() {
		p.deaf.Store(true)
	}
	g.nudge()
}

// beats has a packet go to each member to which none has gone for a beat.
func (g *Gossip) beats(now time.Duration) {
	every := beat(int(g.size.Load()))
	for _, p := range *g.names.Load() {
		switch {
		case now-time.Duration(p.hearing.sent.Load()) < every-watchEvery/2:
		case g.streams(p):
			g.sendStream(p, nil)
		case p.due():
			g.flushSoon(p)
		}
	}
}

// noticed is whether members have to be told of a change.
func (g *Gossip) noticed(now time.Duration) (news bool) {
	g.mu.Lock()
	before := g.table.version
	g.table.tick(now, g.unheard(now), g.confirm)
	if g.table.version != before {
		g.publish()
		news = true
	}
	g.mu.Unlock()
	limit := time.Duration(g.limit.Load())
	for _, p := range *g.names.Load() {
		if _, silent := p.quiet(now, limit); silent != p.silent.Load() {
			p.silent.Store(silent)
			news = true
			if !silent && !p.alive.Load() {
				g.look()
			}
		}
	}
	return news
}

// unheard tells which processes are silent. g.mu is held.
func (g *Gossip) unheard(now time.Duration) func(id uint64) bool {
	limit := time.Duration(g.limit.Load())
	return func(id uint64) bool {
		p := g.peers[id]
		if p == nil {
			return true
		}
		_, silent := p.quiet(now, limit)
		return silent
	}
}

// change is how memberlist's news reach the table.
func (g *Gossip) change(f func(now time.Duration)) {
	now := sinceBoot()
	g.mu.Lock()
	before := g.table.version
	f(now)
	changed := g.table.version != before
	if changed {
		g.publish()
	}
	announce := g.table.lost != g.yielded || g.table.me.incarnation != g.announced
	g.mu.Unlock()
	if announce {
		g.look()
	}
	if changed {
		g.start(g.tell) // memberlist holds a lock that Changed may want
	}
}

// publish makes peers of what the table has. g.mu is held.
func (g *Gossip) publish() {
	names, numbers := map[string]*peer{}, map[uint64]*peer{}
	for id, e := range g.table.entries {
		p := g.peers[id]
		if p == nil || p.address != e.address {
			if p = g.newPeer(e); p == nil {
				continue
			}
		}
		numbers[id] = p
		p.alive.Store(e.alive)
		p.member.Store(e.standing == agreed && !g.table.lost && !g.leaving)
		if p.member.Load() {
			names[e.name] = p
		}
	}
	g.peers = numbers
	g.numbers.Store(&numbers)
	g.names.Store(&names)
	n := g.table.count()
	g.size.Store(int64(n))
	g.limit.Store(int64(silence(n)))
}

// newPeer is the other end of the data plane; nil when no key can be made.
func (g *Gossip) newPeer(e *entry) *peer {
	s, err := newSeals(g.keys, g.me, e.identity)
	if err != nil {
		g.log.Error("cannot make keys for a member", "member", e.name, "error", err)
		return nil
	}
	p := &peer{identity: e.identity, address: e.address, tcp: e.tcp}
	p.seals.Store(s)
	p.begin(max(e.since, 0), e.alive)
	return p
}

// Members are the agreed members, this node among them, by name. There are none
// when another process has taken this node's name: this one is no member any more.
// It must decide nothing for the others then, and has to be restarted under another
// name.
func (g *Gossip) Members() []Member {
	now := sinceBoot()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.table.lost {
		return nil
	}
	limit := time.Duration(g.limit.Load())
	me := &g.table.me
	all := []Member{{Name: me.name, Address: me.address.String(), Incarnation: me.incarnation, Meta: me.meta}}
	for id, e := range g.table.entries {
		p := g.peers[id]
		if e.standing != agreed || p == nil {
			continue
		}
		m := Member{Name: e.name, Address: e.address.String(), Incarnation: e.incarnation, Meta: e.meta}
		if quiet, silent := p.quiet(now, limit); silent {
			m.Silent, m.SilentFor = true, quiet
		}
		if !e.alive {
			m.DeadFor = max(now-e.since, 1)
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b Member) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// tell calls Changed, if members differ from those told before, and logs how.
func (g *Gossip) tell() {
	g.telling.Lock()
	defer g.telling.Unlock()
	members := g.Members()
	if slices.EqualFunc(g.told, members, alike) && g.told != nil {
		return
	}
	g.logNews(g.told, members)
	g.told = members
	g.changed(members)
}

// alike is whether two members differ in times only.
func alike(a, b Member) bool {
	return a.Name == b.Name && a.Address == b.Address && a.Incarnation == b.Incarnation && bytes.Equal(a.Meta, b.Meta) &&
		a.Silent == b.Silent && (a.DeadFor > 0) == (b.DeadFor > 0)
}

func (g *Gossip) logNews(before, after []Member) {
	old := map[string]Member{}
	for _, m := range before {
		old[m.Name] = m
	}
	for _, m := range after {
		o, was := old[m.Name]
		delete(old, m.Name)
		switch {
		case m.Name == g.me.name:
		case !was:
			g.log.Info("a node has joined", "member", m.Name, "address", m.Address)
		case o.Incarnation != m.Incarnation:
			g.log.Info("a node was restarted", "member", m.Name, "address", m.Address)
		case o.Silent != m.Silent && m.Silent:
			g.log.Warn("a member is silent", "member", m.Name, "for", m.SilentFor)
		case o.Silent != m.Silent:
			g.log.Info("a member is heard again", "member", m.Name)
		case o.DeadFor == 0 && m.DeadFor > 0:
			g.log.Warn("a member is not reached", "member", m.Name, "gone_in", g.confirm)
		}
	}
	for name := range old {
		g.log.Info("a node is no member any more", "member", name)
	}
}

// Forget takes a member that is silent for gone, without waiting until that is
// confirmed, and tells all. It is for operators who know that it does not come
// back. If it does all the same, it is a member again.
func (g *Gossip) Forget(name string) error {
	now := sinceBoot()
	g.mu.Lock()
	p := (*g.names.Load())[name]
	var e *entry
	if p != nil {
		e = g.table.entries[p.id]
	}
	switch {
	case name == g.me.name:
		g.mu.Unlock()
		return errors.New("that is this node itself; ask another one, or stop this one")
	case e == nil:
		g.mu.Unlock()
		return fmt.Errorf("no member has the name %q; see the names in the list of members", name)
	case !g.table.depart(now, p.id, gone, !g.unheard(now)(p.id)):
		g.mu.Unlock()
		return fmt.Errorf("%q is heard of; stop it first", name)
	}
	message := formatEntries(now, []entry{*e})
	g.publish()
	g.mu.Unlock()
	g.spread(fmt.Sprintf("%016x", p.id), message, nil)
	g.tell()
	return nil
}

// departed hears that a process is no member any more.
func (g *Gossip) departed(e *entry) {
	now := sinceBoot()
	g.mu.Lock()
	news := g.table.depart(now, e.id, e.standing, !g.unheard(now)(e.id))
	if news {
		g.publish()
	}
	g.mu.Unlock()
	if !news {
		return
	}
	if e.lost && e.name == g.me.name {
		g.log.Warn("two nodes have one name: another process gives it up to this one; start it under another name, or stop it",
			"name", e.name, "other", e.address)
	}
	g.spread(fmt.Sprintf("%016x", e.id), formatEntries(now, []entry{*e}), nil)
	g.start(g.tell)
}

// spread has memberlist tell all.
func (g *Gossip) spread(about string, message []byte, finished func()) {
	g.broadcasts.QueueBroadcast(&farewell{about, message, finished})
}

// sayFarewell tells all that this process is no member any more: those whom a
// datagram reaches at once, the others by each other.
func (g *Gossip) sayFarewell(lost bool) {
	now := sinceBoot()
	g.mu.Lock()
	e := entry{process: g.table.me, standing: left, since: now, lost: lost}
	g.publish()
	g.mu.Unlock()
	message := formatEntries(now, []entry{e})
	for _, n := range g.list.Members() {
		if n.Name != g.me.memberlistName() {
			_ = g.list.SendBestEffort(n, message) // it is told by the others, too
		}
	}
	g.spread(fmt.Sprintf("%016x", e.id), message, nil)
}

// announce tells memberlist what is new of this process: that it has a later
// incarnation than it began with, or that its name is another's.
func (g *Gossip) announce() {
	g.mu.Lock()
	lost, incarnation := g.table.lost && !g.yielded, g.table.me.incarnation
	raised := !g.table.lost && incarnation != g.announced
	g.yielded, g.announced = g.table.lost, incarnation
	g.mu.Unlock()
	if lost {
		g.log.Error("two nodes have one name: the other one began later and keeps it; this one decides for nobody else from now on. Start it again under another name",
			"name", g.me.name)
		g.sayFarewell(true)
		g.tell()
	}
	if raised {
		g.log.Info("took a later incarnation: this node's name had one", "incarnation", incarnation)
		if err := g.list.UpdateNode(time.Second); err != nil {
			g.log.Debug("nobody has heard of the later incarnation yet", "error", err)
		}
	}
}

// rotate changes the keys of memberlist. A key is taken out at the end of the ring only:
// elsewhere it would be moved under those who read it.
func rotate(ring *memberlist.Keyring, keys [][]byte) error {
	var errs []error
	for _, k := range keys {
		errs = append(errs, ring.AddKey(k))
	}
	for i := range keys { // brings the others to the end
		if len(ring.GetKeys()) > len(keys) || i == len(keys)-1 {
			errs = append(errs, ring.UseKey(keys[len(keys)-1-i]))
		}
	}
	for old := ring.GetKeys(); len(old) > len(keys); old = ring.GetKeys() {
		errs = append(errs, ring.RemoveKey(old[len(old)-1]))
	}
	return errors.Join(errs...)
}

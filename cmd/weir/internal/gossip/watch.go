package gossip

import "time"

// watchEvery is how often members are looked at.
const watchEvery = 50 * time.Millisecond

// watch sends heartbeats, and notices who is silent or gone.
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
		g.heartbeats(now)
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

// awake notices that this process has missed so much time that its peers took it for silent: it was
// stopped, or the machine suspended. The next packets may be from before. So a new round begins,
// and no peer counts as hearing this process until its packets say that they have heard of this
// round.
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

// heartbeats has a packet go to each member to which none has gone for a heartbeat.
func (g *Gossip) heartbeats(now time.Duration) {
	every := heartbeat(int(g.size.Load()))
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
	g.table.tick(now, g.unheard(now), g.unheardFor(now, g.confirm), g.confirm)
	if g.table.version != before {
		g.publish()
		news = true
	}
	g.mu.Unlock()
	limit := time.Duration(g.limit.Load())
	for _, p := range *g.names.Load() {
		if _, silent := p.quiet(now, limit); silent != p.silent.Load() {
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

// unheardFor tells which processes were not heard for so long. g.mu is held.
func (g *Gossip) unheardFor(now, long time.Duration) func(id uint64) bool {
	return func(id uint64) bool {
		p := g.peers[id]
		if p == nil {
			return true
		}
		quiet, _ := p.quiet(now, long)
		return quiet >= long
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

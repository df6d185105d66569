package gossip

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

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
	all := []Member{{Name: me.name, ID: me.id, Address: me.address.String(), Incarnation: me.incarnation, Meta: me.meta, Fence: g.table.fence(now)}}
	for id, e := range g.table.entries {
		p := g.peers[id]
		if e.standing != agreed || p == nil {
			continue
		}
		m := Member{Name: e.name, ID: e.id, Address: e.address.String(), Incarnation: e.incarnation, Meta: e.meta}
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
	names := *g.names.Load()
	for _, m := range members {
		if p := names[m.Name]; p != nil {
			p.silent.Store(m.Silent) // noticed finds out by it when that is no longer so
		}
	}
	if slices.EqualFunc(g.told, members, alike) && g.told != nil {
		return
	}
	g.logNews(g.told, members)
	g.told = members
	g.changed(members)
}

// alike is whether two members differ in times only.
func alike(a, b Member) bool {
	return a.Name == b.Name && a.ID == b.ID && a.Address == b.Address && a.Incarnation == b.Incarnation && bytes.Equal(a.Meta, b.Meta) &&
		a.Silent == b.Silent && (a.Fence > 0) == (b.Fence > 0) && (a.DeadFor > 0) == (b.DeadFor > 0)
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
			g.log.Info("a member is back", "member", m.Name)
		case o.DeadFor == 0 && m.DeadFor > 0:
			g.log.Warn("a member is not reached", "member", m.Name, "gone_in", g.confirm)
		}
	}
	for name := range old {
		g.log.Info("a node is no member any more", "member", name)
	}
}

package gossip

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"
)

// farewell is told on by memberlist to all.
type farewell struct {
	about    string
	message  []byte
	finished func()
}

func (f *farewell) Name() string    { return f.about }
func (f *farewell) Message() []byte { return f.message }

// Invalidates is whether another need not be told on any more.
func (f *farewell) Invalidates(other memberlist.Broadcast) bool {
	o, ok := other.(*farewell)
	return ok && o.about == f.about
}

// Finished is called when enough have been told.
func (f *farewell) Finished() {
	if f.finished != nil {
		f.finished()
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
		return fmt.Errorf("%q can be reached; stop it first", name)
	}
	message := formatEntries(now, []entry{*e})
	g.publish()
	g.mu.Unlock()
	g.tellAll(message)
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
	news = news || e.standing == gone && g.table.doubt(now, e.id)
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
// datagram reaches at once, the others by each other. told is closed when it was told on
// as often as memberlist does.
func (g *Gossip) sayFarewell(lost bool) (told <-chan struct{}) {
	now := sinceBoot()
	g.mu.Lock()
	e := entry{process: g.table.me, standing: left, since: now, lost: lost}
	g.publish()
	g.mu.Unlock()
	message := formatEntries(now, []entry{e})
	g.tellAll(message)
	on := make(chan struct{})
	g.spread(fmt.Sprintf("%016x", e.id), message, func() { close(on) })
	return on
}

// tellAll sends news of membership to each member itself. Members that are told by chance alone may
// be left out until two of them compare all that they know, which takes a minute.
func (g *Gossip) tellAll(message []byte) {
	send := g.list.SendBestEffort
	if g.tcp {
		send = g.list.SendReliable
	}
	var sends errgroup.Group
	sends.SetLimit(joinsAtOnce)
	for _, n := range g.list.Members() {
		if n.Name != g.me.memberlistName() {
			sends.Go(func() error { return send(n, message) })
		}
	}
	if err := sends.Wait(); err != nil {
		g.log.Debug("a member did not get the message that a node is no member any more; other members will tell it", "error", err)
	}
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
		g.log.Error("two nodes have one name: the other one started later and keeps it; this one no longer decides for other nodes. Start it again under another name",
			"name", g.me.name)
		g.sayFarewell(true)
		g.tell()
	}
	if raised {
		g.log.Info("took a later incarnation: this node's name had one", "incarnation", incarnation)
		if err := g.list.UpdateNode(time.Second); err != nil {
			g.log.Debug("no member has seen the later incarnation yet", "error", err)
		}
	}
}

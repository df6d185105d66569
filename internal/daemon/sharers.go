package daemon

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/weir-limit/weir/internal/listen"
	"github.com/weir-limit/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/webui"
)

const (
	// tellEvery is how often a node tells the others of its rule database what it has
	// in force, and tellChange how soon when that is another.
	tellEvery  = 5 * time.Second
	tellChange = 500 * time.Millisecond
	// tellTime is how long that may take.
	tellTime = 2 * time.Second
	// sharerSilent is when a node is shown as silent.
	sharerSilent = 3 * tellEvery
)

// keepTelling tells the others of a shared rule database what is in force here, until
// ctx ends.
func (d *Daemon) keepTelling(ctx context.Context) {
	tick := time.NewTicker(tellChange)
	defer tick.Stop()
	var last time.Time
	var told int64
	said := ""
	for {
		select {
		case <-ctx.Done():
			d.stopTelling(ctx)
			return
		case now := <-tick.C:
			store, revision := d.sharedDatabase(), d.revisionHere()
			if store == nil || revision == told && now.Sub(last) < tellEvery {
				continue
			}
			last, told = now, revision
			failed := errorText(d.tell(ctx, store, revision))
			if failed != "" && failed != said && ctx.Err() == nil {
				d.config.Log.Warn("other nodes of the rule database can't be told what is in force here", "error", failed)
			}
			said = failed
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (d *Daemon) tell(ctx context.Context, store *rulestore.Store, revision int64) error {
	ctx, stop := context.WithTimeout(ctx, tellTime)
	defer stop()
	return store.Tell(ctx, rulestore.Node{Name: d.name(), Version: d.config.Version, Revision: revision})
}

// stopTelling takes this node off the list, so that nobody looks for it.
func (d *Daemon) stopTelling(ctx context.Context) {
	store := d.sharedDatabase()
	if store == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), tellTime)
	defer stop()
	if err := store.Leave(ctx, d.name()); err != nil {
		d.config.Log.Warn("this node is listed on, as silent", "error", err)
	}
}

// sharedDatabase is the rule database, if other nodes may have it too, and it was
// reached.
func (d *Daemon) sharedDatabase() *rulestore.Store {
	if d.feed == nil {
		return nil
	}
	if store := d.feed.Store(); store != nil && store.Shared() {
		return store
	}
	return nil
}

// name is what nodes that share a rule database call this one: by its cluster, else
// its machine and admin door.
func (d *Daemon) name() string {
	if d.storage.node != nil {
		if g := d.storage.node.gossip.Load(); g != nil {
			return g.Name()
		}
	}
	at := d.opened.Load().adminAt.Addr()
	host, err := os.Hostname()
	_, port, bad := net.SplitHostPort(at.String())
	if err != nil || bad != nil {
		return listen.AsFlag(at)
	}
	return net.JoinHostPort(host, port)
}

// sharers is what a page says of the nodes of the rule database.
func (d *Daemon) sharers(ctx context.Context) []webui.Sharer {
	store := d.sharedDatabase()
	if store == nil {
		return nil
	}
	list, err := store.Nodes(ctx)
	if err != nil {
		return nil // the fact beside it says that the database can't be asked
	}
	last, err := store.Revision(ctx)
	if err != nil {
		return nil
	}
	var out []webui.Sharer
	for _, n := range list {
		s := webui.Sharer{Name: n.Name, Version: n.Version, State: "heard", Silent: n.Silent, InForce: fmt.Sprintf("revision %d", n.Revision), Behind: n.Revision != last}
		switch {
		case n.Name == d.name():
			s.State = "self"
		case n.Silent > sharerSilent:
			s.State = "silent"
		}
		if n.Revision < 0 {
			s.InForce = "a copy"
		}
		out = append(out, s)
	}
	return out
}

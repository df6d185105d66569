package membership

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

const (
	// tellEvery is how often a node tells the others of its rule database which
	// revision is active, and tellChange how soon when that is another.
	tellEvery  = 5 * time.Second
	tellChange = 500 * time.Millisecond
	// tellTime is how long that may take.
	tellTime = 2 * time.Second
	// sharerSilent is when a node is shown as silent.
	sharerSilent = 3 * tellEvery
)

// Sharers are the nodes that share a rule database. Each tells the others in it which
// revision is active there.
type Sharers struct {
	// Database is the rule database; nil while it was not reached, or where no other
	// node can have it.
	Database func() *rulestore.Store
	// Revision is the one that is active here.
	Revision func() int64
	// Name is what the others call this node.
	Name    func() string
	Version string
	Log     *slog.Logger
}

// Sharer is one of these nodes, as a page shows it.
type Sharer struct {
	Name, Version string
	State         string // self, heard or silent
	Silent        time.Duration
	Active        string // as revision 7
	Behind        bool   // that is not the last revision there is
}

// Keep tells the others of a shared rule database what is active here, until
// ctx ends.
func (s *Sharers) Keep(ctx context.Context) {
	tick := time.NewTicker(tellChange)
	defer tick.Stop()
	var last time.Time
	var told int64
	said := ""
	for {
		select {
		case <-ctx.Done():
			s.stop(ctx)
			return
		case now := <-tick.C:
			store, revision := s.Database(), s.Revision()
			if store == nil || revision == told && now.Sub(last) < tellEvery {
				continue
			}
			last, told = now, revision
			failed := errorText(s.tell(ctx, store, revision))
			if failed != "" && failed != said && ctx.Err() == nil {
				s.Log.Warn("other nodes of the rule database can't see which rules are active here", "error", failed)
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

func (s *Sharers) tell(ctx context.Context, store *rulestore.Store, revision int64) error {
	ctx, stop := context.WithTimeout(ctx, tellTime)
	defer stop()
	return store.Tell(ctx, rulestore.Node{Name: s.Name(), Version: s.Version, Revision: revision})
}

// stop takes this node off the list, so that nobody looks for it.
func (s *Sharers) stop(ctx context.Context) {
	store := s.Database()
	if store == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), tellTime)
	defer stop()
	if err := store.Leave(ctx, s.Name()); err != nil {
		s.Log.Warn("this node stays listed, as silent", "error", err)
	}
}

// List is the nodes of the rule database; nil where it can't be asked.
func (s *Sharers) List(ctx context.Context) []Sharer {
	store := s.Database()
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
	var out []Sharer
	for _, n := range list {
		one := Sharer{Name: n.Name, Version: n.Version, State: "heard", Silent: n.Silent, Active: fmt.Sprintf("revision %d", n.Revision), Behind: n.Revision != last}
		switch {
		case n.Name == s.Name():
			one.State = "self"
		case n.Silent > sharerSilent:
			one.State = "silent"
		}
		if n.Revision < 0 {
			one.Active = "a copy"
		}
		out = append(out, one)
	}
	return out
}

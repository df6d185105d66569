package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/limited"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/sleep"
	"github.com/weir-limit/weir/rules"
)

const (
	// beatEvery is how exactly denials are dated.
	beatEvery = time.Second
	// limitedEvery is how often a node looks in the rule database whether somebody wants to know which clients are limited, and tells it
	// then. It is woken when somebody begins to.
	limitedEvery = 2 * time.Second
	// limitedLease is how long the nodes tell after somebody has looked.
	limitedLease = 30 * time.Second
	// limitedLost is when what a node has told does not count any more: its clients leave the list.
	limitedLost = 5 * limitedEvery
	// limitedTime is how long the rule database may take, to be told and to be read.
	limitedTime = 2 * time.Second
	// limitedFirst is how long a reader waits for nodes that live and have not told yet. Those that take longer are named.
	limitedFirst = time.Second
	// unblockTime is how long somebody who unblocks a client waits for other nodes. Those that take longer are named.
	unblockTime = 3 * time.Second
	// nodeHeard is how long ago a node said last that it lives, so that somebody waits for it.
	nodeHeard = 15 * time.Second
	// unblockRest is how long the owner of a key in a cluster may need to have back what it has lent: it grants nothing meanwhile.
	unblockRest = time.Second
	// waitStep is how often it is looked whether they have done it.
	waitStep = 30 * time.Millisecond
)

const _ = uint(rulestore.MaxTold - limited.MaxBytes) // what a node tells fits

// askedOf is what this node has done of what others ask it by the rule database.
type askedOf struct {
	mu       sync.Mutex
	told     bool  // it has told of limited clients, which are in the database
	done     int64 // the last reset
	reported int64 // that the database was told of
}

// limitedHere is the clients that this node limits.
func (d *Daemon) limitedHere(now time.Time) limited.Told {
	return limited.Tell(d.limiter.Book.Limited(), now, d.clientName)
}

// keepAsked does what others ask of this node by the rule database, until ctx ends, and then takes away what it told.
func (d *Daemon) keepAsked(ctx context.Context) {
	var hearing sync.WaitGroup
	hearing.Go(func() {
		for ctx.Err() == nil {
			d.hearAsked(ctx)
		}
	})
	defer hearing.Wait()
	keepTelling(ctx, limitedEvery, func(within context.Context) error {
		if ctx.Err() != nil {
			return d.asking(within, d.leaveAsked)
		}
		return d.asking(within, d.doAsked)
	}, func(failed string) {
		d.config.Log.Warn("other nodes can't see which clients are limited here, and resets of theirs wait", "error", failed)
	})
}

// hearAsked waits until others ask for something, and does it.
func (d *Daemon) hearAsked(ctx context.Context) {
	store := d.sharedDatabase()
	if store == nil {
		_ = sleep.For(ctx, limitedEvery) // the loop ends with ctx
		return
	}
	select {
	case <-ctx.Done():
	case <-store.Heard():
		_ = d.asking(ctx, d.doAsked) // what fails is tried again, and told then
	}
}

// asking does a thing with the rule database of several nodes, if there is one, that nothing else of asked is done beside.
func (d *Daemon) asking(ctx context.Context, do func(context.Context, *rulestore.Store) error) error {
	store := d.sharedDatabase()
	if store == nil {
		return nil
	}
	d.asked.mu.Lock()
	defer d.asked.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, limitedTime)
	defer stop()
	return do(ctx, store)
}

// doAsked does what others ask of this node. Call it by asking.
func (d *Daemon) doAsked(ctx context.Context, store *rulestore.Store) error {
	ask, err := store.Asked(ctx, d.asked.done)
	if err != nil {
		return err
	}
	for _, u := range ask.Resets {
		if err := d.resetClient(ctx, u.Domain, u.Rule, string(u.Client)); err != nil {
			return err // the store is away: it is tried again
		}
		d.asked.done = u.ID
	}
	if d.asked.reported < d.asked.done {
		known, err := store.DoneResets(ctx, d.name(), d.asked.done)
		if err != nil {
			return err
		}
		if known {
			d.asked.reported = d.asked.done
		}
	}
	if ask.Told {
		told := d.limitedHere(time.Now())
		if err := store.TellLimited(ctx, d.name(), told.Pack()); err != nil {
			return err
		}
		d.asked.told = true
		return nil
	}
	if !d.asked.told {
		return nil
	}
	if err := store.LeaveLimited(ctx, d.name()); err != nil {
		return err
	}
	d.asked.told = false
	return nil
}

// leaveAsked takes away what this node told. Call it by asking.
func (d *Daemon) leaveAsked(ctx context.Context, store *rulestore.Store) error {
	return store.LeaveLimited(ctx, d.name())
}

// limitedNow is the clients that are limited at all nodes of the rule database, or at this node.
func (d *Daemon) limitedNow(ctx context.Context) limited.List {
	nodes, silent, alone := d.limitedElsewhere(ctx)
	now := time.Now()
	nodes = append(nodes, limited.Node{Name: d.name(), Told: d.limitedHere(now)})
	list := limited.Merge(nodes, now)
	list.Silent, list.Alone, list.Hashed = silent, alone, d.config.HashKeys
	return list
}

// limitedElsewhere is what other nodes tell, which of them are silent, and why none is asked.
func (d *Daemon) limitedElsewhere(ctx context.Context) (nodes []limited.Node, silent []string, alone string) {
	if d.feed == nil {
		return nil, nil, "This daemon has no rule database, by which nodes tell each other: these are the clients that it denies itself."
	}
	const away = "The rule database, by which nodes tell each other, can't be asked now: these are the clients that this node denies."
	store := d.feed.Store()
	if store == nil {
		return nil, nil, away
	}
	if !store.Shared() {
		return nil, nil, ""
	}
	ctx, stop := context.WithTimeout(ctx, limitedTime+limitedFirst)
	defer stop()
	if err := store.WantTold(ctx, d.name(), limitedLease); err != nil {
		return nil, nil, away
	}
	begun := time.Now()
	for {
		told, err := store.Limited(ctx, limitedLost)
		if err != nil {
			return nil, nil, away
		}
		var awaited bool
		nodes, silent, awaited = d.heardOf(ctx, told)
		if !awaited || time.Since(begun) > limitedFirst || sleep.For(ctx, waitStep) != nil {
			return nodes, silent, ""
		}
	}
}

// heardOf is what other nodes have told, and which have told nothing. awaited is whether one of these lives.
func (d *Daemon) heardOf(ctx context.Context, told []rulestore.Told) (nodes []limited.Node, silent []string, awaited bool) {
	heard := map[string]bool{d.name(): true}
	for _, t := range told {
		if heard[t.Node] {
			continue
		}
		one, err := limited.Unpack(t.Bytes)
		if err != nil {
			continue // of a newer node, which is named as silent
		}
		heard[t.Node] = true
		nodes = append(nodes, limited.Node{Name: t.Node, Told: one, Age: t.Age})
	}
	for _, s := range d.sharers().List(ctx) {
		if !heard[s.Name] {
			silent, awaited = append(silent, s.Name), awaited || s.State == "heard"
		}
	}
	return nodes, silent, awaited
}

// resetClient resets the counts of a client of a rule, by its name, in this node's store. A client that the active rules don't know has none.
func (d *Daemon) resetClient(ctx context.Context, domain, rule, client string) error {
	set := d.limiter.Set()
	if set == nil {
		return nil
	}
	for _, r := range set.Rules() {
		if r.Domain != domain || r.Name != rule {
			continue
		}
		entries, ok := set.Entries(r, client)
		if !ok {
			continue
		}
		reset, err := d.limiter.Reset(ctx, &rules.Request{Domain: domain, Descriptors: []rules.Descriptor{{Entries: entries}}})
		if err != nil {
			return &rulestore.Error{Kind: rulestore.Unavailable, Text: "the counts can't be reset now: " + err.Error() + "; nodes try it again for a minute"}
		}
		for _, r := range reset {
			d.limiter.Book.Forgive(offenders.ID{Domain: r.Domain, Rule: r.Name, Shadow: r.Shadow}, []byte(client))
		}
	}
	return nil
}

// decides is the rules that decide about a request, with the limits of exceptions.
func (d *Daemon) decides(ctx context.Context, domain string, entries []rules.Entry) ([]*rules.Rule, error) {
	return d.limiter.Reset(ctx, &rules.Request{Domain: domain, Descriptors: []rules.Descriptor{{Entries: entries}}, Peek: true})
}

// unblock has all nodes reset the counts of a client, and waits until they have. It gives how many have, and the names of those that have
// not: they do when they hear of it, within a minute.
func (d *Daemon) unblock(ctx context.Context, by rulestore.Actor, u rulestore.Unblock) (nodes int, late []string, err error) {
	store := d.feed.Store()
	if store == nil {
		return 0, nil, &rulestore.Error{Kind: rulestore.Unavailable, Text: "the rule database, by which nodes hear of it, can't be reached; POST /v1/reset resets a client's counts at one node"}
	}
	u.Files = d.inFiles(u.Domain)
	id, err := store.Unblock(ctx, by, u)
	if err != nil {
		return 0, nil, err
	}
	if !store.Shared() {
		return 1, nil, d.resetClient(ctx, u.Domain, u.Rule, string(u.Client))
	}
	if err := d.asking(ctx, d.doAsked); err != nil {
		return 0, nil, err
	}
	for begun := time.Now(); ; {
		if nodes, late, err = store.LateNodes(ctx, id, nodeHeard); err != nil {
			return 0, nil, err
		}
		if len(late) == 0 || time.Since(begun) > unblockTime || sleep.For(ctx, waitStep) != nil {
			break
		}
	}
	if slices.Contains(late, d.name()) { // a node that has only begun is not listed
		nodes++
	}
	if d.storage.node != nil {
		_ = sleep.For(ctx, unblockRest)
	}
	return nodes, late, nil
}

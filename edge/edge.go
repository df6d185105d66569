// Package edge is what stands between a program and a store that is elsewhere.
//
// Such a store can be slow or away. Around it, the edge gives each call a deadline, stops
// asking a server that does not answer, and lets the fallback of each limit decide
// meanwhile. It tells the store afterwards what the fallbacks let pass. Limits with sync
// are decided locally, and the store is told within that time. Limits with lease are decided
// locally, too, by portions that the store has charged before.
//
// The Open functions of packages redisstore, memcachestore, natsstore and client, and the daemon, put
// this edge around their stores. An author of another store writes a Remote, and calls New.
//
// In the code, internal/guard has deadlines, breakers and fallbacks, internal/synced has
// sync, and internal/leased has lease. This package puts them in their order, asks now and then whether the store is
// there, and closes all in order.
package edge

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/leased"
	"github.com/weir-limit/weir/internal/sleep"
	"github.com/weir-limit/weir/internal/synced"
)

const (
	// firstContact is how long Meet waits for a store that does not answer yet.
	firstContact = 1200 * time.Millisecond // to know why, after a timeout of its dialer
	// contactEvery is how often a store is asked whether it is there, so that this is
	// known when nobody calls. firstEvery is how often Meet asks.
	contactEvery = time.Second
	firstEvery   = 20 * time.Millisecond
	// maxClose is how long Close takes at most to tell the store what it has not heard.
	maxClose = 5 * time.Second
)

// Remote is a store that is elsewhere. It fails when a server is away, and obeys the
// deadlines of its callers. A Remote that has also
//
//	Servers() []string
//	ServerOf(k weir.StateKey) int
//
// is several servers that can be away one by one; number and names stay. One without them
// is a single server. A Remote that gives evidence also gives limits their sync.
type Remote interface {
	weir.Store
	// Ping asks a server whether it is there, by its number in Servers, which is 0 where
	// there is one.
	Ping(ctx context.Context, server int) error
	// Close ends the store. Calls that come later fail.
	Close() error
}

// Options of New.
type Options struct {
	// Changed is told when the store, or one server of several, goes away (away is why),
	// and when it is back (away is nil). The call that noticed does it. server is empty
	// where there is one. Nil: nobody is told.
	Changed func(server string, away error)
	// Uncountable is told each time why the store can't count a key that it was asked
	// for. The store is there, and a fallback decides. Nil: nobody is told.
	Uncountable func(err error)
}

// Store is a weir.Store with the edge around it. It must be made by New and closed. Its
// methods may be called from many goroutines.
//
// Take always decides: by the store, by a limit's Sync or Lease, or by its Fallback, which
// Decision.Degraded then names. It fails only when its context was cancelled, or when the
// asks are not meant. Settle, Reset and Look fail with weir.ErrAway when the store is away.
type Store struct {
	*decides

	remote  Remote
	servers int
	guard   *guard.Guard
	synced  *synced.Store
	stop    context.CancelFunc
	running sync.WaitGroup
	closed  func() error
}

// decides has the methods of a weir.Store, and decides what it can without the guard.
type decides = leased.Store

// New puts the edge around a store, and owns that from now on. It panics without a store.
func New(store Remote, o Options) *Store {
	if store == nil {
		panic("edge: New needs a store: pass one, such as that of redisstore.Dial")
	}
	s := &Store{remote: store, servers: 1, guard: guard.New(store, guard.Options{Changed: o.Changed, Uncountable: o.Uncountable})}
	s.synced = synced.New(s.guard)
	s.decides = leased.New(s.synced, s.guard.Try)
	if several, ok := store.(interface{ Servers() []string }); ok {
		s.servers = len(several.Servers())
	}
	s.closed = sync.OnceValue(s.close)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.running.Go(func() { s.keepContact(ctx) })
	return s
}

// Close gives back to the store what is left of portions, tells it what fallbacks and sync let
// pass and it has not heard yet, all within 5 s, and closes it. For that it looks once more for servers that are away. Usage that a server
// did not hear of then is lost: Close says of how many keys, and fails with weir.ErrAway. It waits
// for no server when there is nothing to tell. Calls on their way end first.
func (s *Store) Close() error { return s.closed() }

func (s *Store) close() error {
	s.stop()
	s.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), maxClose)
	defer cancel()
	return errors.Join(s.decides.Close(ctx), s.synced.Close(ctx), s.guard.Close(ctx), s.remote.Close())
}

// Traits are those of the store. It is not bare.
func (s *Store) Traits() weir.Traits {
	t := s.decides.Traits()
	t.Bare = false
	return t
}

// Meet waits a little until a server of the store answers. So a program whose store is
// there can begin with it, and one whose store is not knows why.
func (s *Store) Meet(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstContact)
	defer cancel()
	for ctx.Err() == nil && !s.answers(ctx) {
		_ = sleep.For(ctx, firstEvery)
	}
	s.guard.Contact(context.WithoutCancel(ctx), s.remote.Ping)
}

// answers is whether some server does.
func (s *Store) answers(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	said := make(chan error, s.servers)
	for server := range s.servers {
		go func() { said <- s.remote.Ping(ctx, server) }()
	}
	for range s.servers {
		if <-said == nil {
			return true
		}
	}
	return false
}

// keepContact asks the store now and then until ctx ends.
func (s *Store) keepContact(ctx context.Context) {
	tick := time.NewTicker(contactEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.guard.Contact(ctx, s.remote.Ping)
		}
	}
}

// Stats are counts of a store since it was made, and how it is now.
type Stats struct {
	Away       int   // servers that are away
	Missed     int64 // calls that had no answer within their deadline
	Fallbacks  int64 // limits that fallbacks decided
	Local      int64 // takes with sync or lease that were decided without the store
	Unspent    int64 // events that portions hold: charged in the store, and not passed
	Unreported int   // keys whose use by fallbacks the store has not heard of
}

// Stats are the store's counts.
func (s *Store) Stats() Stats {
	g, l := s.guard.Stats(), s.decides.Stats()
	return Stats{g.Away, g.Missed, g.Local + g.Open + g.Closed, s.synced.Stats().Local + l.Local, l.Unspent, g.Unreported}
}

// Guard is the part of the edge with the fallbacks, Synced the one around it that decides by
// sync, and Leased the one around both that decides by lease. They are for the daemon of this module, which counts what they do.
func (s *Store) Guard() *guard.Guard { return s.guard }

// Synced is described at Guard.
func (s *Store) Synced() *synced.Store { return s.synced }

// Leased is described at Guard.
func (s *Store) Leased() *leased.Store { return s.decides }

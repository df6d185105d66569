// Package client asks the store of a daemon, so that programs share counts without
// a database: a Store is a weir.Store, and moving from memory to a daemon changes
// one line. The daemon lends its store with weir serve --grpc-store.
//
// Limits are the program's, and stay so: the daemon's rules have no part in what is
// asked here, and counts of programs never mix with those of its rules. Programs
// that ask for the same StateKey share its count.
//
// The edge stands before the daemon, as before any store that is elsewhere (package edge): calls
// have a deadline, a daemon that does not answer is not asked for a while, and meanwhile the
// Fallback of each ask decides, which Decision.Degraded then names. Takes with Sync are decided in
// the program, and the daemon is told within that time. Only with a daemon of a cluster Sync has
// no effect: its store decides all.
//
// A denial is remembered for up to a second, so that asking again does not ask the
// daemon: what others reset, give back or raise meanwhile is seen after that, or two
// seconds where the daemon's store is outside of it and it remembers, too.
//
// Several daemons that share a store, as a Redis, stand in for each other: a program
// asks one of them, and another as soon as that is away. Daemons with counts of their
// own each have those whose rule and key fall to it. While one is away, fallbacks
// decide these: no other daemon takes them over, for it would know nothing of what
// was used, and both would count when some programs still reach the first.
//
// In the code, daemon.go is a connection, lane.go says what travels together, daemons.go
// picks the daemon that has a count, standin.go another where they share a store, watch.go
// follows them and their names, and puts the edge around them. Package storewire is what
// both sides say; the daemon answers it in cmd/weir/internal/rls/store.go, in a key space of its
// own.
package client

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/internal/limittext"
)

// RefusedError says that a daemon does not answer this program, and what to do.
type RefusedError struct {
	Daemon string // as the URL names it
	Text   string
}

func (e *RefusedError) Error() string { return "client: daemon " + e.Daemon + ": " + e.Text }

// Unwrap is weir.ErrAway: until that is put right, fallbacks decide.
func (e *RefusedError) Unwrap() error { return weir.ErrAway }

// Options of Open.
type Options struct {
	// Changed is called when a daemon goes away (away is why) and when it is back
	// (away is nil), from the call that noticed. daemon is empty where there is one,
	// and when all that share a store are away. Nil: nobody is told.
	Changed func(daemon string, away error)
}

// Store is a weir.Store of daemons. It must be made by Open. Its methods may be
// called from many goroutines.
//
// One goroutine (watch) follows the daemons from Open to Close. It alone puts another arrangement in
// place. A call takes the arrangement once, at its beginning, and stays with it. A connection may live
// longer than that: one to a daemon that stays is handed on, with what was heard over it.
type Store struct {
	current atomic.Pointer[arrangement] // never nil after Open
	place   *place                      // whose addresses are the daemons; nil: they are in the URL
	names   lookUps
	changed func(daemon string, away error) // never nil
	// limits and counts are those of all arrangements, former ones too.
	limits limittext.Cache
	counts counts

	stop     context.CancelFunc
	watching sync.WaitGroup // the goroutine of watch
	leaving  sync.WaitGroup // the arrangements before, while they tell their daemons the rest
	// gone is daemons which no name stands for any more. Their connections stay open until the name
	// has been looked up again, for the arrangement that had them still tells them the rest. The
	// watching goroutine alone touches them, and Close when that has ended.
	gone []*daemon
}

// arrangement is the daemons of a time, with the edge around them. The edge has servers that stay,
// so daemons that are others get a new one.
//
// A new edge knows nothing: denials, local counts and what sync has learned begin anew. The old one closes,
// and reports what it has let pass to the daemons that are there. A fallback right after the change begins
// with unused counts.
type arrangement struct {
	*edge.Store

	daemons *daemons
}

// counts are those of Stats. remembered has the denials of former arrangements only: each of these adds
// its own when it is replaced.
type counts struct{ takes, messages, remembered atomic.Int64 }

// Open makes a store of a URL, which is one of
//
//	grpc://HOST:PORT,…            daemons, without TLS
//	grpcs://HOST:PORT,…           with TLS
//	grpc+dns://NAME:PORT          a daemon at each address of a name, without TLS
//	grpcs+dns://NAME:PORT         with TLS, and a certificate for the name
//	grpc+unix:///path/of/socket   one on this machine
//
// and may end in ?token-file=FILE, whose first line is shown to daemons that ask for
// a token, and with TLS also ca=, cert= and key=, which name PEM files. All are read
// once. A token goes over TLS, to loopback and to sockets only.
//
// Daemons of one URL either all share a store, or each has its counts in memory. A
// name of +dns is looked up every 10 s: of its IPv4 addresses, or where it has none
// of its IPv6 addresses, the first 64 in numeric order are daemons.
//
// Open waits up to a second to hear what the daemons promise. One that is away is
// asked again later; until then Traits promise the least. Open fails with a
// *URLError, or with a *RefusedError when a daemon does not lend its store, or not to
// this program.
func Open(address string, o Options) (*Store, error) {
	return openBy(lookUps{net.DefaultResolver, lookUpEvery}, address, o)
}

// openBy is Open with look-ups of the caller's. A name that can't be looked up yet is no fault: the place
// of the URL itself then stands for one daemon, which gRPC finds by its own resolver, until a look-up
// succeeds. Where Open fails, no connection stays.
func openBy(names lookUps, address string, o Options) (*Store, error) {
	places, err := parse(address)
	if err != nil {
		return nil, err
	}
	s := &Store{names: names, changed: o.Changed}
	if s.changed == nil {
		s.changed = func(string, error) {}
	}
	if places[0].each {
		s.place = places[0]
		if found, err := s.lookUp(context.Background()); err == nil {
			places = found
		}
	}
	first, cancel := context.WithTimeout(context.Background(), firstContact)
	defer cancel()
	all, err := s.dial(places, nil)
	if err == nil {
		err = meet(first, all)
	}
	if err != nil {
		return nil, errors.Join(err, closeAll(all))
	}
	s.arrange(first, all)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.watching.Go(func() { s.watch(ctx) })
	return s, nil
}

// Close tells the daemons what fallbacks and sync let pass and they have not heard yet,
// within 5 s. For that it looks once more for daemons that are away. Usage that a daemon did not
// hear of then is lost: Close says of how many keys, and fails with weir.ErrAway. It waits for calls
// on their way, and closes the connections.
//
// The order matters. The watcher ends first, so that the arrangement is the last one. Then this and those
// before it tell their daemons the rest, and only then the connections close, which they all need for
// that. Takes that come later fall back, and other calls fail. A second Close fails, for the connections
// are closed.
func (s *Store) Close() error {
	s.stop()
	s.watching.Wait()
	is := s.current.Load()
	err := is.Close()
	s.leaving.Wait()
	return errors.Join(err, closeAll(append(s.gone, is.daemons.all...)))
}

// Take decides the asks by the daemon, by their Sync, or by their fallbacks. It fails only when ctx
// was cancelled, or when the asks are not meant.
func (s *Store) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	return s.current.Load().Take(ctx, asks, out)
}

// TakeOneWith is Take of one ask.
func (s *Store) TakeOneWith(ctx context.Context, p *weir.Policy, key weir.StateKey, l *weir.Limit, cost int64) (weir.Decision, error) {
	return s.current.Load().TakeOneWith(ctx, p, key, l, cost)
}

// Settle settles receipts of one take where they were made. It has no fallback: while the daemon that made
// one is away, it fails with weir.ErrAway, and may be called again.
func (s *Store) Settle(ctx context.Context, settlements []weir.Settlement) error {
	return s.current.Load().Settle(ctx, settlements)
}

// Reset forgets what was used of the keys, at the daemon and here. Other programs see that when the denials
// that they remember are over. Like Settle, it has no fallback.
func (s *Store) Reset(ctx context.Context, keys []weir.StateKey) error {
	return s.current.Load().Reset(ctx, keys)
}

// Traits are those of the daemon's store, but that its counts are shared. They may change while the store is
// open, as daemons are heard for the first time or others take their place. All asks
// of a take are decided at one moment only where there is one daemon, or one store
// behind all.
func (s *Store) Traits() weir.Traits { return s.current.Load().Traits() }

// Stats are counts of a store since it was opened; Missed, Fallbacks and
// Local since its daemons were last others.
type Stats struct {
	Takes      int64 // takes that were sent
	Messages   int64 // messages that carried them
	Remembered int64 // takes denied by what was remembered, without a daemon; not among Takes
	Away       int   // daemons that are away
	Missed     int64 // calls that paid for the whole deadline
	Fallbacks  int64 // limits that fallbacks decided
	Local      int64 // takes with sync that were decided without a daemon
}

// Stats are the store's counts.
func (s *Store) Stats() Stats {
	is := s.current.Load()
	of := is.Stats()
	if is.daemons.shared {
		of.Away = is.daemons.away()
	}
	return Stats{
		Takes: s.counts.takes.Load(), Messages: s.counts.messages.Load(), Remembered: s.counts.remembered.Load() + is.daemons.denials.Answered(),
		Away: of.Away, Missed: of.Missed, Fallbacks: of.Fallbacks, Local: of.Local,
	}
}

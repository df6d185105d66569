// Package client asks the store of a daemon, so that programs share counts without
// a database: a Store is a weir.Store, and moving from memory to a daemon changes
// one line. The daemon lends its store with weir serve --grpc-store.
//
// Limits are the program's, and stay so: the daemon's rules have no part in what is
// asked here, and counts of programs never mix with those of its rules. Programs
// that ask for the same StateKey share its count.
//
// A guard stands before the daemon: calls have a deadline, a daemon that does not
// answer is not asked for a while, and meanwhile the Fallback of each ask decides,
// which Decision.Degraded then names.
//
// Of several daemons each has the counts whose rule and key fall to it. While one is
// away, fallbacks decide these: no other daemon takes them over, for it would know
// nothing of what was used, and both would count when some programs still reach the
// first.
package client

import (
	"context"
	"errors"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
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
	// (away is nil), from the call that noticed. daemon is empty where there is one.
	// Nil: nobody is told.
	Changed func(daemon string, away error)
}

// Store is a weir.Store of daemons. It must be made by Open. Its methods may be
// called from many goroutines.
type Store struct {
	guard   *guard.Guard
	daemons *daemons
}

// Open makes a store of a URL, which is one of
//
//	grpc://HOST:PORT,…            daemons, without TLS
//	grpcs://HOST:PORT,…           with TLS
//	grpc+unix:///path/of/socket   one on this machine
//
// and may end in ?token-file=FILE, whose first line is shown to daemons that ask for
// a token, and in grpcs also ca=, cert= and key=, which name PEM files. All are read
// once. A token goes over TLS, to loopback and to sockets only.
//
// Open waits up to a second to hear what the daemons promise. One that is away is
// asked again later; until then Traits promise the least. Open fails with a
// *URLError, or with a *RefusedError when a daemon does not lend its store, or not to
// this program.
func Open(address string, o Options) (*Store, error) {
	places, err := parse(address)
	if err != nil {
		return nil, err
	}
	s := new(daemons)
	for _, p := range places {
		d, err := dial(p, &s.limits)
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		s.all = append(s.all, d)
	}
	if err := s.meet(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	g := guard.New(s, guard.Options{Changed: o.Changed})
	g.Contact(context.Background(), s.ping)
	return &Store{g, s}, nil
}

// Close waits for calls on their way, and closes the connections.
func (s *Store) Close() error { return s.daemons.close() }

// Take decides the asks by the daemon, or by their fallbacks. It fails only when ctx
// was cancelled, or when the asks are not meant.
func (s *Store) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	return s.guard.Take(ctx, asks, out)
}

// Settle settles receipts of one take where they were made.
func (s *Store) Settle(ctx context.Context, settlements []weir.Settlement) error {
	return s.guard.Settle(ctx, settlements)
}

// Reset forgets what was used of the keys, at the daemon and here.
func (s *Store) Reset(ctx context.Context, keys []weir.StateKey) error {
	return s.guard.Reset(ctx, keys)
}

// Traits are those of the daemon's store, but that its counts are shared. All asks
// of a take are decided at one moment only where there is one daemon.
func (s *Store) Traits() weir.Traits { return s.guard.Traits() }

// Stats are counts of a store since it was opened.
type Stats struct {
	Takes     int64 // takes that were sent
	Messages  int64 // messages that carried them
	Away      int   // daemons that are away
	Missed    int64 // calls that paid for the whole deadline
	Fallbacks int64 // limits that fallbacks decided
}

// Stats are the store's counts.
func (s *Store) Stats() Stats {
	g := s.guard.Stats()
	all := Stats{Away: g.Away, Missed: g.Missed, Fallbacks: g.Local + g.Open + g.Closed}
	for _, d := range s.daemons.all {
		all.Takes += d.takes.Load()
		all.Messages += d.messages.Load()
	}
	return all
}

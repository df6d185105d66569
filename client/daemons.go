package client

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/internal/storewire"
)

// maxUnfit is of how many limits is remembered why they can't be kept; then all are
// asked about anew. A program has a limit for each rule, so few come near it.
const maxUnfit = 1 << 12

// daemons is the store without the edge: it fails when a daemon can't be asked.
//
// Its daemons, and whether they share a store, never change: watch makes another one when they do. So the
// daemon of a key is a pure function where the counts are in memories, and all programs with the same
// daemons come to the same one. The edge passes asks of one server at a time.
type daemons struct {
	all    []*daemon
	shared bool // they share a store: any of them decides
	// order is all in an order of this program's own, where they share a store: the first that is
	// not away is asked. Else it is nil, and the key alone says which daemon is asked.
	order []*daemon
	// denials are remembered by the store's clock (now). A settlement or a reset by this program
	// makes it forget the key, also one that failed: it may have been done all the same.
	denials *record.Denials
	told    func(daemon string, away error) // where they share a store
	now     func(*daemon) weir.Instant      // tests have a time of their own

	mu    sync.Mutex        // of unfit and unheard; not held while a daemon is asked
	unfit map[string]string // by limit, why it can't be kept; empty: it can
	// unheard is when a daemon was last asked about a limit, and did not answer.
	unheard time.Time
}

func newDaemons(all []*daemon, told func(string, error)) *daemons {
	s := &daemons{all: all, shared: oneStore(all), denials: record.NewDenials(), told: told, now: (*daemon).now}
	if s.shared {
		s.order = inAnyOrder(all)
	}
	return s
}

// Servers are the daemons, for the edge. To it, those that share a store are one.
func (s *daemons) Servers() []string {
	if s.shared {
		return []string{""}
	}
	names := make([]string, len(s.all))
	for i, d := range s.all {
		names[i] = d.name
	}
	return names
}

// ServerOf is the daemon that has a count, by rendezvous hashing: of all, the one with
// the highest record.Score. So when a daemon comes or goes, only keys move that are its own. Scores are by
// name: programs that name a daemon differently count at different ones.
func (s *daemons) ServerOf(k weir.StateKey) int {
	best, most := 0, uint64(0)
	for i, d := range s.all {
		if s.shared || len(s.all) == 1 {
			break
		}
		if sum := record.Score(d.name, k); sum > most {
			best, most = i, sum
		}
	}
	return best
}

// of is the daemon to ask for a count.
func (s *daemons) of(k weir.StateKey) *daemon {
	if s.shared {
		return s.chosen()
	}
	return s.all[s.ServerOf(k)]
}

// Take decides asks of one daemon. A remembered denial answers at once, and no daemon hears of it. Nothing
// is tried at another daemon: the call may have been a charge, and the edge falls back.
func (s *daemons) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fits := func(*weir.Limit) string { return "" } // the daemon knows
	if err := record.Check("client", fits, asks, out); err != nil || len(asks) == 0 {
		return err
	}
	if s.TakeLocally(asks, out) {
		return nil
	}
	d := s.of(asks[0].State)
	seen, err := d.take(ctx, asks, out)
	if s.heard(d, err) != nil {
		return err
	}
	s.learn(asks, out, seen)
	return nil
}

// TakeLocally decides asks that a remembered denial denies, as Take would, and says no
// to all others.
func (s *daemons) TakeLocally(asks []weir.Ask, out []weir.Decision) bool {
	if len(asks) == 0 || len(asks) != len(out) {
		return false
	}
	d := s.of(asks[0].State)
	for i := 1; !s.shared && i < len(asks); i++ {
		if s.of(asks[i].State) != d {
			return false // each has a clock of its own
		}
	}
	return s.denials.Answer(s.now(d), asks, out)
}

// learn remembers a denial, forgets what was remembered of all else, and hands on what the
// daemon has told of the counts. A state of the wrong length comes from a daemon that reads the limit
// differently: nothing is learned from such an answer, not even of the other asks.
func (s *daemons) learn(asks []weir.Ask, out []weir.Decision, seen sight) {
	told := len(seen.states) == len(asks)
	for i := 0; told && i < len(asks); i++ {
		n, has := asks[i].Limit.Words(), len(seen.states[i])
		told = n == 0 || has == 0 || has == n // else it is not a state of this limit
	}
	if told {
		for i := range asks {
			asks[i].Evidence.Tell(seen.now, seen.states[i])
		}
		s.denials.Learn(seen.now, asks, seen.states, out)
		return
	}
	for i := range asks {
		s.denials.Forget(asks[i].State)
	}
}

// Settle settles receipts of one daemon. The denials of their keys are forgotten when the answer has come
// or failed to, for it may give events back; sooner would let a take in between remember one again.
func (s *daemons) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if err := ctx.Err(); err != nil || len(settlements) == 0 {
		return err
	}
	for i := range settlements {
		defer s.denials.Forget(settlements[i].Receipt.State)
	}
	d := s.of(settlements[0].Receipt.State)
	r := storewire.SettleResponse{Settlements: settlements}
	err := d.call(ctx, storewire.Settle, &storewire.SettleRequest{Settlements: settlements}, &r)
	return s.heard(d, errors.Join(err, r.Err))
}

// Reset forgets what was used of keys of one daemon.
func (s *daemons) Reset(ctx context.Context, keys []weir.StateKey) error {
	if err := ctx.Err(); err != nil || len(keys) == 0 {
		return err
	}
	for _, k := range keys {
		defer s.denials.Forget(k)
	}
	d := s.of(keys[0])
	return s.heard(d, d.do(ctx, storewire.Reset, &storewire.ResetRequest{Keys: keys}))
}

// Traits are what all daemons promise. A daemon that has not answered yet promises nothing, unless
// other daemons have said that they share its store.
func (s *daemons) Traits() weir.Traits {
	t := weir.Traits{Shared: true, Atomic: s.shared || len(s.all) == 1, OwnClock: true, Unfit: s.unfits}
	for _, d := range s.all {
		of := d.traits.Load()
		switch {
		case of == nil && s.shared:
			continue
		case of == nil:
			of = &weir.Traits{}
		}
		t.Atomic = t.Atomic && of.Atomic
		// A daemon with its store in memory counts by one clock, its own.
		t.OwnClock = t.OwnClock && (of.OwnClock || !of.Shared)
		t.Forgets = t.Forgets || of.Forgets
	}
	return t
}

// unfits asks a daemon why it can't keep a limit. While it is away, it is not known;
// takes are then refused when it is back. The limits of many rules wait for such a daemon
// once, and not each by itself.
//
// All daemons of a URL are taken to keep the same limits, so it asks one. The caller is a constructor, so
// it may wait firstContact, but no longer.
func (s *daemons) unfits(l *weir.Limit) string {
	s.mu.Lock()
	why, known := s.unfit[l.String()]
	known = known || time.Since(s.unheard) < firstContact
	s.mu.Unlock()
	if known {
		return why
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstContact)
	defer cancel()
	answer, err := s.of(weir.StateKey{}).describe(ctx, l.String())
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.unheard = time.Now()
		return ""
	}
	if s.unfit == nil || len(s.unfit) >= maxUnfit {
		s.unfit = map[string]string{}
	}
	s.unfit[l.String()] = answer[0]
	return answer[0]
}

// Ping asks a daemon whether it is there, and what it promises. It takes note of one that can't be
// reached. That one is late, or is back, only takes say: a daemon whose store is away answers this,
// too. Each answer brings the daemon's traits up to date.
func (s *daemons) Ping(ctx context.Context, server int) error {
	d := s.all[server]
	if s.shared {
		d = s.chosen()
	}
	_, err := d.describe(ctx)
	if errors.Is(err, weir.ErrAway) {
		return s.heard(d, err)
	}
	return err
}

// Close leaves the connections to the Store: of daemons that are others now, some may be the same.
func (s *daemons) Close() error { return nil }

package client

import (
	"context"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/internal/storewire"
)

// maxLimits is how many limits are remembered by their text; then all are read anew.
const maxLimits = 1 << 12

// limits remembers limits by their text.
type limits struct {
	mu   sync.Mutex
	seen map[string]*weir.Limit
}

func (l *limits) get(text string) (*weir.Limit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.seen[text]; known != nil {
		return known, nil
	}
	limit, err := weir.ParseLimit(text)
	if err != nil {
		return nil, err
	}
	if l.seen == nil || len(l.seen) >= maxLimits {
		l.seen = map[string]*weir.Limit{}
	}
	l.seen[text] = limit
	return limit, nil
}

// daemons is the store without a guard: it fails when a daemon can't be asked.
type daemons struct {
	all    []*daemon
	limits limits

	mu    sync.Mutex
	unfit map[string]string // by limit, why it can't be kept
}

// Servers are the daemons, for the guard.
func (s *daemons) Servers() []string {
	names := make([]string, len(s.all))
	for i, d := range s.all {
		names[i] = d.name
	}
	return names
}

// ServerOf is the daemon that has a count, by rendezvous hashing: of all, the one
// whose name and the count's make the largest hash. All programs agree on it, in
// whichever order they name the daemons.
func (s *daemons) ServerOf(k weir.StateKey) int {
	best, most := 0, uint64(0)
	for i, d := range s.all {
		if len(s.all) == 1 {
			break
		}
		h := fnv.New64a()
		for _, part := range [...]string{d.name, "\x00", k.Placement(), "\x00", k.Key} {
			_, _ = h.Write([]byte(part)) // it never fails
		}
		if sum := mix(h.Sum64()); sum > most {
			best, most = i, sum
		}
	}
	return best
}

// mix spreads every bit of x over all: FNV leaves the upper ones of short names much
// alike. The constants are those of MurmurHash3's last step.
func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

func (s *daemons) of(k weir.StateKey) *daemon { return s.all[s.ServerOf(k)] }

// Take decides asks of one daemon.
func (s *daemons) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fits := func(*weir.Limit) string { return "" } // the daemon knows
	if err := record.Check("client", fits, asks, out); err != nil || len(asks) == 0 {
		return err
	}
	return s.of(asks[0].State).take(ctx, asks, out)
}

// Settle settles receipts of one daemon.
func (s *daemons) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if err := ctx.Err(); err != nil || len(settlements) == 0 {
		return err
	}
	return s.of(settlements[0].Receipt.State).do(ctx, storewire.Settle, &storewire.SettleRequest{Settlements: settlements})
}

// Reset forgets what was used of keys of one daemon.
func (s *daemons) Reset(ctx context.Context, keys []weir.StateKey) error {
	if err := ctx.Err(); err != nil || len(keys) == 0 {
		return err
	}
	return s.of(keys[0]).do(ctx, storewire.Reset, &storewire.ResetRequest{Keys: keys})
}

// Traits are what all daemons promise. Of one that has not been heard, nothing is
// taken for granted.
func (s *daemons) Traits() weir.Traits {
	t := weir.Traits{Shared: true, Atomic: len(s.all) == 1, OwnClock: true, Unfit: s.unfits}
	for _, d := range s.all {
		of := d.traits.Load()
		if of == nil {
			of = &weir.Traits{}
		}
		t.Atomic = t.Atomic && of.Atomic
		// What one daemon has in memory is counted by one clock, its own.
		t.OwnClock = t.OwnClock && (of.OwnClock || !of.Shared)
		t.Forgets = t.Forgets || of.Forgets
	}
	return t
}

// unfits asks a daemon why it can't keep a limit. While it is away, it is not known;
// takes are then refused when it is back.
func (s *daemons) unfits(l *weir.Limit) string {
	s.mu.Lock()
	why, known := s.unfit[l.String()]
	s.mu.Unlock()
	if known {
		return why
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstContact)
	defer cancel()
	answer, err := s.all[0].describe(ctx, l.String())
	if err != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unfit == nil || len(s.unfit) >= maxLimits {
		s.unfit = map[string]string{}
	}
	s.unfit[l.String()] = answer[0]
	return answer[0]
}

// ping asks a daemon whether it is there, and what it promises.
func (s *daemons) ping(ctx context.Context, server int) error {
	_, err := s.all[server].describe(ctx)
	return err
}

// firstContact is how long Open waits for daemons, and how long one may take to say
// whether it can keep a limit.
const firstContact = time.Second

// meet asks all daemons what they promise. It fails when one refuses.
func (s *daemons) meet() error {
	ctx, cancel := context.WithTimeout(context.Background(), firstContact)
	defer cancel()
	errs := make([]error, len(s.all))
	var wg sync.WaitGroup
	for i := range s.all {
		wg.Go(func() {
			if refused, ok := errors.AsType[*RefusedError](s.ping(ctx, i)); ok {
				errs[i] = refused
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *daemons) close() error {
	var errs []error
	for _, d := range s.all {
		d.lane.flights.Wait()
		errs = append(errs, d.conn.Close())
	}
	return errors.Join(errs...)
}

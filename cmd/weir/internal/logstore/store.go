// Package logstore is a weir.Store whose counts are shared through an event log, a topic of Kafka or a
// stream of NATS JetStream.
//
// Each process decides by itself, by the sum of what all processes have let pass: it appends to the
// log how many events of a key it has let pass in all, and reads what the others append. So a decision
// waits for nobody, the counts survive the loss of all processes, and more than the limit passes by
// what the processes don't know of each other yet: that grows with the lag of the log. The lag is
// measured by beats that each process appends and reads back. When it is too long, takes fail with
// weir.ErrAway, and the fallback of the rule decides.
//
// store.go decides, by a counter.Replica under one lock; append.go appends; read.go reads, and
// knows the lag; open.go opens a log; log.go says what a log must do, kafka.go does it by a topic of
// Kafka, nats.go and natsreader.go by a stream; examine.go looks at a log for weir doctor.
package logstore

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/cluster"
	"github.com/weir-limit/weir/internal/cluster/bounds"
	"github.com/weir-limit/weir/internal/cluster/counter"
	"github.com/weir-limit/weir/internal/record"
)

// The bounds of a store.
const (
	// MaxKeys is how many keys a process keeps. Newcomers beyond are denied until an old one is as
	// never used.
	MaxKeys = 1 << 18
	// maxResets is how many keys that were reset wait to be appended; more resets fail.
	maxResets = 1 << 12
	// reachTimeout is how long Caught waits for a log that can't be opened.
	reachTimeout = 3 * time.Second
	// closeTimeout is how long Close waits until all is appended.
	closeTimeout = 5 * time.Second
)

// Store is one process at the log. It must be made by Dial, started once, and closed. Its methods may
// be called from many goroutines.
type Store struct {
	place       *place
	incarnation uint64
	now         func() weir.Instant
	began       time.Time // of beats
	seed        maphash.Seed
	log         atomic.Pointer[opened] // nil before it is open
	said        *slog.Logger           // of Start

	mu      sync.Mutex
	replica *counter.Replica
	once    record.Once
	resets  []counter.Entry // to be appended
	telling sync.Mutex      // held to append: entries of a key stay in order

	receipts record.Receipts
	reading  reading
	counts   counts
	inFlight atomic.Int64
	wake     chan struct{}
	caught   chan struct{} // closed when all from before the start was read, for the
	first    sync.Once     // time
	stop     context.CancelFunc
	running  sync.WaitGroup
}

type counts struct{ appended, refused, read, foreign, newer, lost atomic.Int64 }

// Dial makes a store of a URL, kafka://[USER:PASSWORD@]HOST:PORT[,…]/TOPIC[?node=NAME] or
// nats://[USER:PASSWORD@]HOST[:PORT][,…]?log=STREAM[&node=NAME], and connects to nobody.
func Dial(url string) (*Store, error) {
	place, err := placeOf(url)
	if err != nil {
		return nil, fmt.Errorf("logstore: %w", err)
	}
	s := &Store{
		place: place, incarnation: uint64(time.Now().UnixMicro()), began: time.Now(), seed: maphash.MakeSeed(),
		now:  func() weir.Instant { return weir.InstantOf(time.Now()) },
		wake: make(chan struct{}, 1), caught: make(chan struct{}), stop: func() {},
	}
	s.replica, err = counter.New(s.now(), counter.Settings{
		Name: place.node, Incarnation: s.incarnation, Sharing: bounds.Log, Keys: MaxKeys,
	})
	if err != nil {
		return nil, fmt.Errorf("logstore: %w", err)
	}
	s.reading.fail(errNotOpen)
	return s, nil
}

// Unfit says why counts of l can't be shared by a log, and what to take instead.
func Unfit(l *weir.Limit) string { return bounds.Unfit(bounds.Log, l, 0) }

// TraitsOf are those of all stores of this package.
func TraitsOf() weir.Traits {
	return weir.Traits{Shared: true, Atomic: true, Late: true, Evidence: true, Unfit: Unfit}
}

// Traits are TraitsOf, before an edge is around it.
func (s *Store) Traits() weir.Traits {
	t := TraitsOf()
	t.Bare = true
	return t
}

// Start begins to read the log, from as long ago as an event of the rules may be in use, and then to
// decide. back is at most bounds.LogBack. The log is told what an operator should know of the topic.
func (s *Store) Start(back time.Duration, log *slog.Logger) {
	s.said = log
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.running.Go(func() { s.read(ctx, min(back, bounds.LogBack)) })
	s.running.Go(func() { s.append(ctx) })
}

// Caught waits until all that was in the log at the start has been read. It fails when ctx ends first, or
// when the log can't be opened for so long that there is no use in waiting, with what keeps the store from it.
func (s *Store) Caught(ctx context.Context) error {
	patience := time.NewTimer(reachTimeout)
	defer patience.Stop()
	for {
		select {
		case <-s.caught:
			return nil
		case <-patience.C:
			if s.log.Load() == nil {
				return s.away()
			}
		case <-ctx.Done():
			return s.away()
		}
	}
}

// Close appends what others are to know, within 5 s, and ends the store.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.flush(ctx)
	s.stop()
	s.running.Wait()
	return err
}

// Ping is whether the store decides.
func (s *Store) Ping(context.Context, int) error { return s.away() }

// away is why the store does not decide; nil: it does.
func (s *Store) away() error {
	if err := s.reading.trouble(s.age()); err != nil {
		return fmt.Errorf("logstore: %w: %w", err, weir.ErrAway)
	}
	return nil
}

// age is how long the process lives: the time of beats, which nobody sets.
func (s *Store) age() time.Duration { return time.Since(s.began) }

// Take decides the asks together, by what is known of all processes. The evidence of a denial is what
// this process knew.
func (s *Store) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := record.Check("logstore", Unfit, asks, out); err != nil || len(asks) == 0 {
		return err
	}
	if err := s.away(); err != nil {
		return err
	}
	now := s.now()
	if err := s.receipts.Room(now, asks); err != nil {
		return err
	}
	known := make([]weir.Ask, len(asks))
	for i := range asks {
		known[i] = asks[i]
		known[i].State, known[i].Evidence = cluster.Text(asks[i].State), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id, once := record.OnceID{}, asks[0].ChargesOnce()
	if once {
		id = record.OnceID{ID: asks[0].Receipt, Place: maphash.Comparable(s.seed, record.Place(asks[0].State))}
		if again, err := s.once.Answered(now, id, out); again || err != nil {
			return err
		}
	}
	before := s.looked(now, asks, known)
	s.replica.Take(now, known, out)
	if before != nil && weir.WantsEvidence(asks, weir.Resolve(asks, slices.Clone(out))) {
		for i := range asks {
			asks[i].Evidence.Tell(now, before[i])
		}
	}
	for i := range out {
		record.Own(&out[i], &asks[i])
	}
	if once {
		s.once.Remember(id, out)
	}
	s.hurry()
	return nil
}

// looked is what evidence of asks may tell, by the keys that are known; nil: none is wanted. s.mu is held.
func (s *Store) looked(now weir.Instant, asks, known []weir.Ask) []weir.State {
	if !weir.WantsEvidence(asks, false) {
		return nil
	}
	states := make([]weir.State, len(known))
	for i := range known {
		states[i] = s.replica.Look(now, known[i].Limit, known[i].State)
	}
	return states
}

// Settle settles receipts of one take, once. Other processes hear of events used beyond what was charged,
// and not of those given back.
func (s *Store) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := record.NoRefunds(settlements); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if err := s.receipts.Settle(now, settlements); err != nil {
		return err
	}
	done, failed := false, error(nil)
	for i, st := range settlements {
		receipt := *st.Receipt
		receipt.State = cluster.Text(receipt.State)
		st.Receipt = &receipt
		if err := s.replica.Settle(now, &st); err != nil {
			failed = cmp.Or(failed, err)
		} else {
			done, settlements[i].Charged = true, st.Charged
		}
	}
	s.hurry()
	if done {
		return nil
	}
	return failed
}

// Reset forgets what was used, here and at all that read the log.
func (s *Store) Reset(ctx context.Context, keys []weir.StateKey) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.resets)+len(keys) > maxResets {
		return fmt.Errorf("logstore: too many resets wait for the log: %w", weir.ErrAway)
	}
	for _, k := range keys {
		s.resets = append(s.resets, s.replica.Forget(s.now(), cluster.Text(k)))
	}
	s.hurry()
	return nil
}

// Look is the states of asks, as this process knows them.
func (s *Store) Look(_ context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, states := s.now(), make([]weir.State, len(asks))
	for i := range asks {
		states[i] = s.replica.Look(now, asks[i].Limit, cluster.Text(asks[i].State))
	}
	return now, states, nil
}

// Stats are counts of a store since it was made, and how it stands.
type Stats struct {
	Lag      time.Duration // from an event until it is read back, of the slowest partition
	Behind   int64         // messages in the log that were not read yet
	Waiting  int           // keys that are to be appended
	InFlight int64         // messages that were sent to the log, and are not acknowledged
	Appended int64         // messages that were
	Refused  int64         // messages that the log did not take
	Read     int64         // messages
	News     int64         // counts of other processes that were news
	Foreign  int64         // messages that are none of Weir's
	Newer    int64         // messages of a later version of Weir
	Lost     int64         // messages that were deleted before they were read
	Dropped  int64         // counts that were not kept, because of a bound
	Keys     int           // kept now
}

// Stats are the store's counts.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	r := s.replica.Stats()
	resets := len(s.resets)
	s.mu.Unlock()
	c := &s.counts
	return Stats{
		Lag: s.reading.lag(s.age()), Behind: s.reading.behind(), Waiting: r.Waiting + resets, InFlight: s.inFlight.Load(),
		Appended: c.appended.Load(), Refused: c.refused.Load(), Read: c.read.Load(), News: r.Heard,
		Foreign: c.foreign.Load(), Newer: c.newer.Load(), Lost: c.lost.Load(), Dropped: r.Dropped, Keys: r.Keys,
	}
}

// Package redisstore keeps the states of limits in Redis, so that many processes
// share one count. A script decides there, by the server's clock, exactly as
// package weir does; all that a decision tells beside its outcome is worked out
// here, by the same pure functions, from the state that the script has seen.
//
// Takes that wait while a script runs travel together in the next one; a lone caller waits for no
// other. Every key expires by itself as soon as it says no more than its absence would. A failover
// of Redis may lose the last charges before it; nothing else passes more than the limit.
//
// Open puts the edge around the store that a URL names: see package edge. A Store of Dial or
// New is without it. Its calls take the time of their context, and 2 s at most; while
// Redis is away they fail, and Ask.Policy has no effect.
//
// Why no limit is passed: Redis runs one script at a time, and each script that decides also writes
// what it has decided. So no other process can write between the look at a count and its charge.
// Where Go decides instead, swap.lua writes only if all keys still hold what Go has looked at.
//
// Redis can lose counts: a server without a disk or a replica forgets all counts at a restart.
// A primary answers before its replicas have the write, so a failover loses the charges of the last
// moments; and a key whose write was lost may pass as much again, once. Receipts fare alike: one
// whose note was lost could give back twice what it charged, but never more than the count holds.
// Denials that processes remember do not depend on the server: they end by themselves after a
// second.
//
// In the code, take.lua decides any number of takes in one call, and pace.lua the plain
// ones of buckets at a third of the cost; package lane makes takes travel together. The scripts
// say only whether a limit allows, and the state before: all else is worked out in Go, and
// a difference is counted. A take that no script decides (rare) is decided in Go from the states,
// and swapped in (swap.lua). examine.go and judge.go are weir doctor.
package redisstore

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/lane"
	"github.com/weir-limit/weir/internal/record"
)

//go:embed take.lua
var takeScript string

//go:embed pace.lua
var paceScript string

//go:embed swap.lua
var swapScript string

// DefaultPrefix is what the names of all keys begin with when Options say
// nothing.
const DefaultPrefix = "weir:"

// Options of a store.
type Options struct {
	// Prefix is what the names of all keys begin with. Empty: DefaultPrefix. It
	// must have no braces.
	Prefix string
	// Cluster says that the client talks to a Redis Cluster: counts of different
	// descriptors are then decided one after the other.
	Cluster bool
}

// Store is a weir.Store in Redis. It must be made by New or Dial. Its methods may be
// called from many goroutines.
//
// Nothing in it is a count of a limit: those are in Redis, and a process that starts
// anew has lost none.
//
// Goroutines: a Store of New has none of its own while nobody calls. A Store of Dial has one,
// which connects (link). Beside them each lane has up to two while calls are on their way. Close
// waits for all of these. Callers work on their own goroutines before and after a call: they write
// asks down, and make decisions of answers, beside each other and without a lock.
//
// All fields are set before the first call and never change, or are safe for many goroutines by
// themselves: they are atomics, or have a lock of their own. No lock is held while Redis is asked.
type Store struct {
	// Either client or link is set, and does not change. With a link there may be no connection
	// yet: exec asks it for the client of the moment.
	client rueidis.Client
	link   *link  // for a store that Dial made
	prefix string // of the names of all keys
	// cluster says that only keys of one placement are decided in one call: the braces in their
	// names put these on one node, and no others. A script of keys of two nodes would be refused.
	cluster bool
	// takers are take.lua with only the parts for the limits of a call, by the kinds of
	// limits that it knows, a bit each; nil: not made yet.
	//
	// The first call that needs one fills it in: see taker.
	takers  [1 << (kindPermits + 1)]atomic.Pointer[script]
	pacer   *script // pace.lua
	swapper *script // swap.lua
	general bool    // take.lua decides all; for tests
	odd     *odd    // keys that pace.lua left alone
	// now is what scripts take for the time. Empty: the server's own, which is how every store but
	// those of tests works. So all processes decide by one clock, and none has to have a right one.
	now string

	plans plans
	// skew is the server's clock less ours, in microseconds, as of the last answer. It
	// dates what is decided here by denials; the server alone dates what it decides.
	skew atomic.Int64
	// lane and paced carry takes to Redis, as many as meet. A call is in one of the lanes, by the
	// script that decides it. The order between takes of two lanes is that in which Redis runs
	// their scripts: none of the two is decided over a state that misses the other's charge.
	//
	// On a Cluster only Run of a lane is used: each call goes by itself to the node of its keys,
	// and rueidis puts calls to one node into one pipeline.
	lane  lane.Lane[*call] // of take.lua
	paced lane.Lane[*call] // of pace.lua
	// denials remember denied takes for record.DenialLife, and answer those like them. Other
	// processes can only have used more meanwhile, so this never lets pass what Redis would deny.
	//
	// A denial is dated by the server's clock, as serverNow guesses it. Where the guess is behind
	// the date of a denial, or DenialLife past it, the server is asked. A wrong guess so costs a
	// trip, or keeps a denial longer by as much as the guess is wrong.
	denials *record.Denials
	// receipts are those that this process has settled: how many they are bounds how
	// many keys they take. That each works once is for Redis to see to, by a key of its own.
	//
	// They are counted here, and Room refuses takes that want one more receipt of a rule with too
	// many.
	receipts record.Receipts
	// given is for Reset alone. A failover may bring a server whose clock is behind; a reset by
	// that clock must still end the receipts that this process got before.
	given  record.Latest // when this process got its last receipt, on the server's clock
	counts counts
}

// counts are what Stats tells. They say nothing that a decision depends on.
type counts struct {
	calls, takes, disagreed, adopted, tries, busy atomic.Int64
}

// New makes a store of a client, which stays the caller's to close. The client
// must not retry by itself: an answer that was lost may have been a charge.
func New(client rueidis.Client, o Options) *Store {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	// The scripts are hashed once here. Nothing is sent: a server that is away is noticed by the
	// first call.
	s := &Store{
		client: client, prefix: o.Prefix, cluster: o.Cluster,
		denials: record.NewDenials(), odd: newOdd(),
		pacer: newScript(paceScript), swapper: newScript(swapScript),
	}
	begin(&s.lane, s.run)
	begin(&s.paced, s.runPaced)
	return s
}

// Traits are TraitsOf what the store talks to, without the edge.
func (s *Store) Traits() weir.Traits {
	t := TraitsOf(s.cluster)
	t.Bare = true
	return t
}

// TraitsOf are those of a store of Open in Redis, or in a Redis Cluster: one clock for
// all; all asks of a take at one moment, but on a Cluster only those of a
// descriptor.
func TraitsOf(cluster bool) weir.Traits {
	// Forgets is not among them: a server that evicts is set up wrongly, and weir doctor says so.
	return weir.Traits{Shared: true, Atomic: !cluster, OwnClock: true, Evidence: true, Unfit: unfit}
}

func unfit(l *weir.Limit) string {
	if l.Algorithm() == weir.WarmUp {
		return "warm-up works in memory only; take leaky-queue, or keep counts with memory:"
	}
	return ""
}

// Ping asks the server whether it is there. It has one number, for package edge.
func (s *Store) Ping(ctx context.Context, _ int) error {
	_, _, err := s.Look(ctx, nil)
	return err
}

// Stats are counts of a store since it was made.
type Stats struct {
	Takes      int64 // takes that were sent
	Calls      int64 // script calls that carried them
	Disagreed  int64 // decisions that the script and package weir saw differently: each is a bug
	Adopted    int64 // counts that changed their limit
	Tries      int64 // swaps that found the count changed by others
	Busy       int64 // takes given up with weir.ErrBusy
	Remembered int64 // takes denied by what was remembered, without Redis
	Settled    int   // receipts that were settled here and have not expired
	Refused    int64 // takes that were refused a receipt, since too many of a rule were settled
}

// Stats are the store's counts.
func (s *Store) Stats() Stats {
	c := &s.counts
	settled, refused := s.receipts.Count()
	return Stats{
		c.takes.Load(), c.calls.Load(), c.disagreed.Load(), c.adopted.Load(), c.tries.Load(), c.busy.Load(), s.denials.Answered(),
		settled, refused,
	}
}

// exec runs a script; apart is as in script.exec.
func (s *Store) exec(ctx context.Context, script *script, apart bool, keys, args []string) ([]string, error) {
	client := s.client
	if s.link != nil {
		var err error
		if client, err = s.link.get(ctx); err != nil {
			return nil, explain(err)
		}
	}
	// The context's end is told apart from the server's errors: by then the command was sent, or
	// stood in the queue of a connection, and nobody knows which. So the error says that it may
	// have been a charge.
	answer, err := script.exec(ctx, client, apart, keys, args).AsStrSlice()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("redisstore: the answer did not come in time, and may have been a charge: %w", err)
	case err != nil:
		return nil, explain(err)
	}
	return answer, nil
}

// Take decides the asks by the server's clock. On a Cluster it fills in no evidence of
// takes that several nodes decide.
func (s *Store) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := record.Check("redisstore", unfit, asks, out); err != nil || len(asks) == 0 {
		return err
	}
	// Denials are asked before the room for receipts: a take that is denied gets no receipt.
	if s.TakeLocally(asks, out) {
		return nil
	}
	if err := s.receipts.Room(s.serverNow(), asks); err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	s.counts.takes.Add(1)
	if s.cluster && record.Groups(asks) {
		// The counts of a placement and key are on one node, and no script reaches two nodes.
		// Apart looks at all parts first, charges one after the other, and settles what it has
		// charged to nothing where a later part denies.
		apart := record.Apart{
			Take:   func(asks []weir.Ask, out []weir.Decision) error { return s.takeTogether(ctx, asks, out) },
			Settle: s.Settle,
		}
		return apart.TakeAll(ctx, asks, out)
	}
	return s.takeTogether(ctx, asks, out)
}

// TakeLocally decides asks that a remembered denial denies, as Take would, and
// says no to all others.
func (s *Store) TakeLocally(asks []weir.Ask, out []weir.Decision) bool {
	return len(asks) == len(out) && len(asks) > 0 && s.denials.Answer(s.serverNow(), asks, out)
}

// maxTries is how often a take is tried again because another limit kept the
// count, or other processes changed it between look and swap.
//
// A try fails only where another take or settlement was written in the time of one round trip, so
// somebody got on with each failed try. A take that loses this often meets a count that very many
// write at once; the fallback of its rule serves it better than a longer wait.
const maxTries = 64

// takeTogether takes asks whose counts can be reached by one script.
//
// pace.lua is tried first where it may fit. It leaves a count alone that it does not understand,
// and has charged nothing then: take.lua decides the take from the beginning. A take whose civil
// window has ended on the way was not charged either, and comes back with the window of the
// server's time.
func (s *Store) takeTogether(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	// The first try may be pace.lua's. Each later one is take.lua's, so X can be answered once in
	// a take. W can be answered again, as the window may end again on the way.
	if rare(asks) {
		return s.takeBySwap(ctx, asks, out)
	}
	for try := range maxTries { // each charges nothing, or is the last
		c, l := s.plainCall(asks), &s.paced
		if c == nil || try > 0 {
			c, l = s.newCall(asks), &s.lane
		}
		if err := s.send(ctx, l, c); err != nil {
			return err
		}
		again, err := s.settle(ctx, c, asks, out)
		if !again || err != nil {
			return err
		}
	}
	s.counts.busy.Add(1)
	return weir.ErrBusy
}

// rare is whether the script can't decide the asks: those that a wait or a part would satisfy,
// those that work once, and costs beyond what a state counts. They take two round trips, and tries
// when other processes write the same keys; the plain ones take one.
func rare(asks []weir.Ask) bool {
	for i := range asks {
		a := &asks[i]
		if a.MaxHold > 0 || a.AtLeast > 0 && (a.AtLeast < a.Cost || len(asks) > 1) || a.Once || a.Cost > weir.MaxCount {
			return true
		}
	}
	return false
}

// send brings a call to Redis, on a Cluster by itself and else with others.
func (s *Store) send(ctx context.Context, l *lane.Lane[*call], c *call) error {
	if s.cluster {
		l.Run(ctx, []*call{c})
		return c.Err
	}
	return l.Do(ctx, c)
}

// serverNow is what the server's clock is thought to show.
func (s *Store) serverNow() weir.Instant {
	if s.now != "" {
		return parseInstant(s.now)
	}
	return weir.InstantOf(time.Now()) + weir.Instant(s.skew.Load())
}

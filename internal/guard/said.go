package guard

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
)

const (
	// maxSaid is of how many keys it is remembered what the store last said. Beyond it,
	// of a few keys the one that recovers first is evicted: a fallback begins with it
	// unused, and may let its part of the limit pass once more.
	maxSaid = 1 << 16
	// saidShards have a lock each, and room for the same number of keys. So a shard may be full
	// a little before the table is.
	saidShards = 64
)

// said is how counts stood when the store last spoke of them, so that local counts go on
// from there: a client that has used up its limit gets no second one because the store goes away.
//
// It remembers decisions and not states. Each answer has Remaining and ResetAfter anyway, while a
// state would have to be asked for with each take (weir.Evidence), and paid for on the wire in good
// times. A decision says less: by which limit so many events are left, but nothing to another
// limit. So what limits said before stays until the last one says as much (standing.tells).
//
// The zero value is not ready; see init.
type said struct {
	seed    maphash.Seed
	shards  [saidShards]saidShard
	dropped atomic.Int64 // keys that made place
}

// saidShard is a part of the keys. Its lock covers the standings, too, and goOn keeps it while it
// sets the local count: so of several fallbacks of a key at once, the first sets it and the others
// find it set. A lock of passed may be taken inside of it, never around it.
type saidShard struct {
	mu   sync.Mutex
	keys map[weir.StateKey]*standing // at most maxSaid/saidShards
}

// standing is how a count stood by a limit, in events that are left by it: by another one
// as many would say something else. An answer that nothing is left does not tell how much
// is used, so what was said by the limits before stays with it.
//
// All instants are of this process's clock, at the time when the answer came. The store decided a
// little earlier, so what was used recovers that much later here. Windows that begin at fixed times
// begin by the clock that counts: here by this process's, there by the store's. left is of the whole
// limit, not of the part of this process; use divides it.
type standing struct {
	limit *weir.Limit
	left  int64        // events that would have passed at that moment
	at    weir.Instant // the moment
	until weir.Instant // when it is as never used, if nothing more passes
	// earlier are by other limits, oldest first, each without its own; at most
	// weir.MaxVersions − 1, as many as a store keeps beside a state.
	earlier []standing
	// more is events that passed after at, and that left does not know: those that fallbacks let
	// pass, and for an earlier one also those that the store charged by a later limit.
	more int64
	// here tells that the local count has this standing in it. An answer of the store puts a new
	// one in its place, which is not here; so the next fallback sets the local count anew.
	here bool
}

func (s *said) init() {
	s.seed = maphash.MakeSeed()
	for i := range s.shards {
		s.shards[i].keys = map[weir.StateKey]*standing{}
	}
}

func (s *said) of(k weir.StateKey) *saidShard {
	return &s.shards[maphash.Comparable(s.seed, k)%saidShards]
}

// hear takes note of what the store has said of asks. It remembers nothing of permits: a local count
// of them begins unused.
func (s *said) hear(asks []weir.Ask, out []weir.Decision) {
	now := weir.InstantOf(time.Now())
	for i := range asks {
		a := &asks[i]
		if a.Policy.Fallback == weir.FallbackOpen || a.Policy.Fallback == weir.FallbackClosed || a.Limit.Algorithm() == weir.Concurrent {
			continue // nothing is counted here
		}
		reset := out[i].ResetAfter
		is := standing{limit: a.Limit, left: out[i].Remaining, at: now, until: now + weir.Instant(reset/time.Microsecond)}
		passed := int64(0)
		if out[i].Charged {
			passed = out[i].Cost
		}
		s.put(a.State, is, passed)
	}
}

// foldEvery is how often a standing takes in what passed since, in microseconds: one second. To fold
// works out two states and rounds to whole events, so it is not done for each event.
const foldEvery weir.Instant = 1_000_000

// pass notes events that passed and that the limit of e counts, too.
func (e *standing) pass(events int64, now weir.Instant) {
	if e.more += events; e.more > 0 && now-e.at >= foldEvery {
		e.fold(now)
	}
}

// fold makes e how the count stands now.
func (e *standing) fold(now weir.Instant) {
	if e.more == 0 {
		return
	}
	left, reset := stands(e.limit, e.left, e.at, e.more, now)
	e.left, e.at, e.until, e.more = left, now, now+weir.Instant(reset/time.Microsecond), 0
}

// stands is how a count stands now of which so many events were left at a moment before,
// and that more have passed of since. It charges an unused state with what was used, so that the
// limit itself says how that recovers. The used events count as of one moment, at: in a sliding
// window that is later than they were, so that they recover too late rather than too soon.
func stands(l *weir.Limit, left int64, at weir.Instant, more int64, now weir.Instant) (leftNow int64, reset time.Duration) {
	fresh, _ := l.Standing(nil, at)
	state := l.Charge(nil, at, fresh-left)
	return l.Standing(l.Charge(state, now, min(more, weir.MaxCost)), now)
}

// pass notes events of k that passed here. The newest standing takes them only when the local count
// has it. Else an answer of the store came in between, and goOn takes off what the store has yet to
// hear of. The earlier ones take them in any case: their limits count these events, too.
func (s *said) pass(k weir.StateKey, events int64) {
	sh := s.of(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e, now := sh.keys[k], weir.InstantOf(time.Now())
	if e == nil {
		return
	}
	if e.here {
		e.pass(events, now)
	}
	for i := range e.earlier {
		e.earlier[i].pass(events, now)
	}
}

// put makes is the standing of k. passed is how many events the take of that answer has charged: is
// has them in it already, those by earlier limits don't.
func (s *said) put(k weir.StateKey, is standing, passed int64) {
	sh := s.of(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e := sh.keys[k]; e != nil {
		is.earlier = e.before(&is, passed)
		*e = is
		return
	}
	if len(sh.keys) >= maxSaid/saidShards {
		s.dropped.Add(1)
		sh.drop()
	}
	k.Key = strings.Clone(k.Key) // it may be a piece of a request
	added := is                  // here, so that only a new key takes memory
	sh.keys[k] = &added
}

// before is what stays of e and of those before it when the store has said is, by which so
// many events passed. At the bound, the standing that recovers first is dropped. The common case is a
// limit that never changed: it keeps nothing, and allocates nothing.
func (e *standing) before(is *standing, passed int64) []standing {
	if len(e.earlier) == 0 && (e.limit == is.limit || is.tells(e)) {
		return nil
	}
	last := *e
	last.earlier, last.here = nil, false
	all := slices.DeleteFunc(append(e.earlier, last), func(o standing) bool { return is.tells(&o) })
	for i := range all {
		all[i].pass(passed, is.at)
	}
	if len(all) >= weir.MaxVersions {
		first := slices.MinFunc(all, func(a, b standing) int { return cmp.Compare(a.until, b.until) })
		all = slices.DeleteFunc(all, func(o standing) bool { return o.limit == first.limit })
	}
	return all
}

// tells is whether is, which was said after o, leaves nothing that only o tells. There are three
// cases: o has recovered by then and nothing passed since; both are by the same limit; or both keep
// the same states, and some events are left, so that the number used follows.
func (is *standing) tells(o *standing) bool {
	return o.until <= is.at && o.more == 0 || o.limit.String() == is.limit.String() || is.left > 0 && o.limit.Alike(is.limit)
}

// over is when e and those before it are as never used.
func (e *standing) over() weir.Instant {
	until := e.until
	for i := range e.earlier {
		until = max(until, e.earlier[i].until)
	}
	return until
}

// drop makes place: of some keys, the one that is as never used first, for least is lost with it. To
// look at all would take as long as the table is large. mu is held.
func (sh *saidShard) drop() {
	var first weir.StateKey
	until, looked := weir.Instant(0), 0
	for k, e := range sh.keys {
		if over := e.over(); looked == 0 || over < until {
			first, until = k, over
		}
		if looked++; looked == maxSwept {
			break
		}
	}
	delete(sh.keys, first)
}

// forget forgets a key.
func (s *said) forget(k weir.StateKey) {
	sh := s.of(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.keys, k)
}

// goOn has a local count go on from what the store last said of it, when a fallback decides its key
// for the first time since: it has no more left
// than one of so many nodes has of that, less what the store has yet to hear of. The limit that
// said it charges the used events, so that the limits after it take them over as they do in any
// store.
//
// The local count begins anew for that, and loses what fallbacks charged before. The store was told of
// that before it decided, or has yet to hear of it; only usage that found no room to be kept is lost.
func (g *Guard) goOn(k weir.StateKey, nodes int) error {
	sh := g.said.of(k)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	e := sh.keys[k]
	if e == nil || e.here {
		return nil
	}
	e.here = true
	if err := g.local.Reset(context.Background(), []weir.StateKey{localKey(k)}); err != nil {
		return err
	}
	for i := range e.earlier {
		e.earlier[i].fold(weir.InstantOf(time.Now()))
		if err := g.use(k, &e.earlier[i], nodes, 0); err != nil {
			return err
		}
	}
	return g.use(k, e, nodes, g.unheard(k))
}

// use has the local count of k stand no better than e says, after what the store has not heard of.
// The used events count as of when the store spoke, or as of now where a state tells more than how
// many. Each node takes an equal part of what is left, rounded down, as it does of the limit.
func (g *Guard) use(k weir.StateKey, e *standing, nodes int, unheard int64) error {
	l, now := g.shares.of(e.limit, nodes), weir.InstantOf(time.Now())
	left, _ := stands(l, e.left/int64(max(nodes, 1)), e.at, unheard, now)
	used := []weir.Ask{{State: localKey(k), Limit: l, After: true}}
	_, states, err := g.local.Look(context.Background(), used)
	if err != nil {
		return err
	}
	has, _ := l.Standing(states[0], now)
	if left >= has {
		return nil
	}
	used[0].Cost = has - left
	return g.local.Take(context.Background(), used, make([]weir.Decision, 1))
}

// Package guard stands between those who ask and a store that may be slow or
// away: it gives each call its time, stops asking a store that does not answer,
// and lets the fallback of each limit decide then.
//
// For each server of a store pace.go has a deadline and server.go a breaker. fallback.go
// decides while the store is away; it goes on from what the store last said (said.go), and
// unreported.go tells the store afterwards what it let pass. A guard is a weir.Store itself, so
// that nobody else knows whether the store is away.
package guard

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/here"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/internal/sleep"
	"github.com/weir-limit/weir/internal/unreported"
	"github.com/weir-limit/weir/memstore"
)

// remembering is a store that answers some takes by itself: they tell nothing of
// whether it is away.
type remembering interface {
	TakeLocally(asks []weir.Ask, out []weir.Decision) bool
}

// spread is a store of several servers, each of which may be away by itself. Their
// number and names stay: each has its own breaker, pace and keys. A take of keys on several servers is
// decided by each for its part, and given back where another denies (record.Apart).
type spread interface {
	Servers() []string
	ServerOf(k weir.StateKey) int // which of them has the count
}

// Options of a Guard.
type Options struct {
	// Changed is called when the store, or a server of several, goes away (away is
	// why) and when it is back (away is nil), from the call that noticed. server is
	// empty where the store is one.
	Changed func(server string, away error)

	// Near is for a store that has deadlines of its own and is never away as a whole,
	// such as one that nodes keep together: it gets the caller's time, and fallbacks
	// decide where it fails within that.
	Near bool

	// Nodes is how many processes share a limit whose ask does not say. Nil: this one
	// alone.
	Nodes func() int

	// Uncountable is told why the store can't count a key that it was asked for,
	// from the call that asked, each time. The store is there, and a fallback decides.
	Uncountable func(err error)
}

// Guard is a weir.Store around another one. Its Take always decides: by the
// store, or, when that is away, by the fallback of each limit, which the decision
// then names. Settle, Reset and Look have no fallback, and fail with weir.ErrAway. It must be made
// by New.
//
// It keeps no goroutine while the store answers. One looks for each server that has fallen silent,
// until Close.
//
// An event that FallbackLocal let pass is in two places. The local count has it, for the fallbacks
// that follow. passed has it until the store was told. The local count keeps it even then, until the
// store decides a take of the key: the next fallback begins with that decision (goOn), which has the
// event in it.
type Guard struct {
	store weir.Store
	// near tells that the store has deadlines of its own. Then calls ask neither breaker nor pace,
	// and the guard does not remember what the store said: local counts begin unused.
	near bool
	// nodes is asked by each fallback whose ask does not say how many nodes share the limit. So
	// the part of this process follows a cluster that grows or shrinks.
	nodes     func() int
	remembers remembering // the same store; nil when it always has to ask
	spread    spread      // the same store; nil when it is one
	// servers has one for each of spread.Servers, in that order, or one without a name. It never
	// changes, so it needs no lock.
	servers []*server
	// local has the counts of fallbacks, under keys with localMark. They stay when the store is
	// back, for their receipts may still be settled.
	local   *memstore.Store
	seekers seekers
	shares  shares
	said    said
	// passed is what fallbacks of FallbackLocal let pass, until the store has heard of it. The two
	// other fallbacks count nothing, so the store never hears of what they let pass.
	passed unreported.Table[*passed]
	unkept atomic.Int64    // asks that FallbackLocal charged and that found no room in passed
	counts [3]atomic.Int64 // asks that fallbacks decided, by fallbackIndex

	nobodys     *weir.Limit // of the counts that probes charge
	uncountable func(err error)
	uncounted   atomic.Int64 // calls that asked for a key that the store can't count
}

// New puts a guard around a store.
func New(store weir.Store, o Options) *Guard {
	if o.Changed == nil {
		o.Changed = func(string, error) {}
	}
	if o.Uncountable == nil {
		o.Uncountable = func(error) {}
	}
	if o.Nodes == nil {
		o.Nodes = func() int { return 1 }
	}
	g := &Guard{store: store, near: o.Near, nodes: o.Nodes, local: memstore.New(memstore.Options{MaxKeys: maxLocalKeys}), uncountable: o.Uncountable, nobodys: weir.MustParseLimit("1000000/s")}
	g.said.init()
	g.initPassed()
	g.remembers, _ = store.(remembering)
	names := []string{""}
	if several, ok := store.(spread); ok && len(several.Servers()) > 1 {
		g.spread, names = several, several.Servers()
	}
	g.seekers.begin()
	for _, name := range names {
		s := &server{name: name, changed: o.Changed, probe: g.probe, seekers: &g.seekers}
		s.back = func() { _ = g.reportOn(g.seekers.ctx, s) } // else later
		g.servers = append(g.servers, s)
	}
	return g
}

// Close tells the servers what they have not heard yet, in the time of ctx, and ends the
// search for servers that are away. It looks for these once more where something is unreported, and
// fails with weir.ErrAway where a server did not hear all. Calls may still come, and fail or fall
// back as soon as a server does not answer them.
//
// A guard with nothing to tell waits for no server. After Close no goroutine of the guard runs:
// a server that falls silent then counts as unavailable at once, and stays so for its callers.
func (g *Guard) Close(ctx context.Context) error {
	var err error
	if len(g.passedOn(nil)) > 0 {
		err = g.ReportLast(ctx, func() error { return g.reportOn(ctx, nil) })
	}
	g.seekers.end()
	return err
}

// ReportLast has a process that ends report what its servers have not heard, after it has looked
// for those that are away. A report that fails is made again when servers that were only late have
// been found: then they get more time.
//
// A late report makes a server silent when nobody else has had an answer from it. The search that
// follows teaches the pace how far the server is. sought waits for the end of that search, so the
// second report has time enough. A server that counts as unavailable already is no reason for another
// report. There is at most one more for each server, so the loop ends however the servers behave.
func (g *Guard) ReportLast(ctx context.Context, report func() error) error {
	g.seek(ctx)
	err := report()
	for _, s := range g.servers {
		if err != nil && !s.breaker.isOpen() {
			s.sought(ctx)
			err = report()
		}
	}
	return err
}

// seekFor is how long seek goes on to look: longer than clients pause between two tries to connect.
const seekFor = time.Second

// seek looks for servers that are away until they are back, for a second or until ctx ends. It is
// for a process that ends, and would lose what these servers have not heard. So its first probe does
// not wait until probeEvery has gone by since the one before (breaker.again).
func (g *Guard) seek(ctx context.Context) {
	var all sync.WaitGroup
	for _, s := range g.servers {
		all.Go(func() {
			s.sought(ctx)
			for began := time.Now(); s.breaker.isOpen() && ctx.Err() == nil && time.Since(began) < seekFor; {
				s.tell(s.breaker.again(), nil, g.keyOn(s))
				if s.sought(ctx); s.breaker.isOpen() {
					_ = sleep.For(ctx, probeEvery)
				}
			}
		})
	}
	all.Wait()
}

// maxLocalKeys is how many keys of a rule the local fallback has room for. When there is one more,
// the store in memory evicts as it always does: never a key that is denied.
const maxLocalKeys = 1 << 17

// Traits are those of the store.
func (g *Guard) Traits() weir.Traits { return g.store.Traits() }

// Stats are counts of a guard since it was made, and what it thinks of the store.
type Stats struct {
	Servers             int           // that the store has; each may be away by itself
	Away                int           // those that are not asked, but for a probe now and then
	Distance            time.Duration // what calls take, of the server that is farthest; 0: nothing is known
	Deadline            time.Duration // what a call is given, of that server
	Missed              int64         // calls that paid for the whole deadline; not those let go with them
	Local, Open, Closed int64         // limits decided by each fallback
	Unreported          int           // keys whose use by fallbacks the store has not heard of
	Unkept              int64         // takes by fallbacks that found no room among those: the store will never hear of them
	Dropped             int64         // keys of which it was forgotten what the store last said
	Uncounted           int64         // takes of keys that the store can't count
}

// Stats are the guard's counts.
func (g *Guard) Stats() Stats {
	all := Stats{
		Servers: len(g.servers), Unreported: g.passed.Len(), Unkept: g.unkept.Load(), Dropped: g.said.dropped.Load(), Uncounted: g.uncounted.Load(),
		Local: g.counts[0].Load(), Open: g.counts[1].Load(), Closed: g.counts[2].Load(),
	}
	for _, s := range g.servers {
		if s.breaker.isOpen() {
			all.Away++
		}
		all.Distance = max(all.Distance, s.pace.distance())
		all.Deadline = max(all.Deadline, s.pace.deadline())
		all.Missed += s.missed.Load()
	}
	return all
}

// Take decides the asks by the store, or by their fallbacks. It fails only when
// ctx was cancelled, or when the asks are not meant. A fallback gives no evidence.
//
// A ctx whose deadline is over is no reason to fail: its caller still wants a decision, and a
// fallback needs no time. Only near fails then.
func (g *Guard) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return err
	}
	return g.decide(ctx, asks, out, true)
}

// TakeOrFail is Take without fallbacks: it fails when the store can't be asked, and
// what was asked may then have been charged. It is for callers with fallbacks of
// their own. These count for themselves, so the guard does not remember what the store said to
// them (Try does).
func (g *Guard) TakeOrFail(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	return g.decide(ctx, asks, out, false)
}

// decide decides asks of several servers each on its own. When one of them falls back, the others
// still decide by the store.
//
// A denial that the store remembers comes before the breaker. So it stays a denial by the store
// while the server is away, and a client that is denied again and again costs no call.
func (g *Guard) decide(ctx context.Context, asks []weir.Ask, out []weir.Decision, fallbacks bool) error {
	if g.remembers != nil && g.remembers.TakeLocally(asks, out) {
		return nil
	}
	take := (*Guard).try
	if fallbacks {
		take = (*Guard).take
	}
	if !g.several(asks) {
		return take(g, ctx, asks, out)
	}
	parts := record.Apart{
		Take:   func(asks []weir.Ask, out []weir.Decision) error { return take(g, ctx, asks, out) },
		Settle: g.Settle,
	}
	return parts.TakeAll(ctx, asks, out)
}

// take takes asks of one server. It falls back unless no store would decide the asks, or the caller
// has left. A take whose answer did not come in time may have been charged, and the fallback counts
// it once more: rather an event counts twice than that a client waits. The store then hears of the
// fallback's charge, too, and has the event twice until it recovers. That can only deny a client too
// early; the other error would let it pass beyond its limit.
func (g *Guard) take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	err := g.Try(ctx, asks, out)
	if _, wrong := errors.AsType[*record.AskError](err); err == nil || wrong || errors.Is(err, here.ErrWaits) || errors.Is(context.Cause(ctx), context.Canceled) {
		return err
	}
	if g.near && ctx.Err() != nil {
		return err // nobody waits any more, and the store may still decide
	}
	if wrong := check(asks, out); wrong != nil {
		return wrong
	}
	return g.fallBack(ctx, asks, out)
}

// check says what is wrong with asks that no store decides: no fallback decides them either. Whether
// the store can keep their limits is not asked: it may have to be reached to tell.
func check(asks []weir.Ask, out []weir.Decision) error {
	return record.Check("the store", func(*weir.Limit) string { return "" }, asks, out)
}

// several is whether asks are of more than one server.
func (g *Guard) several(asks []weir.Ask) bool {
	for i := 1; g.spread != nil && i < len(asks); i++ {
		if g.serverOf(asks[i].State) != g.serverOf(asks[0].State) {
			return true
		}
	}
	return false
}

func (g *Guard) serverOf(k weir.StateKey) *server {
	if g.spread == nil {
		return g.servers[0]
	}
	return g.servers[g.spread.ServerOf(k)]
}

// Try is Take of asks of one server, without fallbacks: it fails when the store
// can't be asked, and what was asked may then have been charged.
func (g *Guard) Try(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	err := g.try(ctx, asks, out)
	if err == nil && !g.near {
		g.said.hear(asks, out)
	}
	return err
}

// try is Try for callers with fallbacks of their own. It tells the store first what fallbacks
// let pass of these keys. When that report fails, the take is not tried: the store would decide by a
// count that lacks events.
func (g *Guard) try(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if err := g.reportOf(ctx, asks); err != nil {
		return err
	}
	return g.ask(ctx, asks, out)
}

// ask is weir.Store.Take of one server, within the time that it gets: that of its pace, or the
// caller's where the store has deadlines of its own (near). Reports of unreported usage come this way,
// too, so the breaker counts them as any call.
//
// All asks are of one server: the breaker and the pace of the first one's are those of all. A server
// that is not worth asking costs nothing here, not even a timer. A key that the store can't count
// fails the take, and so its fallback decides, though the server has answered.
func (g *Guard) ask(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if g.near || len(asks) == 0 {
		return g.store.Take(ctx, asks, out)
	}
	s := g.serverOf(asks[0].State)
	t := s.enter(asks[0].State)
	if t == nil {
		return weir.ErrAway
	}
	err := s.wait(ctx, t, func(ctx context.Context) error { return g.store.Take(ctx, asks, out) })
	if _, ok := errors.AsType[*record.CountError](err); ok {
		g.uncounted.Add(1)
		g.uncountable(err)
	}
	return err
}

// probe asks a server whether it is back, by a charge to a count that is nobody's and that the server of k has.
// To read would not do: a server without memory, or one that has become a replica, still answers that.
//
// Where the server is one, the count is not kept with k: the row of k may be what a call waits for.
func (g *Guard) probe(ctx context.Context, k weir.StateKey) error {
	if g.spread == nil {
		k = weir.StateKey{Rule: "probe"}
	}
	k.Rule = k.Placement() + "#probe of weir" // the same Placement and Key: so the same server has it
	return g.store.Take(ctx, []weir.Ask{{State: k, Limit: g.nobodys, Cost: 1}}, make([]weir.Decision, 1))
}

// keyOn is a key that the server has, if one of a thousand is there. A server of several has to be
// asked for a key of its own: the store would ask another one. Where none of a thousand is there,
// the probe does ask another server. With 64 servers that is rarer than one in a million.
func (g *Guard) keyOn(s *server) (k weir.StateKey) {
	k.Rule = "probe"
	for n := range 1000 {
		if k.Key = strconv.Itoa(n); g.serverOf(k) == s {
			break
		}
	}
	return k
}

// Settle settles receipts where they were made. It is done when some of them were
// settled now, and the others before: so a caller whose Settle failed half-way may call it again.
func (g *Guard) Settle(ctx context.Context, settlements []weir.Settlement) error {
	keeper := func(s weir.Settlement) *server { return g.keeper(s.Receipt.State) }
	return record.SettleApart(settlements, keeper, func(part []weir.Settlement) error { return g.settle(ctx, part) })
}

// keeper is the server that has a count; nil: this process. A fallback marks the receipts that it
// makes (localMark), so they are settled here, also after the store is back. The store never saw
// them, and would not know their ids.
func (g *Guard) keeper(k weir.StateKey) *server {
	if Local(k) {
		return nil
	}
	return g.serverOf(k)
}

// settle settles receipts of one server, or of this process. A settlement here changes two things:
// the local count, and what the store is still to hear of the charge. Permits have no part in the
// second: nothing was kept of them. A receipt that is renewed keeps its charge as it is.
func (g *Guard) settle(ctx context.Context, part []weir.Settlement) error {
	if g.keeper(part[0].Receipt.State) != nil {
		return g.reach(ctx, part[0].Receipt.State, func(ctx context.Context) error { return g.store.Settle(ctx, part) })
	}
	if err := g.local.Settle(ctx, part); err != nil {
		return err
	}
	for i := range part {
		if r := part[i].Receipt; !part[i].Renew {
			g.correct(storeKey(r.State), part[i].Used-r.Cost)
		}
	}
	return nil
}

// Reset forgets what was used of the keys, in the store and here. When it fails, it
// has forgotten none of those that one server has, and may be asked again.
//
// The store comes first. If it fails, this process still counts what it let pass, and will report
// it. If it succeeds, nothing may be left here that a later report or fallback would bring back: so
// the pending events go, what the store said before, and the local count. A report that is under
// way can't be called back, and the store may charge it after the reset.
func (g *Guard) Reset(ctx context.Context, keys []weir.StateKey) error {
	for len(keys) > 0 {
		var part []weir.StateKey
		part, keys = record.Cut(keys, g.serverOf)
		if err := g.reach(ctx, part[0], func(ctx context.Context) error { return g.store.Reset(ctx, part) }); err != nil {
			return err
		}
		local := make([]weir.StateKey, len(part))
		for i, k := range part {
			local[i] = localKey(k)
			g.correct(k, -weir.MaxCost)
			g.said.forget(k)
		}
		if err := g.local.Reset(ctx, local); err != nil {
			return err
		}
	}
	return nil
}

// reach asks the server of a key. It is for what has no fallback: it fails with
// weir.ErrAway.
func (g *Guard) reach(ctx context.Context, k weir.StateKey, do func(context.Context) error) error {
	if g.near {
		return do(ctx)
	}
	return g.serverOf(k).ask(ctx, k, do)
}

// Contact asks each server whether it is there until that is known, by ping, or where it
// has not answered yet, by a charge to a count that is nobody's. It counts as any call does. So the
// first caller after a quiet hour need not pay a deadline to find out that the server is away.
//
// It asks at most Enough times, for so many failures in a row settle the question: a server that
// refuses them all counts as unavailable then. An answer settles it at once, and so does a search
// that ended without one.
func (g *Guard) Contact(ctx context.Context, ping func(ctx context.Context, server int) error) {
	var all sync.WaitGroup
	for i, s := range g.servers {
		all.Go(func() {
			k := g.keyOn(s)
			for range Enough {
				if s.pace.distance() == 0 && s.breaker.begin() == hushed {
					s.seek(k)
				} else if s.ask(ctx, k, func(ctx context.Context) error { return ping(ctx, i) }) == nil {
					return
				}
				if s.sought(ctx); s.breaker.isOpen() {
					return
				}
			}
		})
	}
	all.Wait()
}

// Look is the states of asks in the store. With several servers, now is the time of the last: they
// are asked one after the other, and are of different moments. Events that fallbacks let pass are in
// them only once the store has heard of these.
func (g *Guard) Look(ctx context.Context, asks []weir.Ask) (now weir.Instant, states []weir.State, err error) {
	looker, ok := g.store.(weir.Looker)
	if !ok {
		return 0, nil, errors.New("this store does not show its states")
	}
	if len(asks) == 0 && !g.store.Traits().OwnClock { // nobody is asked, so that it says nothing of the store
		return looker.Look(ctx, nil)
	}
	if !g.several(asks) {
		return g.look(ctx, looker, asks)
	}
	for i := range asks {
		var one []weir.State
		if now, one, err = g.look(ctx, looker, asks[i:i+1]); err != nil {
			return 0, nil, err
		}
		states = append(states, one...)
	}
	return now, states, nil
}

// look looks at asks of one server. Without asks it only reads the store's clock.
func (g *Guard) look(ctx context.Context, looker weir.Looker, asks []weir.Ask) (now weir.Instant, states []weir.State, err error) {
	k := weir.StateKey{Rule: "probe"}
	if len(asks) > 0 {
		k = asks[0].State
	}
	err = g.reach(ctx, k, func(ctx context.Context) error {
		now, states, err = looker.Look(ctx, asks)
		return err
	})
	return now, states, err
}

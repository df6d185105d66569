package leased_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/leased"
	"github.com/weir-limit/weir/memstore"
)

const lease = 100 * time.Millisecond

// remote is a store in memory, a moment away, that counts its calls and loses some of them.
type remote struct {
	*memstore.Store

	takes, settles atomic.Int64
	away           atomic.Bool
	late           func() time.Duration // how long a call is on its way; nil: a moment
	lost           func() bool          // whether one is lost on its way; nil: none
}

const moment = 300 * time.Microsecond

var errLost = errors.New("connection reset")

// way is the way of a call, or of its answer.
func (r *remote) way() error {
	d := moment
	if r.late != nil {
		d = r.late()
	}
	time.Sleep(d)
	if r.away.Load() || r.lost != nil && r.lost() {
		return errLost
	}
	return nil
}

func (r *remote) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	r.takes.Add(1)
	if err := r.way(); err != nil {
		return err
	}
	if err := r.Store.Take(ctx, asks, out); err != nil {
		return err
	}
	if r.lost != nil { // an answer is lost, and never late: it would be an event at another time than the store's
		if r.lost() {
			return errLost
		}
		return nil
	}
	return r.way()
}

func (r *remote) Settle(ctx context.Context, settlements []weir.Settlement) error {
	r.settles.Add(1)
	if err := r.way(); err != nil {
		return err
	}
	if err := r.Store.Settle(ctx, settlements); err != nil {
		return err
	}
	return r.way()
}

func newRemote() *remote { return &remote{Store: memstore.New(memstore.Options{})} }

// open makes so many nodes on one store.
func open(r *remote, nodes int) []*leased.Store {
	all := make([]*leased.Store, nodes)
	for i := range all {
		all[i] = leased.New(r, r.Take)
	}
	return all
}

func end(t testing.TB, nodes []*leased.Store) {
	t.Helper()
	for _, s := range nodes {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func ask(limit, key string) weir.Ask {
	a := weir.Ask{State: weir.StateKey{Rule: "r#" + limit, Key: key}, Limit: weir.MustParseLimit(limit), Cost: 1}
	a.Policy.Lease = lease
	return a
}

func take(t testing.TB, s weir.Store, asks ...weir.Ask) []weir.Decision {
	t.Helper()
	out := make([]weir.Decision, len(asks))
	if err := s.Take(t.Context(), asks, out); err != nil && !errors.Is(err, errLost) {
		t.Fatal(err)
	}
	return out
}

// passed is when events have passed, of all nodes.
type passed struct {
	mu sync.Mutex
	at []event
}

type event struct {
	at   weir.Instant
	cost int64
}

func (p *passed) add(cost int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = append(p.at, event{weir.InstantOf(time.Now()), cost})
}

// sum is how many events have passed.
func (p *passed) sum() (sum int64) {
	for _, e := range p.at {
		sum += e.cost
	}
	return sum
}

// beyond is the first event that one limit would not have let pass at its time, after those before.
func (p *passed) beyond(l *weir.Limit) (event, bool) {
	slices.SortStableFunc(p.at, func(a, b event) int { return int(a.at - b.at) })
	var s weir.State
	for _, e := range p.at {
		a := weir.Ask{Limit: l, Cost: e.cost}
		d := l.Decide(s, e.at, &a)
		if d.Outcome != weir.Allowed {
			return e, true
		}
		d.Charged = true
		s = l.Commit(s, e.at, &a, &d)
	}
	return event{}, false
}

// TestHot: a key that all nodes ask for all the time passes what its limit lets and never more, and costs
// each node a call in each lease: with demand below the limit and at ten times of it.
func TestHot(t *testing.T) {
	for _, c := range []struct {
		limit string
		calls int64 // a second and node
	}{
		{"1000/s burst 2000", 12},
		{"1000/s", 24},
		{"1000/s burst 100", 200},
		{"60000/min fixed-window", 3},
		{"1000/s fixed-window", 6},
		{"1000/s sliding-window 2", 10},
		{"60000/min sliding-window 10", 3},
		{"10/s", 12},
	} {
		for _, percent := range []int64{60, 1000} {
			t.Run(fmt.Sprintf("%s at %d%%", c.limit, percent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					const seconds, of = 20, 3
					time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour)))
					r := newRemote()
					nodes := open(r, of)
					a := ask(c.limit, "hot")
					a.Policy.Nodes = of
					rate := a.Limit.Spec().Count * int64(time.Second) / int64(a.Limit.Spec().Period) * percent / 100
					var p passed
					alone := memstore.New(memstore.Options{}) // what one node would let pass
					var exact atomic.Int64
					var g sync.WaitGroup
					for i, s := range nodes {
						g.Go(func() {
							draw := rand.New(rand.NewPCG(uint64(i), 7))
							mean := int64(time.Second) * of / rate
							for began := time.Now(); time.Since(began) < seconds*time.Second; {
								time.Sleep(time.Duration(draw.Int64N(2 * mean)))
								if take(t, alone, a)[0].Outcome == weir.Allowed {
									exact.Add(1)
								}
								if take(t, s, a)[0].Outcome == weir.Allowed {
									p.add(1)
								}
							}
						})
					}
					g.Wait()
					if e, over := p.beyond(a.Limit); over {
						t.Errorf("at %v more than the limit", e.at.Time())
					}
					st := nodes[0].Stats()
					calls := (r.takes.Load() + r.settles.Load()) / seconds / of
					t.Logf("%d passed, %d on one node; %d calls a second and node (%d takes, %d settles), %+v",
						p.sum(), exact.Load(), calls, r.takes.Load(), r.settles.Load(), st)
					missing := of * leased.Largest(a.Limit) // that nodes hold
					if a.Limit.Algorithm() == weir.SlidingWindow {
						missing += exact.Load() * of / 100 // what has room for a moment is never made up for
					}
					if p.sum() < exact.Load()*99/100-missing {
						t.Errorf("%d passed, and on one node %d", p.sum(), exact.Load())
					}
					if calls > c.calls {
						t.Errorf("%d calls a second", calls)
					}
					end(t, nodes)
				})
			})
		}
	}
}

// TestNeverOver: whatever is slow or lost, and whichever node dies, nothing passes beyond a limit. Nodes ask
// in bursts and pauses, for costs of several events, also in takes of two limits, and want receipts now and
// then, which they settle for less.
func TestNeverOver(t *testing.T) {
	limits := []string{
		"200/s", "100/s burst 20", "50/s burst 400", "20/min burst 40", "300/s strict burst 100", "300/s fixed-window",
		"400/s sliding-window 4", "900/min sliding-window 3 conservative", "5/s",
	}
	for seed := range uint64(60) {
		text := limits[seed%uint64(len(limits))]
		t.Run(fmt.Sprintf("%s, seed %d", text, seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				draw := rand.New(rand.NewPCG(seed, 1))
				r := newRemote()
				worst := time.Duration(1 + draw.Int64N(int64(60*time.Millisecond)))
				var mu sync.Mutex
				random := func(n int64) int64 {
					mu.Lock()
					defer mu.Unlock()
					return draw.Int64N(n)
				}
				r.late = func() time.Duration { return time.Duration(random(int64(worst))) }
				r.lost = func() bool { return random(20) == 0 }
				time.Sleep(time.Duration(random(int64(time.Hour))))
				var p, beside passed
				other := weir.MustParseLimit("250/s burst 50")
				var g sync.WaitGroup
				all := make([]*leased.Store, 4)
				for i := range all {
					g.Go(func() { all[i] = beNode(t, r, text, other, &p, &beside, rand.New(rand.NewPCG(seed, uint64(i)+2))) })
				}
				g.Wait()
				if e, over := p.beyond(weir.MustParseLimit(text)); over {
					t.Errorf("at %v more than the limit: %d events of cost %d", e.at.Time(), len(p.at), e.cost)
				}
				if e, over := beside.beyond(other); over {
					t.Errorf("at %v more than the other limit", e.at.Time())
				}
				if p.sum() == 0 {
					t.Error("none passed")
				}
				end(t, all)
			})
		})
	}
}

// beNode asks for a key for ten seconds, with a node that dies now and then and begins anew.
func beNode(t *testing.T, r *remote, text string, other *weir.Limit, p, beside *passed, draw *rand.Rand) *leased.Store {
	s := leased.New(r, r.Take)
	var dead []*leased.Store
	defer func() {
		for _, s := range dead { // only so that its goroutines end; what it held stays charged
			_ = s.Close(expired())
		}
	}()
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		time.Sleep(time.Duration(draw.Int64N(int64(10 * time.Millisecond))))
		if draw.IntN(80) == 0 {
			time.Sleep(time.Duration(draw.Int64N(int64(2 * time.Second))))
		}
		if draw.IntN(400) == 0 {
			dead, s = append(dead, s), leased.New(r, r.Take)
		}
		asks := []weir.Ask{ask(text, "k")}
		asks[0].Cost = 1 + draw.Int64N(3)*draw.Int64N(2)
		if draw.IntN(4) == 0 {
			two := weir.Ask{State: weir.StateKey{Rule: "other", Key: "k"}, Limit: other, Cost: 2}
			two.Policy.Lease = lease
			asks = append(asks, two)
			if draw.IntN(3) == 0 {
				asks[1].Policy.Lease = 0
			}
		}
		if draw.IntN(30) == 0 {
			asks[0].Receipt = draw.Uint64() | 1
		}
		out := make([]weir.Decision, len(asks))
		if err := s.Take(t.Context(), asks, out); err != nil {
			if !errors.Is(err, errLost) {
				t.Error(err)
			}
			continue
		}
		if !weir.Judge(asks, out).Allowed {
			continue
		}
		if receipt := out[0].Receipt; receipt != nil {
			_ = s.Settle(t.Context(), []weir.Settlement{{Receipt: receipt}}) // none has passed
		} else {
			p.add(out[0].Cost)
		}
		if len(out) > 1 {
			beside.add(out[1].Cost)
		}
	}
	return s
}

func expired() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

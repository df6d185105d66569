package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/bench/internal/table"
	"github.com/weir-limit/weir/edge"
	"github.com/weir-limit/weir/pgstore"
	"github.com/weir-limit/weir/redisstore"
)

const (
	leaseNodes   = 4
	leaseCallers = 64 // of each node
	untilWarm    = 8 * time.Second
	// hotLimit is of one key.
	hotLimit = "1000/s burst 2000"
)

// warmLimits are of 10,000 keys, of which some are asked for more often than one of these lets pass. Portions of
// a bucket melt, so that a node gives back most of each; those of a window don't.
var warmLimits = []string{"1000000/min", "1000000/min fixed-window"}

// leaseOn is a store that nodes take portions from.
type leaseOn struct {
	name   string
	dial   func() (edge.Remote, error)
	cpu    func(context.Context) (time.Duration, error) // of the server
	target float64                                      // decisions a second
}

// counting is a store that counts what a node asks of it.
type counting struct {
	edge.Remote

	takes, settles atomic.Int64
}

func (c *counting) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	c.takes.Add(1)
	return c.Remote.Take(ctx, asks, out)
}

func (c *counting) Settle(ctx context.Context, settlements []weir.Settlement) error {
	c.settles.Add(1)
	return c.Remote.Settle(ctx, settlements)
}

// TakeLocally is that of the store, which the edge looks for.
func (c *counting) TakeLocally(asks []weir.Ask, out []weir.Decision) bool {
	s, ok := c.Remote.(interface {
		TakeLocally(asks []weir.Ask, out []weir.Decision) bool
	})
	return ok && s.TakeLocally(asks, out)
}

// leased is a node: a program with a limiter of its own, as its callers have it.
type leased struct {
	store   *counting
	edge    *edge.Store
	limiter *weir.Limiter
}

func leasedNodes(on leaseOn, name, limit string) ([]*leased, error) {
	var all []*leased
	for range leaseNodes {
		s, err := on.dial()
		if err != nil {
			return nil, err
		}
		n := &leased{store: &counting{Remote: s}}
		n.edge = edge.New(n.store, edge.Options{})
		n.edge.Meet(context.Background())
		l := weir.NewLimiter(n.edge, name, weir.MustParseLimit(limit))
		n.limiter, err = l.With(weir.Policy{Lease: 100 * time.Millisecond, Nodes: leaseNodes})
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// leases measures four nodes on one Redis and on one PostgreSQL, with lease: 100ms.
func (b *bench) leases(ctx context.Context) error {
	all := []leaseOn{{"Redis", func() (edge.Remote, error) {
		return redisstore.Dial("redis://" + b.redis.addr)
	}, b.redis.cpu, 1e6}}
	if b.postgres != nil {
		all = append(all, leaseOn{"PostgreSQL", func() (edge.Remote, error) {
			return pgstore.Dial(b.postgres.url+"&table=weir_lease", pgstore.Options{})
		}, b.postgres.cpu, 300_000})
	}
	for _, on := range all {
		for _, limit := range warmLimits {
			if err := b.warmLease(ctx, on, limit); err != nil {
				return err
			}
		}
		for _, percent := range []int64{60, 1000} {
			if err := b.hotLease(ctx, on, percent); err != nil {
				return err
			}
		}
	}
	return nil
}

// warmCosts are what decisions of warm keys have cost, by round.
type warmCosts struct {
	costs

	takes, settles []float64 // of the store, a second
}

// warmLease measures 10,000 keys of a limit.
func (b *bench) warmLease(ctx context.Context, on leaseOn, limit string) error {
	nodes, err := leasedNodes(on, "warm "+limit, limit)
	if err != nil {
		return err
	}
	var c warmCosts
	draw := zipf(len(b.keys))
	rounds, last := b.rounds()
	if err := b.measureWarm(ctx, on, nodes, draw, untilWarm, new(warmCosts)); err != nil {
		return err
	}
	for range rounds {
		if err := b.measureWarm(ctx, on, nodes, draw, last, &c); err != nil {
			return err
		}
	}
	what := fmt.Sprintf("lease: 100ms, %d nodes on one %s, 10,000 warm keys of %s, Zipf 1.0: ", leaseNodes, on.name, limit)
	b.row(what+"decisions/s in all", c.rate, "%.0f/s", fmt.Sprintf("≥ %.0f/s", on.target), table.AtLeast(on.target))
	b.row(what+"takes of the store/s", c.takes, "%.0f/s", "", nil)
	b.row(what+"settlements of the store/s", c.settles, "%.0f/s", "", nil)
	b.row(what+"CPU of the server for a decision", c.server, "%.2f µs", "", nil)
	b.row(what+"our CPU of a decision", c.client, "%.2f µs", "", nil)
	return closeAll(nodes)
}

// measureWarm has nodes asked for a time, and adds what it cost.
func (b *bench) measureWarm(
	ctx context.Context, on leaseOn, nodes []*leased, draw []int32, last time.Duration, c *warmCosts,
) error {
	before, err := on.cpu(ctx)
	if err != nil {
		return err
	}
	takes, settles := asked(nodes)
	own, began := ownCPU(), time.Now()
	n, err := b.byZipf(ctx, nodes, draw, last)
	if err != nil {
		return err
	}
	took, own := time.Since(began).Seconds(), ownCPU()-own
	after, err := on.cpu(ctx)
	if err != nil {
		return err
	}
	takesNow, settlesNow := asked(nodes)
	c.rate = append(c.rate, float64(n)/took)
	c.takes = append(c.takes, float64(takesNow-takes)/took)
	c.settles = append(c.settles, float64(settlesNow-settles)/took)
	c.server = append(c.server, micros(after-before)/float64(n))
	c.client = append(c.client, micros(own)/float64(n))
	return nil
}

// hotLease measures a key that all nodes ask for, at so many percent of its limit.
func (b *bench) hotLease(ctx context.Context, on leaseOn, percent int64) error {
	nodes, err := leasedNodes(on, fmt.Sprint("hot", percent), hotLimit)
	if err != nil {
		return err
	}
	limit := weir.MustParseLimit(hotLimit)
	rate := limit.Spec().Count * percent / 100
	_, last := b.rounds()
	took, passed := askHot(ctx, nodes, rate, 10*last)
	takes, settles := asked(nodes)
	each := float64(takes+settles) / took.Seconds() / leaseNodes
	most := limit.Bound(took, 1)
	what := fmt.Sprintf("lease: 100ms, %d nodes on one %s, a hot key of %s at %d %%: ",
		leaseNodes, on.name, hotLimit, percent)
	b.row(what+"takes and settlements/s of a node", []float64{each}, "%.1f/s", "≤ 12/s", table.AtMost(12))
	b.row(what+"passed too many", []float64{float64(max(passed-most, 0))}, "%.0f", "0", table.AtMost(0))
	if percent > 100 {
		few := 100 * float64(most-passed) / float64(most)
		b.row(what+"passed too few", []float64{few}, "%.1f %%", "≤ 1 %", table.AtMost(1))
	}
	return closeAll(nodes)
}

// askHot has nodes asked for one key in turn, at a rate, and counts what passes.
func askHot(ctx context.Context, nodes []*leased, rate int64, last time.Duration) (time.Duration, int64) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, last)
	defer cancel()
	var g sync.WaitGroup
	var passed atomic.Int64
	for _, n := range nodes {
		g.Go(func() {
			pause := time.Duration(int64(time.Second) * leaseNodes / rate)
			for next := time.Now(); ctx.Err() == nil; next = next.Add(pause) {
				time.Sleep(time.Until(next))
				if a, err := n.limiter.Take(ctx, "hot", 1); err == nil && a.Outcome == weir.Allowed {
					passed.Add(1)
				}
			}
		})
	}
	g.Wait()
	return time.Since(began), passed.Load()
}

// zipf is which key is meant by each of 2^20 numbers: key n is drawn in proportion to 1/n.
func zipf(keys int) []int32 {
	sums := make([]float64, keys)
	sum := 0.0
	for i := range sums {
		sum += 1 / float64(i+1)
		sums[i] = sum
	}
	r := rand.New(rand.NewPCG(1, 2))
	drawn := make([]int32, 1<<20)
	for i := range drawn {
		drawn[i] = int32(sort.SearchFloat64s(sums, r.Float64()*sum))
	}
	return drawn
}

// byZipf has each node asked by some callers for a time, and says how many takes the limit has decided: where
// a store is late, a fallback does.
func (b *bench) byZipf(ctx context.Context, nodes []*leased, drawn []int32, last time.Duration) (int64, error) {
	var g sync.WaitGroup
	var stop atomic.Bool
	var all atomic.Int64
	var failed atomic.Pointer[error]
	for i, n := range nodes {
		for c := range leaseCallers {
			g.Go(func() {
				did := int64(0)
				for at := (i*leaseCallers + c) * 32_749; !stop.Load(); at++ {
					a, err := n.limiter.Take(ctx, b.keys[drawn[at%len(drawn)]], 1)
					if err != nil {
						failed.Store(&err)
						return
					}
					if a.Degraded == "" {
						did++
					}
				}
				all.Add(did)
			})
		}
	}
	time.Sleep(last)
	stop.Store(true)
	g.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return all.Load(), nil
}

func asked(nodes []*leased) (takes, settles int64) {
	for _, n := range nodes {
		takes, settles = takes+n.store.takes.Load(), settles+n.store.settles.Load()
	}
	return takes, settles
}

func closeAll(nodes []*leased) error {
	for _, n := range nodes {
		if err := n.edge.Close(); err != nil {
			return err
		}
	}
	return nil
}

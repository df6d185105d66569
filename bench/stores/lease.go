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
	"github.com/weir-limit/weir/redisstore"
)

const (
	leaseNodes   = 4
	leaseCallers = 64 // of each node
	// warmLimit is of 10,000 keys of which the least wanted is asked for some times a second, and hotLimit of
	// one key. Some keys are wanted more often than the first lets pass.
	warmLimit = "1000000/min"
	hotLimit  = "1000/s burst 2000"
)

// counting is a Redis that counts what a node asks of it.
type counting struct {
	*redisstore.Store

	calls atomic.Int64
}

func (c *counting) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	c.calls.Add(1)
	return c.Store.Take(ctx, asks, out)
}

func (c *counting) Settle(ctx context.Context, settlements []weir.Settlement) error {
	c.calls.Add(1)
	return c.Store.Settle(ctx, settlements)
}

// leased is a node: a program with a limiter of its own, as its callers have it.
type leased struct {
	redis   *counting
	edge    *edge.Store
	limiter *weir.Limiter
}

func (b *bench) leasedNodes(name, limit string, lease time.Duration) ([]*leased, error) {
	var all []*leased
	for range leaseNodes {
		s, err := redisstore.Dial("redis://" + b.redis.addr)
		if err != nil {
			return nil, err
		}
		n := &leased{redis: &counting{Store: s}}
		n.edge = edge.New(n.redis, edge.Options{})
		l := weir.NewLimiter(n.edge, name, weir.MustParseLimit(limit))
		n.limiter, err = l.With(weir.Policy{Lease: lease, Nodes: leaseNodes})
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// leases measures four nodes on one Redis, with lease: 100ms.
func (b *bench) leases(ctx context.Context) error {
	nodes, err := b.leasedNodes("warm", warmLimit, 100*time.Millisecond)
	if err != nil {
		return err
	}
	var rates, calls []float64
	rounds, last := b.rounds()
	draw := zipf(len(b.keys))
	for round := range rounds + 1 {
		if round == 0 {
			last = 8 * time.Second // until demand is known
		} else {
			_, last = b.rounds()
		}
		before, began := asked(nodes), time.Now()
		n, err := b.byZipf(ctx, nodes, draw, last)
		if err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		if round > 0 {
			rates, calls = append(rates, float64(n)/took), append(calls, float64(asked(nodes)-before)/took)
		}
	}
	rate := table.Median(rates)
	what := fmt.Sprintf("lease: 100ms, %d nodes, 10,000 warm keys of %s, Zipf 1.0: ", leaseNodes, warmLimit)
	b.table.Rows = append(b.table.Rows,
		table.Row{
			What: what + "decisions/s in all", Weir: table.Spread(rates, ""),
			Measured: fmt.Sprintf("%.2f M/s", rate/1e6), Target: "≥ 1 M/s", Verdict: table.AtLeast(1e6).Verdict(rate),
		},
		table.Row{What: what + "takes and settlements of the store/s", Weir: table.Spread(calls, "")})
	if err := closeAll(nodes); err != nil {
		return err
	}
	for _, percent := range []int64{60, 1000} {
		if err := b.hotLease(ctx, percent); err != nil {
			return err
		}
	}
	return nil
}

// hotLease measures a key that all nodes ask for, at so many percent of its limit.
func (b *bench) hotLease(ctx context.Context, percent int64) error {
	nodes, err := b.leasedNodes(fmt.Sprint("hot", percent), hotLimit, 100*time.Millisecond)
	if err != nil {
		return err
	}
	limit := weir.MustParseLimit(hotLimit)
	rate := limit.Spec().Count * percent / 100
	_, last := b.rounds()
	last *= 3
	began, before := time.Now(), asked(nodes)
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
	took := time.Since(began)
	each := float64(asked(nodes)-before) / took.Seconds() / leaseNodes
	most := min(rate*int64(took)/int64(time.Second), limit.Bound(took, 1))
	b.table.Rows = append(b.table.Rows, table.Row{
		What: fmt.Sprintf("lease: 100ms, %d nodes, a hot key of %s at %d %%: takes and settlements/s of a node",
			leaseNodes, hotLimit, percent),
		Weir:     fmt.Sprintf("%d passed, at most %d by the limit", passed.Load(), most),
		Measured: fmt.Sprintf("%.1f/s", each), Target: "≤ 12/s", Verdict: table.AtMost(12).Verdict(each),
	})
	return closeAll(nodes)
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

func asked(nodes []*leased) (calls int64) {
	for _, n := range nodes {
		calls += n.redis.calls.Load()
	}
	return calls
}

func closeAll(nodes []*leased) error {
	for _, n := range nodes {
		if err := n.edge.Close(); err != nil {
			return err
		}
	}
	return nil
}

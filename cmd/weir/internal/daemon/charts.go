package daemon

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
)

// The bounds of charts, which the nodes of a rule database keep there.
const (
	// chartRules is how many rules a node tells of each Step: those with the most traffic. The others are in the sums of their
	// domains.
	chartRules = 256
	// maxUntold is how many counts wait for a database that is away: of 256 rules for an hour. Beyond it new ones are left out, and
	// weir_chart_requests_lost_total counts their requests.
	maxUntold = 100_000
	// chartTime is how long it may take to tell the database, and to read a chart.
	chartTime = 5 * time.Second
)

// charts are the counts that this node has yet to tell the rule database.
type charts struct {
	mu     sync.Mutex
	untold map[rulestore.Traffic]offenders.Total // by all but what was counted
	lost   atomic.Int64
	tell   sync.Mutex // held to tell, so that none is told twice
}

// count adds what was counted in a Step, in any order; it changes counted.
func (c *charts) count(counted []rulestore.Traffic) {
	sums := map[string]rulestore.Traffic{}
	for _, t := range counted {
		sum := sums[t.Domain]
		sum.Domain, sum.At = t.Domain, t.At
		if t.Shadow { // it lets all pass
			sum.Passed += t.Passed + t.Denied
		} else {
			sum.Passed, sum.Denied = sum.Passed+t.Passed, sum.Denied+t.Denied
		}
		sums[t.Domain] = sum
	}
	if len(counted) > chartRules {
		slices.SortFunc(counted, func(a, b rulestore.Traffic) int { return cmp.Compare(b.Passed+b.Denied, a.Passed+a.Denied) })
		counted = counted[:chartRules]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range counted {
		c.add(t)
	}
	for _, t := range sums {
		c.add(t)
	}
}

// add adds one count; the lock is held.
func (c *charts) add(t rulestore.Traffic) {
	n := offenders.Total{Passed: t.Passed, Denied: t.Denied}
	t.Passed, t.Denied = 0, 0
	sum, there := c.untold[t]
	if !there && len(c.untold) >= maxUntold {
		c.lost.Add(n.Passed + n.Denied)
		return
	}
	if c.untold == nil {
		c.untold = map[rulestore.Traffic]offenders.Total{}
	}
	c.untold[t] = offenders.Total{Passed: sum.Passed + n.Passed, Denied: sum.Denied + n.Denied}
}

// take is all that is untold, which is not any more.
func (c *charts) take() (all []rulestore.Traffic) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t, n := range c.untold {
		t.Passed, t.Denied = n.Passed, n.Denied
		all = append(all, t)
	}
	c.untold = nil
	return all
}

// keepCharts tells the rule database each Step what was counted, until ctx ends, and once more then.
func (d *Daemon) keepCharts(ctx context.Context) {
	keepTelling(ctx, offenders.Step, func(within context.Context) error {
		if ctx.Err() != nil { // it is the last time: what the next Step would have had
			d.tickTraffic(time.Now())
		}
		return d.tellCharts(within)
	}, func(failed string) {
		d.config.Log.Warn("traffic can't be kept in the rule database; it is told again", "error", failed)
	})
}

// tellCharts tells the rule database what is untold.
func (d *Daemon) tellCharts(ctx context.Context) error {
	store := d.feed.Store()
	if store == nil {
		return nil
	}
	d.charts.tell.Lock()
	defer d.charts.tell.Unlock()
	all := d.charts.take()
	if len(all) == 0 {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, chartTime)
	defer stop()
	err := store.AddTraffic(ctx, all)
	if err != nil {
		d.charts.mu.Lock()
		defer d.charts.mu.Unlock()
		for _, t := range all {
			d.charts.add(t)
		}
	}
	return err
}

// chart is the traffic of a rule, or without one of a domain, at all nodes of the rule database.
func (d *Daemon) chart(ctx context.Context, of offenders.Filter, span time.Duration) (offenders.Chart, error) {
	store := d.feed.Store()
	if store == nil {
		return offenders.Chart{}, &rulestore.Error{Kind: rulestore.Unavailable, Text: "the rule database, which keeps the traffic of all nodes, can't be reached; try again later"}
	}
	ctx, stop := context.WithTimeout(ctx, chartTime)
	defer stop()
	_ = d.tellCharts(ctx) // else the last steps are those of the other nodes
	now := time.Now()
	var chart offenders.Chart
	for _, one := range []struct {
		shadow bool
		to     *[]offenders.Point
	}{{false, &chart.Enforced}, {true, &chart.Shadow}} {
		if one.shadow && of.Rule == "" { // the sum of a domain has both
			continue
		}
		step, told, err := store.Traffic(ctx, rulestore.Traffic{Domain: of.Domain, Rule: of.Rule, Shadow: one.shadow}, span, now)
		if err != nil {
			return offenders.Chart{}, err
		}
		if chart.Step = step; !one.shadow || len(told) > 0 {
			*one.to = pointsOf(told, now.Add(-span).Truncate(step), now, step)
		}
	}
	return chart, nil
}

// pointsOf is a point for each step from one time to another, also for those without traffic.
func pointsOf(told []rulestore.Traffic, from, to time.Time, step time.Duration) (points []offenders.Point) {
	for at := from; at.Before(to); at = at.Add(step) {
		p := offenders.Point{To: at.Add(step).UTC()}
		for len(told) > 0 && !told[0].At.After(at) {
			if told[0].At.Equal(at) {
				p.Passed, p.Denied = told[0].Passed, told[0].Denied
			}
			told = told[1:]
		}
		points = append(points, p)
	}
	return points
}

// metrics tell what charts miss.
func (c *charts) metrics() []prometheus.Metric {
	return []prometheus.Metric{telemetry.Counter("weir_chart_requests_lost_total",
		"Requests that are missing in charts because the rule database was away for too long.", c.lost.Load())}
}

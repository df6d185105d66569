package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/rules"
)

// keepBook writes down what rules have passed and denied, and how candidates
// differ, until ctx ends.
func (d *Daemon) keepBook(ctx context.Context) error {
	tick := time.NewTicker(offenders.Step)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			d.limiter.book.Tick(now)
			d.board.Tick(now)
		}
	}
}

// known is whether there are such rules here, in force or as candidates.
func (d *Daemon) known(f offenders.Filter) bool {
	set := d.limiter.Set()
	if set == nil {
		return true // nobody knows yet
	}
	if f.Domain != "" && !slices.Contains(set.Domains(), f.Domain) && !slices.Contains(d.board.Domains(), f.Domain) {
		return false
	}
	if f.Rule == "" {
		return true
	}
	if top, _ := d.limiter.book.Top(f, 1); len(top) > 0 { // overrides, too
		return true
	}
	return slices.ContainsFunc(set.Rules(), func(r *rules.Rule) bool {
		return r.Name == f.Rule && (f.Domain == "" || r.Domain == f.Domain)
	})
}

// namesOfClients is what to say in the place of a client's name.
func namesOfClients(hashed bool) func(string) string {
	if hashed {
		return offenders.NewHider().Hide
	}
	return func(name string) string { return name }
}

// trafficMetrics tell how full the book is, when they are asked.
type trafficMetrics struct {
	book        *offenders.Book
	rules, lost *prometheus.Desc
}

func newTrafficMetrics(b *offenders.Book) *trafficMetrics {
	return &trafficMetrics{
		book: b,
		rules: prometheus.NewDesc("weir_traffic_rules",
			"Rules whose most limited clients, and whose history of an hour, are kept; at most 1,024 of "+
				"each.", []string{"kept"}, nil),
		lost: prometheus.NewDesc("weir_traffic_lost_total",
			"What weir top does not show: denials at the same instant as another (busy), denials of rules beyond 1,024 (full), and intervals of 10 s missing in a history (history).",
			[]string{"reason"}, nil),
	}
}

// Describe sends the descriptions, for prometheus.Collector.
func (m *trafficMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.rules
	to <- m.lost
}

// Collect sends the counts, for prometheus.Collector.
func (m *trafficMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.book.Stats()
	for kept, n := range map[string]int{"clients": s.Watched, "history": s.Written} {
		to <- prometheus.MustNewConstMetric(m.rules, prometheus.GaugeValue, float64(n), kept)
	}
	for reason, n := range map[string]int64{"busy": s.Missed, "full": s.Unwatched, "history": s.Unwritten} {
		to <- prometheus.MustNewConstMetric(m.lost, prometheus.CounterValue, float64(n), reason)
	}
}

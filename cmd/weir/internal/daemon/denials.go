package daemon

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/rules"
)

// sweepEvery is how often denials whose time is over are erased.
const sweepEvery = time.Minute

// forgetDenials erases denials whose time is over, until ctx ends.
func (d *Daemon) forgetDenials(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			d.denials.Sweep(now)
		}
	}
}

// denialMetrics reports the denials that are kept, at each scrape.
type denialMetrics struct {
	denials    *rules.Denials
	kept, lost *prometheus.Desc
}

func newDenialMetrics(d *rules.Denials) *denialMetrics {
	return &denialMetrics{
		denials: d,
		kept: prometheus.NewDesc("weir_explain_denials_kept",
			"Denials that weir explain can explain by their id.", nil, nil),
		lost: prometheus.NewDesc("weir_explain_denials_lost_total",
			"Denials that cannot be explained by their id: overwritten by newer ones, too large, at the same instant as another (busy), or decided by a fallback.",
			[]string{"reason"}, nil),
	}
}

// Describe sends the descriptions, for prometheus.Collector.
func (m *denialMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.kept
	to <- m.lost
}

// Collect sends the counts, for prometheus.Collector.
func (m *denialMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.denials.Stats()
	to <- prometheus.MustNewConstMetric(m.kept, prometheus.GaugeValue, float64(s.Kept))
	for reason, n := range map[string]int64{"overwritten": s.Overwritten, "large": s.Large, "busy": s.Missed, "fallback": s.Unseen} {
		to <- prometheus.MustNewConstMetric(m.lost, prometheus.CounterValue, float64(n), reason)
	}
}

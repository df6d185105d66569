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

// denialMetrics tells of the denials that are kept, when it is asked.
type denialMetrics struct {
	denials    *rules.Denials
	kept, lost *prometheus.Desc
}

func newDenialMetrics(d *rules.Denials) *denialMetrics {
	return &denialMetrics{
		denials: d,
		kept:    prometheus.NewDesc("weir_denials_kept", "Denials that can be explained by their id.", nil, nil),
		lost: prometheus.NewDesc("weir_denials_lost_total",
			"Denials that can't be explained before their time is over: later ones took their place, they were too large, met another at the same instant, or a fallback decided (unseen).",
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
	for reason, n := range map[string]int64{"overwritten": s.Overwritten, "large": s.Large, "missed": s.Missed, "unseen": s.Unseen} {
		to <- prometheus.MustNewConstMetric(m.lost, prometheus.CounterValue, float64(n), reason)
	}
}

package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/rules"
)

// denialMetrics reports the denials that are kept, at each scrape.
type denialMetrics struct {
	denials    *rules.Denials
	kept, lost *prometheus.Desc
}

// Denials reports the denials that can be explained.
func Denials(d *rules.Denials) prometheus.Collector {
	return &denialMetrics{
		denials: d,
		kept: prometheus.NewDesc("weir_explain_denials_kept",
			"Denials that weir explain can explain by their id.", nil, nil),
		lost: prometheus.NewDesc("weir_explain_denials_lost_total",
			"Denials that were decided and cannot be explained by their id: overwritten by newer ones, too large, at the same instant as another (busy), or decided by a fallback.",
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
	for reason, n := range map[string]int64{"overwritten": s.Overwritten, "large": s.Large, "busy": s.Missed, "fallback": s.NoEvidence} {
		to <- prometheus.MustNewConstMetric(m.lost, prometheus.CounterValue, float64(n), reason)
	}
}

// trafficMetrics tell how full the book is, when they are asked.
type trafficMetrics struct {
	book        *offenders.Book
	rules, lost *prometheus.Desc
}

// Traffic reports how full the book of the most denied clients is.
func Traffic(b *offenders.Book) prometheus.Collector {
	return &trafficMetrics{
		book: b,
		rules: prometheus.NewDesc("weir_traffic_rules",
			"Rules whose most denied clients, and whose history of an hour, are kept; at most 1,024 of "+
				"each.", []string{"kept"}, nil),
		lost: prometheus.NewDesc("weir_traffic_lost_total",
			"Statistics that weir top lacks, while all decisions are counted elsewhere: denials at the same instant as another (busy), denials of rules beyond 1,024 (full), and intervals of 10 s missing in a history (history).",
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

// shadowMetrics tell how candidates differ, when they are asked.
type shadowMetrics struct {
	board    *shadow.Board
	requests *prometheus.Desc
}

// Shadow reports how candidates differ from the active rules.
func Shadow(b *shadow.Board) prometheus.Collector {
	return &shadowMetrics{b, prometheus.NewDesc("weir_candidate_requests_total",
		"Requests of domains with candidate rules, by which rules deny them: both, only the candidate, only the active rules, neither, or unknown when a fallback decided; starts at 0 with each candidate.",
		[]string{"domain", "denied_by"}, nil)}
}

// Describe sends the description, for prometheus.Collector.
func (m *shadowMetrics) Describe(to chan<- *prometheus.Desc) { to <- m.requests }

// Collect sends the counts, for prometheus.Collector.
func (m *shadowMetrics) Collect(to chan<- prometheus.Metric) {
	now := time.Now()
	for _, domain := range m.board.Domains() {
		r := m.board.Report(domain, 0, now)
		if r == nil {
			continue // it has just ended
		}
		c := &r.Counts
		for by, n := range map[string]int64{
			"both": c.BothDeny, "neither": c.BothPass, "candidate": c.OnlyCandidate, "active": c.OnlyInForce, "unknown": c.Unknown,
		} {
			to <- prometheus.MustNewConstMetric(m.requests, prometheus.CounterValue, float64(n), domain, by)
		}
	}
}

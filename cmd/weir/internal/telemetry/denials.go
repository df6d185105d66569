package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/rules"
)

// Denials reports the denials that can be explained.
func Denials(d *rules.Denials) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := d.Stats()
		return append([]prometheus.Metric{
			Gauge("weir_explain_denials_kept", "Denials that weir explain can explain by their id.", s.Kept),
		}, By(Counter, "weir_explain_denials_lost_total",
			"Denials that were decided and cannot be explained by their id: overwritten by newer ones, too large, at "+
				"the same instant as another (busy), or decided by a fallback.",
			"reason", map[string]int64{
				"overwritten": s.Overwritten, "large": s.Large, "busy": s.Missed, "fallback": s.NoEvidence,
			})...)
	})
}

// Traffic reports how full the book of the most denied clients is.
func Traffic(b *offenders.Book) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := b.Stats()
		return append(By(Gauge, "weir_traffic_rules",
			"Rules whose most denied clients, and whose history of an hour, are kept; at most 1,024 of each.",
			"kept", map[string]int{"clients": s.Watched, "history": s.Written},
		), By(Counter, "weir_traffic_lost_total",
			"Statistics that weir top lacks, while all decisions are counted elsewhere: denials at the same instant "+
				"as another (busy), denials of rules beyond 1,024 (full), and intervals of 10 s missing in a history "+
				"(history).",
			"reason", map[string]int64{"busy": s.Missed, "full": s.Unwatched, "history": s.Unwritten})...)
	})
}

// Shadow reports how candidates differ from the active rules.
func Shadow(b *shadow.Board) prometheus.Collector {
	return Readings(func() (all []prometheus.Metric) {
		now := time.Now()
		for _, r := range b.Reports("", 0, now) {
			c := &r.Counts
			all = append(all, By(Counter, "weir_candidate_requests_total",
				"Requests that met a candidate rule, by which rules deny them: both, only the candidate, only the "+
					"active rules, neither, or unknown when a fallback decided; starts at 0 with each candidate.",
				"denied_by", map[string]int64{
					"both": c.BothDeny, "neither": c.BothPass, "candidate": c.OnlyCandidate, "active": c.OnlyActive,
					"unknown": c.Unknown,
				}, "domain", r.Key.Domain, "rule", r.Key.Rule)...)
		}
		return all
	})
}

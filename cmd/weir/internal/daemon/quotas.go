package daemon

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/rlqs"
	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
)

// openQuotas is the service that gives portions of limits to proxies; nil where the store lets more pass than a limit does:
// a portion could not be charged before it passes.
func (d *Daemon) openQuotas() *rlqs.Service {
	if d.storage.traits.Late {
		return nil
	}
	s := rlqs.New(d.limiter.Limiter, d.storage.store, rlqs.Options{
		Remembers: d.storage.remote != nil, Local: d.storage.here(), Log: d.config.Log, Began: time.Now(),
	})
	d.registry.MustRegister(telemetry.Readings(func() []prometheus.Metric {
		r := s.Stats()
		return append(
			telemetry.By(telemetry.Counter[int64], "weir_quota_events_total",
				"What the rate limit quota service did and met, by event: see docs/operating.md.", "event", r.Events),
			telemetry.Gauge("weir_quota_streams", "Proxies that report to this daemon.", r.Streams),
			telemetry.Gauge("weir_quota_buckets", "Buckets that proxies ask quotas of.", r.Buckets),
			telemetry.Gauge("weir_quota_holders", "Buckets of all proxies together.", r.Holders),
		)
	}))
	return rlqs.NewService(s)
}

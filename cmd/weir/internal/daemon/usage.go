package daemon

import (
	"context"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/telemetry"
	"github.com/weir-limit/weir/cmd/weir/internal/usagelog/outlet"
)

// usageLeast is how long the usage log has at least to tell the last interval, however long
// draining has taken.
const usageLeast = 2 * time.Second

// openUsage opens the usage log, if there is to be one, and has the limiter count for it.
func (d *Daemon) openUsage() error {
	if d.config.UsageLog == "" {
		return nil
	}
	name := d.config.Cluster
	if d.storage.node == nil {
		host, _ := os.Hostname() // without one, the URL has to tell
		name = host
	}
	l, err := outlet.Open(d.config.UsageLog, name, d.usageChanged)
	if err != nil {
		return &ConfigError{"--usage-log", err.Error()}
	}
	d.usage = l
	d.closing.push("usage was not logged", d.closeUsage)
	d.limiter.LogUsage(l)
	d.registry.MustRegister(telemetry.Readings(d.usageMetrics))
	return nil
}

// closeUsage tells the last interval. Nobody counts any more.
func (d *Daemon) closeUsage(ctx context.Context) error {
	if !d.draining.Load() {
		return d.usage.Discard() // nobody was answered
	}
	least, cancel := context.WithTimeout(context.WithoutCancel(ctx), usageLeast)
	defer cancel()
	if end, ok := ctx.Deadline(); ok && time.Until(end) > usageLeast {
		return d.usage.Stop(ctx)
	}
	return d.usage.Stop(least)
}

// usageChanged logs that records of usage can't be kept, or can be again.
func (d *Daemon) usageChanged(away error) {
	log := d.config.Log.With("usage_log", schemeOf(d.config.UsageLog))
	if away == nil {
		log.Info("usage is logged again; what was counted meanwhile is told")
		return
	}
	log.Error("usage can't be logged; what is counted waits in memory", "error", away)
}

func (d *Daemon) usageMetrics() []prometheus.Metric {
	s := d.usage.Stats()
	return []prometheus.Metric{
		telemetry.Counter("weir_usage_log_records_total", "Records of usage that were acknowledged.", s.Kept),
		telemetry.Counter("weir_usage_log_failures_total", "Attempts to keep records of usage that failed; they are tried again.", s.Failures),
		telemetry.Gauge("weir_usage_log_waiting_bytes", "Records of usage that wait to be acknowledged; at most 32 MiB, or those of one interval.", s.Waiting),
		telemetry.Gauge("weir_usage_log_waiting_seconds", "How long the oldest of them has waited.", s.Oldest.Seconds()),
		telemetry.Counter("weir_usage_log_long_intervals_total",
			"Seconds that an interval of usage lasted longer, because too many records wait.", s.Late),
		telemetry.Counter("weir_usage_log_other_keys_total",
			"Keys that an interval of usage had no room for: they are counted together, for each rule.", s.Other),
	}
}

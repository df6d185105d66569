package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/synced"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/redisstore"
)

// reading is a metric that is read at each scrape.
type reading struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value float64
	label []string
}

// readings are the metrics of a part that counts by itself.
type readings func() []reading

// Describe sends the descriptions, for prometheus.Collector.
func (r readings) Describe(to chan<- *prometheus.Desc) {
	for _, one := range r() {
		to <- one.desc
	}
}

// Collect sends the counts, for prometheus.Collector.
func (r readings) Collect(to chan<- prometheus.Metric) {
	for _, one := range r() {
		to <- prometheus.MustNewConstMetric(one.desc, one.kind, one.value, one.label...)
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func gauge(d *prometheus.Desc, value float64) reading {
	return reading{desc: d, kind: prometheus.GaugeValue, value: value}
}

func counter(d *prometheus.Desc, n int64, label ...string) reading {
	return reading{desc: d, kind: prometheus.CounterValue, value: float64(n), label: label}
}

// Memory tells the counts of a memory store.
func Memory(store *memstore.Store) prometheus.Collector {
	rules := desc("weir_memory_rules", "Rules whose counts are in memory.")
	slots := desc("weir_memory_slots", "Slots for keys in memory, used and free.")
	evicted := desc("weir_memory_evicted_total",
		"Keys whose use was forgotten because their table was full; they have their whole limit again.")
	overflow := desc("weir_memory_overflow_total",
		"Decisions about new keys that shared a count because their table was full of denied keys; they may be "+
			"denied too early, and none passes too much.")
	receipts := desc("weir_memory_settled_receipts",
		"Settled receipts that the store remembers so that each works once.")
	refused := desc("weir_memory_receipts_refused_total",
		"Requests that got no receipt because too many receipts of their rule were settled lately.")
	busy := desc("weir_memory_abandoned_takes_total",
		"Takes that were given up because the limits of their rules changed all the time.")
	return readings(func() []reading {
		s := store.Stats()
		return []reading{
			gauge(rules, float64(s.Rules)), gauge(slots, float64(s.Slots)), counter(evicted, s.Evicted),
			counter(overflow, s.Overflow), gauge(receipts, float64(s.Settled)), counter(refused, s.Refused),
			counter(busy, s.Busy),
		}
	})
}

// Guard tells how a store outside of the process is doing.
func Guard(g *guard.Guard) prometheus.Collector {
	away := desc("weir_store_unavailable_servers",
		"Servers of the store that do not answer, so that the fallbacks of the rules decide their keys.")
	distance := desc("weir_store_latency_seconds",
		"How long a call to the slowest server of the store takes: the second longest of its last 16.")
	deadline := desc("weir_store_deadline_seconds",
		"How long a call to the store may take: twice the latency and 10 ms, at most 400 ms.")
	missed := desc("weir_store_missed_deadlines_total",
		"Calls to the store that had no answer before their deadline.")
	fallbacks := desc("weir_store_fallback_decisions_total",
		"Decisions that were made without the store, by the fallback that made them.", "fallback")
	owed := desc("weir_store_unreported_usage_keys",
		"Keys with usage that a fallback allowed and that will be reported to the store when it answers "+
			"again.")
	untold := desc("weir_store_unreported_usage_dropped_total",
		"Decisions by fallbacks that will never be reported to the store because too many keys have "+
			"unreported usage; as much may pass again.")
	dropped := desc("weir_store_cached_states_dropped_total",
		"Keys whose last state in the store this process forgot because it has seen too many keys; a "+
			"fallback treats them as unused.")
	uncounted := desc("weir_store_unusable_key_takes_total",
		"Takes that the store cannot count because another program wrote to their key or its item would "+
			"be too large; the log says which.")
	return readings(func() []reading {
		s := g.Stats()
		return []reading{
			gauge(away, float64(s.Away)), gauge(distance, s.Distance.Seconds()), gauge(deadline, s.Deadline.Seconds()), counter(missed, s.Missed),
			counter(fallbacks, s.Local, "local"), counter(fallbacks, s.Open, "open"), counter(fallbacks, s.Closed, "closed"),
			gauge(owed, float64(s.Owed)), counter(untold, s.Untold), counter(dropped, s.Dropped), counter(uncounted, s.Uncounted),
		}
	})
}

// Sync reports what rules with sync decide locally.
func Sync(store *synced.Store) prometheus.Collector {
	keys := desc("weir_sync_keys", "Keys of rules with sync that this process decides locally.")
	takes := desc("weir_sync_takes_total",
		"Takes of rules with sync, by whether this process (local) or the store decided them.", "by")
	calls := desc("weir_sync_calls_total",
		"Calls that reported usage of rules with sync to the store, or read its counts.")
	events := desc("weir_sync_reported_events_total", "Events of rules with sync that were reported to the store.")
	noRoom := desc("weir_sync_table_full_total",
		"Takes of rules with sync that the store decided because the local table of keys was full.")
	return readings(func() []reading {
		s := store.Stats()
		return []reading{
			gauge(keys, float64(s.Keys)), counter(takes, s.Home, "local"), counter(takes, s.Store, "store"),
			counter(calls, s.Calls), counter(events, s.Events), counter(noRoom, s.NoRoom),
		}
	})
}

// Redis tells the counts of a store in Redis.
func Redis(store *redisstore.Store) prometheus.Collector {
	takes := desc("weir_redis_takes_total", "Takes that were sent to Redis.")
	calls := desc("weir_redis_calls_total",
		"Script calls that carried takes to Redis, each with one take or several.")
	home := desc("weir_redis_local_denials_total",
		"Takes that were denied locally, without Redis, because their key has been denied until later.")
	disagreed := desc("weir_redis_decision_mismatches_total",
		"Decisions on which the script in Redis and this program differ; each is a bug to report.")
	adopted := desc("weir_redis_changed_limit_takes_total",
		"Takes of keys that have counts of an earlier version of their limit.")
	tries := desc("weir_redis_write_conflicts_total",
		"Writes to Redis that were tried again because another process had changed the same key.")
	busy := desc("weir_redis_abandoned_takes_total",
		"Takes that their fallbacks decided because too many processes wrote the same key in Redis.")
	receipts := desc("weir_redis_settled_receipts",
		"Receipts that this process settled and that have not expired; each has a key in Redis until then.")
	refused := desc("weir_redis_receipts_refused_total",
		"Requests that got no receipt because this process settled too many receipts of their rule "+
			"lately.")
	return readings(func() []reading {
		s := store.Stats()
		return []reading{
			counter(takes, s.Takes), counter(calls, s.Calls), counter(home, s.Home), counter(disagreed, s.Disagreed),
			counter(adopted, s.Adopted), counter(tries, s.Tries), counter(busy, s.Busy),
			gauge(receipts, float64(s.Settled)), counter(refused, s.Refused),
		}
	})
}

// Memcached tells the counts of a store in memcached.
func Memcached(store *memcachestore.Store) prometheus.Collector {
	takes := desc("weir_memcached_takes_total", "Takes that were sent to memcached.")
	trips := desc("weir_memcached_round_trips_total", "Round trips to memcached servers.")
	home := desc("weir_memcached_local_denials_total",
		"Takes that were denied locally, without memcached, because their key has been denied until "+
			"later.")
	lost := desc("weir_memcached_write_conflicts_total",
		"Writes to memcached that were tried again because another process had changed the same item.")
	busy := desc("weir_memcached_abandoned_takes_total",
		"Takes that their fallbacks decided because too many processes wrote the same item in memcached.")
	spilled := desc("weir_memcached_spilled_records_total",
		"Idempotency records that moved to items of their own because the item of their key was full.")
	forgotten := desc("weir_memcached_lost_items_total",
		"Items that memcached evicted or flushed before their time; the keys in them may pass their "+
			"limits again.")
	return readings(func() []reading {
		s := store.Stats()
		return []reading{
			counter(takes, s.Takes), counter(trips, s.Trips), counter(home, s.Home), counter(lost, s.Lost),
			counter(busy, s.Busy), counter(spilled, s.Spilled), counter(forgotten, s.Forgotten),
		}
	})
}

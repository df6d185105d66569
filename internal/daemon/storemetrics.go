package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/synced"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/redisstore"
)

// reading is a metric that is read when somebody asks.
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

// newMemoryMetrics tells the counts of a memory store.
func newMemoryMetrics(store *memstore.Store) prometheus.Collector {
	rules := desc("weir_memory_rules", "Rules whose counts are in memory.")
	slots := desc("weir_memory_slots", "Places for keys in memory.")
	evicted := desc("weir_memory_evicted_total", "Keys whose use was forgotten in a full table; more memory would keep them.")
	overflow := desc("weir_memory_overflow_total", "Decisions about keys that had to share a count, because all others in reach were denied.")
	receipts := desc("weir_memory_settled_receipts", "Settled receipts that are remembered.")
	refused := desc("weir_memory_receipts_refused_total", "Requests that wanted a receipt of a rule of which too many were settled lately.")
	busy := desc("weir_memory_busy_total", "Requests given up, because the limits of their rules changed all the time.")
	return readings(func() []reading {
		s := store.Stats()
		return []reading{
			gauge(rules, float64(s.Rules)), gauge(slots, float64(s.Slots)), counter(evicted, s.Evicted),
			counter(overflow, s.Overflow), gauge(receipts, float64(s.Settled)), counter(refused, s.Refused),
			counter(busy, s.Busy),
		}
	})
}

// newGuardMetrics tells how a store outside of the process is doing.
func newGuardMetrics(g *guard.Guard) prometheus.Collector {
	away := desc("weir_store_away", "Servers of the store that are away; the fallbacks of the rules decide what they have.")
	distance := desc("weir_store_distance_seconds", "What a call to the store takes: all but one of the last 16, of the server that is farthest.")
	deadline := desc("weir_store_deadline_seconds", "What a call to the store is given: twice its distance and 10 ms, 400 ms at most.")
	missed := desc("weir_store_missed_deadlines_total", "Calls to the store that had no answer within their time.")
	fallbacks := desc("weir_store_fallback_decisions_total", "Limits decided without the store, by fallback.", "fallback")
	owed := desc("weir_store_owed_keys", "Keys whose use by fallbacks the store has yet to hear of; it does when it is back.")
	untold := desc("weir_store_untold_total", "Limits decided by fallbacks of which the store will not hear, because too many keys are owed.")
	dropped := desc("weir_store_standings_dropped_total", "Keys of which it was forgotten what the store last said, because too many were asked for; fallbacks begin with them as never used.")
	uncounted := desc("weir_store_uncountable_total", "Takes of keys that the store can't count, because another program has written there, or an item would be too large; the log says why.")
	return readings(func() []reading {
		s := g.Stats()
		return []reading{
			gauge(away, float64(s.Away)), gauge(distance, s.Distance.Seconds()), gauge(deadline, s.Deadline.Seconds()), counter(missed, s.Missed),
			counter(fallbacks, s.Local, "local"), counter(fallbacks, s.Open, "open"), counter(fallbacks, s.Closed, "closed"),
			gauge(owed, float64(s.Owed)), counter(untold, s.Untold), counter(dropped, s.Dropped), counter(uncounted, s.Uncounted),
		}
	})
}

// newSyncMetrics tells what is decided at home, by rules with sync.
func newSyncMetrics(store *synced.Store) prometheus.Collector {
	keys := desc("weir_sync_keys", "Keys of rules with sync that are kept at home.")
	takes := desc("weir_sync_takes_total", "Takes of rules with sync, by who decided.", "by")
	calls := desc("weir_sync_calls_total", "Calls that told the store of takes, or looked.")
	events := desc("weir_sync_events_total", "Events that the store was told of.")
	noRoom := desc("weir_sync_no_room_total", "Takes that found no room for their keys at home; the store decided them.")
	return readings(func() []reading {
		s := store.Stats()
		return []reading{
			gauge(keys, float64(s.Keys)), counter(takes, s.Home, "home"), counter(takes, s.Store, "store"),
			counter(calls, s.Calls), counter(events, s.Events), counter(noRoom, s.NoRoom),
		}
	})
}

// newRedisMetrics tells the counts of a store in Redis.
func newRedisMetrics(store *redisstore.Store) prometheus.Collector {
	takes := desc("weir_redis_takes_total", "Takes that were sent to Redis.")
	calls := desc("weir_redis_calls_total", "Script calls that carried them; takes travel together.")
	home := desc("weir_redis_home_denials_total", "Takes denied by what was remembered of the key, without Redis.")
	disagreed := desc("weir_redis_disagreed_total", "Decisions that the script in Redis and this program saw differently. Each is a bug.")
	adopted := desc("weir_redis_adopted_total", "Counts that took over a changed limit.")
	tries := desc("weir_redis_tries_total", "Writes that came too late, because others had changed the count; they are tried again.")
	busy := desc("weir_redis_busy_total", "Takes given up, because too many wanted the same count; their fallbacks decided.")
	receipts := desc("weir_redis_settled_receipts", "Receipts settled here, each of which has a key in Redis until it expires.")
	refused := desc("weir_redis_receipts_refused_total", "Requests that wanted a receipt of a rule of which too many were settled here lately.")
	return readings(func() []reading {
		s := store.Stats()
		return []reading{
			counter(takes, s.Takes), counter(calls, s.Calls), counter(home, s.Home), counter(disagreed, s.Disagreed),
			counter(adopted, s.Adopted), counter(tries, s.Tries), counter(busy, s.Busy),
			gauge(receipts, float64(s.Settled)), counter(refused, s.Refused),
		}
	})
}

// newMemcachedMetrics tells the counts of a store in memcached.
func newMemcachedMetrics(store *memcachestore.Store) prometheus.Collector {
	takes := desc("weir_memcached_takes_total", "Takes that servers were asked.")
	trips := desc("weir_memcached_trips_total", "Round trips to servers.")
	home := desc("weir_memcached_home_denials_total", "Takes denied by what was remembered of the key, without a server.")
	lost := desc("weir_memcached_lost_total", "Writes that came too late, for another process had written; they are tried again.")
	busy := desc("weir_memcached_busy_total", "Takes given up, because too many wanted the same count; their fallbacks decided.")
	spilled := desc("weir_memcached_spilled_total", "Notes of receipts and first answers that went to items of their own.")
	forgotten := desc("weir_memcached_forgotten_total", "Items that this process had seen, and that a server was to keep and did not: evicted, flushed, restarted. Each may pass its limit again.")
	return readings(func() []reading {
		s := store.Stats()
		return []reading{
			counter(takes, s.Takes), counter(trips, s.Trips), counter(home, s.Home), counter(lost, s.Lost),
			counter(busy, s.Busy), counter(spilled, s.Spilled), counter(forgotten, s.Forgotten),
		}
	})
}

package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/logstore"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/leased"
	"github.com/weir-limit/weir/internal/synced"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/natsstore"
	"github.com/weir-limit/weir/pgstore"
	"github.com/weir-limit/weir/redisstore"
)

// Memory tells the counts of a memory store.
func Memory(store *memstore.Store) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := store.Stats()
		return []prometheus.Metric{
			Gauge("weir_memory_rules", "Rules whose counts are in memory.", s.Rules),
			Gauge("weir_memory_slots", "Slots for keys in memory, used and free.", s.Slots),
			Counter("weir_memory_evicted_total",
				"Keys whose use was forgotten because their table was full; they have their whole limit again.",
				s.Evicted),
			Counter("weir_memory_overflow_total",
				"Decisions about new keys that shared a count because their table was full of denied keys; they "+
					"may be denied too early, and none passes too much.", s.Overflow),
			Gauge("weir_memory_own_keys", "Keys in memory that have a limit of their own, or had one until they have recovered.", s.Own),
			Counter("weir_memory_own_full_total",
				"Decisions about such keys for which there was no room; they passed only what the limit of their rule lets pass, too.", s.OwnFull),
			Gauge("weir_memory_settled_receipts",
				"Settled receipts that the store remembers so that each works once.", s.Settled),
			Counter("weir_memory_receipts_refused_total",
				"Requests that got no receipt because too many receipts of their rule were settled lately.", s.Refused),
			Counter("weir_memory_abandoned_takes_total",
				"Takes that were given up because the limits of their rules changed all the time.", s.Busy),
		}
	})
}

// Guard tells how a store outside of the process is doing.
func Guard(g *guard.Guard) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := g.Stats()
		return append([]prometheus.Metric{
			Gauge("weir_store_unavailable_servers",
				"Servers of the store that do not answer, so that the fallbacks of the rules decide their keys.",
				s.Away),
			Gauge("weir_store_latency_seconds",
				"How long a call to the slowest server of the store takes: the second longest of its last 16.",
				s.Distance.Seconds()),
			Gauge("weir_store_deadline_seconds",
				"How long a call to the store may take: twice the latency and 10 ms, at most 400 ms.",
				s.Deadline.Seconds()),
			Counter("weir_store_missed_deadlines_total",
				"Calls to the store that had no answer before their deadline.", s.Missed),
			Gauge("weir_store_unreported_usage_keys",
				"Keys with usage that a fallback allowed and that will be reported to the store when it answers "+
					"again.", s.Unreported),
			Counter("weir_store_unreported_usage_dropped_total",
				"Decisions by fallbacks that will never be reported to the store because too many keys have "+
					"unreported usage; as much may pass again.", s.Unkept),
			Counter("weir_store_cached_states_dropped_total",
				"Keys whose last state in the store this process forgot because it has seen too many keys; a "+
					"fallback treats them as unused.", s.Dropped),
			Counter("weir_store_unusable_key_takes_total",
				"Takes that the store cannot count because another program wrote to their key or its item would "+
					"be too large; the log says which.", s.Uncounted),
		}, By(Counter, "weir_store_fallback_decisions_total",
			"Decisions that were made without the store, by the fallback that made them.",
			"fallback", map[string]int64{"local": s.Local, "open": s.Open, "closed": s.Closed})...)
	})
}

// Sync reports what rules with sync decide locally.
func Sync(store *synced.Store) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := store.Stats()
		return append([]prometheus.Metric{
			Gauge("weir_sync_keys", "Keys of rules with sync that this process decides locally.", s.Keys),
			Counter("weir_sync_calls_total",
				"Calls that reported usage of rules with sync to the store, or read its counts.", s.Calls),
			Counter("weir_sync_reported_events_total",
				"Events of rules with sync that were reported to the store.", s.Events),
			Counter("weir_sync_table_full_total",
				"Takes of rules with sync that the store decided because the local table of keys was full.", s.NoRoom),
		}, By(Counter, "weir_sync_takes_total",
			"Takes of rules with sync, by whether this process (local) or the store decided them.",
			"by", map[string]int64{"local": s.Local, "store": s.Store})...)
	})
}

// Lease reports what rules with lease hold and decide locally.
func Lease(store *leased.Store) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := store.Stats()
		return append([]prometheus.Metric{
			Gauge("weir_lease_keys", "Keys of rules with lease of which this process may hold a portion.", s.Keys),
			Gauge("weir_lease_unspent_events",
				"Events that this process holds: charged in the store, and not passed yet. They are missing elsewhere.",
				s.Unspent),
			Counter("weir_lease_portions_total", "Portions of limits that this process took from the store.", s.Portions),
			Counter("weir_lease_taken_events_total", "Events of these portions.", s.Taken),
			Counter("weir_lease_returned_events_total",
				"Events of these portions that were not spent and that the store has again.", s.Returned),
			Counter("weir_lease_lost_events_total",
				"Events of these portions that could not be given back; they deny until the limit recovers.", s.Lost),
			Counter("weir_lease_table_full_total",
				"Takes of rules with lease that the store decided because the local table of keys was full.", s.NoRoom),
		}, By(Counter, "weir_lease_takes_total",
			"Takes of rules with lease, by whether this process (local) or the store decided them.",
			"by", map[string]int64{"local": s.Local, "store": s.Store})...)
	})
}

// Redis tells the counts of a store in Redis.
func Redis(store *redisstore.Store) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := store.Stats()
		return []prometheus.Metric{
			Counter("weir_redis_takes_total", "Takes that were sent to Redis.", s.Takes),
			Counter("weir_redis_calls_total",
				"Script calls that carried takes to Redis, each with one take or several.", s.Calls),
			Counter("weir_redis_local_denials_total",
				"Takes that were denied locally, without Redis, because their key has been denied until later.",
				s.Remembered),
			Counter("weir_redis_decision_mismatches_total",
				"Decisions on which the script in Redis and this program differ; each is a bug to report.",
				s.Disagreed),
			Counter("weir_redis_changed_limit_takes_total",
				"Takes of keys that have counts of an earlier version of their limit.", s.Adopted),
			Counter("weir_redis_write_conflicts_total",
				"Writes to Redis that were tried again because another process had changed the same key.", s.Tries),
			Counter("weir_redis_abandoned_takes_total",
				"Takes that their fallbacks decided because too many processes wrote the same key in Redis.", s.Busy),
			Gauge("weir_redis_settled_receipts",
				"Receipts that this process settled and that have not expired; each has a key in Redis until "+
					"then.", s.Settled),
			Counter("weir_redis_receipts_refused_total",
				"Requests that got no receipt because this process settled too many receipts of their rule "+
					"lately.", s.Refused),
		}
	})
}

// Memcached tells the counts of a store in memcached.
func Memcached(store *memcachestore.Store) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := store.Stats()
		return []prometheus.Metric{
			Counter("weir_memcached_takes_total", "Takes that were sent to memcached.", s.Takes),
			Counter("weir_memcached_round_trips_total", "Round trips to memcached servers.", s.Trips),
			Counter("weir_memcached_local_denials_total",
				"Takes that were denied locally, without memcached, because their key has been denied until "+
					"later.", s.Remembered),
			Counter("weir_memcached_write_conflicts_total",
				"Writes to memcached that were tried again because another process had changed the same item.", s.Lost),
			Counter("weir_memcached_abandoned_takes_total",
				"Takes that their fallbacks decided because too many processes wrote the same item in memcached.",
				s.Busy),
			Counter("weir_memcached_spilled_records_total",
				"Idempotency records that moved to items of their own because the item of their key was full.",
				s.Spilled),
			Counter("weir_memcached_lost_items_total",
				"Items that memcached evicted or flushed before their time; the keys in them may pass their "+
					"limits again.", s.Forgotten),
		}
	})
}

// Postgres tells the counts of a store in PostgreSQL.
func Postgres(store *pgstore.Store) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := store.Stats()
		return []prometheus.Metric{
			Counter("weir_postgres_takes_total", "Takes that were sent to PostgreSQL.", s.Takes),
			Counter("weir_postgres_statements_total", "Statements that read or wrote rows of takes in PostgreSQL.", s.Statements),
			Counter("weir_postgres_local_denials_total",
				"Takes that were denied locally, without PostgreSQL, because their key has been denied until later.",
				s.Remembered),
			Counter("weir_postgres_write_conflicts_total",
				"Writes to PostgreSQL that were tried again because another process had changed the same row.", s.Lost),
			Counter("weir_postgres_abandoned_takes_total",
				"Takes that their fallbacks decided because too many processes wrote the same row in PostgreSQL.", s.Busy),
			Counter("weir_postgres_spilled_records_total",
				"Idempotency records that moved to rows of their own because the row of their key was full.", s.Spilled),
			Counter("weir_postgres_lost_rows_total",
				"Rows that were gone before their time, as after a failover or a crash with an unlogged table; the keys "+
					"in them may pass their limits again.", s.Forgotten),
			Counter("weir_postgres_swept_rows_total", "Rows that this process deleted because they were over.", s.Swept),
			Gauge("weir_postgres_connections", "Connections to PostgreSQL that are open.", s.Connections),
			Gauge("weir_postgres_clock_skew_seconds",
				"How far the clock that decides may be from the server's, with clock=server; else 0.",
				s.SkewBound.Seconds()),
		}
	})
}

// NATS tells the counts of a store in NATS.
func NATS(store *natsstore.Store) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := store.Stats()
		return []prometheus.Metric{
			Counter("weir_nats_takes_total", "Takes that were sent to NATS.", s.Takes),
			Counter("weir_nats_round_trips_total", "Round trips to the servers of NATS.", s.Trips),
			Counter("weir_nats_local_denials_total",
				"Takes that were denied locally, without NATS, because their key has been denied until later.",
				s.Remembered),
			Counter("weir_nats_write_conflicts_total",
				"Writes to NATS that were tried again because another process had changed the same key.", s.Lost),
			Counter("weir_nats_abandoned_takes_total",
				"Takes that their fallbacks decided because too many processes wrote the same key in NATS.", s.Busy),
			Counter("weir_nats_spilled_records_total",
				"Idempotency records that moved to keys of their own because the value of their key was full.",
				s.Spilled),
			Counter("weir_nats_lost_items_total",
				"Keys that were gone from the bucket before their time; they may pass their limits again.",
				s.Forgotten),
		}
	})
}

// Log tells how an event log is doing by which counts are shared.
func Log(store *logstore.Store) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s := store.Stats()
		return append([]prometheus.Metric{
			Gauge("weir_log_lag_seconds",
				"How long it takes until a daemon reads back from the log what it has appended, in the slowest "+
					"partition: when it is too long, the fallbacks of the rules decide.", s.Lag.Seconds()),
			Gauge("weir_log_behind_messages", "Messages in the log that this daemon has not read yet.", s.Behind),
			Gauge("weir_log_keys", "Keys whose counts this daemon keeps.", s.Keys),
			Gauge("weir_log_waiting_keys", "Keys with counts that are to be appended to the log.", s.Waiting),
			Gauge("weir_log_unacknowledged_messages",
				"Messages that were sent to the log, which has not said that it has them.", s.InFlight),
			Counter("weir_log_appended_messages_total", "Messages that were appended to the log.", s.Appended),
			Counter("weir_log_refused_messages_total",
				"Messages that the log refused; their counts are appended again.", s.Refused),
			Counter("weir_log_read_messages_total", "Messages that were read from the log, of all daemons.", s.Read),
			Counter("weir_log_news_total", "Counts of other daemons that were news to this one.", s.News),
			Counter("weir_log_lost_messages_total",
				"Messages that were deleted from the log before this daemon has read them; what they told may pass "+
					"again.", s.Lost),
			Counter("weir_log_dropped_counts_total",
				"Counts of other daemons that this one does not keep, because it has too many keys or daemons or "+
					"can't share such a limit.", s.Dropped),
		}, By(Counter, "weir_log_skipped_messages_total",
			"Messages in the log that were skipped: foreign ones are not of Weir, newer ones of a later version of "+
				"it.",
			"kind", map[string]int64{"foreign": s.Foreign, "newer": s.Newer})...)
	})
}

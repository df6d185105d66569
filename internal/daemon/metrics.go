package daemon

import (
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc/codes"

	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// metrics are what the daemon tells of itself. Their labels come from the rule
// files and from this program, never from requests.
type metrics struct {
	decisions *prometheus.CounterVec
	calls     *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	httpTime  prometheus.Observer
	grpcTime  prometheus.Observer
	panics    *prometheus.CounterVec
	open      *prometheus.GaugeVec
	full      *prometheus.CounterVec
	domains   prometheus.Gauge
	rules     prometheus.Gauge
}

func newMetrics(r prometheus.Registerer, version string, store *memstore.Store, ready func() bool) *metrics {
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_decisions_total", Help: "What the limit of a rule alone said; peeks are not counted. A shadow rule is not enforced.",
		}, []string{"domain", "rule", "shadow", "outcome"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_calls_total", Help: "Calls that were answered, by door, route and status.",
		}, []string{"door", "route", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_call_duration_seconds", Help: "How long calls took in the door, from the request's header read to the answer written.",
			Buckets: prometheus.ExponentialBuckets(10e-6, 4, 9),
		}, []string{"door"}),
		panics: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_panics_total", Help: "Calls that panicked. Each is a bug; the log tells where.",
		}, []string{"door"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_connections", Help: "Open connections.",
		}, []string{"door"}),
		full: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_connections_full_total", Help: "How often a newcomer had to wait because a door had all the connections that it may.",
		}, []string{"door"}),
		domains: prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_domains", Help: "Domains that have rules."}),
		rules:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "weir_rules", Help: "Rules in force."}),
	}
	m.httpTime, m.grpcTime = m.duration.WithLabelValues("http"), m.duration.WithLabelValues("grpc")
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "weir_build_info", Help: "1; its labels tell what was built.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	})
	build.Set(1)
	r.MustRegister(
		m.decisions, m.calls, m.duration, m.panics, m.open, m.full, m.domains, m.rules, build,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "weir_ready", Help: "1 when /readyz says so."}, func() float64 {
			if ready() {
				return 1
			}
			return 0
		}),
		newStoreMetrics(store),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

func (m *metrics) setRules(set *rules.Set) {
	m.domains.Set(float64(len(set.Domains())))
	m.rules.Set(float64(len(set.Rules())))
}

func (m *metrics) httpCall(route string, status int, took time.Duration) {
	m.calls.WithLabelValues("http", route, strconv.Itoa(status)).Inc()
	m.httpTime.Observe(took.Seconds())
}

// adminCall counts only: explanations would blur how long decisions take.
func (m *metrics) adminCall(route string, status int, _ time.Duration) {
	m.calls.WithLabelValues("admin", route, strconv.Itoa(status)).Inc()
}

func (m *metrics) grpcCall(code codes.Code, took time.Duration) {
	m.calls.WithLabelValues("grpc", "ShouldRateLimit", code.String()).Inc()
	m.grpcTime.Observe(took.Seconds())
}

func (m *metrics) panicked(door string) func() { return m.panics.WithLabelValues(door).Inc }

// connectionMetrics are those of one door.
type connectionMetrics struct {
	open prometheus.Gauge
	full prometheus.Counter
}

func (m *metrics) connections(door string) connectionMetrics {
	return connectionMetrics{m.open.WithLabelValues(door), m.full.WithLabelValues(door)}
}

// storeMetrics tells the counts of a memory store when it is asked.
type storeMetrics struct {
	store                                     *memstore.Store
	rules, slots, evicted, overflow, receipts *prometheus.Desc
}

func newStoreMetrics(store *memstore.Store) *storeMetrics {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &storeMetrics{
		store:    store,
		rules:    desc("weir_memory_rules", "Rules whose counts are in memory."),
		slots:    desc("weir_memory_slots", "Places for keys in memory."),
		evicted:  desc("weir_memory_evicted_total", "Keys whose use was forgotten in a full table; more memory would keep them."),
		overflow: desc("weir_memory_overflow_total", "Decisions about keys that had to share a count, because all others in reach were denied."),
		receipts: desc("weir_memory_settled_receipts", "Settled receipts that are remembered."),
	}
}

// Describe sends the descriptions, for prometheus.Collector.
func (s *storeMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.rules, s.slots, s.evicted, s.overflow, s.receipts} {
		to <- d
	}
}

// Collect sends the counts, for prometheus.Collector.
func (s *storeMetrics) Collect(to chan<- prometheus.Metric) {
	st := s.store.Stats()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, n int64) {
		to <- prometheus.MustNewConstMetric(d, kind, float64(n))
	}
	send(s.rules, prometheus.GaugeValue, int64(st.Rules))
	send(s.slots, prometheus.GaugeValue, int64(st.Slots))
	send(s.evicted, prometheus.CounterValue, st.Evicted)
	send(s.overflow, prometheus.CounterValue, st.Overflow)
	send(s.receipts, prometheus.GaugeValue, int64(st.Settled))
}

package telemetry

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc/codes"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/overload"
	"github.com/weir-limit/weir/cmd/weir/internal/resp"
	"github.com/weir-limit/weir/cmd/weir/internal/rls"
	"github.com/weir-limit/weir/rules"
)

// Metrics are what the daemon tells of itself. Their labels come from the rule
// files and from this program, and from requests only where a rule asks for it.
type Metrics struct {
	*Doors

	Decided  *Decisions
	calls    *prometheus.CounterVec
	duration *prometheus.HistogramVec
	httpTime prometheus.Observer
	grpcTime prometheus.Observer
	grpcOK   prometheus.Counter // looked up once: it is counted by every call
	overrun  *prometheus.CounterVec
	bounds   *prometheus.CounterVec
	panics   *prometheus.CounterVec
	handed   prometheus.Counter
	refusals *prometheus.CounterVec
	domains  prometheus.Gauge
	rules    prometheus.Gauge
	// opened and tightened are by domain, of those that have such rules.
	opened, tightened *prometheus.GaugeVec
	reloads           *prometheus.CounterVec
	reloaded          prometheus.Gauge
	loadedAt          prometheus.Gauge

	// What envoyproxy/ratelimit has a statistic of, beside these.
	unavailable, invalid, loads, failedLoads, shadowed atomic.Uint64
}

// New makes the metrics of a daemon, and registers them with those of its store.
func New(r prometheus.Registerer, version string, store []prometheus.Collector, ready func() bool) *Metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return registered(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return registered(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
	}
	m := &Metrics{
		Decided: NewDecisions(),
		calls: vec("weir_calls_total",
			"Calls that were answered, by listener, route and status (code).", "listener", "route", "code"),
		duration: registered(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_call_duration_seconds",
			Help: "How long the daemon took for a call, from the end of the request's header to the end of the " +
				"answer.",
			Buckets: callBuckets(),
		}, []string{"listener"})),
		overrun: vec("weir_refused_total",
			"Calls that were refused and connections that were closed because of overload, by reason.",
			"listener", "reason"),
		bounds: vec("weir_resp_bounds_reached_total",
			"How often clients of the Redis protocol reached a bound of the listener.", "bound"),
		panics: vec("weir_panics_total", "Calls that panicked; each is a bug, and the log has its stack.", "listener"),
		Doors:  NewDoors(r),
		handed: registered(r, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "weir_http_handed_over_total",
			Help: "Connections of the HTTP listener that net/http answers, which costs more: they asked something " +
				"unusual, or very large.",
		})),
		refusals: vec("weir_admin_refusals_total",
			"Requests that the admin listener refused, by reason: wrong host or origin, missing or wrong token, too "+
				"many wrong tokens (limit), wrong role, or the tokens could not be read (unavailable).", "reason"),
		domains: gauge("weir_domains", "Domains that have rules."),
		rules:   gauge("weir_rules", "Active rules."),
		opened: registered(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_rules_open", Help: "Limits of a domain that an operator opened for a time, so that they deny nothing.",
		}, []string{"domain"})),
		tightened: registered(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "weir_rules_tightened", Help: "Limits of a domain that an operator tightened for a time.",
		}, []string{"domain"})),
		reloads: vec("weir_rules_reloads_total",
			"Reloads of rules by result; after every result but loaded, the old rules stay active.", "result"),
		reloaded: gauge("weir_rules_reload_success",
			"1 when the active rules are the newest, 0 when the last reload failed and old rules are active."),
		loadedAt: gauge("weir_rules_loaded_timestamp_seconds", "When the active rules were loaded."),
	}
	for _, result := range []string{"loaded", "refused", "missing", "unreadable"} {
		m.reloads.WithLabelValues(result) // so that the first one shows as an increase
	}
	m.httpTime, m.grpcTime = m.duration.WithLabelValues("http"), m.duration.WithLabelValues("grpc")
	for _, why := range httpapi.Refusals() {
		m.refusals.WithLabelValues(string(why))
	}
	m.grpcOK = m.calls.WithLabelValues("grpc", "ShouldRateLimit", codes.OK.String())
	r.MustRegister(m.Decided.collectors()...)
	r.MustRegister(store...)
	r.MustRegister(
		About(version, ready),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return m
}

// callBuckets are those of weir_call_duration_seconds. They have those of Prometheus by default, too, which envoyproxy/ratelimit's statistic
// has.
func callBuckets() []float64 {
	all := slices.Concat(prometheus.ExponentialBuckets(10e-6, 4, 9), prometheus.DefBuckets)
	slices.Sort(all)
	return all
}

// registered is c, which r tells of from now on.
func registered[C prometheus.Collector](r prometheus.Registerer, c C) C {
	r.MustRegister(c)
	return c
}

// SetRules tells of the rules that are active from now on.
func (m *Metrics) SetRules(set *rules.Set, now time.Time) {
	m.loadedAt.Set(float64(now.UnixMilli()) / 1000)
	m.domains.Set(float64(len(set.Domains())))
	m.rules.Set(float64(len(set.Rules())))
	m.opened.Reset()
	m.tightened.Reset()
	for _, r := range set.Temporary() {
		to := m.opened
		if r.Temporary.Percent > 0 {
			to = m.tightened
		}
		to.WithLabelValues(r.Domain).Inc()
	}
}

// SetReloaded tells whether the last reload went well.
func (m *Metrics) SetReloaded(ok bool) {
	if ok {
		m.reloaded.Set(1)
	} else {
		m.reloaded.Set(0)
	}
}

// HTTPCall counts a call of the HTTP listener.
func (m *Metrics) HTTPCall(route string, status int, took time.Duration) {
	m.calls.WithLabelValues("http", route, strconv.Itoa(status)).Inc()
	m.httpTime.Observe(took.Seconds())
}

// AdminCall counts only: explanations would blur how long decisions take.
func (m *Metrics) AdminCall(route string, status int, _ time.Duration) {
	m.calls.WithLabelValues("admin", route, strconv.Itoa(status)).Inc()
}

// GRPCCall counts a call of Envoy's service.
func (m *Metrics) GRPCCall(code codes.Code, took time.Duration) {
	if code == codes.OK {
		m.grpcOK.Inc()
	} else {
		m.calls.WithLabelValues("grpc", "ShouldRateLimit", code.String()).Inc()
		switch code {
		case codes.Unavailable:
			m.unavailable.Add(1)
		case codes.InvalidArgument:
			m.invalid.Add(1)
		default: // ratelimit has no statistic of it
		}
	}
	m.grpcTime.Observe(took.Seconds())
}

// RESPCalls counts the commands of the Redis protocol. They are so quick that to
// look up their labels would be much of their time.
func (m *Metrics) RESPCalls() func(command string, ok bool, took time.Duration) {
	type counts struct{ ok, failed prometheus.Counter }
	commands := map[string]counts{}
	for _, name := range resp.Commands() {
		commands[name] = counts{m.calls.WithLabelValues("resp", name, "OK"), m.calls.WithLabelValues("resp", name, "ERR")}
	}
	duration := m.duration.WithLabelValues("resp")
	return func(command string, ok bool, took time.Duration) {
		if ok {
			commands[command].ok.Inc()
		} else {
			commands[command].failed.Inc()
		}
		duration.Observe(took.Seconds())
	}
}

// RESPBounds counts how often clients of the Redis protocol reach a bound.
func (m *Metrics) RESPBounds() func(resp.Bound) {
	for _, b := range resp.Bounds() {
		m.bounds.WithLabelValues(string(b)) // so that they are told before
	}
	return func(b resp.Bound) { m.bounds.WithLabelValues(string(b)).Inc() }
}

// Refused counts requests that the admin listener did not let in.
func (m *Metrics) Refused(why httpapi.Refusal) { m.refusals.WithLabelValues(string(why)).Inc() }

// HandedOver counts connections of the HTTP listener that net/http answers.
func (m *Metrics) HandedOver() { m.handed.Inc() }

// ProtocolBroken counts what is no HTTP/2, as the Redis listener what is no command.
func (m *Metrics) ProtocolBroken(door string) func() {
	return m.calls.WithLabelValues(door, "protocol", "ERR").Inc
}

// Panicked counts calls that panicked.
func (m *Metrics) Panicked(door string) func() { return m.panics.WithLabelValues(door).Inc }

// Overload counts what a listener refuses, by one of such reasons.
func (m *Metrics) Overload(door string, reasons []string) func(reason string) {
	counters := map[string]prometheus.Counter{}
	for _, reason := range reasons {
		counters[reason] = m.overrun.WithLabelValues(door, reason)
	}
	return func(reason string) { counters[reason].Inc() }
}

// Budget is what the unfinished requests of a listener may hold.
func (m *Metrics) Budget(door string) *overload.Budget {
	return &overload.Budget{Most: overload.DefaultBudget, Cut: m.overrun.WithLabelValues(door, httpapi.ReasonMemory).Inc}
}

// Flooded counts connections that were closed because they said too much that asks
// nothing.
func (m *Metrics) Flooded(door string) prometheus.Counter {
	return m.overrun.WithLabelValues(door, rls.ReasonFlood)
}

// Reloads counts what came of a reload of rules.
func (m *Metrics) Reloads(result string) {
	m.reloads.WithLabelValues(result).Inc()
	if result == "loaded" {
		m.Loaded()
	} else {
		m.failedLoads.Add(1)
	}
}

// Loaded counts that rules were loaded, those to begin with among them.
func (m *Metrics) Loaded() { m.loads.Add(1) }

// Shadowed counts a denial that shadow mode for all limits let pass.
func (m *Metrics) Shadowed() { m.shadowed.Add(1) }

// Overload reports how much work waits, and how many calls may be in flight.
func Overload(w *overload.Watcher, http, grpc *overload.Gate) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		return append([]prometheus.Metric{
			Gauge("weir_cpu_wait_seconds",
				"How long work of the daemon that could run, such as a call that has arrived, waits for a "+
					"processor, measured 200 times a second.", w.Wait().Seconds()),
		}, By(Gauge, "weir_in_flight_limit",
			"Calls that a listener may have in flight at once; 0 is no limit, because the listener is not overloaded.",
			"listener", map[string]int{"http": http.Limit(), "grpc": grpc.Limit()})...)
	})
}

// Left counts connections whose clients had given up.
func (m *Metrics) Left(door string) prometheus.Counter {
	return m.overrun.WithLabelValues(door, "left")
}

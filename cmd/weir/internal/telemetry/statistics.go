package telemetry

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// The beginnings of envoyproxy/ratelimit's names of statistics.
const (
	statisticsOfRules   = "ratelimit.service.rate_limit."
	statisticsOfService = "ratelimit.service."
	statisticsOfCalls   = "ratelimit_server.ShouldRateLimit."
)

// Statistics are the numbers of rules and calls under the names that envoyproxy/ratelimit has for them. They are read from
// the counters that are there, when somebody asks for them.
type Statistics struct {
	meter   *Meter
	metrics *Metrics
	labels  []*dto.LabelPair
}

// NewStatistics tells what a meter and the metrics have counted. Each metric has the labels, which are names and values
// by turns.
func NewStatistics(m *Meter, metrics *Metrics, labels ...string) *Statistics {
	s := &Statistics{meter: m, metrics: metrics}
	for pair := range slices.Chunk(labels, 2) {
		s.labels = append(s.labels, label(pair[0], pair[1]))
	}
	return s
}

// statistic is the five numbers that are told of a rule, or of one of its values.
type statistic struct{ hits, within, over, near, shadow uint64 }

// count adds what a rule has decided.
func (s *statistic) count(c *sums, shadow bool) {
	s.add([3]uint64{c.cost[0].Load(), c.cost[1].Load(), c.cost[2].Load()}, c.nearCost.Load(), shadow)
}

func (s *statistic) add(cost [3]uint64, near uint64, shadow bool) {
	over := cost[weir.Denied] + cost[weir.Impossible]
	s.hits += cost[weir.Allowed] + over
	s.within += cost[weir.Allowed]
	s.over += over
	s.near += near
	if shadow {
		s.shadow += over
	}
}

// each calls yield with each number that is not 0, and with what it is called.
func (s *statistic) each(yield func(name string, n uint64)) {
	for _, one := range []struct {
		name string
		n    uint64
	}{{"total_hits", s.hits}, {"within_limit", s.within}, {"over_limit", s.over}, {"near_limit", s.near}, {"shadow_mode", s.shadow}} {
		if one.n > 0 {
			yield(one.name, one.n)
		}
	}
}

// ofRules is the numbers of all rules, by DOMAIN.KEY_VALUE….
func (s *Statistics) ofRules() map[string]*statistic {
	all := map[string]*statistic{}
	at := func(key string) *statistic {
		if all[key] == nil {
			all[key] = new(statistic)
		}
		return all[key]
	}
	c := s.meter.counters.Load()
	names := map[labels]string{} // of rules that have a name in common it is the first
	for r := range c.rules {
		l, name := labelsOf(r), statisticOf(r, nil)
		if r.CountsValues() {
			name = "" // each value has its own
		}
		if before, known := names[l]; !known || name < before {
			names[l] = name
		}
	}
	for l, t := range c.labels {
		name, known := names[l]
		if !known { // it is as an operator has opened or tightened it
			name = names[labels{l.domain, l.rule, !l.shadow}]
		}
		if t.values == nil || name != "" {
			at(name).count(t.sums, l.shadow)
		}
		if t.values == nil {
			continue
		}
		for _, v := range append(slices.Collect(maps.Values(*t.values.known.Load())), t.values.others) {
			at(v.statistic).add([3]uint64{v.cost[0].Load(), v.cost[1].Load(), v.cost[2].Load()}, v.nearCost.Load(), l.shadow)
		}
	}
	c.overrides.Range(func(l, t any) bool {
		at(sanitized(l.(labels).domain+".override")).count(t.(*tally).sums, false)
		return true
	})
	return all
}

// Each calls yield with each statistic that is not 0, by its whole name, as DogStatsD and statsd take it.
func (s *Statistics) Each(yield func(name string, n uint64)) {
	for key, of := range s.ofRules() {
		of.each(func(name string, n uint64) { yield(statisticsOfRules+key+"."+name, n) })
	}
	calls, _ := s.calls()
	for name, n := range map[string]uint64{
		statisticsOfService + "config_load_success":                  s.metrics.loads.Load(),
		statisticsOfService + "config_load_error":                    s.metrics.failedLoads.Load(),
		statisticsOfService + "global_shadow_mode":                   s.metrics.shadowed.Load(),
		statisticsOfService + "call.should_rate_limit.redis_error":   s.metrics.unavailable.Load(),
		statisticsOfService + "call.should_rate_limit.service_error": s.metrics.invalid.Load(),
		statisticsOfCalls + "total_requests":                         calls,
	} {
		if n > 0 {
			yield(name, n)
		}
	}
}

// calls is how many calls of ShouldRateLimit there were, and the histogram of their times.
func (s *Statistics) calls() (uint64, *dto.Histogram) {
	var m dto.Metric
	if h, ok := s.metrics.grpcTime.(prometheus.Metric); !ok || h.Write(&m) != nil {
		return 0, nil
	}
	return m.Histogram.GetSampleCount(), m.Histogram
}

// Describe sends nothing: which labels a statistic has depends on its rule.
func (s *Statistics) Describe(chan<- *prometheus.Desc) {}

// The metrics that envoyproxy/ratelimit's mapper makes of its statistics.
var (
	ruleStatistics = map[string]*prometheus.Desc{
		"total_hits":   statisticDesc("rate_limit_total_hits", "Hits of a rule; what a request costs counts, here and below."),
		"within_limit": statisticDesc("rate_limit_within_limit", "Hits that the rule allowed."),
		"over_limit":   statisticDesc("rate_limit_over_limit", "Hits that the rule did not allow, also in shadow."),
		"near_limit":   statisticDesc("rate_limit_near_limit", "Hits that the rule allowed when most of the limit was used."),
		"shadow_mode":  statisticDesc("rate_limit_shadow_mode", "Hits over the limit of a rule in shadow."),
	}
	serviceStatistics = map[string]*prometheus.Desc{
		"total_requests":          statisticDesc("total_requests", "Calls by gRPC."),
		"response_time_seconds":   statisticDesc("response_time_seconds", "How long calls by gRPC took."),
		"should_rate_limit_error": statisticDesc("should_rate_limit_error", "Calls by gRPC without an answer: the request was bad (service_error), or nothing could be decided (redis_error)."),
		"config_load_success":     statisticDesc("config_load_success", "Loads of rules that went well."),
		"config_load_error":       statisticDesc("config_load_error", "Loads of rules that failed."),
		"global_shadow_mode":      statisticDesc("global_shadow_mode", "Denials that shadow mode for all limits let pass."),
	}
)

func statisticDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_service_"+name, help, nil, nil)
}

// Collect sends the statistics as envoyproxy/ratelimit's mapper names them: a rule's labels are domain, key1 and key2, and what
// has the same labels is added up. Like there, what has counted nothing is not told.
func (s *Statistics) Collect(to chan<- prometheus.Metric) {
	type series struct{ name, domain, key1, key2 string }
	sums := map[series]uint64{}
	for key, of := range s.ofRules() {
		parts := append(strings.SplitN(key, ".", 4), "", "")
		at := series{domain: parts[0], key1: parts[1]}
		if strings.Count(key, ".") > 1 {
			at.key2 = parts[2]
		}
		of.each(func(name string, n uint64) {
			at.name = name
			sums[at] += n
		})
	}
	for at, n := range sums {
		labels := []*dto.LabelPair{label("domain", at.domain), label("key1", at.key1)}
		if at.key2 != "" {
			labels = append(labels, label("key2", at.key2))
		}
		s.send(to, ruleStatistics[at.name], n, labels...)
	}
	s.send(to, serviceStatistics["config_load_success"], s.metrics.loads.Load())
	s.send(to, serviceStatistics["config_load_error"], s.metrics.failedLoads.Load())
	s.send(to, serviceStatistics["global_shadow_mode"], s.metrics.shadowed.Load())
	s.send(to, serviceStatistics["should_rate_limit_error"], s.metrics.unavailable.Load(), label("err_type", "redis_error"))
	s.send(to, serviceStatistics["should_rate_limit_error"], s.metrics.invalid.Load(), label("err_type", "service_error"))
	calls, times := s.calls()
	if calls == 0 {
		return
	}
	method := label("grpc_method", "ShouldRateLimit")
	s.send(to, serviceStatistics["total_requests"], calls, method)
	usual := dto.Histogram{SampleCount: times.SampleCount, SampleSum: times.SampleSum}
	for _, b := range times.Bucket {
		if slices.Contains(prometheus.DefBuckets, b.GetUpperBound()) {
			usual.Bucket = append(usual.Bucket, b)
		}
	}
	to <- &told{serviceStatistics["response_time_seconds"], s.with(method), &dto.Metric{Histogram: &usual}}
}

// send sends a counter that is not 0.
func (s *Statistics) send(to chan<- prometheus.Metric, desc *prometheus.Desc, n uint64, labels ...*dto.LabelPair) {
	if n > 0 {
		value := float64(n)
		to <- &told{desc, s.with(labels...), &dto.Metric{Counter: &dto.Counter{Value: &value}}}
	}
}

// with is labels and those of all statistics, by name.
func (s *Statistics) with(labels ...*dto.LabelPair) []*dto.LabelPair {
	all := append(labels, s.labels...)
	slices.SortFunc(all, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// told is a metric whose labels are its own.
type told struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  *dto.Metric
}

// Desc is for prometheus.Metric.
func (t *told) Desc() *prometheus.Desc { return t.desc }

// Write is for prometheus.Metric.
func (t *told) Write(to *dto.Metric) error {
	to.Label, to.Counter, to.Histogram = t.labels, t.value.Counter, t.value.Histogram
	return nil
}

// statisticOf is how envoyproxy/ratelimit names the statistics of a rule: DOMAIN.KEY_VALUE.KEY…, with the values of the rule, and
// where it counts values, those of a request that met it. Without a request these are other.
func statisticOf(r *rules.Rule, entries []rules.Entry) string {
	var b strings.Builder
	b.WriteString(r.Domain)
	for i, e := range r.Path {
		counted := r.CountsValueAt(i)
		switch {
		case counted && entries == nil:
			e.Value = otherValues
		case counted:
			e = entries[i]
		}
		b.WriteByte('.')
		b.WriteString(e.Key)
		if e.Value != "" || counted && r.DetailedMetric && !r.ShareThreshold {
			b.WriteString("_" + e.Value)
		}
	}
	if at := strings.LastIndexByte(r.Name, '#'); at >= 0 { // one of several limits, which ratelimit has not
		b.WriteString(r.Name[at:])
	}
	return sanitized(b.String())
}

var ipv4 = regexp.MustCompile(`\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}`)

// parting has a line in place of bytes that would end a name, or its line.
func parting(r rune) rune {
	if r == ':' || r == '|' || r < ' ' || r == 0x7f {
		return '_'
	}
	return r
}

// sanitized is a name of statistics without what means something else there, as envoyproxy/ratelimit has it, and without
// the ends of lines, which a client could write into a value.
func sanitized(name string) string {
	name = strings.ToValidUTF8(strings.Map(parting, name), "_")
	if !strings.ContainsAny(name, "0123456789") {
		return name
	}
	return ipv4.ReplaceAllStringFunc(name, func(ip string) string { return strings.ReplaceAll(ip, ".", "_") })
}

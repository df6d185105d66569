package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Readings are the metrics of a part that counts by itself: they are made when they are asked for.
type Readings func() []prometheus.Metric

// Describe sends nothing: the part may not be there yet when its metrics are registered.
func (r Readings) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics, for prometheus.Collector.
func (r Readings) Collect(to chan<- prometheus.Metric) {
	for _, m := range r() {
		to <- m
	}
}

// Counter is what was counted so far. labels are names and values by turns.
func Counter[N number](name, help string, n N, labels ...string) prometheus.Metric {
	return metric(prometheus.CounterValue, name, help, float64(n), labels)
}

// Gauge is how much there is now; labels are as of Counter.
func Gauge[N number](name, help string, n N, labels ...string) prometheus.Metric {
	return metric(prometheus.GaugeValue, name, help, float64(n), labels)
}

// Flag is a Gauge of what is so or not: 1 or 0.
func Flag(name, help string, yes bool, labels ...string) prometheus.Metric {
	n := 0
	if yes {
		n = 1
	}
	return Gauge(name, help, n, labels...)
}

// By is a metric of several counts, which a label tells apart. labels are those that all have.
func By[N number](
	one func(string, string, N, ...string) prometheus.Metric,
	name, help, label string, counts map[string]N, labels ...string,
) (all []prometheus.Metric) {
	for value, n := range counts {
		all = append(all, one(name, help, n, append(slices.Clone(labels), label, value)...))
	}
	return all
}

type number interface{ int | int64 | uint64 | float64 }

func metric(kind prometheus.ValueType, name, help string, n float64, labels []string) prometheus.Metric {
	var names, values []string
	for pair := range slices.Chunk(labels, 2) {
		names, values = append(names, pair[0]), append(values, pair[1])
	}
	return prometheus.MustNewConstMetric(prometheus.NewDesc(name, help, names, nil), kind, n, values...)
}

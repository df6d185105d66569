// Package telemetry is what the daemon tells of itself: all its metrics, and what traces
// are told of decisions.
//
//   - metrics.go has the metrics of calls, connections and rules.
//   - meter.go counts what rules decide; decisions.go and values.go have the numbers.
//   - stores.go, cluster.go and denials.go read the numbers of parts that count by
//     themselves, when they are scraped.
//   - traces.go tells spans what was decided.
package telemetry

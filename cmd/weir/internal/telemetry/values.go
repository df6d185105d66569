package telemetry

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// The bounds of what a rule with detailed_metric or value_to_metric counts by
// value. All beyond is counted together, as otherValues.
const (
	maxValues   = 100
	maxValue    = 256 // bytes, as a label
	otherValues = "other"
)

// valueCounts are the numbers of one value.
type valueCounts struct {
	decisions [3]prometheus.Counter // by weir.Outcome
	cost      [3]atomic.Uint64      // likewise
	nearCost  atomic.Uint64
	statistic string // what envoyproxy/ratelimit calls it
}

func (c *valueCounts) add(d *rules.Decision, near uint64) {
	c.decisions[d.Outcome].Inc()
	c.cost[d.Outcome].Add(uint64(d.Cost))
	c.nearCost.Add(near)
}

// values counts the first values that a rule meets, each by itself.
type values struct {
	labels  labels
	vector  *prometheus.CounterVec
	others  *valueCounts
	known   atomic.Pointer[map[string]*valueCounts] // is replaced to add one
	adding  *sync.Mutex                             // of the meter
	dropped bool                                    // guarded by adding
}

func newValues(l labels, r *rules.Rule, vector *prometheus.CounterVec, adding *sync.Mutex) *values {
	v := &values{labels: l, vector: vector, adding: adding}
	v.others = v.counters(otherValues, statisticOf(r, nil))
	v.known.Store(&map[string]*valueCounts{})
	return v
}

func (v *values) counters(value, statistic string) *valueCounts {
	c := &valueCounts{statistic: statistic}
	for i := range c.decisions {
		c.decisions[i] = v.vector.WithLabelValues(v.labels.values(value, weir.Outcome(i).String())...)
	}
	return c
}

// count counts a decision, of whose cost near was used near the limit.
func (v *values) count(d *rules.Decision, entries []rules.Entry, near uint64) {
	var room [maxValue]byte
	label := d.Rule.AppendValues(room[:0], entries)
	if len(label) > maxValue {
		v.others.add(d, near)
		return
	}
	by := (*v.known.Load())[string(label)]
	if by == nil {
		by = v.add(string(label), d.Rule, entries)
	}
	by.add(d, near)
}

// add makes counters for a value, unless there are too many.
func (v *values) add(value string, r *rules.Rule, entries []rules.Entry) *valueCounts {
	if len(*v.known.Load()) == maxValues {
		return v.others // without waiting: most of a flood ends here
	}
	v.adding.Lock()
	defer v.adding.Unlock()
	known := *v.known.Load()
	if by := known[value]; by != nil {
		return by
	}
	if len(known) == maxValues || v.dropped {
		return v.others
	}
	more := maps.Clone(known)
	more[value] = v.counters(value, statisticOf(r, entries))
	v.known.Store(&more)
	return more[value]
}

// drop takes all out of the metrics; adding is held.
func (v *values) drop() {
	v.dropped = true
	v.dropValue(otherValues)
	for value := range *v.known.Load() {
		v.dropValue(value)
	}
}

func (v *values) dropValue(value string) {
	for o := range len(valueCounts{}.decisions) {
		v.vector.DeleteLabelValues(v.labels.values(value, weir.Outcome(o).String())...)
	}
}

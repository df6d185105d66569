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

// outcomes are counters by weir.Outcome.
type outcomes [3]prometheus.Counter

// values counts the first values that a rule meets, each by itself.
type values struct {
	labels  labels
	vector  *prometheus.CounterVec
	others  *outcomes
	known   atomic.Pointer[map[string]*outcomes] // is replaced to add one
	adding  *sync.Mutex                          // of the meter
	dropped bool                                 // guarded by adding
}

func newValues(l labels, vector *prometheus.CounterVec, adding *sync.Mutex) *values {
	v := &values{labels: l, vector: vector, adding: adding}
	v.others = v.counters(otherValues)
	v.known.Store(&map[string]*outcomes{})
	return v
}

func (v *values) counters(value string) *outcomes {
	all := new(outcomes)
	for i := range all {
		all[i] = v.vector.WithLabelValues(v.labels.values(value, weir.Outcome(i).String())...)
	}
	return all
}

func (v *values) count(r *rules.Rule, entries []rules.Entry, o weir.Outcome) {
	var room [maxValue]byte
	label := r.AppendValues(room[:0], entries)
	if len(label) > maxValue {
		v.others[o].Inc()
		return
	}
	by := (*v.known.Load())[string(label)]
	if by == nil {
		by = v.add(string(label))
	}
	by[o].Inc()
}

// add makes counters for a value, unless there are too many.
func (v *values) add(value string) *outcomes {
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
	more[value] = v.counters(value)
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
	for o := range len(outcomes{}) {
		v.vector.DeleteLabelValues(v.labels.values(value, weir.Outcome(o).String())...)
	}
}

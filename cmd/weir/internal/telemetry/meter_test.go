package telemetry

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// counts are the series of m that have counted, as PromQL writes them.
func counts(t *testing.T, m *Meter) map[string]float64 {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(m.metrics.collectors()...)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, c := range f.Metric {
			var with []string
			for _, l := range c.Label {
				if l.GetName() != "domain" && l.GetValue() != "false" {
					with = append(with, l.GetValue())
				}
			}
			if n := c.Counter.GetValue(); n > 0 {
				all[strings.TrimPrefix(f.GetName(), "weir_")+" "+strings.Join(with, " ")] += n
			}
		}
	}
	return all
}

func testMeter(t *testing.T, text string) *Meter {
	t.Helper()
	m := NewMeter(rules.NewLimiter(memstore.New(memstore.Options{}), nil), NewDecisions())
	m.Replace(parsed(t, text))
	return m
}

func parsed(t testing.TB, text string) *rules.Set {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func asks(t *testing.T, m *Meter, domain string, cost int64, override *weir.Limit, entries ...rules.Entry) {
	t.Helper()
	d := rules.Descriptor{Entries: entries, Cost: cost, Override: override}
	if _, err := m.Check(t.Context(), &rules.Request{Domain: domain, Descriptors: []rules.Descriptor{d}}); err != nil {
		t.Fatal(err)
	}
}

// TestMeter: what envoyproxy/ratelimit counts has its like here.
func TestMeter(t *testing.T) {
	m := testMeter(t, `domain: d
descriptors:
  - {key: window, limits: [10/day fixed-window]}
  - {key: bucket, shadow_mode: true, limits: [1/day burst 9]}
  - {key: tiny, limits: [1/day]}
  - {key: none, limits: [0/day]}
`)
	for range 12 {
		asks(t, m, "d", 1, nil, rules.Entry{Key: "window", Value: "ann"})
		asks(t, m, "d", 1, nil, rules.Entry{Key: "bucket", Value: "ann"})
	}
	asks(t, m, "d", 3, nil, rules.Entry{Key: "window", Value: "bob"})
	asks(t, m, "d", 7, nil, rules.Entry{Key: "window", Value: "bob"})
	asks(t, m, "d", 11, nil, rules.Entry{Key: "window", Value: "cyd"})
	asks(t, m, "d", 1, nil, rules.Entry{Key: "tiny", Value: "ann"})
	asks(t, m, "d", 1, nil, rules.Entry{Key: "none", Value: "ann"})
	asks(t, m, "d", 8, weir.MustParseLimit("10/h fixed-window"), rules.Entry{Key: "any"})
	asks(t, m, "d", 1, weir.MustParseLimit("10/h fixed-window"), rules.Entry{Key: "any"})
	asks(t, m, "d", 1, nil, rules.Entry{Key: "unknown"})
	asks(t, m, "ann's", 1, nil, rules.Entry{Key: "window", Value: "ann"})
	want := map[string]float64{
		"decisions_total allowed d/window":      12,
		"decisions_total denied d/window":       2,
		"decisions_total impossible d/window":   1,
		"cost_total allowed d/window":           20,
		"cost_total denied d/window":            2,
		"cost_total impossible d/window":        11,
		"near_limit_total d/window":             3, // ann's 9th and 10th, bob's last
		"decisions_total allowed d/bucket true": 9, "decisions_total denied d/bucket true": 3,
		"cost_total allowed d/bucket true": 9, "cost_total denied d/bucket true": 3,
		"near_limit_total d/bucket true": 2,
		"decisions_total allowed d/tiny": 1, "cost_total allowed d/tiny": 1, "near_limit_total d/tiny": 1,
		"decisions_total impossible d/none": 1, "cost_total impossible d/none": 1,
		"decisions_total allowed d#override": 2, "cost_total allowed d#override": 9, "near_limit_total d#override": 1,
		"unknown_domain_total ": 1,
	}
	if d := cmp.Diff(want, counts(t, m)); d != "" {
		t.Error(d)
	}
}

// TestValues: "per-value metrics: first 100 values of a rule, then other", of
// rules that ask for it, and as long as they do.
func TestValues(t *testing.T) {
	const text = `domain: d
descriptors:
  - {key: plain, limits: [10/day]}
  - {key: user, value_to_metric: true, limits: [2/day]}
  - {key: path, value: /files/*, share_threshold: true, detailed_metric: true, limits: [2/day]}
`
	m := testMeter(t, text)
	byValue := func() map[string]float64 {
		all := counts(t, m)
		maps.DeleteFunc(all, func(name string, _ float64) bool { return !strings.HasPrefix(name, "value_") })
		return all
	}
	for _, user := range []string{"ann", "ann", "ann", "bob \xff", strings.Repeat("x", maxValue)} {
		asks(t, m, "d", 1, nil, rules.Entry{Key: "user", Value: user})
		asks(t, m, "d", 1, nil, rules.Entry{Key: "plain", Value: user})
		asks(t, m, "d", 1, nil, rules.Entry{Key: "path", Value: "/files/" + user})
	}
	want := map[string]float64{
		"value_decisions_total allowed d/user user=ann":       2,
		"value_decisions_total denied d/user user=ann":        1,
		"value_decisions_total allowed d/user user=bob%20%FF": 1,
		"value_decisions_total allowed d/user other":          1,
	}
	if d := cmp.Diff(want, byValue()); d != "" {
		t.Error(d)
	}
	var g sync.WaitGroup
	for i := range 4 {
		g.Go(func() {
			for j := range 2 * maxValues {
				asks(t, m, "d", 1, nil, rules.Entry{Key: "user", Value: fmt.Sprint((j + i) % (2*maxValues - 2))})
			}
		})
	}
	g.Wait()
	seen := byValue()
	values, total := map[string]bool{}, 0.0
	for name, n := range seen {
		values[name[strings.LastIndexByte(name, ' ')+1:]] = true
		total += n
	}
	if len(values) != maxValues+1 || total != 5+4*2*maxValues || seen["value_decisions_total allowed d/user other"] < 10 {
		t.Errorf("%d values, %v decisions: %v", len(values), total, seen)
	}

	m.Replace(parsed(t, strings.Replace(text, "2/day", "3/day", 1)))
	if d := cmp.Diff(seen, byValue()); d != "" {
		t.Error("a rule that stays does not keep its counts:\n" + d)
	}
	m.Replace(parsed(t, strings.Replace(text, "value_to_metric: true, ", "", 1)))
	if left := testutil.CollectAndCount(m.metrics.values); left != 0 {
		t.Errorf("%d series of a rule that asks for values no more", left)
	}
}

// A request that was on its way while its rule went makes no series that nobody
// would drop.
func TestValuesOfRuleThatIsGone(t *testing.T) {
	m := testMeter(t, "domain: d\ndescriptors: [{key: user, value_to_metric: true, limits: [1/day]}]\n")
	rule := m.Set().Rules()[0]
	v := m.counters.Load().rules[rule].values
	m.Replace(parsed(t, "domain: other\ndescriptors: []\n"))
	v.count(&rules.Decision{Rule: rule}, []rules.Entry{{Key: "user", Value: "late"}}, 0)
	if left := testutil.CollectAndCount(m.metrics.values); left != 0 {
		t.Errorf("%d series", left)
	}
}

// BenchmarkCount is what counting adds to a decision.
func BenchmarkCount(b *testing.B) {
	set := parsed(b, `domain: d
descriptors:
  - {key: plain, limits: [1000000000/s]}
  - {key: valued, value_to_metric: true, limits: [1000000000/s]}
  - {key: denied, limits: [0/s]}
`)
	m := NewMeter(rules.NewLimiter(memstore.New(memstore.Options{}), nil), NewDecisions())
	m.Replace(set)
	for _, key := range []string{"plain", "valued", "denied"} {
		q := &rules.Request{Domain: "d", Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: key, Value: "some-user"}}, Cost: 1}}}
		a, err := m.Check(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(key, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m.count(q, a)
			}
		})
	}
}

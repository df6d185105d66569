package telemetry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-limit/weir"

	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// TestMetricsOfVanishedRules: they go with their rules, those of overrides with
// their domain; what stays counts on.
func TestMetricsOfVanishedRules(t *testing.T) {
	set := func(texts ...string) *rules.Set {
		set, err := rules.ParseExport("x", []byte(strings.Join(texts, "---\n")))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	store := memstore.New(memstore.Options{})
	decided := NewDecisions()
	m := NewMeter(rules.NewLimiter(store, nil), decided)
	check := func(domain, key string, override bool) {
		q := &rules.Request{Domain: domain, Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: key, Value: "v"}}, Cost: 1}}}
		if override {
			q.Descriptors[0].Override = set(limits("o", "5/s fixed-window")).Rules()[0].Limit
		}
		if _, err := m.Check(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	series := func() int {
		n := 0
		for _, c := range decided.collectors() {
			n += testutil.CollectAndCount(c)
		}
		return n
	}
	const each = 3 + 3 + 1 // by outcome decisions and cost, and near the limit
	demo := series()

	old := set(limits("a", "1/day", "2/day"), limits("b", "1/day"))
	m.Replace(old)
	check("a", "k0", false)
	check("a", "k0", true)
	check("b", "k0", true)
	if n := series() - demo; n != 5*each {
		t.Errorf("%d series of 3 rules and 2 overrides", n)
	}
	m.Replace(set(limits("a", "9/day")))
	check("a", "k0", false)
	check("a", "k0", true)
	if n := series() - demo; n != 2*each {
		t.Errorf("%d series of a rule and an override", n)
	}
	for _, rule := range []string{"a/k0", "a#override"} {
		if n := decided.of(labels{"a", rule, false}).decisions[weir.Allowed].Load(); n != 2 {
			t.Errorf("%s has counted %v", rule, n)
		}
	}
	m.Replace(m.Set()) // the override is kept though nobody asks for it
	c := m.counters.Load()

	// Decisions that were on their way while the rules changed.
	if o := m.of(c, old.Rules()[0]); o.tally != c.rules[m.Set().Rules()[0]].tally {
		t.Error("a rule that was replaced does not count with its next")
	}
	gone := *old.Rules()[2]
	if o := m.of(c, &gone); o.tally != nil {
		t.Error("a rule that is gone counts")
	}
	if gone.Override = true; m.of(c, &gone).tally != nil || series()-demo != 2*each {
		t.Error("an override of a domain that is gone counts")
	}
	m.Replace(set(limits("b", "1/day")))
	if n := series() - demo; n != each {
		t.Errorf("%d series of one rule", n)
	}
}

func limits(domain string, limits ...string) string {
	var text strings.Builder
	text.WriteString("domain: " + domain + "\ndescriptors:\n")
	for i, l := range limits {
		fmt.Fprintf(&text, "  - {key: k%d, limits: [%s]}\n", i, l)
	}
	return text.String()
}

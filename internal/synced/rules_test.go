package synced_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir/rules"
)

// TestRules: a rule with sync is decided locally; what is explained counts what is
// unreported, but for one report on its way; and such a denial can be explained afterwards.
func TestRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, nodes := open(t, 1)
		set, err := rules.Parse("f", []byte("domain: d\ndescriptors: [{key: k, limits: [20/h], sync: 100ms, nodes: 3}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		l := rules.NewLimiter(nodes[0], nil)
		if err := l.Remember(rules.NewDenials()); err != nil {
			t.Fatal(err)
		}
		l.Replace(set)
		r := &rules.Request{Domain: "d", Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: "k", Value: "v"}}, Cost: 1}}}
		var denial *rules.Answer
		passed := 0
		for range 100 {
			a, err := l.Check(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if a.Allowed {
				passed++
			} else {
				denial = a
			}
			e, err := l.Explain(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			// What is on its way to the store at that moment may be in neither count.
			if got := e.Limits[0].Before.Used; got > int64(passed) || got < int64(passed)-1 {
				t.Fatalf("%d passed, and %d are explained", passed, got)
			}
			time.Sleep(time.Millisecond)
		}
		if st := nodes[0].Stats(); passed != 20 || st.Local < 90 {
			t.Errorf("%d passed, want 20; %+v", passed, st)
		}
		e, err := l.Recall(t.Context(), denial.ID())
		if err != nil || e.Answer.Allowed || e.Limits[0].Before.Used != 20 {
			t.Fatalf("%+v, %v", e, err)
		}
		if !slices.ContainsFunc(e.Limits[0].Notes, func(n string) bool { return strings.Contains(n, "ahead of it by 1 at most: sync 100ms") }) {
			t.Errorf("%q", e.Limits[0].Notes)
		}
		end(t, nodes)
	})
}

package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir/rules"
)

// TestJoin: what is joined is what one stream of all would be.
func TestJoin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sets []*rules.Set
		var all strings.Builder
		for i := range rapid.IntRange(0, 5).Draw(t, "domains") {
			name := fmt.Sprintf("d%d", i)
			var text strings.Builder
			text.WriteString("domain: " + name + "\ndescriptors:\n")
			for k := range rapid.IntRange(0, 3).Draw(t, "rules") {
				fmt.Fprintf(&text, "  - {key: k%d, limits: [%d/s]}\n", k, rapid.IntRange(0, 9).Draw(t, "count"))
			}
			set, err := rules.Parse(name+".yaml", []byte(text.String()))
			if err != nil {
				t.Fatal(err)
			}
			sets = append(sets, set)
			all.Write(set.Export())
		}
		joined, err := rules.Join(sets...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(all.String(), string(joined.Export())); diff != "" {
			t.Error(diff)
		}
		if len(sets) == 0 {
			return
		}
		once, err := rules.ParseExport("all", []byte(all.String()))
		if err != nil {
			t.Fatal(err)
		}
		brief := func(s *rules.Set) string {
			var text strings.Builder
			fmt.Fprint(&text, s.Domains(), len(s.Warnings()), s.Complete())
			for _, r := range s.Rules() {
				fmt.Fprint(&text, r.Name, r.Limit, r.State("x"))
			}
			return text.String()
		}
		if diff := cmp.Diff(brief(once), brief(joined)); diff != "" {
			t.Error(diff)
		}
		if _, err := rules.Join(joined, sets[0]); err == nil || !strings.Contains(err.Error(), `duplicate domain "d0"`) {
			t.Errorf("a domain of two sets: %v", err)
		}
	})
}

package offenders_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
)

// TestTotals adds up rules, in shadow or not, by what they are asked by.
func TestTotals(t *testing.T) {
	t.Parallel()
	b := offenders.NewBook()
	for i, id := range []offenders.ID{{Domain: "a", Rule: "x"}, {Domain: "a", Rule: "y"}, {Domain: "b", Rule: "x", Shadow: true}} {
		traffic := b.Open(id, nil, time.Now())
		for range i + 1 {
			traffic.Pass()
		}
		traffic.Deny([]byte("ann"))
	}
	byDomain := b.Totals(offenders.Filter{}, func(id offenders.ID) string { return id.Domain })
	if diff := cmp.Diff(map[string]offenders.Total{"a": {Passed: 3, Denied: 2}, "b": {Passed: 3, Denied: 1}}, byDomain); diff != "" {
		t.Error(diff)
	}
	ofA := b.Totals(offenders.Filter{Domain: "a"}, func(id offenders.ID) string { return id.Rule })
	if diff := cmp.Diff(map[string]offenders.Total{"x": {Passed: 1, Denied: 1}, "y": {Passed: 2, Denied: 1}}, ofA); diff != "" {
		t.Error(diff)
	}
}

//go:build !race

package rules_test

import "testing"

// The race detector makes pools forget, so this is not measured with it.
func TestCheckAllocates(t *testing.T) {
	l := newLimiter(t, many(100))
	r := ask(descriptor("user=user-7"))
	check(t, l, r)
	// The answer with its decision, and its id.
	if got := testing.AllocsPerRun(100, func() { check(t, l, r) }); got > 2 {
		t.Errorf("%v allocations, want 2", got)
	}
}

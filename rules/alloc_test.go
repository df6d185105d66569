//go:build !race

package rules_test

import (
	"testing"

	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

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

// A denial that is kept takes no more memory than one that is not, once the
// places are there.
func TestDenialAllocates(t *testing.T) {
	l := rules.NewLimiter(memstore.New(memstore.Options{}), parse(t, "domain: shop\ndescriptors: [{key: user, limits: [0/s]}]"))
	remember(t, l)
	r := ask(descriptor("user=user-7"))
	for range 100 {
		check(t, l, r)
	}
	if got := testing.AllocsPerRun(100, func() { check(t, l, r) }); got > 2 {
		t.Errorf("%v allocations, want 2", got)
	}
}

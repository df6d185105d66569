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
	// The answer with its decision.
	if got := testing.AllocsPerRun(100, func() { check(t, l, r) }); got > 1 {
		t.Errorf("%v allocations, want 1", got)
	}
	var a rules.Answer
	into := func() {
		if err := l.CheckInto(t.Context(), r, &a); err != nil {
			t.Error(err)
		}
	}
	if got := testing.AllocsPerRun(100, into); got > 0 {
		t.Errorf("%v allocations into an answer that is there, want none", got)
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
	if got := testing.AllocsPerRun(100, func() { check(t, l, r) }); got > 1 {
		t.Errorf("%v allocations, want 1", got)
	}
}

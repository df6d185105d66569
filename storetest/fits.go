package storetest

import (
	"testing"

	"github.com/weir-limit/weir"
)

// fits is whether the store keeps limits like this.
func fits(s weir.Store, l *weir.Limit) bool { return l.Unfit(s.Traits()) == "" }

func limitsOf(t testing.TB, s weir.Store, texts ...string) []*weir.Limit {
	t.Helper()
	var limits []*weir.Limit
	for _, text := range texts {
		if l := weir.MustParseLimit(text); fits(s, l) {
			limits = append(limits, l)
		} else {
			t.Logf("left out, for the store refuses it: %s: %s", l, s.Traits().Unfit(l))
		}
	}
	return limits
}

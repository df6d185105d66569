package rules_test

import (
	"testing"

	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// BenchmarkTry is a check without and with a candidate beside it, in memory.
func BenchmarkTry(b *testing.B) {
	const text = "domain: shop\ndescriptors:\n- {key: user, limits: [1000000000/s]}\n"
	for _, candidate := range []*rules.Set{nil, parse(b, text)} {
		name := "alone"
		if candidate != nil {
			name = "candidate"
		}
		b.Run(name, func(b *testing.B) {
			l := rules.NewLimiter(memstore.New(memstore.Options{}), parse(b, text))
			l.Try(candidate.Items("shop"), func(rules.Trial) {})
			r := ask(descriptor("user=somebody"))
			b.ReportAllocs()
			for b.Loop() {
				check(b, l, r)
			}
		})
	}
}

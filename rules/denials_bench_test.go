package rules_test

import (
	"fmt"
	"testing"

	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// BenchmarkDenied is a flood that is denied: by one key, and by many.
func BenchmarkDenied(b *testing.B) {
	for _, keys := range []int{1, 4096} {
		requests := make([]*rules.Request, keys)
		for i := range requests {
			requests[i] = ask(descriptor(fmt.Sprintf("user=somebody-%d", i)))
		}
		for _, kept := range []string{"forgotten", "remembered"} {
			b.Run(fmt.Sprintf("keys=%d/%s", keys, kept), func(b *testing.B) {
				l := rules.NewLimiter(memstore.New(memstore.Options{}), parse(b, "domain: shop\ndescriptors:\n- {key: user, limits: [1/day]}\n"))
				if kept == "remembered" {
					if err := l.Remember(rules.NewDenials()); err != nil {
						b.Fatal(err)
					}
				}
				for _, r := range requests {
					check(b, l, r)
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if a, err := l.Check(b.Context(), requests[i%keys]); err != nil || a.Allowed {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

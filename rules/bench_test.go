package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-limit/weir/rules"
)

// many is a domain of n rules, of each kind of match.
func many(n int) string {
	var b strings.Builder
	b.WriteString("domain: shop\ndescriptors:\n")
	for i := range n / 4 {
		fmt.Fprintf(&b, "- {key: user, value: user-%d, limits: [10/s]}\n", i)
		fmt.Fprintf(&b, "- {key: path, value: /api/v1/%d/*, limits: [10/s]}\n", i)
		fmt.Fprintf(&b, "- {key: key-%d, limits: [10/s]}\n", i)
		fmt.Fprintf(&b, "- {key: team, value: team-%d, descriptors: [{key: user, limits: [10/s]}]}\n", i)
	}
	b.WriteString("- {key: user, limits: [10/s]}\n")
	return b.String()
}

func TestMatchAllocates(t *testing.T) {
	set := parse(t, many(1000))
	for words, want := range map[string]float64{
		"user=user-77": 0, "user=nobody": 0, "path=/api/v1/9/x": 0, "key-8=x": 0, "team=team-9 user=x": 0, "team=x user=x": 0,
		"user=" + strings.Repeat("x", 65): 1,
	} {
		d := descriptor(strings.Fields(words)...)
		if got := testing.AllocsPerRun(100, func() { set.Match("shop", &d) }); got != want {
			t.Errorf("%s: %v allocations, want %v", words, got, want)
		}
	}
}

// BenchmarkMatch is to stay below a microsecond in a domain of 10,000 rules.
func BenchmarkMatch(b *testing.B) {
	set := parse(b, many(10_000))
	for _, c := range []struct{ name, words string }{
		{"exact", "user=user-2000"},
		{"bare", "user=somebody"},
		{"key", "key-2000=x"},
		{"pattern", "path=/api/v1/2000/things"},
		{"no-pattern", "path=/somewhere/else/altogether"},
		{"nested", "team=team-2000 user=somebody"},
		{"none", "nothing=x"},
		{"digest", "user=" + strings.Repeat("x", 100)},
	} {
		d := descriptor(strings.Fields(c.words)...)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				set.Match("shop", &d)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	text := []byte(many(10_000))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rules.Parse("f", text); err != nil {
			b.Fatal(err)
		}
	}
}

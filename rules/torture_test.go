package rules_test

import (
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/rules"
)

var torture = flag.Bool("torture", false, "run the slow proofs, too")

// TestTortureSize tells what very many rules cost, and that still more are
// refused.
func TestTortureSize(t *testing.T) {
	if !*torture {
		t.Skip("slow: make torture")
	}
	const many = 100_000
	t.Run("rules", func(t *testing.T) {
		var text strings.Builder
		text.WriteString("domain: d0\ndescriptors:\n")
		for i := range many {
			fmt.Fprintf(&text, "- {key: user, value: u%d, limits: [%d/min]}\n", i, i+1)
		}
		size(t, text.String(), "d0", fmt.Sprintf("u%d", many-1))
	})
	t.Run("rules in Envoy's form", func(t *testing.T) {
		var text strings.Builder
		text.WriteString("domain: d0\ndescriptors:\n")
		for i := range many {
			fmt.Fprintf(&text, "  - key: user\n    value: u%d\n    shadow_mode: true\n    rate_limit:\n      name: n%d\n      unit: minute\n      requests_per_unit: %d\n", i, i, i+1)
		}
		size(t, text.String(), "d0", fmt.Sprintf("u%d", many-1))
	})
	t.Run("patterns", func(t *testing.T) {
		var text strings.Builder
		text.WriteString("domain: d0\ndescriptors:\n")
		for i := range many {
			fmt.Fprintf(&text, "- {key: user, value: \"u%d/*\", limits: [%d/min]}\n", i, i+1)
		}
		size(t, text.String(), "d0", fmt.Sprintf("u%d/x", many-1))
	})
	t.Run("domains", func(t *testing.T) {
		var text strings.Builder
		for i := range 10_000 {
			fmt.Fprintf(&text, "---\ndomain: d%d\ndescriptors:\n- {key: user, limits: [%d/min]}\n", i, i+1)
		}
		size(t, text.String(), "d9999", "any")
	})
	t.Run("too many domains", func(t *testing.T) {
		text := strings.Repeat("---\ndomain: d\ndescriptors: []\n", many)
		start := time.Now()
		_, err := rules.ParseExport("x", []byte(text))
		if err == nil || !strings.Contains(err.Error(), "100000 documents; there may be 10000") {
			t.Error(err)
		}
		t.Logf("%d domains are refused after %v", many, time.Since(start).Round(time.Millisecond))
	})
}

// size loads rules and asks for one of them.
func size(t *testing.T, text, domain, value string) {
	t.Helper()
	before := heap()
	start := time.Now()
	set, err := rules.ParseExport("x", []byte(text))
	took := time.Since(start)
	if err != nil {
		t.Fatalf("%.1000v", err)
	}
	used := heap() - before
	d := rules.Descriptor{Entries: []rules.Entry{{Key: "user", Value: value}}, Cost: 1}
	const times = 10_000
	start = time.Now()
	for range times {
		if found, _ := set.Match(domain, &d); len(found) != 1 {
			t.Fatal(found)
		}
	}
	match := time.Since(start) / times
	n := len(set.Rules())
	t.Logf("%d domains, %d rules: %d MB of text, loaded in %v, %d bytes a rule in memory; a match takes %v",
		len(set.Domains()), n, len(text)>>20, took.Round(time.Millisecond), used/int64(n), match)
	if match > time.Millisecond {
		t.Error("matching looks at all rules")
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

package record_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// TestAside: what others may still let pass counts when a take is decided, and is
// not charged by it: when it comes to nothing, all of it passes after all.
func TestAside(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"20/min", "20/h fixed-window", "20/h sliding-log", "20/h sliding-window", "20 concurrent"}).Draw(t, "limit")
		limit := weir.MustParseLimit(text)
		all := []record.Record{{Aside: rapid.Int64Range(0, 20).Draw(t, "aside")}}
		take := func(cost int64) (out [1]weir.Decision) {
			record.Take(1000, []weir.Ask{{Limit: limit, Cost: cost}}, all, out[:])
			return out
		}
		passed := int64(0)
		for {
			d := take(1)[0]
			if passed++; d.Outcome != weir.Allowed {
				break
			}
			if d.Remaining != 20-all[0].Aside-passed {
				t.Fatalf("%d remain beside %d aside after %d", d.Remaining, all[0].Aside, passed)
			}
		}
		if most := 20 - all[0].Aside; passed-1 != most {
			t.Fatalf("%d passed beside %d aside", passed-1, all[0].Aside)
		}
		rest := all[0].Aside
		all[0].Aside = 0
		if d := take(max(rest, 1))[0]; (d.Outcome == weir.Allowed) != (rest > 0) {
			t.Fatalf("of %d that came to nothing: %+v", rest, d)
		}
	})
}

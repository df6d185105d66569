package record

import (
	"testing"

	"github.com/weir-limit/weir"
)

// TestScore holds scores to those of all versions before: nodes and programs of two
// versions must agree on who has a count.
func TestScore(t *testing.T) {
	k := weir.StateKey{Rule: "shop/plan", Key: "ann"}
	for node, want := range map[string]uint64{"": 0x3bd6fd836ee765f9, "a": 0x40d1299f60a55072, "10.0.0.7:8081": 0x905da797790f6d55} {
		if got := Score(node, k); got != want {
			t.Errorf("the score of %q is %#x, want %#x", node, got, want)
		}
	}
}

package membership

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-limit/weir/rules"
)

// TestBounds: of rules that may let pass more than their limit, some are named and the
// others counted.
func TestBounds(t *testing.T) {
	var text strings.Builder
	text.WriteString("domain: d\ndescriptors:\n  - {key: exact, limits: [5/s]}\n  - {key: free, rate_limit: {unlimited: true}}\n")
	for i := range maxBounds + 7 {
		fmt.Fprintf(&text, "  - {key: mesh%d, limits: [5/s], sharing: mesh}\n", i)
	}
	set, err := rules.Parse("d.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	b := BoundsOf(set, 3)
	if b.Exact != 1 || len(b.Others) != maxBounds || b.Omitted != 7 {
		t.Errorf("%d exact, %d others, %d more", b.Exact, len(b.Others), b.Omitted)
	}
	if one := b.Others[0]; one.Rule != "d/mesh0" || one.Limit != "5/s" || !strings.Contains(one.Bound, "of 3 nodes") {
		t.Errorf("%+v", one)
	}
	if none := BoundsOf(nil, 3); none.Exact+len(none.Others) != 0 {
		t.Errorf("%+v without rules", none)
	}
}

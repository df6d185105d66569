package edge_test

import (
	"strings"
	"testing"

	"github.com/weir-limit/weir/edge"
)

// TestNoStore: an edge around nothing says what to pass.
func TestNoStore(t *testing.T) {
	defer func() {
		if said, _ := recover().(string); !strings.HasPrefix(said, "edge: New needs a store: pass one") {
			t.Error(said)
		}
	}()
	edge.New(nil, edge.Options{})
}

package rules_test

import (
	"slices"
	"testing"

	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// TestExplainSharing: an explanation tells how far nodes may be apart about a count.
func TestExplainSharing(t *testing.T) {
	set := parse(t, `domain: shop
descriptors:
  - {key: mesh, limits: [100/s], sharing: mesh, nodes: 5}
  - {key: gossip, limits: [100/s], sharing: gossip}
  - {key: divided, limits: [100/s], sharing: divided}
  - {key: lease, limits: [100/s], sharing: lease}
`)
	l := rules.NewLimiter(memstore.New(memstore.Options{}), set)
	for key, want := range map[string][]string{
		"mesh":    {"in a cluster 5 nodes share this count by mesh: what they have let pass in the last 110ms, 440 events at most, may be unknown here"},
		"gossip":  {"in a cluster nodes share this count by gossip: what each other node has let pass in the last 110ms, 110 events at most, may be unknown here"},
		"divided": {"in a cluster this is one node's part: it is divided, and each node knows of its own only"},
		"lease":   nil,
	} {
		e, err := l.Explain(t.Context(), ask(descriptor(key+"=x")))
		if err != nil || len(e.Limits) != 1 {
			t.Fatalf("%s: %v", key, err)
		}
		if got := e.Limits[0].Notes; !slices.Equal(got, want) {
			t.Errorf("%s: %q; want %q", key, got, want)
		}
	}
}

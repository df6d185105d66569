package rules_test

import (
	"slices"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// TestDividedParts: what is printed of divided limits is so when nodes start again and leave.
func TestDividedParts(t *testing.T) {
	set := parse(t, `domain: shop
descriptors:
  - {key: members, limits: [120/day], sharing: divided}
  - {key: nodes, limits: [120/day fixed-window], sharing: divided, nodes: 4}
`)
	for i, want := range []map[int]string{
		{
			0: "divided: each node passes its part of it by the number of members; each start of a node, and each leave, adds its part once more",
			3: "divided: each of 3 nodes passes 1/3 of it; each start of a node, new or again, and each leave of one of 3 adds at most 40",
		},
		{3: "divided: each of 4 nodes passes 1/4 of it; each node more, and each start of one again, adds at most 30"},
	} {
		for nodes, want := range want {
			if got, exact := set.Rules()[i].Together(nodes); got != want || exact {
				t.Errorf("%q, %v; want %q", got, exact, want)
			}
		}
	}
}

// TestTogetherByDefault: a rule that does not say how nodes share is told as one that says lease.
func TestTogetherByDefault(t *testing.T) {
	for _, partition := range []string{"", ", partition: proportional", ", partition: closed", ", partition: reserve", ", partition: share", ", partition: open"} {
		set := parse(t, "domain: shop\ndescriptors:\n  - {key: a, limits: [100/s]"+partition+"}\n  - {key: b, limits: [100/s], sharing: lease"+partition+"}\n")
		got, exact := set.Rules()[0].Together(5)
		if want, same := set.Rules()[1].Together(5); got != want || exact != same {
			t.Errorf("%s: %q, %v; want %q", partition, got, exact, want)
		}
	}
}

// late is a store of processes that share by an event log.
type late struct{ *memstore.Store }

func (late) Traits() weir.Traits { return weir.Traits{Shared: true, OwnClock: true, Late: true} }

// TestExplainLog: an explanation tells what a daemon at an event log may not know yet.
func TestExplainLog(t *testing.T) {
	set := parse(t, `domain: shop
descriptors:
  - {key: five, limits: [100/s], nodes: 5, sharing: mesh}
  - {key: some, limits: [100/min fixed-window]}
`)
	l := rules.NewLimiter(late{memstore.New(memstore.Options{})}, set)
	for key, want := range map[string]string{
		"five": "daemons share this count by an event log: what the others of 5 daemons let pass that this one has not read yet, 436 events at most where the log is 100ms late, is missing here",
		"some": "daemons share this count by an event log: what each other daemon let pass that this one has not read yet, 100 events at most where the log is 100ms late, is missing here",
	} {
		e, err := l.Explain(t.Context(), ask(descriptor(key+"=x")))
		if err != nil || !slices.Contains(e.Limits[0].Notes, want) {
			t.Errorf("%s: %q, %v; want %q", key, e.Limits[0].Notes, err, want)
		}
	}
}

// TestExplainSharing: an explanation tells how far nodes may be apart about a count.
func TestExplainSharing(t *testing.T) {
	set := parse(t, `domain: shop
descriptors:
  - {key: mesh, limits: [100/s], sharing: mesh, nodes: 5}
  - {key: gossip, limits: [100/s], sharing: gossip}
  - {key: divided, limits: [100/s], sharing: divided}
  - {key: lease, limits: [100/s], sharing: lease}
  - {key: leader, limits: [100/s], sharing: leader}
  - {key: hub, limits: [100/s], sharing: hub, nodes: 5}
`)
	l := rules.NewLimiter(memstore.New(memstore.Options{}), set)
	for key, want := range map[string][]string{
		"mesh":    {"in a cluster 5 nodes share this count by mesh: what they have let pass in the last 110ms, 440 events at most, may be unknown here"},
		"gossip":  {"in a cluster nodes share this count by gossip: what each other node has let pass in the last 110ms, 110 events at most, may be unknown here"},
		"divided": {"in a cluster this is one node's part: it is divided, and each node knows of its own only"},
		"lease":   nil,
		"leader":  {"in a cluster the leader of this rule decided, or this node by a lease of its leader; weir cluster leader names it"},
		"hub":     {"in a cluster 5 nodes share this count by hub: what they have let pass in the last 220ms, 484 events at most, may be unknown here"},
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

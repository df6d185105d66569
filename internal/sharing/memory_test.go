package sharing

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weir-limit/weir"
)

// BenchmarkMemory tells what keys take at a node: at one that asks their owner, at
// their owner, which asks itself, and at a replica that has heard of each key from
// another. The constants of cmd/weir/internal/size are from it.
func BenchmarkMemory(b *testing.B) {
	const keys, now = 100_000, replicaStart
	limit := weir.MustParseLimit("100/min")
	key := func(i int) weir.StateKey {
		return weir.StateKey{Rule: "shop/user#gcra", Key: fmt.Sprintf("10.1.%d.%d", i/250, i%250)}
	}
	members := []Member{{Name: "10.0.0.1:8083", Incarnation: 1}, {Name: "10.0.0.2:8083", Incarnation: 1}}
	pair := func() (nodes [2]*Node) {
		for i, m := range members {
			n, err := NewNode(Settings{Name: m.Name, Incarnation: 1, Keys: keys})
			if err != nil {
				b.Fatal(err)
			}
			n.View(now, Together(m.Name, members), &Effects{})
			nodes[i] = n
		}
		return nodes
	}
	b.Run("lease", func(b *testing.B) {
		perKey(b, keys, func() any {
			nodes := pair()
			for i := range keys {
				var asked, answered Effects
				nodes[0].Ask(now, &Request{ID: uint64(i), State: key(i), Limit: limit, Cost: 1}, &asked)
				for j := range asked.Messages {
					nodes[1].Receive(now, members[0].Name, &asked.Messages[j].Message, &answered)
				}
				for j := range answered.Messages {
					nodes[0].Receive(now, members[1].Name, &answered.Messages[j].Message, &asked)
				}
			}
			return nodes
		})
	})
	b.Run("replica", func(b *testing.B) {
		perKey(b, keys, func() any {
			p, err := NewReplica(now, ReplicaSettings{Name: members[0].Name, Incarnation: 1, Sharing: weir.SharingMesh, Keys: keys})
			if err != nil {
				b.Fatal(err)
			}
			p.View(now, []Presence{{Name: members[0].Name}, {Name: members[1].Name}})
			var out [1]weir.Decision
			for i := range keys {
				p.Take(now, []weir.Ask{{State: key(i), Limit: limit, Cost: 1}}, out[:])
				t, _ := p.tallies.get(key(i))
				p.hear(now, t, &told{node: members[1].Name, incarnation: 1, slot: 1, count: 1, opened: now, changed: now})
			}
			p.hush()
			return p
		})
	})
}

func perKey(b *testing.B, keys int, fill func() any) {
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		kept := fill()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(keys), "B/key")
		runtime.KeepAlive(kept)
	}
}

// BenchmarkReplica is a decision of a replica about a key that it knows.
func BenchmarkReplica(b *testing.B) {
	p := newReplica(b, replicaStart, "a", 1, weir.SharingMesh)
	p.View(replicaStart, []Presence{{Name: "a"}, {Name: "b"}})
	p.neighborsCaught()
	asks, out := []weir.Ask{{State: apiKey, Limit: weir.MustParseLimit("1000000/s"), Cost: 1}}, make([]weir.Decision, 1)
	b.ReportAllocs()
	now := replicaStart
	for b.Loop() {
		now += 10
		p.Take(now, asks, out)
	}
	if out[0].Outcome != weir.Allowed {
		b.Errorf("%+v", out[0])
	}
}

func (p *Replica) neighborsCaught() {
	for i := range p.peers {
		p.peers[i].pull.done = true
	}
}

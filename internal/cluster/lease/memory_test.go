package lease

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// BenchmarkMemory tells what keys take at a node: at one that asks their owner, and at
// their owner, which asks itself. The constants of cmd/weir/internal/size are from it.
func BenchmarkMemory(b *testing.B) {
	const keys, now = 100_000, begin
	limit := weir.MustParseLimit("100/min")
	key := func(i int) weir.StateKey {
		return weir.StateKey{Rule: "shop/user#gcra", Key: fmt.Sprintf("10.1.%d.%d", i/250, i%250)}
	}
	members := []member.Member{{Name: "10.0.0.1:8083", Incarnation: 1}, {Name: "10.0.0.2:8083", Incarnation: 1}}
	pair := func() (nodes [2]*Node) {
		for i, m := range members {
			n, err := NewNode(Settings{Name: m.Name, Incarnation: 1, Keys: keys})
			if err != nil {
				b.Fatal(err)
			}
			n.View(now, member.Together(m.Name, members), &protocol.Effects{})
			nodes[i] = n
		}
		return nodes
	}
	b.Run("lease", func(b *testing.B) {
		perKey(b, keys, func() any {
			nodes := pair()
			for i := range keys {
				var asked, answered protocol.Effects
				nodes[0].Ask(now, &protocol.Request{ID: uint64(i), State: key(i), Limit: limit, Cost: 1}, &asked)
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

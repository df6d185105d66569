package counter

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
)

// BenchmarkMemory tells what a key takes at a replica that has heard of it from another. The constants of
// cmd/weir/internal/size are from it.
func BenchmarkMemory(b *testing.B) {
	const keys, now = 100_000, replicaStart
	limit := weir.MustParseLimit("100/min")
	key := func(i int) weir.StateKey {
		return weir.StateKey{Rule: "shop/user#gcra", Key: fmt.Sprintf("10.1.%d.%d", i/250, i%250)}
	}
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		p, err := New(now, Settings{Name: "10.0.0.1:8083", Incarnation: 1, Sharing: weir.SharingMesh, Keys: keys})
		if err != nil {
			b.Fatal(err)
		}
		p.View(now, []member.Presence{{Name: "10.0.0.1:8083"}, {Name: "10.0.0.2:8083"}})
		var out [1]weir.Decision
		for i := range keys {
			p.Take(now, []weir.Ask{{State: key(i), Limit: limit, Cost: 1}}, out[:])
			t, _ := p.tallies.Get(key(i))
			p.hear(now, t, &told{node: "10.0.0.2:8083", incarnation: 1, slot: 1, count: 1, opened: now, changed: now})
		}
		p.hush()
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(keys), "B/key")
		runtime.KeepAlive(p)
	}
}

// BenchmarkReplica is a decision of a replica about a key that it knows.
func BenchmarkReplica(b *testing.B) {
	p := newReplica(b, replicaStart, "a", 1, weir.SharingMesh)
	p.View(replicaStart, []member.Presence{{Name: "a"}, {Name: "b"}})
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

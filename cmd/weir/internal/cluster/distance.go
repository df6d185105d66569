package cluster

import (
	"encoding/binary"
	"maps"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/member"
	"github.com/weir-limit/weir/internal/cluster/protocol"
	"github.com/weir-limit/weir/internal/packing"
)

// pingEvery is with how many heartbeats each other member is asked to answer at once: how far
// it is says when a question to it is worth asking again.
const pingEvery = 10

// ping asks a member. The time of asking comes back with the answer.
func (o *others) ping(to string) {
	o.packet = binary.AppendUvarint(append(o.packet[:0], pings), uint64(o.store.now()))
	o.store.self.Send(to, o.packet)
}

// hearPong hears an answer. The shards are told when it makes a difference.
func (o *others) hearPong(from string, b []byte) {
	r := packing.Reader{Rest: b}
	at := r.Number()
	now := o.store.now()
	trip := now - weir.Instant(at)
	if r.Bad || trip < 0 || trip > weir.Instant(protocol.MaxDistance/time.Microsecond) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.far) >= member.MaxMembers && o.far[from] == 0 {
		clear(o.far) // of those that have left
	}
	d := o.far[from].Measure(trip.Duration())
	o.far[from] = d
	told := o.told[from]
	if d.Retry() == told.Retry() && d.Patience() == told.Patience() || max(d-told, told-d) < told/4 {
		return
	}
	o.told = maps.Clone(o.far)
	o.store.distances(o.told)
}

// distances tells all shards how far the members are.
func (s *Store) distances(all map[string]protocol.Distance) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		if sh.node != nil {
			sh.node.Distances(all)
		}
		sh.mu.Unlock()
	}
}

package size

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/sim"
)

// TestShares holds what is worked out for the ways to share against the nodes'
// own code in virtual time: about as many messages of replicas, and with owners no more.
func TestShares(t *testing.T) {
	for _, row := range []struct {
		limit              string
		nodes, keys, times int64
	}{
		{"100/s", 2, 1, 1}, {"100/s", 10, 1, 1}, {"100/s", 10, 1, 10}, {"1000/s", 40, 1, 10}, {"10/s", 5, 50, 1}, {"10/s", 5, 50, 5}, {"100/s", 10, 100, 1},
	} {
		l := weir.MustParseLimit(row.limit)
		n := Need{Limit: l, Keys: row.keys, Limits: 1, Rate: row.keys * row.times * l.Spec().Count, Nodes: row.nodes, Regions: 1}
		w, err := sim.ParseWorkload(fmt.Sprintf("poisson rate=%d/s clients=%d", n.Rate, n.Keys), l)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range n.shares() {
			if s.Unfit != "" {
				continue
			}
			const long = 3
			f, err := sim.RunCluster(t.Context(), w, l, sim.ClusterOptions{Seed: 2, Duration: long * time.Second, Nodes: int(n.Nodes), Sharing: s.Sharing, Delay: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			sent, bytes := f.Messages/n.Nodes/long, f.Bytes/n.Nodes/long
			t.Logf("%s, %d nodes, %d keys, %d times, %s: %d messages and %d bytes a second; it is %d and %d", row.limit, n.Nodes, n.Keys, row.times, s.Sharing, s.Messages, s.Bytes, sent, bytes)
			replicated := s.Sharing == weir.SharingMesh || s.Sharing == weir.SharingGossip
			if s.Leader > 0 { // one sends more than all others
				s.Messages, s.Bytes = (s.Messages*(n.Nodes-1)+s.Leader)/n.Nodes, bytes
				replicated = s.Sharing == weir.SharingHub && bytes == 0
			}
			// Names are shorter there than they are taken to be, and nodes pack better.
			if s.Messages < sent || s.Bytes < bytes || replicated && (s.Messages > 4*sent+3 || s.Bytes > 12*bytes) {
				t.Errorf("%s, %d nodes, %d keys, %d times, %s: %d messages and %d bytes a second; it is %d and %d", row.limit, n.Nodes, n.Keys, row.times, s.Sharing, s.Messages, s.Bytes, sent, bytes)
			}
			if f.Over > s.Over {
				t.Errorf("%s, %d nodes, %s: %d over, of %d", row.limit, n.Nodes, s.Sharing, f.Over, s.Over)
			}
		}
	}
}

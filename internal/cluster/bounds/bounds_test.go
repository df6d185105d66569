package bounds_test

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

func TestUnfit(t *testing.T) {
	for _, row := range []struct {
		sharing weir.Sharing
		limit   string
		nodes   int
		fits    bool
	}{
		{weir.SharingMesh, "100/min", 0, true},
		{weir.SharingMesh, "10/s burst 50", 0, true},
		{weir.SharingGossip, "100/min fixed-window", 0, true},
		{weir.SharingGossip, "1000/day fixed-window zone Europe/Berlin", 0, true},
		{weir.SharingGossip, "100/min sliding-window 6", 0, true},
		{weir.SharingMesh, "100/min sliding-window 6 relaxed", 0, true},
		{weir.SharingMesh, "100/min sliding-log", 0, false},
		{weir.SharingMesh, "60/min leaky-queue", 0, false},
		{weir.SharingMesh, "20 concurrent", 0, false},
		{weir.SharingMesh, "100/min warm-up 10s", 0, false},
		{weir.SharingMesh, "100/min strict burst 5", 0, false},
		{weir.SharingMesh, "100/min sliding-window conservative", 0, false},
		{weir.SharingMesh, "100/min fixed-window anchored", 0, false},
		{weir.SharingMesh, "10/s debt 5", 0, false},
		{weir.SharingMesh, "10/s initial 1", 0, false},
		{weir.SharingMesh, "100/min sliding-window count-denied", 0, false},
		{weir.SharingMesh, "10/200ms fixed-window", 0, false},
		{weir.SharingMesh, "10/201ms fixed-window", 0, true},
		{weir.SharingMesh, "10/100ms", 0, true},
		{weir.SharingMesh, "100/min", 50, true},
		{weir.SharingMesh, "100/min", 51, false},
		{weir.SharingGossip, "100/min", 200, true},
		{weir.SharingGossip, "100/min", 201, false},
		{weir.SharingHub, "100/min", 200, true},
		{weir.SharingHub, "100/min", 201, false},
		{weir.SharingHub, "100/min sliding-log", 0, false},
		{weir.SharingHub, "10/400ms fixed-window", 0, false},
		{weir.SharingHub, "10/401ms fixed-window", 0, true},
		{weir.SharingLeader, "20 concurrent", 1000, true},
		{weir.SharingDivided, "100/min sliding-log", 0, true},
		{weir.SharingDivided, "3/min", 3, true},
		{weir.SharingDivided, "3/min", 4, false},
		{weir.SharingDivided, "100/min burst 3", 4, false},
		{weir.SharingDivided, "20 concurrent", 4, true},
		{weir.SharingLease, "3/min", 4, true},
		{weir.SharingSticky, "20 concurrent", 4, true},
		{"", "100/min sliding-log", 1000, true},
	} {
		if why := bounds.Unfit(row.sharing, weir.MustParseLimit(row.limit), row.nodes); (why == "") != row.fits {
			t.Errorf("%s %s on %d nodes: %q", row.sharing, row.limit, row.nodes, why)
		}
	}
}

// TestShared has bounds that were worked out by hand. That nothing passes them is
// for packages lease and counter to show, which have the nodes.
func TestShared(t *testing.T) {
	for _, row := range []struct {
		sharing weir.Sharing
		limit   string
		nodes   int
		delay   time.Duration
		most    int64 // in a second
	}{
		{weir.SharingLease, "100/s", 5, 0, 199},
		{weir.SharingLeader, "100/s", 5, 0, 199},
		{weir.SharingHub, "100/s", 5, 220 * time.Millisecond, 199 + 4*121},
		{weir.SharingDivided, "100/s", 5, 0, 199},
		{weir.SharingMesh, "100/s", 1, time.Second, 199},
		{weir.SharingMesh, "100/s", 5, 110 * time.Millisecond, 199 + 4*110},
		{weir.SharingGossip, "100/s burst 10", 5, 210 * time.Millisecond, 109 + 4*30},
		{weir.SharingMesh, "100/s fixed-window", 3, 110 * time.Millisecond, 2 * (100 + 2*100)},
		{weir.SharingMesh, "100/s sliding-window", 2, 110 * time.Millisecond, 2*(100+111) - 1},
		{weir.SharingMesh, "0/s", 3, 110 * time.Millisecond, 0},
	} {
		if got := bounds.Shared(weir.MustParseLimit(row.limit), row.sharing, row.nodes, row.delay, time.Second, 1); got != row.most {
			t.Errorf("%s %s, %d nodes, %v: %d in a second, want %d", row.sharing, row.limit, row.nodes, row.delay, got, row.most)
		}
	}
	if got := bounds.Delay(weir.SharingHub, 50, 10*time.Millisecond); got != 220*time.Millisecond {
		t.Errorf("nodes with a hub have heard after %v; want 220 ms", got)
	}
	for nodes, want := range map[int]int64{1: 0, 2: 101, 4: 101, 5: 201, 7: 201, 50: 1701} {
		if got := bounds.Delay(weir.SharingGossip, nodes, time.Millisecond); got.Milliseconds() != want {
			t.Errorf("%d nodes that gossip have heard after %v; want %d ms", nodes, got, want)
		}
	}
}

package leased

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// TestSize: a portion has the cost that it is for, and beyond that no more than is wanted, than an eighth
// of the limit, and than the node's part of what is left, or what it uses up in a turn.
func TestSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		up := func(most int64, name string) int64 { return rapid.Int64Range(0, most).Draw(t, name) }
		n := need{
			demand: up(mostCounted, "demand"), melts: up(mostCounted, "melts"), whole: 1 + up(weir.MaxCount, "whole"),
			shares: leastShares + up(1000, "shares"),
		}
		n.left, n.cost = up(n.whole, "left"), 1+up(n.whole-1, "cost")
		got := n.size()
		part := max(n.left/n.shares, 0)
		if n.demand*turnTimes/coverTimes >= n.left {
			part = max(part, (n.demand+n.melts)*turnTimes/coverTimes)
		}
		most := max(n.cost, min(n.demand+n.melts, part, max(n.whole/largestPart, 1)))
		if got < n.cost || got > most {
			t.Fatalf("%+v: %d, want %d…%d", n, got, n.cost, most)
		}
	})
	for _, c := range []struct {
		what string
		need need
		want int64
	}{
		{"plenty", need{cost: 1, demand: 200, melts: 1000, left: 2000, whole: 2000, shares: 4}, 250},
		{"little is wanted", need{cost: 1, demand: 20, melts: 10, left: 1000, whole: 1000, shares: 4}, 30},
		{"it melts before it is spent", need{cost: 1, demand: 2, melts: 1000, left: 1000, whole: 1000, shares: 4}, 1},
		{"near the end", need{cost: 1, demand: 20, left: 7, whole: 1000, shares: 4}, 1},
		{"more is wanted than is left", need{cost: 1, demand: 3000, melts: 1000, left: 100, whole: 2000, shares: 4}, 250},
		{"a large request", need{cost: 500, demand: 20, left: 1000, whole: 1000, shares: 4}, 500},
	} {
		if got := c.need.size(); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

// TestClocks: the age of a portion counts from before the store was asked, and a node whose clock is slower
// than the store's by 1 % spends no more than the store's clock allows.
func TestClocks(t *testing.T) {
	l := weir.MustParseLimit("1000/s")
	p := weir.Policy{Lease: 100 * time.Millisecond}
	var h Holding
	h.Begin(0, l, &p)
	receipt := &weir.Receipt{Limit: l, Cost: 500}
	asked, heard := time.Second, time.Second+50*time.Millisecond
	d := weir.Decision{Outcome: weir.Allowed, Cost: 500, Charged: true, Receipt: receipt}
	h.Hear(asked, heard, 500, 1, &d, &weir.Evidence{})
	for by := time.Duration(0); by < 600*time.Millisecond; by += 7 * time.Millisecond {
		elapsed := 50*time.Millisecond + by // by the node's clock, since it asked
		if got, most := h.Left(heard+by), l.Prepaid(receipt, elapsed*101/100)-1; got > max(most, 0) {
			t.Fatalf("after %v: %d are left, and by the store's clock %d", by, got, most)
		}
	}
	if h.Left(heard) == 0 {
		t.Error("nothing is left")
	}
}

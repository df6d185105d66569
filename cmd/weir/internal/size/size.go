// Package size says what limits take: memory, operations, network and processors,
// from measured constants; and which design is enough for a need, with the reason.
//
// Its designs are a table to which one is added.
package size

import (
	"fmt"
	"time"

	"github.com/weir-limit/weir"
)

// Need is what somebody wants to limit.
type Need struct {
	Limit   *weir.Limit
	Keys    int64 // in use at a time, of each limit
	Limits  int64 // limits like this that a request meets
	Rate    int64 // requests a second, of all nodes in all regions
	Nodes   int64 // processes that decide
	Regions int64 // places that are far from each other
	// Tolerance is how much more than the limit may pass, in percent of it.
	Tolerance int64
	// Unfit says why a store can't keep a limit; empty when it can.
	Unfit func(Store, *weir.Limit) string
}

// The most of a Need.
const (
	MaxKeys    = 100_000_000_000
	MaxRate    = 1_000_000_000
	MaxNodes   = 100_000
	MaxLimits  = 100
	MaxRegions = 1_000
	MaxPercent = 100 * MaxNodes
)

// Sizing is what a store takes for a need. Where there are several regions, it is for each.
type Sizing struct {
	Store        Store `json:"store"`
	KeyBytes     int64 `json:"bytes_per_key"`            // of each limit, at most
	MemoryBytes  int64 `json:"memory_bytes"`             // of all keys, in one place
	Takes        int64 `json:"takes_per_second"`         // counts that the store is asked for, of all nodes
	NetworkBytes int64 `json:"network_bytes_per_second"` // a second between nodes and store, at most
	StoreCPU     int64 `json:"store_cpu_percent"`        // of one processor
	NodeCPU      int64 `json:"node_cpu_percent"`         // of one processor, of all nodes together
	Servers      int64 `json:"servers"`                  // of the store, with half of each for peaks
	Connections  int64 `json:"connections"`              // to each of them, at most, of all nodes
}

// Of is what the store takes, with this sync on the rule, or none. It fails when
// the store can't keep the limit.
func (n *Need) Of(s Store, sync time.Duration) (Sizing, error) {
	if why := n.unfit(s); why != "" {
		return Sizing{}, fmt.Errorf("%s can't keep %q: %s", s, n.Limit, why)
	}
	bytes, _ := keyBytes(s, n.Limit)
	z := Sizing{Store: s, KeyBytes: bytes, MemoryBytes: times(times(n.Keys, bytes), n.Limits)}
	rate := (n.Rate + n.Regions - 1) / n.Regions
	z.Takes = rate * n.Limits
	own := rate * (callCPU + moreCPU*(n.Limits-1))
	if s == Memory {
		z.MemoryBytes += daemonMemory
	} else {
		t := takeOf(s, n.Limit)
		if sync > 0 { // each node tells of a key once in that time, and twice where it passes all that there is
			told := times(2, times(times(n.Keys, n.Nodes), times(n.Limits, up(int64(time.Second), int64(sync)))))
			z.Takes = min(z.Takes, told)
		}
		z.NetworkBytes, z.StoreCPU = times(z.Takes, t.network), percent(z.Takes*t.store)
		own += z.Takes * t.own
		z.Servers = n.servers(s, &z)
		z.Connections = times(up(n.total(), n.Regions), connections[s].each)
	}
	z.NodeCPU = percent(own)
	return z, nil
}

// servers is how many of them have memory for the keys twice, and processors that are half idle.
func (n *Need) servers(s Store, z *Sizing) int64 {
	if s == Redis || s == Postgres || s == NATS { // one server takes all writes, or leads a bucket
		return 1
	}
	byMemory := up(times(z.MemoryBytes, 2), serverMemory)
	byCPU := up(z.StoreCPU, load)
	if s == Cluster {
		return max(byMemory, byCPU, 3) // Redis Cluster has three at least
	}
	return max(byMemory, up(byCPU, 4)) // memcached has four threads by default
}

// primary says why one server of PostgreSQL, which alone takes writes, is not enough; empty when it is.
func (z *Sizing) primary() string {
	switch {
	case z.crowded() != "":
		return z.crowded()
	case z.StoreCPU > load*serverProcessors:
		return fmt.Sprintf("one server takes all writes, and %s takes a second need %d %% of a processor; plan for %d %% of each of %d", Count(z.Takes), z.StoreCPU, load, serverProcessors)
	case z.MemoryBytes > serverMemory:
		return fmt.Sprintf("the rows need %s, and have to be in memory, of which one server is taken to have %s", Bytes(z.MemoryBytes), Bytes(serverMemory))
	}
	return ""
}

// tooMuch says why one server of the kind is not enough; empty when it is.
func (z *Sizing) tooMuch() string {
	switch {
	case z.crowded() != "":
		return z.crowded()
	case z.StoreCPU > load:
		return fmt.Sprintf("it decides on one processor, and %s takes a second need %d %% of it; plan for %d %%", Count(z.Takes), z.StoreCPU, load)
	case times(z.MemoryBytes, 2) > serverMemory:
		return fmt.Sprintf("the keys need %s, and as much again for a snapshot, which is more than one server is taken to have (%s)", Bytes(z.MemoryBytes), Bytes(serverMemory))
	}
	return ""
}

// crowded says why a server of the kind has not enough connections; empty when it has.
func (z *Sizing) crowded() string {
	if c := connections[z.Store]; z.Connections > c.most {
		return fmt.Sprintf("nodes have up to %d connections to each server, %s in all, and it takes %s (%s)", c.each, Count(z.Connections), Count(c.most), c.setting)
	}
	return ""
}

func (n *Need) unfit(s Store) string {
	if _, ok := keyBytes(s, n.Limit); !ok {
		return "it has no figures for such a limit"
	}
	if n.Unfit != nil {
		return n.Unfit(s, n.Limit)
	}
	return ""
}

// total is the processes that decide: each region has one at least.
func (n *Need) total() int64 { return max(n.Nodes, n.Regions) }

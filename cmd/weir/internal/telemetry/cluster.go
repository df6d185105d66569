package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/gossip"
	"github.com/weir-limit/weir/cmd/weir/internal/membership"
)

// Node reports this node's part in a cluster.
func Node(n *membership.Node) []prometheus.Collector {
	whole := desc("weir_cluster_owner_takes_total",
		"Takes that the owners of their keys decided because no lease could answer them.")
	unanswered := desc("weir_cluster_unanswered_takes_total",
		"Takes that were denied because the owner of their key did not answer; no fallback decides them.")
	forwarded := desc("weir_cluster_rpcs_total", "RPCs that this node sent to owners of keys, including retries.")
	served := desc("weir_cluster_rpcs_served_total",
		"RPCs of other nodes that this node answered as the owner of a key.")
	unknown := desc("weir_cluster_unknown_messages_total",
		"Messages of other nodes that this version does not understand.")
	waiting := desc("weir_cluster_waiting_takes", "Takes that wait for an answer of the owner of their key.")
	keys := desc("weir_cluster_keys",
		"Keys that this node decides about (requested), has a lease on (leased), and keeps the counts of "+
			"(owned); requested and owned hold 262,144 each at most: beyond, new keys are denied while no key "+
			"is unused.", "state")
	members := desc("weir_cluster_members",
		"Members of the cluster as this node sees them, itself included, by whether their heartbeats "+
			"arrive.", "state")
	minority := desc("weir_cluster_minority",
		"1 when this node has had no heartbeat of most members for 25 seconds, so that rules with "+
			"partition: closed deny.")
	lost := desc("weir_cluster_unclean_departures",
		"Nodes that went away without handing over their keys; unused keys that such a node may have "+
			"owned started as fully used.")
	packets := desc("weir_cluster_packets_total", "Packets between nodes, without membership traffic.", "direction")
	octets := desc("weir_cluster_bytes_total", "Bytes of the packets between nodes.", "direction")
	messages := desc("weir_cluster_messages_total", "Messages in the packets between nodes.", "direction")
	dropped := desc("weir_cluster_dropped_total",
		"Incoming packets and outgoing messages that this node dropped, by reason; unknown-key: sealed with "+
			"a cluster key that this node does not have, or not sealed.", "direction", "reason")
	streams := desc("weir_cluster_streams", "TCP streams that other nodes have open to this node.")
	return []prometheus.Collector{readings(func() []reading {
		s := n.Store.Stats()
		all := []reading{
			counter(whole, s.Whole), counter(unanswered, s.Unanswered), counter(forwarded, s.Asked), counter(served, s.Served),
			counter(unknown, s.Unknown), gauge(waiting, float64(s.Waiting)),
		}
		c := n.Store.Count()
		all = append(all, labelled(keys, float64(c.Asked), "requested"), labelled(keys, float64(c.Leases), "leased"), labelled(keys, float64(c.Owned), "owned"))
		var net gossip.Stats
		heard, silent, few := 1, 0, 0.0
		if n.Store.Minority() {
			few = 1
		}
		if g := n.Gossip(); g != nil {
			net = g.Stats()
			heard, silent = count(g.Members())
		}
		all = append(all,
			labelled(members, float64(heard), "reachable"), labelled(members, float64(silent), "unreachable"), gauge(streams, float64(net.Streams)), gauge(minority, few), gauge(lost, float64(len(n.Store.Lost()))))
		for way, t := range map[string]gossip.Traffic{"in": net.In, "out": net.Out} {
			all = append(all, counter(packets, int64(t.Packets), way), counter(octets, int64(t.Bytes), way), counter(messages, int64(t.Messages), way))
			for _, why := range gossip.Reasons() {
				all = append(all, counter(dropped, int64(t.Dropped[why]), way, why.String()))
			}
		}
		return all
	})}
}

func labelled(d *prometheus.Desc, value float64, label string) reading {
	return reading{desc: d, kind: prometheus.GaugeValue, value: value, label: []string{label}}
}

// count is how many members are heard, and how many are silent.
func count(members []gossip.Member) (heard, silent int) {
	for _, m := range members {
		if m.Silent {
			silent++
		} else {
			heard++
		}
	}
	return heard, silent
}

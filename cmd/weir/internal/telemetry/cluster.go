package telemetry

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/gossip"
	"github.com/weir-limit/weir/cmd/weir/internal/membership"
)

// Node reports this node's part in a cluster.
func Node(n *membership.Node) prometheus.Collector {
	return Readings(func() []prometheus.Metric {
		s, keys := n.Store.Stats(), n.Store.Count()
		var net gossip.Stats
		heard, silent := 1, 0
		if g := n.Gossip(); g != nil {
			net = g.Stats()
			heard, silent = count(g.Members())
		}
		return slices.Concat([]prometheus.Metric{
			Counter("weir_cluster_owner_takes_total",
				"Takes that the owners of their keys decided because no lease could answer them.", s.Whole),
			Counter("weir_cluster_unanswered_takes_total",
				"Takes that were denied because the owner of their key did not answer; no fallback decides them.",
				s.Unanswered),
			Counter("weir_cluster_rpcs_total",
				"RPCs that this node sent to owners of keys, including retries.", s.Asked),
			Counter("weir_cluster_rpcs_served_total",
				"RPCs of other nodes that this node answered as the owner of a key.", s.Served),
			Counter("weir_cluster_unknown_messages_total",
				"Messages of other nodes that this version does not understand.", s.Unknown),
			Gauge("weir_cluster_waiting_takes",
				"Takes that wait for an answer of the owner of their key.", s.Waiting),
			Flag("weir_cluster_minority",
				"1 when this node has had no heartbeat of most members for 25 seconds, so that rules with "+
					"partition: closed deny.", n.Store.Minority()),
			Flag("weir_cluster_backed_up",
				"1 when other nodes have backups of all that this node granted of limits that take more than a minute to "+
					"come back: a crash would cost their keys nothing.", n.Store.BackedUp()),
			Gauge("weir_cluster_unclean_departures",
				"Nodes that went away without handing over their keys, as far as they are remembered (8 at most); "+
					"keys that such a node may have owned, and of which no backup is known, started as fully used.", len(n.Store.Lost())),
			Counter("weir_cluster_lost_members_total",
				"Members that this node itself has seen go away without handing over their keys.", s.Unclean),
			Gauge("weir_cluster_streams", "TCP streams that other nodes have open to this node.", net.Streams),
		}, By(Gauge, "weir_cluster_keys",
			"Keys that this node decides about (requested), has a lease on (leased), keeps the counts of "+
				"(owned), and keeps backups of for other owners (backup); requested, owned and backup hold 262,144 "+
				"each at most: beyond, new keys are denied while no key is unused.",
			"state", map[string]int{"requested": keys.Asked, "leased": keys.Leases, "owned": keys.Owned, "backup": keys.Backup},
		), By(Gauge, "weir_cluster_members",
			"Members of the cluster as this node sees them, itself included, by whether their heartbeats "+
				"arrive.",
			"state", map[string]int{"reachable": heard, "unreachable": silent},
		), leaders(n), traffic("in", &net.In), traffic("out", &net.Out))
	})
}

// leaders is which nodes lead rules. While some are out of reach, a rule has several.
func leaders(n *membership.Node) (all []prometheus.Metric) {
	for _, r := range n.Led() {
		for seat, s := range n.Leaders(r).Seats {
			for _, l := range s.Leaders {
				all = append(all, Gauge("weir_cluster_leader",
					"Which node leads a rule, or is its hub, as this node sees it: the part of each limit that the leader may let "+
						"pass, 1 while all nodes reach each other. leader is unreachable for the members that this "+
						"node can't reach: they may have a leader of their own.",
					float64(l.Part)/float64(l.Of), "rule", r.Name, "seat", strconv.Itoa(seat), "leader", cmp.Or(l.Node, "unreachable")))
			}
		}
	}
	return all
}

// traffic is what goes one way between nodes.
func traffic(way string, t *gossip.Traffic) []prometheus.Metric {
	dropped := map[string]uint64{}
	for _, why := range gossip.Reasons() {
		dropped[why.String()] = t.Dropped[why]
	}
	return append([]prometheus.Metric{
		Counter("weir_cluster_packets_total",
			"Packets between nodes, without membership traffic.", t.Packets, "direction", way),
		Counter("weir_cluster_bytes_total", "Bytes of the packets between nodes.", t.Bytes, "direction", way),
		Counter("weir_cluster_messages_total", "Messages in the packets between nodes.", t.Messages, "direction", way),
	}, By(Counter, "weir_cluster_dropped_total",
		"Incoming packets and outgoing messages that this node dropped, by reason; unknown-key: sealed with "+
			"a cluster key that this node does not have, or not sealed; other-cluster: sent by a node whose cluster has another name.",
		"reason", dropped, "direction", way)...)
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

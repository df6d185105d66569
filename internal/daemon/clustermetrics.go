package daemon

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/internal/gossip"
	"github.com/weir-limit/weir/internal/membership"
)

// newNodeMetrics tells of this node's part in a cluster.
func newNodeMetrics(n *membership.Node) []prometheus.Collector {
	whole := desc("weir_cluster_whole_takes_total", "Takes that the owners of their keys decided, because no lease can answer them.")
	unanswered := desc("weir_cluster_unanswered_takes_total", "Takes that were denied because the owner of their key did not answer.")
	forwarded := desc("weir_cluster_questions_total", "Questions that were sent to owners, those sent again included.")
	served := desc("weir_cluster_questions_served_total", "Questions of other nodes that this node answered as owner.")
	unknown := desc("weir_cluster_unknown_messages_total", "Messages of other nodes that this version does not understand.")
	waiting := desc("weir_cluster_waiting_takes", "Takes that wait for the owners of their keys.")
	keys := desc("weir_cluster_keys", "Keys that this node is asked about (asked), of these with a lease (leased), and whose counts it keeps (owned); of asked and owned 262,144 at most.", "state")
	members := desc("weir_cluster_members", "Members of the cluster as this node knows them, this one among them.", "state")
	minority := desc("weir_cluster_minority", "1 when this node has not heard most of the members for 25 seconds: it gives nothing by rules that are closed.")
	lost := desc("weir_cluster_lost", "Nodes that are remembered to have gone without a word: of keys that nobody had asked about, those that they may have owned began with all used.")
	packets := desc("weir_cluster_packets_total", "Packets of the data plane.", "direction")
	octets := desc("weir_cluster_bytes_total", "Bytes of these packets.", "direction")
	messages := desc("weir_cluster_messages_total", "Messages in these packets.", "direction")
	dropped := desc("weir_cluster_dropped_total", "Packets that came, and messages that were to go, which were dropped, by reason.", "direction", "reason")
	streams := desc("weir_cluster_streams", "Streams that other nodes have open to this one.")
	return []prometheus.Collector{readings(func() []reading {
		s := n.Store.Stats()
		all := []reading{
			counter(whole, s.Whole), counter(unanswered, s.Unanswered), counter(forwarded, s.Asked), counter(served, s.Served),
			counter(unknown, s.Unknown), gauge(waiting, float64(s.Waiting)),
		}
		c := n.Store.Count()
		all = append(all, labelled(keys, float64(c.Asked), "asked"), labelled(keys, float64(c.Leases), "leased"), labelled(keys, float64(c.Owned), "owned"))
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
			labelled(members, float64(heard), "heard"), labelled(members, float64(silent), "silent"), gauge(streams, float64(net.Streams)), gauge(minority, few), gauge(lost, float64(len(n.Store.Lost()))))
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

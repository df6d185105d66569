package membership

import (
	"fmt"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/gossip"
)

// maxNamed is how many nodes of a kind /readyz names.
const maxNamed = 5

// Trouble is what /readyz says of members that are not heard, and of nodes that are none.
func (n *Node) Trouble() string {
	g := n.gossip.Load()
	if g == nil {
		return ""
	}
	members := g.Members()
	if len(members) == 0 {
		return fmt.Sprintf("another node has the name %s, and this one is no member any more: give it a --cluster of its own, and start it again; the fallbacks of rules decide", g.Name())
	}
	lines := n.forgetful()
	for _, line := range []string{n.silent(members), sayApart(len(members), apart(len(members), g.Unjoined()))} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// silent is what there is to say of members that are not heard.
func (n *Node) silent(members []gossip.Member) string {
	var names []string
	for _, m := range members {
		if m.Silent {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	detail := fmt.Sprintf("%d of %d nodes of the cluster are silent: %s; each rule's partition decides", len(names), len(members), strings.Join(names[:min(len(names), maxNamed)], ", "))
	if !n.Store.Counted() {
		detail += "; this node has no part of its own until all have counted it, and asks those that it hears"
	}
	if n.Store.Minority() {
		detail += "; most of them for so long that rules that are closed pass nothing here: if they are gone for good, weir cluster forget NAME"
	}
	return detail
}

// apart are the nodes that could not be joined and should be known of: those with another
// key or in another cluster, and all where this node has met nobody.
func apart(members int, unjoined []gossip.Unjoined) (all []gossip.Unjoined) {
	for _, u := range unjoined {
		if members == 1 || u.OtherKey || u.OtherCluster {
			all = append(all, u)
		}
	}
	return all
}

func sayApart(members int, all []gossip.Unjoined) string {
	if len(all) == 0 {
		return ""
	}
	var said []string
	for _, u := range all[:min(len(all), maxNamed)] {
		said = append(said, (*Apart)(&u).String())
	}
	if members == 1 {
		return "no other node has been joined, and this one decides by itself: " + strings.Join(said, "; ")
	}
	return "nodes decide apart from this cluster: " + strings.Join(said, "; ")
}

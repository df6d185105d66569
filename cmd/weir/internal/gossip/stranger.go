package gossip

import (
	"fmt"
	"slices"
	"strings"
)

// maxUnjoined is how many addresses Unjoined names, and maxWhy how many bytes it says of each.
const (
	maxUnjoined = 64
	maxWhy      = 200
)

// Unjoined is an address at which no node could be joined when it was tried last.
type Unjoined struct {
	Address string // host:port, or a name that could not be looked up
	// OtherKey is whether a node is there that has other cluster keys, or where one of
	// the two has none.
	OtherKey bool
	// OtherCluster is whether a node is there whose cluster has another name.
	OtherCluster bool
	Why          string
}

// Unjoined are addresses of Options.Join, and of members that memberlist does not reach,
// at which no node could be joined when others were looked for last, and which has not
// come by itself since; maxUnjoined at most.
func (g *Gossip) Unjoined() []Unjoined {
	g.mu.Lock()
	defer g.mu.Unlock()
	reached := map[string]bool{}
	for _, e := range g.table.entries {
		reached[e.address.String()] = reached[e.address.String()] || e.alive
	}
	return slices.DeleteFunc(slices.Clone(g.unjoined), func(u Unjoined) bool { return reached[u.Address] })
}

// strange is whether memberlist says of what it got that it is not sealed with a key of the
// ring. It has nothing but words to tell that by; TestStrangers holds them to it.
func strange(text string) bool {
	for _, words := range []string{
		"no installed keys could decrypt", "Decrypt packet failed",
		"encryption is configured but", "encryption is not configured",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// refused tells of an address at which memberlist could join no node.
func (g *Gossip) refused(address string, before bool, err error) Unjoined {
	_, why, ok := strings.Cut(err.Error(), fmt.Sprintf("failed to join %s: ", address))
	if !ok {
		why = err.Error()
	}
	u := Unjoined{Address: address, Why: oneLine(why), OtherKey: strange(why), OtherCluster: strings.Contains(why, elsewhere)}
	switch {
	case u.OtherCluster:
		g.complain("a node to join is in another cluster; give all nodes of a cluster the same name, or leave it out of the nodes to join", address, u.Why)
	case u.OtherKey:
		g.in.drop(UnknownKey)
		g.complain("a node to join has another cluster key; give all nodes of a cluster the same", address, u.Why)
	case !before:
		g.complain("cannot join a node; does it run?", address, u.Why)
	}
	return u
}

// oneLine makes what another node may have said fit to be told.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.ToValidUTF8(text[:min(len(text), maxWhy)], "")
}

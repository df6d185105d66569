package clustertest

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLeaderCut: on both sides of a cut all nodes tell of two leaders with the part of each, and of a hub that their
// side reaches. The parts of both sides are the limit.
func TestLeaderCut(t *testing.T) {
	needs(t)
	c := newCluster(t, 5, `domain: demo
descriptors:
  - {key: leader, sharing: leader, limits: ["20/s burst 20"]}
  - {key: closed, sharing: leader, partition: closed, limits: ["20/s burst 20"]}
  - {key: hub, sharing: hub, limits: ["20/s burst 20"]}
`)
	all := []int{0, 1, 2, 3, 4}
	c.start(all...)
	c.meet(all...)
	c.network.block(func(w way) bool { return (w.from < 3) != (w.to < 3) })
	for _, side := range [][]int{all[:3], all[3:]} {
		c.leads("leader", "2 leaders, 3/5 and 2/5: .*", side)
		c.leads("closed", "2 leaders, 1/1 and 0/1: .*", side)
		c.leads("hub", "[0-9.:]+", side)
	}
	c.network.heal()
	c.meet(all...)
	for _, rule := range []string{"leader", "closed", "hub"} {
		c.leads(rule, "[0-9.:]+", all)
	}
}

// leads waits until all of some nodes say the same of a rule's leader, in such words, and name one of them.
func (c *cluster) leads(rule, words string, nodes []int) {
	c.t.Helper()
	meant := regexp.MustCompile("^" + words + "$")
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var said []string
		for _, i := range nodes {
			text, _ := c.weir(i, "cluster", "leader", "--addr", adminDoor, "demo/"+rule) // which exits 1 in a cut
			said = append(said, strings.TrimSpace(text))
		}
		named := slices.ContainsFunc(nodes, func(i int) bool { return strings.Contains(said[0], c.nodes[i].name) })
		if same := slices.Compact(slices.Clone(said)); len(same) == 1 && named && meant.MatchString(said[0]) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%v say of demo/%s: %q", nodes, rule, said)
		}
	}
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// leader is what weir cluster leader says at a node.
func (c *cluster) leader(t *testing.T, node int, rule string) (text string, code int) {
	t.Helper()
	text, code = command(t, "cluster", "leader", "--addr", "http://"+c.nodes[node].admin, rule)
	return strings.TrimSpace(text), code
}

// TestClusterLeader: three daemons name the leader and the hub of rules. When the leader is killed another one
// takes over with its part, and no more than the limit passes.
func TestClusterLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	defer c.startAll(t)()
	leads := -1
	until(t, "all nodes name one leader", func(string) bool {
		text, code := c.leader(t, 0, "demo/leader")
		leads = slices.Index(c.at, text)
		other, _ := c.leader(t, 1, "demo/leader")
		return leads >= 0 && code == exitYes && text == other
	})
	until(t, "all nodes name one hub", func(string) bool {
		text, code := c.leader(t, 0, "demo/hub")
		other, _ := c.leader(t, 2, "demo/hub")
		return slices.Contains(c.at, text) && code == exitYes && text == other
	})
	for rule, want := range map[string]string{"demo/day": "has no leader", "demo/none": "no active rule has the name demo/none"} {
		if text, code := c.leader(t, 0, rule); code != exitFail || !strings.Contains(text, want) {
			t.Errorf("%s: exit %d, %s; want %s", rule, code, text, want)
		}
	}
	used := 0
	until(t, "half of a limit passes", func(value string) bool {
		used = c.passes(t, 15, "leader", "used")
		return used > 0
	})

	c.kill(t, leads)
	killed, rest := time.Now(), (leads+1)%3
	until(t, "another node leads with its part", func(string) bool {
		text, code := c.leader(t, rest, "demo/leader")
		now := strings.TrimSuffix(strings.TrimPrefix(text, "2 leaders, 2/3 and 1/3: "), ", and one of members that this node can't reach, if they live")
		return code == exitNo && slices.Contains(c.at, now) && now != c.at[leads]
	})
	until(t, "keys with leaders pass again", func(value string) bool {
		return c.passes(t, 6, "leading", "one"+value) > 0 && c.passes(t, 6, "leading", "two"+value) > 0
	})
	t.Logf("another leader %v after one was killed", time.Since(killed))
	until(t, "another node is the hub", func(string) bool {
		text, code := c.leader(t, rest, "demo/hub")
		return code == exitYes && slices.Contains(c.at, text) && text != c.at[leads]
	})
	metrics := fetch(t, "http://"+c.nodes[rest].admin+"/metrics")
	for _, want := range []string{`rule="demo/leader",seat="0"} 0.666`, `weir_cluster_leader{leader="unreachable",rule="demo/leader",seat="0"} 0.333`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no metric with %s", want)
		}
	}
	if more := c.passes(t, 60, "leader", "used"); used+more > 30 {
		t.Errorf("%d passed before the leader was killed, and %d after it: of 30", used, more)
	}

	c.start(t, leads)
	c.meet(t, 3)
	until(t, "it leads again", func(string) bool {
		text, code := c.leader(t, rest, "demo/leader")
		return code == exitYes && text == c.at[leads]
	})
	until(t, "its keys pass again", func(value string) bool { return c.passes(t, 3, "leading", fmt.Sprint("back", value)) > 0 })
}

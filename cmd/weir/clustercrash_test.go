package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestClusterCrash: a daemon that is killed costs keys of slow limits nothing, once it has been given up: neither new
// ones, nor those that were used.
func TestClusterCrash(t *testing.T) {
	t.Parallel()
	const count, keys = 30, 9
	c := newCluster(t, 3)
	defer c.startAll(t)()
	used := 0
	for n := range keys {
		used += c.passes(t, count/3, "day", fmt.Sprint("used", n))
	}
	c.backedUp(t)
	until(t, "no node has a lease, which would count as used", func(string) bool {
		return !slices.ContainsFunc(c.nodes, func(p *process) bool {
			return !strings.Contains(fetch(t, "http://"+p.admin+"/metrics"), `weir_cluster_keys{state="leased"} 0`+"\n")
		})
	})
	c.kill(t, 1)
	killed, began := time.Now(), c.passes(t, 3, "day", "soon")
	c.meet(t, 2)
	until(t, "explain says how much a key has", func(value string) bool {
		text, _ := command(t, "explain", "--addr", "http://"+c.nodes[0].admin, "demo", "day="+value)
		return strings.Contains(text, "    in this cluster keys have 2/3 of each limit until "+c.at[1]+" is heard again, or given up")
	})
	if text, code := command(t, "cluster", "forget", "--addr", "http://"+c.nodes[0].admin, c.at[1]); code != exitYes {
		t.Fatalf("exit %d\n%s", code, text)
	}
	c.backedUp(t)
	t.Logf("all is in its place %v after a node was killed", time.Since(killed))
	for n := range keys {
		if passed := c.passes(t, 3*count/2, "day", fmt.Sprint("new", n)); passed != count {
			t.Errorf("%d of %d events of a new key passed", passed, count)
		}
	}
	for n := range keys {
		used += c.passes(t, 3*count/2, "day", fmt.Sprint("used", n))
	}
	if began += c.passes(t, 3*count/2, "day", "soon"); used != keys*count || began > count {
		t.Errorf("%d events of %d used keys passed in all, and %d of a key that was asked about at once; want %d, and %d at most", used, keys, began, keys*count, count)
	}
	text, _ := command(t, "cluster", "status", "--addr", "http://"+c.nodes[0].admin)
	if !strings.Contains(text, c.at[1]+" left uncleanly at ") || !strings.Contains(text, "of which others had backups") {
		t.Errorf("status does not tell of backups\n%s", text)
	}
}

// backedUp waits until each node that runs says that others have backups of all.
func (c *cluster) backedUp(t *testing.T) {
	t.Helper()
	until(t, "each node says that others have backups", func(string) bool {
		return !slices.ContainsFunc(c.nodes, func(p *process) bool {
			return p != nil && !strings.Contains(fetch(t, "http://"+p.admin+"/metrics"), "weir_cluster_backed_up 1\n")
		})
	})
}

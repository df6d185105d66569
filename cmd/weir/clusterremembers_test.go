package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestClusterRemembers: a node that has met others, and is started again where it hears none of them,
// begins as one of three. It begins with all of each limit if it is told that it is the first of a
// new cluster, and not at all with another key or name.
func TestClusterRemembers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start(t, 0)
	if said := fetch(t, "http://"+c.nodes[0].http+"/readyz"); !strings.Contains(said, "has met no other node") {
		t.Errorf("a node alone says %q", said)
	}
	c.start(t, 1)
	c.start(t, 2)
	c.meet(t, 3)
	if said := fetch(t, "http://"+c.nodes[0].http+"/readyz"); strings.Contains(said, "has met no other node") {
		t.Errorf("a node that has met others says %q", said)
	}
	until(t, "votes count", func(string) bool { return c.passes(t, 3, "second", "x") > 0 })
	time.Sleep(1500 * time.Millisecond) // a node looks each second whether its vote counts
	for i := range c.nodes {
		c.kill(t, i)
	}

	c.start(t, 0)
	if said := fetch(t, "http://"+c.nodes[0].http+"/readyz"); !strings.Contains(said, "2 of 3 nodes of the cluster are silent") {
		t.Errorf("a node that hears none of those that it remembers says %q", said)
	}
	if passed := c.passes(t, 180, "day", "new"); passed > 0 {
		t.Errorf("%d of a day pass at a node that hears nobody", passed)
	}
	passed, began := 0, time.Now()
	for time.Since(began) < 2*time.Second {
		passed += c.passes(t, 3, "second", "y")
	}
	if took := time.Since(began).Seconds(); float64(passed) > 50.0/3*(took+1)+2 || passed < 10 {
		t.Errorf("%d pass in %.1f s; want a third of 50 a second, and of 50 at once", passed, took)
	}
	c.kill(t, 0)

	other := newCluster(t, 1)
	for what, args := range map[string][]string{
		"another key":  {"--cluster-key-file", other.key},
		"another name": {"--cluster-key-file", c.key, "--cluster-name", "mail"},
	} {
		node := exec.CommandContext(t.Context(), c.binary, append([]string{
			"serve", "--store", "cluster:", "--cluster", c.at[0], "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--rules", c.rules,
		}, args...)...)
		node.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(filepath.Dir(c.binary), "cache"))
		var said bytes.Buffer
		node.Stderr = &said
		if err := node.Run(); err == nil || !strings.Contains(said.String(), "--bootstrap") {
			t.Errorf("%s: %v\n%s", what, err, &said)
		}
	}

	c.nodes[0] = serve(t, c.binary, "--store", "cluster:", "--cluster", c.at[0], "--rules", c.rules, "--cluster-key-file", c.key, "--bootstrap")
	if said := fetch(t, "http://"+c.nodes[0].http+"/readyz"); strings.Contains(said, "silent") || strings.Contains(said, "has met no") {
		t.Errorf("the first of a new cluster says %q", said)
	}
	if passed := c.passes(t, 180, "day", "new"); passed != 30 {
		t.Errorf("%d of 30 a day pass at the first of a new cluster", passed)
	}
	c.stop(t, 0)
}

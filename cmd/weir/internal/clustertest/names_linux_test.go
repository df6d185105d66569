package clustertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestOneName: two nodes are given one name, as where a machine was copied. The one that
// began later has it; the other says so, and what all who share pass is the limit.
func TestOneName(t *testing.T) {
	needsTime(t)
	c := newCluster(t, 4, faultRules)
	const first, second = 2, 3
	for _, i := range []int{first, second} {
		c.call(i, "twin", addressOf(i).String())
		c.nodes[i].name = "twin:8083"
	}
	c.start(0, 1, first)
	c.meet(0, 1, first)
	keys := []key{c.key("closed"), c.key("proportional"), c.key("sticky")}
	h := newHistory(t, "one name")
	stop := c.load(h, keys, overload*limit/4)
	defer func() { stop() }()
	c.start(second)
	c.meet(0, 1, second)
	c.says(first, "two nodes have one name")
	if said, err := c.weir(first, "cluster", "status", "--addr", adminDoor); err == nil || !strings.Contains(said, "another node has the name twin:8083") {
		t.Errorf("the status of who has lost its name: %v\n%s", err, said)
	}
	c.flow(h, keys)
	time.Sleep(2 * time.Second)
	stop()
	for _, k := range keys {
		shared := h.passed(func(d *decision) bool { return d.key == k && d.node != first })
		alone := h.at(k, first)
		t.Logf("%v: %d passed, and %d at the node that has lost its name", k, len(shared), len(alone))
		if over := excess(shared, limit, limit); over > tolerance {
			t.Errorf("%v: %.2f events too many at those who share", k, over)
		}
		if over := excess(alone, limit, limit); over > tolerance {
			t.Errorf("%v: %.2f events too many at the node that has lost its name", k, over)
		}
	}
}

// TestNameReused: a node is cut off, and another process takes its name at another address while it
// lives, as where a pod is deleted by force. Together all pass no more than the limit.
func TestNameReused(t *testing.T) {
	needsTime(t)
	c := newCluster(t, 4, faultRules)
	const first, second = 2, 3
	for _, i := range []int{first, second} {
		c.call(i, "twin", addressOf(i).String())
		c.nodes[i].name = "twin:8083"
	}
	c.nodes[second].caches = t.TempDir() // its machine is another
	c.start(0, 1, first)
	c.meet(0, 1, first)
	var keys []key
	for _, rule := range []string{"closed", "proportional", "sticky", "leader"} {
		keys = append(keys, c.key(rule), c.key(rule), c.key(rule), c.key(rule))
	}
	h := newHistory(t, "name reused")
	stop := c.load(h, keys, 2*limit/4)
	defer func() { stop() }()
	time.Sleep(time.Second)
	c.network.block(func(w way) bool { return w.from == first || w.to == first })
	time.Sleep(time.Second)
	c.start(second)
	time.Sleep(15 * time.Second)
	c.says(second, "an earlier process with this node's name may live elsewhere")
	stop()
	for _, k := range keys {
		events := h.passed(func(d *decision) bool { return d.key == k })
		over := excess(events, limit, limit)
		t.Logf("%v: %d passed, %.2f too many", k, len(events), over)
		if over > tolerance {
			t.Errorf("%v: %.2f events too many", k, over)
		}
	}
}

// call gives an address a name that a node alone knows, as a machine knows its own.
func (c *cluster) call(i int, name, address string) {
	c.t.Helper()
	hosts := filepath.Join(c.t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte(address+" "+name+"\n"), 0o644); err != nil {
		c.t.Fatal(err)
	}
	err := c.nodes[i].namespace.within(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Mount(hosts, "/etc/hosts", "", unix.MS_BIND, "")
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// says waits until a node's log has a text.
func (c *cluster) says(i int, text string) {
	c.t.Helper()
	for end := time.Now().Add(patience); !strings.Contains(c.nodes[i].log.String(), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("node %d does not say %q", i, text)
		}
	}
}

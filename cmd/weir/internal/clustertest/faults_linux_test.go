package clustertest

import (
	"context"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fault is what goes wrong.
type fault struct {
	name    string
	first   func(c *cluster) // what takes long, before anything is asked
	begin   func(c *cluster) (end func())
	victims []int // nodes that can't be asked meanwhile
	quick   bool  // TestFaults has the time for it
	parts   bool  // it is a cut

	// most is how many times the limit may pass of a key that a node owns, where that is
	// more than the policy says.
	most     func(k key, owner int) float64
	restarts bool // a node begins anew
}

// faults are of three nodes, which are all there when one begins. All begin and end while nodes are
// asked for more than the limit.
func faults() []fault {
	last := []int{2}
	return []fault{
		{name: "killed, and back", begin: func(c *cluster) func() { c.kill(2); return func() { c.start(2) } }, victims: last, quick: true},
		{name: "paused, longer than its leases", begin: func(c *cluster) func() {
			c.signal(2, syscall.SIGSTOP)
			return func() { c.signal(2, syscall.SIGCONT) }
		}, victims: last, quick: true},
		{name: "stopped with SIGTERM, and back", begin: func(c *cluster) func() { c.stop(2); return func() { c.start(2) } }, victims: last},
		{name: "killed, forgotten, and back", begin: func(c *cluster) func() { c.kill(2); c.forget(0, 2); return func() { c.start(2) } }, victims: last},
		{name: "one of three cut off", begin: cut([]int{0, 1}, last), quick: true, parts: true},
		{name: "each alone", begin: cut([]int{0}, []int{1}, last), quick: true, parts: true},
		{name: "one receives nothing, but can send", begin: block(to(2)), quick: true, parts: true},
		{name: "one can't send, but receives", begin: block(from(2)), parts: true},
		{name: "two of three can't reach each other", begin: block(func(w way) bool { return w.from+w.to == 2 && w.from != 1 }), parts: true},
		{name: "one cut off and reachable in turn, 0.4 s each", begin: flapping, parts: true},
		{name: "delay 1 ms", begin: weathers(weather{delay: time.Millisecond})},
		{name: "delay 20 ms", begin: weathers(weather{delay: 20 * time.Millisecond})},
		{name: "delay 100 ms", begin: weathers(weather{delay: 100 * time.Millisecond})},
		{name: "loss 1 %", begin: weathers(weather{delay: time.Millisecond, loss: 0.01})},
		{name: "loss 10 %", begin: weathers(weather{delay: time.Millisecond, loss: 0.1})},
		{name: "loss 10 %, duplicates 5 %, delay 1 to 21 ms", begin: weathers(weather{delay: time.Millisecond, jitter: 20 * time.Millisecond, loss: 0.1, doubles: 0.05})},
	}
}

func cut(sides ...[]int) func(*cluster) func() {
	return func(c *cluster) func() {
		side := map[int]int{}
		for s, nodes := range sides {
			for _, i := range nodes {
				side[i] = s
			}
		}
		c.network.block(func(w way) bool { return side[w.from] != side[w.to] })
		return c.network.heal
	}
}

func block(ways func(way) bool) func(*cluster) func() {
	return func(c *cluster) func() { c.network.block(ways); return c.network.heal }
}

func from(i int) func(way) bool { return func(w way) bool { return w.from == i } }
func to(i int) func(way) bool   { return func(w way) bool { return w.to == i } }

func weathers(w weather) func(*cluster) func() {
	return func(c *cluster) func() {
		c.network.set(w)
		return func() { c.network.set(weather{}) }
	}
}

// flapping cuts one off and lets it back, by turns shorter and longer than what makes
// it silent.
func flapping(c *cluster) func() {
	ctx, stop := context.WithCancel(c.t.Context())
	var g sync.WaitGroup
	g.Go(func() {
		tick := time.NewTicker(400 * time.Millisecond)
		defer tick.Stop()
		for cuts := true; ; cuts = !cuts {
			if cuts {
				cut([]int{0, 1}, []int{2})(c)
			} else {
				c.network.heal()
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() { stop(); g.Wait(); c.network.heal() }
}

func needs(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("it makes network namespaces, which takes root: sudo make test-cluster")
	}
	if err := unix.Access("/dev/net/tun", unix.R_OK|unix.W_OK); err != nil {
		t.Skip("it carries packets from a TUN device to another, and there are none: /dev/net/tun:", err)
	}
}

// faultRules have a rule for each policy while nodes can't reach each other, and for each way to
// share that is exact.
const faultRules = `domain: demo
descriptors:
  - {key: closed, partition: closed, limits: ["20/s burst 20"]}
  - {key: proportional, limits: ["20/s burst 20"]}
  - {key: reserve, partition: reserve, limits: ["20/s burst 20"]}
  - {key: share, partition: share, limits: ["20/s burst 20"]}
  - {key: open, partition: open, limits: ["20/s burst 20"]}
  - {key: sticky, sharing: sticky, limits: ["20/s burst 20"]}
  - {key: divided, sharing: divided, limits: ["20/s burst 20"]}
  - {key: leader, sharing: leader, limits: ["20/s burst 20"]}
`

// TestFaults: three nodes, asked for more than the limit, let pass no more than
// it, or than the rule's policy says, whatever fails, and each key passes again when that
// has ended.
func TestFaults(t *testing.T) {
	needs(t)
	c := newCluster(t, 3, faultRules)
	c.start(0, 1, 2)
	c.meet(0, 1, 2)
	keys := append(c.keys("closed"), c.keys("proportional")...)
	for _, rule := range []string{"reserve", "share", "open", "sticky", "divided"} {
		keys = append(keys, c.keys(rule)[2]) // of the node that fails
	}
	keys = append(keys, c.key("leader")) // whichever node leads
	h := newHistory(t, "all")
	const times = 4 // the limit: what a busy machine can ask
	stop := c.load(h, keys, times*limit/3)
	defer func() { stop() }()

	for _, f := range faults() {
		if !f.quick {
			continue
		}
		t.Logf("%.1f s: %s", h.now().Seconds(), f.name)
		end := f.begin(c)
		time.Sleep(3 * time.Second / 2)
		end()
		c.meet(0, 1, 2)
		c.flow(h, keys)
	}
	t.Logf("%d decisions, %d packets", len(h.decisions), c.network.carried.Load())
	for _, k := range keys {
		events := h.of(k, always)
		if excess(events, limit/2, limit) <= 0 {
			t.Errorf("%v: half of the limit would have done, so nothing is known of all of it", k)
		}
		over := h.over(k, 2, len(c.nodes), nil)
		t.Logf("%v: %.2f events too many", k, over)
		if over > tolerance {
			t.Errorf("%v: %.2f events too many", k, over)
		}
	}
}

// over is how many events too many passed of a key that a node owns, for what its rule lets
// pass meanwhile. No fault: there were several.
func (h *history) over(k key, owner, nodes int, f *fault) float64 {
	events, most := h.of(k, always), 1.0
	if f != nil && f.most != nil {
		most = f.most(k, owner)
	}
	switch k.rule {
	case "share": // those who don't hear the owner pass their parts beside it
		most += float64(nodes-1) / float64(nodes)
	case "divided": // a node that comes back begins with its part of the burst
		return excess(events, limit, limit+limit/float64(nodes))
	case "open": // there is no bound, but for those who hear the owner: itself
		events = h.at(k, owner)
	}
	return excess(events, most*limit, most*limit)
}

// tolerance is of events, for the arithmetic of the checker.
const tolerance = 0.01

// flow waits until each key passes.
func (c *cluster) flow(h *history, keys []key) {
	c.t.Helper()
	since := h.now()
	for _, k := range keys {
		for end := time.Now().Add(patience); len(h.of(k, span{since, always.to})) == 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				c.t.Fatalf("%v does not pass any more", k)
			}
		}
	}
}

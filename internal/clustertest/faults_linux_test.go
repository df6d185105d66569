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
	begin   func(c *cluster) (end func())
	victims []int // nodes that can't be asked meanwhile
}

// faults are of three nodes, which are all there when one begins. All begin and end while nodes are
// asked for more than the limit.
func faults() []fault {
	return []fault{
		{"killed, and back", func(c *cluster) func() { c.kill(2); return func() { c.start(2) } }, []int{2}},
		{"stands still, longer than its leases", func(c *cluster) func() {
			c.signal(2, syscall.SIGSTOP)
			return func() { c.signal(2, syscall.SIGCONT) }
		}, []int{2}},
		{"one of three cut off", cut([]int{0, 1}, []int{2}), nil},
		{"each alone", cut([]int{0}, []int{1}, []int{2}), nil},
		{"one hears nobody, and is heard", func(c *cluster) func() { c.network.block(to(2)); return c.network.heal }, nil},
	}
}

// moreFaults are for who has the time.
func moreFaults() []fault {
	return []fault{
		{"stopped in order, and back", func(c *cluster) func() { c.stop(2); return func() { c.start(2) } }, []int{2}},
		{"one is not heard, and hears", func(c *cluster) func() { c.network.block(from(2)); return c.network.heal }, nil},
		{"two of three don't hear each other", func(c *cluster) func() {
			c.network.block(func(w way) bool { return w.from+w.to == 2 && w.from != 1 })
			return c.network.heal
		}, nil},
		{"one cut off and heard in turn, 0.4 s each", flapping, nil},
		{"delay 1 ms", weathers(weather{delay: time.Millisecond}), nil},
		{"delay 20 ms", weathers(weather{delay: 20 * time.Millisecond}), nil},
		{"delay 100 ms", weathers(weather{delay: 100 * time.Millisecond}), nil},
		{"loss 1 %", weathers(weather{delay: time.Millisecond, loss: 0.01}), nil},
		{"loss 10 %", weathers(weather{delay: time.Millisecond, loss: 0.1}), nil},
		{"loss 10 %, doubles 5 %, delay 1 to 21 ms", weathers(weather{delay: time.Millisecond, jitter: 20 * time.Millisecond, loss: 0.1, doubles: 0.05}), nil},
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

// faultRules have a rule for each policy that keeps a limit while nodes don't hear each other.
const faultRules = `domain: demo
descriptors:
  - {key: closed, partition: closed, limits: ["20/s burst 20"]}
  - {key: proportional, limits: ["20/s burst 20"]}
`

// TestFaults: three nodes, asked for ten times the limit, let pass no more than
// it, whatever fails, and each key passes again when that has ended.
func TestFaults(t *testing.T) {
	needs(t)
	c := newCluster(t, 3, faultRules)
	c.start(0, 1, 2)
	c.meet(0, 1, 2)
	closed, proportional := c.keys("closed"), c.keys("proportional")
	keys := append(closed[:3:3], proportional...)
	h := newHistory(t, "all")
	stop := c.load(h, keys, overload*limit/3)
	defer func() { stop() }()

	for _, f := range faults() {
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
		// Who does not hear the owner may learn of that earlier than the owner does.
		over, most := excess(events, limit, limit), tolerance
		if k.rule == "proportional" {
			most = limit
		}
		t.Logf("%v: %.2f events too many", k, over)
		if over > most {
			t.Errorf("%v: %.2f events too many, want %.2f at most", k, over, most)
		}
	}
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

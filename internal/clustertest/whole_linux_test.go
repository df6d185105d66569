package clustertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var whole = flag.String("whole", "", "run the faults whose names match this, as long as figures take")

func needsTime(t *testing.T) {
	t.Helper()
	needs(t)
	if *whole == "" {
		t.Skip("it takes minutes: make test-cluster")
	}
}

// How long a fault lasts, and what is before and after it.
const (
	lasts  = 8 * time.Second
	before = time.Second
	after  = 5 * time.Second
)

// TestWholeThree prints figures of all faults of three nodes, a row for each policy.
func TestWholeThree(t *testing.T) {
	needsTime(t)
	c := newCluster(t, 3, faultRules)
	c.start(0, 1, 2)
	c.meet(0, 1, 2)
	c.table(append(faults(), moreFaults()...), 0, 1, 2)
}

// TestWholeSix prints figures of what takes six nodes.
func TestWholeSix(t *testing.T) {
	needsTime(t)
	c := newCluster(t, 6, faultRules)
	c.start(0, 1, 2)
	c.meet(0, 1, 2)
	others := []int{3, 4, 5}
	scaled := fault{"three nodes become six, and three again", func(c *cluster) func() {
		c.start(others...)
		return func() {
			for _, i := range others {
				c.stop(i)
			}
		}
	}, others}
	c.table([]fault{scaled}, 0, 1, 2)
	c.start(others...)
	c.meet(0, 1, 2, 3, 4, 5)
	c.table([]fault{
		{"halves of six", cut([]int{0, 1, 2}, others), nil},
		{"two and four of six", cut([]int{0, 1, 2, 3}, []int{4, 5}), nil},
	}, 0, 1, 2, 3, 4, 5)
}

// table prints figures of faults.
func (c *cluster) table(faults []fault, nodes ...int) {
	c.t.Helper()
	closed, proportional := c.keys("closed"), c.keys("proportional")
	rows := []string{figuresHead}
	wanted := regexp.MustCompile(*whole)
	for _, f := range faults {
		if !wanted.MatchString(f.name) {
			continue
		}
		h := newHistory(c.t, f.name)
		stop := c.load(h, append(closed[:3:3], proportional...), overload*limit/float64(len(nodes)))
		time.Sleep(before)
		w := c.witness(h, f, nodes)
		time.Sleep(after)
		stop()
		c.meet(nodes...)
		for _, keys := range [][]key{closed, proportional} {
			got := h.rates(keys, w.fault)
			got.detected, got.messages, got.errors = w.detected, w.messages, h.errors(keys[0].rule, f.victims, w.fault.from)
			rows = append(rows, got.row(f.name+", `"+keys[0].rule+"`"))
			if keys[0].rule == "closed" && got.over > tolerance {
				c.t.Errorf("%s: %.2f events too many", f.name, got.over)
			}
		}
		c.t.Log(rows[len(rows)-2], "\n", rows[len(rows)-1])
	}
	c.t.Logf("\n%s", strings.Join(rows, "\n"))
}

// witness is what nodes say while something fails.
type witness struct {
	fault    span
	detected time.Duration
	messages float64 // a second, of node 0
}

func (c *cluster) witness(h *history, f fault, nodes []int) (w witness) {
	c.t.Helper()
	start := c.sent()
	w.fault.from = h.now()
	ctx, stop := context.WithCancel(c.t.Context())
	var watching sync.WaitGroup
	var once sync.Once
	end := f.begin(c)
	for _, i := range nodes {
		watching.Go(func() {
			for ctx.Err() == nil {
				var s status
				if err := c.nodes[i].get(ctx, adminDoor+"/v1/cluster", &s); err == nil && s.heard() < len(s.Members) {
					once.Do(func() { w.detected = h.now() - w.fault.from })
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	time.Sleep(lasts)
	stop()
	watching.Wait()
	w.messages = float64(c.sent()-start) / (h.now() - w.fault.from).Seconds()
	w.fault.to = h.now()
	end()
	return w
}

// sent is how many messages node 0 has sent.
func (c *cluster) sent() int64 {
	c.t.Helper()
	var s status
	if err := c.nodes[0].get(c.t.Context(), adminDoor+"/v1/cluster", &s); err != nil {
		c.t.Fatal(err)
	}
	return s.Out.Messages
}

// errors is how many answers about a rule, of nodes that were there, were neither yes nor no.
func (h *history) errors(rule string, victims []int, since time.Duration) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.decisions {
		d := &h.decisions[i]
		if d.key.rule == rule && d.received >= since && !slices.Contains(victims, d.node) && !d.decided() {
			n++
		}
	}
	return n
}

// wayRules have a rule for each other way to share.
const wayRules = `domain: demo
descriptors:
  - {key: sticky, sharing: sticky, limits: ["20/s burst 20"]}
  - {key: divided, sharing: divided, limits: ["20/s burst 20"]}
  - {key: mesh, sharing: mesh, limits: ["20/s burst 20"]}
  - {key: gossip, sharing: gossip, limits: ["20/s burst 20"]}
`

// TestWholeWays holds each way to share to what weir lint prints of it.
func TestWholeWays(t *testing.T) {
	needsTime(t)
	const nodes = 5
	c := newCluster(t, nodes, wayRules)
	all := []int{0, 1, 2, 3, 4}
	c.start(all...)
	c.meet(all...)
	h := newHistory(t, "ways")
	ways := []string{"sticky", "divided", "mesh", "gossip"}
	var keys []key
	for _, way := range ways {
		keys = append(keys, key{way, "a"}, key{way, "b"})
	}
	stop := c.load(h, keys, overload*limit/nodes)
	time.Sleep(lasts)
	stop()
	most := c.printed(nodes)
	rows := []string{"| `sharing` | printed: at most more | measured | net % |\n|---|---|---|---|"}
	for n, way := range ways {
		got := h.rates(keys[2*n:2*n+2], span{time.Second, lasts})
		rows = append(rows, fmt.Sprintf("| `%s` | %d | %.1f | %+.1f |", way, most[way], got.over, 100*got.during-100))
		if got.over > float64(most[way])+tolerance {
			t.Errorf("%s: %.2f events too many, and weir lint prints %d", way, got.over, most[way])
		}
	}
	t.Logf("\n%s", strings.Join(rows, "\n"))
}

// printed is how many events beyond the limit weir lint says may pass, for each rule.
func (c *cluster) printed(nodes int) map[string]int {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), c.args[0], "lint", "--store", "cluster:", "--nodes", strconv.Itoa(nodes), c.rules).CombinedOutput()
	if _, exits := errors.AsType[*exec.ExitError](err); err != nil && !exits {
		c.t.Fatal(err)
	}
	c.t.Logf("%s", out)
	most := map[string]int{}
	for line := range strings.Lines(string(out)) {
		if m := regexp.MustCompile(`; (mesh|gossip): at most (\d+) more`).FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[2])
			if err != nil {
				c.t.Fatal(err)
			}
			most[m[1]] = n
		}
	}
	return most
}

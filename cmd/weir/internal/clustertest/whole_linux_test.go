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

// TestWhole prints the tables of docs/cluster.md: figures of each fault, a row for each
// policy, and what passes by the other ways to share.
func TestWhole(t *testing.T) {
	needsTime(t)
	rows := []string{figuresHead}
	for _, part := range []struct {
		name string
		run  func(t *testing.T) []string
	}{{"three", wholeThree}, {"policies", wholePolicies}, {"long", wholeLong}, {"six", wholeSix}} {
		t.Run(part.name, func(t *testing.T) { rows = append(rows, part.run(t)...) })
	}
	fmt.Println(strings.Join(rows, "\n"))
	rows = []string{waysHead}
	for _, transport := range []string{"UDP", "TCP"} {
		t.Run(transport, func(t *testing.T) { rows = append(rows, wholeWays(t, transport)...) })
	}
	fmt.Println(strings.Join(rows, "\n"))
}

// wholeThree has all faults of three nodes.
func wholeThree(t *testing.T) []string {
	c := newCluster(t, 3, faultRules)
	c.start(0, 1, 2)
	c.meet(0, 1, 2)
	return c.table([]string{"closed", "proportional"}, faults(), 0, 1, 2)
}

// wholePolicies has cuts under the other policies.
func wholePolicies(t *testing.T) []string {
	c := newCluster(t, 3, faultRules)
	c.start(0, 1, 2)
	c.meet(0, 1, 2)
	cuts := slices.DeleteFunc(faults(), func(f fault) bool { return !f.parts })
	return c.table([]string{"reserve", "share", "open"}, cuts, 0, 1, 2)
}

// wholeLong has cuts after which one side takes the other for gone. The other side then passes its
// part, and under closed and reserve what belongs to the owner, until that has not heard most of
// the members for long.
func wholeLong(t *testing.T) []string {
	c := newCluster(t, 3, faultRules)
	c.start(0, 1, 2)
	c.meet(0, 1, 2)
	cutOff := cut([]int{0, 1}, []int{2})
	most := func(late bool) func(k key, owner int) float64 {
		return func(k key, owner int) float64 {
			owns := 0.0 // the side that is cut off
			if owner == 2 && !late {
				owns = 1
			}
			return map[string]float64{"closed": 1 + owns, "proportional": 1 + 1.0/3, "reserve": 1 + 0.9*owns + 0.1/3}[k.rule]
		}
	}
	return c.table([]string{"closed", "proportional", "reserve"}, []fault{
		{name: "one of three cut off, and forgotten", begin: func(c *cluster) func() { heal := cutOff(c); c.forget(0, 2); return heal }, most: most(false)},
		{name: "one of three cut off, and given up", first: func(c *cluster) { cutOff(c); c.members(0, 2) }, begin: cutOff, most: most(true)},
	}, 0, 1, 2)
}

// wholeSix has what takes six nodes.
func wholeSix(t *testing.T) []string {
	c := newCluster(t, 6, faultRules)
	c.start(0, 1, 2)
	c.meet(0, 1, 2)
	others, policies := []int{3, 4, 5}, []string{"closed", "proportional"}
	rows := c.table(policies, []fault{{name: "three nodes become six, and three again", begin: func(c *cluster) func() {
		c.start(others...)
		return func() {
			for _, i := range others {
				c.stop(i)
			}
		}
	}, victims: others}}, 0, 1, 2)
	c.start(others...)
	c.meet(0, 1, 2, 3, 4, 5)
	return append(rows, c.table(policies, []fault{
		{name: "halves of six", begin: cut([]int{0, 1, 2}, others)},
		{name: "two and four of six", begin: cut([]int{0, 1, 2, 3}, []int{4, 5})},
	}, 0, 1, 2, 3, 4, 5)...)
}

// table is figures of faults, a row for each policy, and holds them to what that promises.
func (c *cluster) table(policies []string, faults []fault, nodes ...int) (rows []string) {
	c.t.Helper()
	wanted := regexp.MustCompile(*whole)
	for _, f := range faults {
		if !wanted.MatchString(f.name) {
			continue
		}
		var keys []key
		for _, policy := range policies {
			keys = append(keys, c.keys(policy)...)
		}
		if f.first != nil {
			f.first(c)
		}
		h := newHistory(c.t, f.name+", "+policies[0])
		stop := c.load(h, keys, overload*limit/float64(len(nodes)))
		time.Sleep(before)
		w := c.witness(h, f, nodes)
		time.Sleep(after)
		stop()
		c.meet(nodes...)
		for n, policy := range policies {
			of := keys[3*n : 3*n+3]
			got := h.rates(of, w.fault)
			got.detected, got.messages, got.errors = w.detected, w.messages, h.errors(policy, f.victims, w.fault.from)
			rows = append(rows, got.row(f.name+", `"+policy+"`"))
			c.t.Log(rows[len(rows)-1])
			for owner, k := range of {
				if over := h.over(k, owner, len(nodes), &f); over > tolerance {
					c.t.Errorf("%s, %v: %.2f events too many", f.name, k, over)
				}
			}
		}
	}
	return rows
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
  - {key: lease, limits: ["20/s burst 20"]}
  - {key: sticky, sharing: sticky, limits: ["20/s burst 20"]}
  - {key: divided, sharing: divided, limits: ["20/s burst 20"]}
  - {key: mesh, sharing: mesh, limits: ["20/s burst 20"]}
  - {key: gossip, sharing: gossip, limits: ["20/s burst 20"]}
  - {key: hub, sharing: hub, limits: ["20/s burst 20"]}
  - {key: leader, sharing: leader, limits: ["20/s burst 20"]}
`

const waysHead = "| fault, and `sharing` | printed: at most more | measured | net %, during |\n|---|---|---|---|"

// wholeWays has five nodes that share in each way, and holds them to what weir lint prints
// of it.
func wholeWays(t *testing.T, transport string) (rows []string) {
	const nodes = 5
	c := newCluster(t, nodes, wayRules, "--store", map[string]string{"UDP": "cluster:", "TCP": "cluster:?transport=tcp"}[transport])
	all := []int{0, 1, 2, 3, 4}
	c.start(all...)
	c.meet(all...)
	most := c.printed(nodes)
	ways := []string{"lease", "sticky", "divided", "mesh", "gossip", "hub", "leader"}
	for _, f := range []fault{
		{name: "none", begin: func(*cluster) func() { return func() {} }},
		{name: "two of five cut off", begin: cut([]int{0, 1, 2}, []int{3, 4})},
		{name: "loss 10 %", begin: weathers(weather{delay: time.Millisecond, loss: 0.1})},
		{name: "killed, and back", begin: func(c *cluster) func() { c.kill(4); return func() { c.start(4) } }, victims: []int{4}, restarts: true},
	} {
		if !regexp.MustCompile(*whole).MatchString(f.name) {
			continue
		}
		var keys []key
		for _, way := range ways {
			keys = append(keys, c.key(way), c.key(way))
		}
		h := newHistory(t, "ways, "+f.name+", "+transport)
		stop := c.load(h, keys, overload*limit/nodes)
		time.Sleep(before)
		w := c.witness(h, f, all)
		time.Sleep(after)
		stop()
		c.meet(all...)
		for n, way := range ways {
			got, allowed := h.rates(keys[2*n:2*n+2], w.fault), float64(most[way])
			if f.restarts && way != "sticky" && way != "leader" {
				allowed += limit / nodes // who begins has its part
			}
			rows = append(rows, fmt.Sprintf("| %s, `%s`, %s | %d | %.1f | %+.1f |", f.name, way, transport, most[way], got.over, 100*got.during-100))
			t.Log(rows[len(rows)-1])
			if got.over > allowed+tolerance {
				t.Errorf("%s, %s: %.2f events too many, want %.0f at most", f.name, way, got.over, allowed)
			}
			if n := h.errors(way, f.victims, w.fault.from); n > 0 {
				t.Errorf("%s, %s: %d answers neither yes nor no", f.name, way, n)
			}
		}
	}
	return rows
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
		if m := regexp.MustCompile(`; (mesh|gossip|hub): at most (\d+) more`).FindStringSubmatch(line); m != nil {
			n, err := strconv.Atoi(m[2])
			if err != nil {
				c.t.Fatal(err)
			}
			most[m[1]] = n
		}
	}
	return most
}

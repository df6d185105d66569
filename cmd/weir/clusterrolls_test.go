package main

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/porttest"
)

const rollsRules = `domain: demo
descriptors:
  - {key: closed, partition: closed, limits: [1000/s]}
  - {key: proportional, limits: [1000/s]}
`

// TestClusterRolls: three nodes are stopped and started by turns, then another takes the place of one. The other nodes
// are asked for much less than the limits all the time, and it prints what share of that is denied nevertheless.
func TestClusterRolls(t *testing.T) {
	t.Parallel()
	const size = 3
	c := newCluster(t, size)
	if err := os.WriteFile(c.rules, []byte(rollsRules), 0o600); err != nil {
		t.Fatal(err)
	}
	defer c.startAll(t)()
	c.settled(t, size)
	c.at, c.nodes = append(c.at, porttest.Free(t)), append(c.nodes, nil)
	c.denies(t, "nothing happens", size, func() { time.Sleep(3 * time.Second) }) // and all keys are known
	for i := range size {
		c.denies(t, fmt.Sprintf("node %d is restarted", i), i, func() {
			c.stop(t, i)
			c.start(t, i)
			c.settled(t, size)
		})
	}
	c.denies(t, "a node joins", size, func() { c.start(t, size); c.settled(t, size+1) })
	c.denies(t, "a node leaves", 0, func() { c.stop(t, 0); c.settled(t, size) })
}

// denies asks the nodes that run, but one, about keys of each kind while something is done to that one, and a moment more,
// and says how many of these requests are denied.
func (c *cluster) denies(t *testing.T, what string, but int, do func()) {
	t.Helper()
	const every, keys = 5 * time.Millisecond, 500
	kinds := []string{"closed", "proportional"}
	var at []string
	for i, p := range c.nodes {
		if p != nil && i != but {
			at = append(at, "http://"+p.http+"/v1/check")
		}
	}
	done := make(chan struct{})
	var asked, denied, away [2]atomic.Int64
	var clients sync.WaitGroup
	for kind, name := range kinds {
		for by := range 2 {
			clients.Go(func() {
				tick := time.NewTicker(every)
				defer tick.Stop()
				for n := 0; ; n++ {
					select {
					case <-done:
						return
					case <-tick.C:
					}
					key := fmt.Sprint("k", (2*n+by)%keys)
					status, err := post(t, at[n%len(at)], `{"domain":"demo","descriptors":[{"entries":[{"key":"`+name+`","value":"`+key+`"}]}]}`)
					switch asked[kind].Add(1); {
					case err != nil || status != http.StatusOK && status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable:
						t.Errorf("%s: status %d, %v", what, status, err)
					case status == http.StatusTooManyRequests:
						denied[kind].Add(1)
					case status == http.StatusServiceUnavailable:
						away[kind].Add(1)
					}
				}
			})
		}
	}
	do()
	time.Sleep(time.Second)
	close(done)
	clients.Wait()
	for kind, name := range kinds {
		all, no, none := asked[kind].Load(), denied[kind].Load(), away[kind].Load()
		t.Logf("%s, %s: of %d requests to other nodes %.1f %% were denied, %.1f %% answered 503", what, name, all, 100*float64(no)/float64(all), 100*float64(none)/float64(all))
		if all == 0 || no > all/20 || none > all/100 {
			t.Errorf("%s, %s: of %d requests %d were denied, and %d answered 503; want a twentieth and a hundredth at most", what, name, all, no, none)
		}
	}
}

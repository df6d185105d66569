package clustertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// key is one that nodes are asked about.
type key struct{ rule, value string }

// decision is what a node said once.
type decision struct {
	node           int
	key            key
	sent, received time.Duration // since the history began, by the monotonic clock
	status         int           // of HTTP; 0: there was no answer
}

func (d *decision) allowed() bool { return d.status == http.StatusOK }

// decided is whether the answer is the one that the rule is to give: where closed
// has nobody who may decide, it says no as one that is out of order.
func (d *decision) decided() bool {
	return d.allowed() || d.status == http.StatusTooManyRequests || d.status == http.StatusServiceUnavailable && d.key.rule == "closed"
}

// history is every decision, also in a file, a line each. go test -artifacts keeps it.
type history struct {
	began time.Time

	mu        sync.Mutex
	decisions []decision
	out       *bufio.Writer
}

func newHistory(t *testing.T, name string) *history {
	t.Helper()
	file, err := os.Create(filepath.Join(t.ArtifactDir(), name+".tsv"))
	if err != nil {
		t.Fatal(err)
	}
	h := &history{began: time.Now(), out: bufio.NewWriter(file)}
	_, err = fmt.Fprintln(h.out, "node\trule\tvalue\tcost\tsent_us\treceived_us\twall_us\tstatus")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(h.out.Flush(), file.Close()); err != nil {
			t.Error(err)
		}
	})
	return h
}

func (h *history) now() time.Duration { return time.Since(h.began) }

// add keeps a decision. That the file is written is seen when it is flushed.
func (h *history) add(d decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.decisions = append(h.decisions, d)
	_, _ = fmt.Fprintf(h.out, "%d\t%s\t%s\t1\t%d\t%d\t%d\t%d\n",
		d.node, d.key.rule, d.key.value, d.sent.Microseconds(), d.received.Microseconds(), time.Now().UnixMicro(), d.status)
}

// of is what passed of a key, and was asked for within a span.
func (h *history) of(k key, within span) []passed {
	return h.passed(func(d *decision) bool { return d.key == k && d.sent >= within.from && d.sent < within.to })
}

// at is what a node let pass of a key.
func (h *history) at(k key, node int) []passed {
	return h.passed(func(d *decision) bool { return d.key == k && d.node == node })
}

func (h *history) passed(which func(*decision) bool) (events []passed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.decisions {
		if d := &h.decisions[i]; d.allowed() && which(d) {
			events = append(events, passed{d.sent, d.received})
		}
	}
	return events
}

// askers is how many requests a node has at a time, at most: enough to go on asking while
// requests wait half a second for owners that are far away.
const askers = 32

// load asks nodes about keys, each so many times a second about each, until stop is
// called. A node that doesn't answer, or doesn't run, is asked less.
func (c *cluster) load(h *history, keys []key, perSecond float64) (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	var running sync.WaitGroup
	for i := range c.nodes {
		for n := range askers {
			running.Go(func() { c.ask(ctx, h, i, n, keys, perSecond*float64(len(keys))/askers) })
		}
	}
	return func() { cancel(); running.Wait() }
}

func (c *cluster) ask(ctx context.Context, h *history, node, first int, keys []key, perSecond float64) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer tick.Stop()
	for n := first; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		d := decision{node: node, key: keys[n%len(keys)], sent: h.now()}
		d.status = c.nodes[node].check(ctx, d.key)
		if d.received = h.now(); ctx.Err() == nil {
			h.add(d)
		}
	}
}

// check asks about a key once. It is the status of the answer, or 0.
func (n *node) check(ctx context.Context, k key) int {
	body := `{"domain":"demo","descriptors":[{"entries":[{"key":"` + k.rule + `","value":"` + k.value + `"}]}]}`
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, httpDoor+"/v1/check", strings.NewReader(body))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := n.web.Do(r)
	if err != nil {
		return 0
	}
	_, err = io.Copy(io.Discard, response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return 0
	}
	return response.StatusCode
}

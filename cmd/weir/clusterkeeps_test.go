package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/membership"
	"github.com/weir-limit/weir/internal/cluster/protocol"
)

// keysKept makes TestClusterKeeps the whole proof: make test-cluster.
var keysKept = flag.Int("keys-kept", 0,
	"run TestClusterKeeps with so many keys of each rule, all that may happen in order, by UDP and by TCP")

// keepsRules are limits of which nothing comes back within a test, of each kind of state that one owner
// hands to another, and by each policy that promises the limit; permits; and parts of nodes that tell nobody.
const keepsRules = `domain: demo
descriptors:
  - {key: bucket, limits: [1000/day]}
  - {key: window, limits: [1000/year fixed-window]}
  - {key: log, limits: [1000/day sliding-log]}
  - {key: closed, partition: closed, limits: [1000/day]}
  - {key: reserve, partition: reserve, limits: [1000/year fixed-window]}
  - {key: sticky, sharing: sticky, limits: [1000/day]}
  - {key: few, limits: [2/year fixed-window]}
  - {key: slot, limits: [1 concurrent ttl 24h]}
  - {key: divided, sharing: divided, limits: [120/day]}
`

// halves is half of the limit of each kind but permits.
var halves = map[string]int{
	"bucket": 500, "window": 500, "log": 500, "closed": 500, "reserve": 500, "sticky": 500, "few": 1,
}

// rates are the kinds of halves.
var rates = slices.Sorted(maps.Keys(halves))

// TestClusterKeeps: half of each key's limit is used, then nodes join, leave in order, and are restarted by
// turns. No key is as never used after any of that, no permit has two holders, and in the end no more than
// the limit has passed. It prints of how many keys less is left than before: none, but where nodes did not hear
// each other because the machine had too much else to do.
func TestClusterKeeps(t *testing.T) {
	t.Parallel()
	if *keysKept == 0 {
		k := keeps(t, "cluster:", 24)
		k.use(t)
		k.part(t)
		k.stop(t, 0)
		k.settled(t, 2)
		k.remembers(t, "a node has left")
		k.part(t)
		k.start(t, 0)
		k.settled(t, 3)
		k.remembers(t, "a node has joined")
		k.part(t)
		k.printed(t)
		k.useUp(t)
		return
	}
	for _, store := range []string{"cluster:", "cluster:?transport=tcp"} {
		t.Run(store, func(t *testing.T) {
			k := keeps(t, store, *keysKept)
			k.use(t)
			k.start(t, 3)
			k.settled(t, 4)
			k.remembers(t, "a node has joined")
			k.stop(t, 3)
			k.settled(t, 3)
			k.remembers(t, "a node has left")
			for i := range 3 {
				k.stop(t, i)
				k.settled(t, 2)
				k.start(t, i)
				k.settled(t, 3)
				k.remembers(t, fmt.Sprintf("node %d was restarted", i))
			}
			k.useUp(t)
		})
	}
}

// kept is keys of which a cluster has to remember what was used.
type kept struct {
	*cluster

	of    int // each rule
	began time.Time
	held  []string // receipts, of slots
	out   sync.Map // keys of which it is not known what was used, with their kinds
	parts []int    // of the divided limit, what has passed since the start, and since each change
}

// keeps starts three nodes, and has room for a fourth.
func keeps(t *testing.T, store string, keys int) *kept {
	t.Helper()
	c := newCluster(t, 4)
	c.store = store
	if err := os.WriteFile(c.rules, []byte(keepsRules), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		c.start(t, i)
	}
	t.Cleanup(func() {
		for _, p := range slices.DeleteFunc(c.nodes, func(p *process) bool { return p == nil }) {
			_ = p.Wait() // it was killed when the test ended
		}
	})
	k := &kept{cluster: c, of: keys}
	k.settled(t, 3)
	return k
}

// settled waits until each node that runs hears so many, and all counts are with their owners.
func (c *cluster) settled(t *testing.T, members int) {
	t.Helper()
	for i, p := range c.nodes {
		for deadline := time.Now().Add(patience); p != nil; time.Sleep(20 * time.Millisecond) {
			var s membership.Status
			if err := json.Unmarshal([]byte(fetch(t, "http://"+p.admin+"/v1/cluster")), &s); err != nil {
				t.Fatal(err)
			}
			if s.Settled && len(s.Members) == members {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("node %d does not settle with %d members: %+v\n%s", i, members, s, p.stderr)
			}
		}
	}
}

// each calls do about each key that counts, several at a time, with a node that runs.
func (k *kept) each(kinds []string, do func(at, kind, key string, n int)) {
	var up []string
	for _, p := range k.nodes {
		if p != nil {
			up = append(up, "http://"+p.http)
		}
	}
	next := make(chan int)
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			for n := range next {
				for i, kind := range kinds {
					key := fmt.Sprint("k", n)
					if _, out := k.out.Load(kind + key); !out {
						do(up[(n+i)%len(up)], kind, key, n)
					}
				}
			}
		})
	}
	for n := range k.of {
		next <- n
	}
	close(next)
	asking.Wait()
}

// said is an answer of /v1/check.
type said struct {
	Receipt   string
	Decisions []struct{ Remaining int }

	status int
}

// ask asks about a key.
func (k *kept) ask(t *testing.T, at, kind, key string, cost int, receipt bool) (a said) {
	body := fmt.Sprintf(`{"domain":"demo","descriptors":[{"entries":[{"key":%q,"value":%q}],"cost":%d}],"receipt":%v}`,
		kind, key, cost, receipt)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at+"/v1/check", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return a
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return a
	}
	var text bytes.Buffer
	_, err = text.ReadFrom(response.Body)
	err = errors.Join(err, response.Body.Close(), json.Unmarshal(text.Bytes(), &a))
	if err != nil || len(a.Decisions) == 0 {
		t.Errorf("%s: %v\n%s", at, err, &text)
		a.Decisions = make([]struct{ Remaining int }, 1)
	}
	a.status = response.StatusCode
	return a
}

func (a *said) passed() bool { return a.status == http.StatusOK }

// use uses half of each key, and takes each permit.
func (k *kept) use(t *testing.T) {
	t.Helper()
	k.began, k.held = time.Now(), make([]string, k.of)
	k.each(slices.Concat(rates, []string{"slot"}), func(at, kind, key string, n int) {
		cost, slot := max(halves[kind], 1), kind == "slot"
		a := k.ask(t, at, kind, key, cost, slot)
		for tries := 0; !a.passed() && tries < 5; tries++ { // its owner was not heard, and may have charged it
			time.Sleep(protocol.Patience)
			a = k.ask(t, at, kind, key, cost, slot)
		}
		if slot {
			k.held[n] = a.Receipt
		}
		if !a.passed() {
			t.Logf("%s of %s is left out: %d at first", key, kind, a.status)
			k.out.Store(kind+key, true)
		}
	})
}

// tally counts keys of each kind.
type tally struct {
	mu sync.Mutex
	of map[string]int
}

func (c *tally) add(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[kind]++
}

// back is how many events of a bucket may have come back meanwhile, and one.
func (k *kept) back() int { return 2 + int(time.Since(k.began)/time.Minute) }

// remembers asks for more than what is left of each key, and tells which pass, and which have less left.
func (k *kept) remembers(t *testing.T, after string) {
	t.Helper()
	var forgotten, less, unanswered tally
	k.each(slices.Concat(rates, []string{"slot"}), func(at, kind, key string, _ int) {
		cost := 1
		if kind != "slot" {
			cost = halves[kind] + k.back()
		}
		switch a := k.ask(t, at, kind, key, cost, false); {
		case a.passed():
			forgotten.add(kind)
		case a.status != http.StatusTooManyRequests:
			unanswered.add(kind)
		case kind != "slot" && a.Decisions[0].Remaining < halves[kind]:
			less.add(kind)
		}
	})
	t.Logf("%s: of %d keys of each rule less is left of %v, unanswered were %v", after, k.of, less.of, unanswered.of)
	if len(forgotten.of) > 0 {
		t.Errorf("%s: of %d keys of each rule forgotten were %v", after, k.of, forgotten.of)
	}
}

// part asks each node for all that it has of a divided limit.
func (k *kept) part(t *testing.T) {
	t.Helper()
	passed := 0
	for _, p := range k.nodes {
		for n := 0; p != nil && n < 130; n++ {
			if a := k.ask(t, "http://"+p.http, "divided", "k", 1, false); a.passed() {
				passed++
			}
		}
	}
	k.parts = append(k.parts, passed)
}

// printed holds what has passed of the divided limit to what weir lint says that each change may add.
func (k *kept) printed(t *testing.T) {
	t.Helper()
	text, _ := command(t, "lint", "--store", "cluster:", "--nodes", "3", k.rules)
	said := regexp.MustCompile(`demo/divided .* each leave of one of 3 adds at most (\d+)`).FindStringSubmatch(text)
	if said == nil {
		t.Fatalf("lint does not say what a start or a leave adds:\n%s", text)
	}
	adds, err := strconv.Atoi(said[1])
	if err != nil {
		t.Fatal(err)
	}
	passed := 0
	for i, part := range k.parts {
		if passed += part; passed > 120+i*adds {
			t.Errorf("%d of 120 a day passed after %d changes, and lint says that each adds %d at most", passed, i, adds)
		}
	}
	if t.Logf("of 120 a day divided among three nodes passed %v", k.parts); passed <= 120 {
		t.Error("want more after a restart: nobody knows what the node let pass before")
	}
}

// useUp uses what is left of each key, and more, and frees each permit.
func (k *kept) useUp(t *testing.T) {
	t.Helper()
	var under, over tally
	k.each(rates, func(at, kind, key string, _ int) {
		rest, more := halves[kind], k.back()
		if a := k.ask(t, at, kind, key, rest, false); !a.passed() {
			under.add(kind)
			more += rest // all that was left, and more
		}
		if a := k.ask(t, at, kind, key, more, false); a.passed() {
			over.add(kind)
		}
	})
	k.each([]string{"slot"}, func(at, kind, key string, n int) {
		status, _ := send(t, at+"/v1/settle", fmt.Sprintf(`{"receipt":%q,"used":0}`, k.held[n]))
		if a := k.ask(t, at, kind, key, 1, false); status != http.StatusOK || !a.passed() {
			under.add(kind)
		}
		if a := k.ask(t, at, kind, key, 1, false); a.passed() {
			over.add(kind)
		}
	})
	t.Logf("in the end less than the limit passed of %v", under.of)
	if len(over.of) > 0 {
		t.Errorf("in the end more than the limit passed of %v", over.of)
	}
}

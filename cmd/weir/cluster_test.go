package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/porttest"
)

// cluster is daemons that share limits, as they are shipped.
type cluster struct {
	binary, store, rules, key, name string

	at    []string // their --cluster
	nodes []*process
}

// clusterRules are limits that do not come back within a test, and one that does.
const clusterRules = `domain: demo
descriptors:
  - {key: day, limits: [30/day]}
  - {key: second, limits: [50/s]}
  - {key: mesh, sharing: mesh, limits: [30/day]}
  - {key: gossip, sharing: gossip, limits: [30/day]}
  - {key: divided, sharing: divided, limits: [30/day]}
  - {key: sticky, sharing: sticky, limits: [30/day]}
  - {key: hub, sharing: hub, limits: [30/day]}
  - {key: leader, sharing: leader, limits: [30/day]}
  - {key: leading, sharing: leader, leaders: 2, limits: [50/s]}
  - {key: slot, limits: [2 concurrent]}
`

func newCluster(t testing.TB, size int) *cluster {
	t.Helper()
	dir := t.TempDir()
	c := &cluster{binary: build(t), store: "cluster:", rules: filepath.Join(dir, "rules.yaml"), key: filepath.Join(dir, "key")}
	if err := os.WriteFile(c.rules, []byte(clusterRules), 0o600); err != nil {
		t.Fatal(err)
	}
	keygen(t, c.key)
	for range size {
		c.at = append(c.at, porttest.Free(t))
	}
	c.nodes = make([]*process, size)
	return c
}

// keygen writes a new key to a file.
func keygen(t testing.TB, file string) {
	t.Helper()
	text, code := command(t, "cluster", "keygen")
	if code != exitYes {
		t.Fatalf("exit %d: %s", code, text)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start starts a node, which joins all others.
func (c *cluster) start(t testing.TB, i int) {
	t.Helper()
	args := []string{"--store", c.store, "--cluster", c.at[i], "--join", strings.Join(c.at, ","), "--rules", c.rules, "--cluster-key-file", c.key}
	if c.name != "" {
		args = append(args, "--cluster-name", c.name)
	}
	c.nodes[i] = serve(t, c.binary, args...)
}

// startAll starts all nodes, which meet. stop stops those that run in the end.
func (c *cluster) startAll(t testing.TB) (stop func()) {
	t.Helper()
	for i := range c.nodes {
		c.start(t, i)
	}
	c.meet(t, len(c.nodes))
	return func() {
		for i, p := range c.nodes {
			if p != nil {
				c.stop(t, i)
			}
		}
	}
}

func (c *cluster) stop(t testing.TB, i int) {
	t.Helper()
	p := c.nodes[i]
	if err := errors.Join(p.Process.Signal(syscall.SIGTERM), p.Wait()); err != nil {
		t.Errorf("node %d: %v\n%s", i, err, p.stderr)
	}
	c.nodes[i] = nil
}

func (c *cluster) kill(t *testing.T, i int) {
	t.Helper()
	p := c.nodes[i]
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it was killed
	c.nodes[i] = nil
}

// meet waits until each node that runs hears so many.
func (c *cluster) meet(t testing.TB, members int) {
	t.Helper()
	for i, p := range c.nodes {
		want := fmt.Sprintf("weir_cluster_members{state=\"reachable\"} %d\n", members)
		for deadline := time.Now().Add(patience); p != nil; time.Sleep(20 * time.Millisecond) {
			text := fetch(t, "http://"+p.admin+"/metrics")
			if strings.Contains(text, want) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("node %d does not hear %d members\n%s", i, members, p.stderr)
			}
		}
	}
}

func fetch(t testing.TB, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	_, err = text.ReadFrom(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// passes asks the nodes that run by turns about a key, and counts what passes.
func (c *cluster) passes(t *testing.T, times int, key, value string) (passed int) {
	t.Helper()
	for n := range times {
		p := c.nodes[n%len(c.nodes)]
		if p == nil {
			continue
		}
		status, err := post(t, "http://"+p.http+"/v1/check", `{"domain":"demo","descriptors":[{"entries":[{"key":"`+key+`","value":"`+value+`"}]}]}`)
		switch {
		case err != nil || status != http.StatusOK && status != http.StatusTooManyRequests:
			t.Errorf("node %d: status %d, %v", n%len(c.nodes), status, err)
		case status == http.StatusOK:
			passed++
		}
	}
	return passed
}

// TestCluster: three daemons, asked at any of them, keep a limit to the event, and go
// on while one of them is killed, comes back, or leaves.
func TestCluster(t *testing.T) {
	t.Parallel()
	const count, keys = 30, 8
	c := newCluster(t, 3)
	defer c.startAll(t)()

	c.exact(t, count)
	used := map[string]int{}
	for n := range keys {
		key := fmt.Sprint("some", n)
		used[key] = c.passes(t, count/2, "day", key)
	}

	c.asked(t)
	c.ways(t)
	c.settles(t)

	c.kill(t, 1)
	killed, decided := time.Now(), map[string]bool{}
	for len(decided) < keys {
		for n := range keys {
			if key := fmt.Sprint("alive", n); c.passes(t, 3, "second", key) > 0 {
				decided[key] = true
			}
		}
		if took := time.Since(killed); took > patience {
			t.Fatalf("%d of %d keys pass %v after a node was killed", len(decided), keys, took)
		}
	}
	t.Logf("all keys pass again %v after a node was killed", time.Since(killed))
	c.within(t, used, count)

	c.start(t, 1)
	c.meet(t, 3)
	c.within(t, used, count)
	c.flows(t, "back")
	c.lost(t, 1)

	c.stop(t, 2)
	c.meet(t, 2)
	c.within(t, used, count)
	c.flows(t, "left")
	c.lost(t, 1)
}

// lost holds the status of the first node to tell who of all went without a word: one, and not those
// that were stopped.
func (c *cluster) lost(t *testing.T, who int) {
	t.Helper()
	text, _ := command(t, "cluster", "status", "--addr", "http://"+c.nodes[0].admin)
	if strings.Count(text, "left uncleanly") != 1 || !strings.Contains(text, c.at[who]+" left uncleanly at ") {
		t.Errorf("status does not tell that only %s is lost:\n%s", c.at[who], text)
	}
}

// patience is how long a machine with much else to do may take until something holds
// that holds while nodes hear each other.
const patience = 40 * time.Second

// until tries, each time with another value, until it is so.
func until(t *testing.T, what string, is func(value string) bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for n := 0; !is(fmt.Sprint("try", n)); n++ {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, patience)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// exact: never more passes than the limit, and all of it while nodes hear each other.
func (c *cluster) exact(t *testing.T, count int) {
	t.Helper()
	for key := range 4 {
		until(t, "all of a limit passes", func(value string) bool {
			passed := c.passes(t, 2*count, "day", fmt.Sprint("exact", key, value))
			if passed > count {
				t.Errorf("%d of %d passed", passed, count)
			}
			return passed == count
		})
	}
}

// asked holds the commands about a cluster, and what balancers ask, to what is so.
func (c *cluster) asked(t *testing.T) {
	t.Helper()
	admin := "http://" + c.nodes[0].admin
	until(t, "status names all", func(string) bool {
		text, code := command(t, "cluster", "status", "--addr", admin)
		return code == exitYes && strings.Count(text, "heard") == 2 && strings.Contains(text, c.at[0]+"  self")
	})
	text, _ := command(t, "cluster", "status", "--addr", admin)
	for _, want := range []string{"owns  http", "all nodes together 6, others 4", "demo/mesh", "mesh: at most 60 more, for each of 3 nodes", "hub: at most 60 more, for each of 3 nodes", "each of 3 nodes passes 1/3"} {
		if !strings.Contains(text, want) {
			t.Errorf("status does not say %q\n%s", want, text)
		}
	}
	if text, code := command(t, "cluster", "forget", "--addr", admin, "127.0.0.1:1"); code != exitFail || !strings.Contains(text, "127.0.0.1:1") {
		t.Errorf("exit %d of forgetting who is no member\n%s", code, text)
	}
	for what, want := range map[string]string{"mesh=k": "by sharing: mesh each node decides by itself", "none=k": "no rule meets it"} {
		if text, code := command(t, "cluster", "route", "--addr", "http://"+c.nodes[0].http, "demo", what); code != exitFail || !strings.Contains(text, want) {
			t.Errorf("route of %s: exit %d, %s; want %s", what, code, text, want)
		}
	}
	owners := map[string]bool{}
	until(t, "each node owns some keys, and the others send there", func(value string) bool {
		for n := range 10 {
			owner, ok := c.redirects(t, n, fmt.Sprint(value, n))
			if !ok {
				return false
			}
			owners[owner] = true
		}
		return len(owners) == 3
	})
}

// redirects is whether nodes agree on the owner of a key, and send there.
func (c *cluster) redirects(t *testing.T, n int, key string) (owner string, ok bool) {
	t.Helper()
	text, code := command(t, "cluster", "route", "--addr", "http://"+c.nodes[n%3].http, "demo", "day="+key)
	var said struct{ Owner, HTTP string }
	if err := json.Unmarshal([]byte(text), &said); err != nil || code != exitYes || !slices.Contains(c.at, said.Owner) {
		return "", false // it hears too few now
	}
	body := `{"domain":"demo","descriptors":[{"entries":[{"key":"day","value":"` + key + `"}]}]}`
	at := c.nodes[(n+1)%3].http
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at+"/v1/check?redirect=true", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if said.HTTP == at {
		return said.Owner, response.StatusCode == http.StatusOK
	}
	return said.Owner, response.StatusCode == http.StatusTemporaryRedirect && response.Header.Get("Location") == "http://"+said.HTTP+"/v1/check"
}

// ways asks by rules with each way to share. Asks come slowly enough for nodes that
// tell each other each 100 ms.
func (c *cluster) ways(t *testing.T) {
	t.Helper()
	for _, way := range []string{"mesh", "gossip", "hub", "divided", "sticky", "leader"} {
		until(t, way+" keeps the limit", func(value string) bool {
			passed := 0
			for range 12 {
				passed += c.passes(t, 3, way, value)
				time.Sleep(30 * time.Millisecond)
			}
			time.Sleep(500 * time.Millisecond)
			late := c.passes(t, 9, way, value)
			if slices.Contains([]string{"divided", "sticky", "leader"}, way) && passed+late > 30 {
				t.Errorf("%s: %d of 30 passed", way, passed+late)
			}
			return passed >= 28 && late <= 30-min(passed, 30)
		})
	}
}

// settles: of rules whose keys have owners, any node settles what any other gave.
func (c *cluster) settles(t *testing.T) {
	t.Helper()
	for n := range 6 { // keys of several owners
		rule := []string{"day", "sticky", "leader"}[n%3]
		until(t, rule+": what is given back passes again", func(value string) bool {
			value += fmt.Sprint("/", n)
			receipt, ok := c.receipt(t, 0, rule, "settled"+value, 10)
			if !ok {
				return false
			}
			if status, text := c.settle(t, 1, receipt, 4); status != http.StatusOK {
				t.Logf("settling: %d, %s", status, text) // the owner was not heard
				return false
			}
			if status, text := c.settle(t, 2, receipt, 0); status != http.StatusConflict {
				t.Fatalf("settling again: %d, %s", status, text)
			}
			passed := c.passes(t, 60, rule, "settled"+value)
			if passed > 26 {
				t.Fatalf("%d of 26 passed", passed)
			}
			return passed == 26
		})
	}
	until(t, "a slot is freed", func(value string) bool {
		one, ok := c.receipt(t, 0, "slot", value, 1)
		two, as := c.receipt(t, 1, "slot", value, 1)
		if _, third := c.receipt(t, 2, "slot", value, 1); !ok || !as || third {
			return false
		}
		status, text := c.settle(t, 2, one, 0)
		again, _ := c.settle(t, 0, two, 0)
		if status != http.StatusOK || again != http.StatusOK {
			t.Logf("settling: %d, %d, %s", status, again, text)
			return false
		}
		_, ok = c.receipt(t, 2, "slot", value, 1)
		return ok
	})
	receipt, ok := c.receipt(t, 0, "mesh", "settled", 1)
	if status, text := c.settle(t, 1, receipt, 0); !ok || status != http.StatusBadRequest || !strings.Contains(text, "given by another node") {
		t.Errorf("of mesh, at another node: %d, %s", status, text)
	}
	if status, text := c.settle(t, 0, receipt, 0); status != http.StatusOK {
		t.Errorf("of mesh, at the node that gave it: %d, %s", status, text)
	}
}

// receipt takes from a key at a node, and has a receipt if that passed.
func (c *cluster) receipt(t *testing.T, i int, key, value string, cost int) (receipt string, ok bool) {
	t.Helper()
	body := fmt.Sprintf(`{"domain":"demo","descriptors":[{"entries":[{"key":%q,"value":%q}],"cost":%d}],"receipt":true}`, key, value, cost)
	status, text := send(t, "http://"+c.nodes[i].http+"/v1/check", body)
	var answer struct{ Receipt string }
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatal(err, text)
	}
	return answer.Receipt, status == http.StatusOK
}

// settle settles a receipt at a node.
func (c *cluster) settle(t *testing.T, i int, receipt string, used int) (status int, text string) {
	t.Helper()
	return send(t, "http://"+c.nodes[i].http+"/v1/settle", fmt.Sprintf(`{"receipt":%q,"used":%d}`, receipt, used))
}

func send(t *testing.T, url, body string) (status int, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	_, err = b.ReadFrom(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, b.String()
}

// command runs a command, and gives all that it says.
func command(t testing.TB, args ...string) (text string, code int) {
	t.Helper()
	var out bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &out, &out)
	return out.String(), code
}

// flows waits until a limit of 50/s lets pass what all nodes together may.
func (c *cluster) flows(t *testing.T, value string) {
	t.Helper()
	const most = 40
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Second) {
		passed := c.passes(t, most, "second", value)
		if passed >= most/2 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d pass of a limit of 50/s", passed, most)
		}
	}
}

// within goes on asking about keys of which some was used.
func (c *cluster) within(t *testing.T, used map[string]int, count int) {
	t.Helper()
	for key := range used {
		if used[key] += c.passes(t, 3, "day", key); used[key] > count {
			t.Errorf("%d passed of %d", used[key], count)
		}
	}
}

// TestClusterOfStrangers: a node with another key, or of another cluster, is none of the cluster, and
// decides by itself. Both sides count what they refuse and say so, and it knows why it is alone.
func TestClusterOfStrangers(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		name, reason, readyz, there, comes string
		change                             func(c *cluster)
	}{
		{"other key", "unknown-key", " has another cluster key", "its messages are refused", "a node to join has another cluster key", func(c *cluster) {
			c.key = filepath.Join(t.TempDir(), "key")
			keygen(t, c.key)
		}},
		{
			"other name", "other-cluster", ` is no node of this cluster: a node is there that is in cluster "shop", and this node is in cluster "mail"`,
			"a node of another cluster was refused", "a node to join is in another cluster", func(c *cluster) { c.name = "mail" },
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			c.name = "shop"
			c.start(t, 0)
			c.start(t, 1)
			s.change(c)
			c.start(t, 2)
			one, stranger := c.nodes[0], c.nodes[2]
			c.nodes[2] = nil
			c.meet(t, 2)
			c.nodes = []*process{stranger}
			c.meet(t, 1)
			if passed := c.passes(t, 40, "day", "mine"); passed != 30 {
				t.Errorf("%d of 30 passed at the stranger", passed)
			}
			other := c.at[0] + s.readyz
			until(t, "all is told", func(string) bool {
				text, code := command(t, "cluster", "status", "--addr", "http://"+stranger.admin)
				return strings.Contains(fetch(t, "http://"+stranger.http+"/readyz"), "no other node has been joined, and this one decides by itself: ") &&
					strings.Contains(fetch(t, "http://"+stranger.http+"/readyz"), other) &&
					code == exitNo && strings.Contains(text, other) && refuses(t, one, s.reason) && refuses(t, stranger, s.reason)
			})
			for p, says := range map[*process]string{one: s.there, stranger: s.comes} {
				if !strings.Contains(p.stderr.String(), says) {
					t.Errorf("the log does not say %q\n%s", says, p.stderr)
				}
			}
		})
	}
}

// refuses is whether a node counts what it did not take for a reason.
func refuses(t *testing.T, p *process, reason string) bool {
	t.Helper()
	counter := fmt.Sprintf("weir_cluster_dropped_total{direction=\"in\",reason=%q} ", reason)
	_, rest, _ := strings.Cut(fetch(t, "http://"+p.admin+"/metrics"), counter)
	return rest != "" && rest[0] != '0'
}

// TestClusterStops: all nodes are stopped at one moment. None waits for the others, which
// have gone, too, and none says that it could not leave.
func TestClusterStops(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	for i := range c.nodes {
		c.start(t, i)
	}
	c.meet(t, 3)
	for n := range 12 { // so that each owns some
		c.passes(t, 3, "day", fmt.Sprint("some", n))
	}
	for _, p := range c.nodes {
		if err := p.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range c.nodes {
		err := p.Wait()
		if log := p.stderr.String(); err != nil || strings.Contains(log, "could not be left in order") || !strings.Contains(log, "msg=drained") {
			t.Errorf("node %d: %v\n%s", i, err, log)
		}
		_, took, _ := strings.Cut(p.stderr.String(), "msg=drained took=")
		t.Logf("node %d took %s", i, took)
	}
}

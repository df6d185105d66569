package clustertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// cluster is nodes in namespaces, which share what they count.
type cluster struct {
	t       *testing.T
	network *network
	nodes   []*node
	named   int // keys
	rules   string
	args    []string // of each
}

// node is weir as it is shipped, or the place for one.
type node struct {
	name      string // its --cluster
	namespace *namespace
	web       *http.Client // of its listeners, from within
	args      []string     // beside the cluster's
	caches    string       // where it lists its members
	process   *exec.Cmd    // nil: it does not run
	log       log
}

// log is what a node has said, also while it runs.
type log struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.Write(b)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said.String()
}

// The listeners of each node, in its namespace.
const (
	httpDoor  = "http://127.0.0.1:8080"
	adminDoor = "http://127.0.0.1:8082"
)

// newCluster makes nodes, which do not run yet. more are arguments of each.
func newCluster(t *testing.T, size int, rules string, more ...string) *cluster {
	t.Helper()
	dir := t.TempDir()
	key, file := filepath.Join(dir, "key"), filepath.Join(dir, "rules.yaml")
	err := errors.Join(os.WriteFile(key, []byte(strings.Repeat("5a", 32)+"\n"), 0o600), os.WriteFile(file, []byte(rules), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	binary := build(t)
	c := &cluster{t: t, network: newNetwork(t, size), rules: file}
	var names []string
	for i, space := range c.network.nodes {
		n := &node{name: addressOf(i).String() + ":8083", namespace: space, caches: filepath.Join(dir, fmt.Sprint(i))}
		n.web = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DialContext: space.dial, MaxIdleConnsPerHost: 64}}
		c.nodes = append(c.nodes, n)
		names = append(names, n.name)
	}
	c.args = []string{
		binary, "serve", "--store", "cluster:", "--join", strings.Join(names, ","), "--cluster-key-file", key, "--rules", file,
		"--http", strings.TrimPrefix(httpDoor, "http://"), "--admin", strings.TrimPrefix(adminDoor, "http://"), "--grpc", "127.0.0.1:8081",
	}
	c.args = append(c.args, more...)
	t.Cleanup(c.close)
	return c
}

// TestMain takes away what tests have built.
func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir) // it is temporary
	}
	os.Exit(code)
}

// built is where weir is, once a test has needed it.
var built struct {
	sync.Mutex

	dir string
}

// build makes weir, once.
func build(t *testing.T) string {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if built.dir != "" {
		return filepath.Join(built.dir, "weir")
	}
	dir, err := os.MkdirTemp("", "clustertest")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "weir")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "../..").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", errors.Join(err, os.RemoveAll(dir)), out)
	}
	built.dir = dir
	return binary
}

// close ends all nodes, those that stand still, too.
func (c *cluster) close() {
	for i, n := range c.nodes {
		if n.process != nil {
			c.kill(i)
		}
		n.web.CloseIdleConnections()
		if c.t.Failed() {
			c.t.Logf("log of node %d:\n%s", i, last(n.log.String(), 4000))
		}
	}
}

// last is the end of a text.
func last(s string, size int) string { return s[max(len(s)-size, 0):] }

// start starts nodes, and waits until they are ready.
func (c *cluster) start(nodes ...int) {
	c.t.Helper()
	outs := make([]io.Reader, len(c.nodes))
	for _, i := range nodes {
		n := c.nodes[i]
		args := slices.Concat(c.args[1:], []string{"--cluster", n.name}, n.args)
		n.process = exec.CommandContext(context.WithoutCancel(c.t.Context()), c.args[0], args...)
		n.process.Stderr = &n.log
		n.process.Env = append(os.Environ(), "XDG_CACHE_HOME="+n.caches)
		n.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out, err := n.process.StdoutPipe()
		if err == nil {
			err = n.namespace.within(n.process.Start)
		}
		if err != nil {
			c.t.Fatal(err)
		}
		outs[i] = out
	}
	for _, i := range nodes {
		line, err := bufio.NewReader(outs[i]).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "weir ready ") {
			c.t.Fatalf("node %d says %q, %v\n%s", i, line, err, c.nodes[i].log.String())
		}
	}
}

// kill ends a node with SIGKILL.
func (c *cluster) kill(i int) {
	c.signal(i, syscall.SIGKILL)
	_ = c.nodes[i].process.Wait() // it was killed
	c.nodes[i].process = nil
}

// stop has a node leave in order.
func (c *cluster) stop(i int) {
	c.t.Helper()
	c.signal(i, syscall.SIGTERM)
	if err := c.nodes[i].process.Wait(); err != nil {
		c.t.Errorf("node %d: %v", i, err)
	}
	c.nodes[i].process = nil
}

func (c *cluster) signal(i int, s syscall.Signal) {
	c.t.Helper()
	if err := c.nodes[i].process.Process.Signal(s); err != nil {
		c.t.Error(err)
	}
}

// weir runs a command in a node's namespace, and gives all that it says.
func (c *cluster) weir(i int, args ...string) (string, error) {
	c.t.Helper()
	var said bytes.Buffer
	command := exec.CommandContext(c.t.Context(), c.args[0], args...)
	command.Stdout, command.Stderr = &said, &said
	err := c.nodes[i].namespace.within(command.Start)
	if err == nil {
		err = command.Wait()
	}
	return said.String(), err
}

// forget has the i-th node forget one that is silent, or soon will be.
func (c *cluster) forget(i, silent int) {
	c.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		said, err := c.weir(i, "cluster", "forget", "--addr", adminDoor, c.nodes[silent].name)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("%v: %s", err, said)
		}
	}
}

// members waits until a node counts so many members.
func (c *cluster) members(i, want int) {
	c.t.Helper()
	for end := time.Now().Add(2 * patience); ; time.Sleep(20 * time.Millisecond) {
		var s status
		err := c.nodes[i].get(c.t.Context(), adminDoor+"/v1/cluster", &s)
		if err == nil && len(s.Members) == want {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("node %d does not count %d members: %+v, %v", i, want, s, err)
		}
	}
}

// get reads what a listener of a node says, as JSON.
func (n *node) get(ctx context.Context, url string, to any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := n.web.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(to)
}

// status is what a node tells of the cluster.
type status struct {
	Settled bool
	Members []struct{ Name, State string }
	Out     struct{ Messages, Packets int64 }
}

// heard is how many members a node hears, itself among them.
func (s *status) heard() (n int) {
	for _, m := range s.Members {
		if m.State != "silent" {
			n++
		}
	}
	return n
}

// patience is how long is waited for what must become so. No figure depends on it.
const patience = 60 * time.Second

// meet waits until each of the nodes hears all of them, and counts are where they belong.
func (c *cluster) meet(nodes ...int) {
	c.t.Helper()
	for _, i := range nodes {
		for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			var s status
			err := c.nodes[i].get(c.t.Context(), adminDoor+"/v1/cluster", &s)
			if err == nil && s.Settled && s.heard() == len(nodes) {
				break
			}
			if time.Now().After(end) {
				c.t.Fatalf("node %d does not hear %d nodes: %+v, %v", i, len(nodes), s, err)
			}
		}
	}
}

// owner is which node owns a key, as the first says.
func (c *cluster) owner(k key) int {
	c.t.Helper()
	var said struct{ Owner string }
	q := url.Values{"domain": {"demo"}, "e": {k.rule + "=" + k.value}}
	if err := c.nodes[0].get(c.t.Context(), httpDoor+"/v1/route?"+q.Encode(), &said); err != nil {
		c.t.Fatal(err)
	}
	for i, n := range c.nodes {
		if n.name == said.Owner {
			return i
		}
	}
	c.t.Fatalf("%q owns %v", said.Owner, k)
	return 0
}

// keys are three of a rule that nobody has asked about. The first three nodes own one each, of
// rules by which nodes own any.
func (c *cluster) keys(rule string) []key {
	c.t.Helper()
	if slices.Contains([]string{"divided", "mesh", "gossip"}, rule) {
		return []key{c.key(rule), c.key(rule), c.key(rule)}
	}
	keys, found := make([]key, 3), 0
	for n := 0; found < len(keys); n++ {
		if n == 1000 {
			c.t.Fatalf("of %d keys the first three nodes own %v", n, keys)
		}
		k := c.key(rule)
		if i := c.owner(k); i < len(keys) && keys[i].rule == "" {
			keys[i] = k
			found++
		}
	}
	return keys
}

// key is one of a rule that nobody has asked about.
func (c *cluster) key(rule string) key {
	c.named++
	return key{rule, fmt.Sprint(c.named)}
}

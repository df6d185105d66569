package jointstest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/daemon"
	"github.com/weir-limit/weir/cmd/weir/internal/jointstest/oracle"
	"github.com/weir-limit/weir/cmd/weir/internal/membership"
	"github.com/weir-limit/weir/internal/porttest"
)

// nodeEnv makes this test binary a daemon: it has the daemon.Config as JSON.
const nodeEnv = "WEIR_JOINTS_NODE"

func TestMain(m *testing.M) {
	if text := os.Getenv(nodeEnv); text != "" {
		if err := beNode(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Daemons with a rule database in PostgreSQL keep a copy of the rules in the cache.
	cache, err := os.MkdirTemp("", "joints")
	if err == nil {
		err = os.Setenv("XDG_CACHE_HOME", cache)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(cache) // what is left there harms nobody
	os.Exit(code)
}

// beNode is a daemon until SIGTERM, or until the test's process ends, which holds the other
// end of its standard input; SIGHUP reloads its rules.
func beNode(text string) error {
	c := daemon.Config{}
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	c.Stdout, c.Log = os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil))
	d, err := daemon.New(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	go func() {
		for range hup {
			d.Reload()
		}
	}()
	return d.Run(ctx)
}

// process is a node of its own process.
type process struct {
	config  daemon.Config
	command *exec.Cmd
	reloads chan bool
	silent  atomic.Bool // whether it has called a member silent
	front   front
}

func spawn(t testing.TB, c daemon.Config) (*process, error) {
	for _, at := range []*string{&c.HTTP, &c.GRPC, &c.Admin, &c.RESP} {
		*at = "127.0.0.1:0"
	}
	c.LameDuck = time.Millisecond
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p := &process{config: c, command: exec.Command(os.Args[0]), reloads: make(chan bool, 16)} //nolint:noctx // it ends by its signals
	// Nodes list their members in the cache, by their addresses, which those of another test may have had.
	p.command.Env = append(os.Environ(), nodeEnv+"="+string(text), "XDG_CACHE_HOME="+filepath.Dir(c.Rules))
	if _, err := p.command.StdinPipe(); err != nil { // closed when this process ends
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	log, err := p.command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go p.listen(t, log)
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		return nil, errors.Join(errors.New("a node did not start"), p.command.Wait())
	}
	m := readyLine.FindStringSubmatch(lines.Text())
	p.front = front{receipts: map[string]heldReceipts{}}
	distant(&p.front, m[1], m[3], "")
	p.front.dialGRPC = func() (string, error) { return m[2], nil }
	p.front.dialRESP = func() (string, error) { return m[4], nil }
	return p, nil
}

// listen hears in a process's log what must not be, and what is waited for.
func (p *process) listen(t testing.TB, log io.Reader) {
	for lines := bufio.NewScanner(log); lines.Scan(); {
		text := lines.Text()
		if strings.Contains(text, "rules reloaded") {
			p.reloads <- true
		}
		if strings.Contains(text, "a member is silent") {
			p.silent.Store(true)
		}
		if strings.Contains(text, "level=ERROR") && strings.Contains(text, "panic") {
			t.Error(text)
		}
	}
}

// end ends a process in order, or not.
func (p *process) end(s syscall.Signal) error {
	p.front.hangUp()
	if err := p.command.Process.Signal(s); err != nil {
		return err
	}
	err := p.command.Wait()
	if s == syscall.SIGKILL {
		return nil
	}
	return err
}

// nodes are the processes of a cluster.
type nodes struct {
	t      testing.TB
	file   string
	all    []*process // nil: gone
	killed bool
}

func openNodes(t testing.TB, n int, file string) (*nodes, error) {
	c := &nodes{t: t, file: filepath.Join(t.TempDir(), "rules.yaml")}
	if err := write(c.file, file); err != nil {
		return nil, err
	}
	for range n {
		if err := c.join(""); err != nil {
			return c, err
		}
	}
	return c, c.settle()
}

// join starts a node, with the name of one that is gone or a new one.
func (c *nodes) join(name string) error {
	var others []string
	for _, p := range c.all {
		if p != nil {
			others = append(others, p.config.Cluster)
		}
	}
	if name == "" {
		name = porttest.Free(c.t)
	}
	config := daemon.Config{Store: "cluster:", Rules: c.file, Cluster: name, Join: strings.Join(others, ",")}
	p, err := spawn(c.t, config)
	if err != nil {
		return err
	}
	c.all = append(c.all, p)
	return nil
}

func (c *nodes) living() (n int) {
	for _, p := range c.all {
		if p != nil {
			n++
		}
	}
	return n
}

// starved is whether a node was called silent though none was killed: the machine had no
// time for it, and until others have heard of it again its keys may be denied.
func (c *nodes) starved() bool {
	return !c.killed && slices.ContainsFunc(c.all, func(p *process) bool { return p != nil && p.silent.Load() })
}

// settle waits until all counts are with their owners.
func (c *nodes) settle() error {
	for end := time.Now().Add(4 * patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		settled := true
		for _, status := range c.status() {
			heard := 0
			for _, m := range status.Members {
				if m.State != "silent" {
					heard++
				}
			}
			settled = settled && (status.Settled || c.killed && status.Minority) && (c.killed || heard == c.living())
		}
		if settled {
			return nil
		}
	}
	return fmt.Errorf("the cluster does not settle: %+v", c.status())
}

// status is what the nodes that live say of the cluster.
func (c *nodes) status() (all []membership.Status) {
	for _, p := range c.all {
		if p == nil {
			continue
		}
		var status membership.Status
		w := call(p.front.admin, http.MethodGet, "/v1/cluster", "")
		_ = json.Unmarshal(w.Body.Bytes(), &status) // else it is not settled
		all = append(all, status)
	}
	return all
}

// minority is whether most nodes were killed before the others called them gone. Those that
// are left can't know that nobody else decides, and wait for an operator.
func (c *nodes) minority() bool {
	return slices.ContainsFunc(c.status(), func(s membership.Status) bool { return s.Minority })
}

func (c *nodes) promises() oracle.Promises {
	return oracle.Promises{Keys: 262_144, Due: true, Apart: true}
}
func (c *nodes) now() int64   { return time.Now().UnixMicro() }
func (c *nodes) slack() int64 { return 5000 }
func (c *nodes) tick()        {}

func (c *nodes) fronts() (all []*front) {
	for _, p := range c.all {
		if p == nil {
			all = append(all, nil)
		} else {
			all = append(all, &p.front)
		}
	}
	return all
}

func (c *nodes) close() {
	for _, p := range c.all {
		if p != nil {
			_ = p.end(syscall.SIGKILL) // it is of no use any more
		}
	}
}

func (c *nodes) reload(file string) error {
	if err := write(c.file, file); err != nil {
		return err
	}
	for _, p := range c.all {
		if p == nil {
			continue
		}
		if err := p.command.Process.Signal(syscall.SIGHUP); err != nil {
			return err
		}
		select {
		case <-p.reloads:
		case <-time.After(patience):
			return errors.New("the rules were not reloaded")
		}
	}
	return nil
}

func (c *nodes) act(s *step) (kept, receipts bool, err error) {
	switch s.op {
	case "wait":
		time.Sleep(s.by)
		return true, true, nil
	case "join":
		if c.living() >= 5 {
			return true, true, errNoStep
		}
		return true, false, errors.Join(c.join(""), c.settle())
	case "leave", "kill":
		p := c.nth(s.node)
		if p < 0 || c.living() < 2 {
			return true, true, errNoStep
		}
		how := syscall.SIGTERM
		if s.op == "kill" {
			how, c.killed = syscall.SIGKILL, true
		}
		err := c.all[p].end(how)
		c.all[p] = nil
		return true, false, errors.Join(err, c.settle())
	case "restart":
		return c.living() > 1, false, c.roll()
	}
	return true, true, errNoStep
}

// nth is the n-th node that lives, or -1.
func (c *nodes) nth(n int) int {
	for i, p := range c.all {
		if p != nil {
			if n == 0 {
				return i
			}
			n--
		}
	}
	return -1
}

// roll restarts the nodes by turns.
func (c *nodes) roll() error {
	for i, p := range c.all {
		if p == nil {
			continue
		}
		if err := p.end(syscall.SIGTERM); err != nil {
			return err
		}
		c.all[i] = nil
		if err := errors.Join(c.join(p.config.Cluster), c.settle()); err != nil {
			return err
		}
		last := len(c.all) - 1
		c.all[i], c.all = c.all[last], c.all[:last]
	}
	return nil
}

func openCluster(t testing.TB, words, file string) (house, error) {
	size, _, _ := strings.Cut(words, " ")
	n, err := strconv.Atoi(size)
	if err != nil {
		return nil, err
	}
	c, err := openNodes(t, n, file)
	if err != nil && c != nil {
		c.close()
	}
	return c, err
}

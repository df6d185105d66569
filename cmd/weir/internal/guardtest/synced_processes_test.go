package guardtest

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/internal/synced"
	"github.com/weir-limit/weir/redisstore"
)

// hotLimits are those that processes share one key of each.
func hotLimits() []string {
	return []string{"200/s", "100/s burst 20", "300/s fixed-window", "200/s sliding-window 4", "5/s"}
}

// hot is an event of the key that all share, which need not be told to the store at once.
func hot(limit string) weir.Ask {
	return weir.Ask{State: weir.StateKey{Rule: "r#" + limit, Key: "hot"}, Limit: weir.MustParseLimit(limit), Cost: 1, Policy: weir.Policy{Sync: 100 * time.Millisecond}}
}

// nodeEnv makes a test binary a node of TestProcesses: the store's URL.
const nodeEnv = "WEIR_SYNCED_NODE"

func TestMain(m *testing.M) {
	for env, be := range map[string]func(url string) error{nodeEnv: beNode, leasedEnv: beLeasedNode} {
		if url := os.Getenv(env); url != "" {
			if err := be(url); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

// beNode asks for the hot keys as fast as two goroutines each can, with pauses,
// from when a line is read until the next. It tells when each passed, and at last
// how many takes there were, and calls of Redis.
func beNode(url string) error {
	r, err := redisstore.Dial(url)
	if err != nil {
		return err
	}
	s := synced.New(guard.New(r, guard.Options{}))
	in, out := bufio.NewReader(os.Stdin), bufio.NewWriter(os.Stdout)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	stop := make(chan struct{})
	go func() {
		_, _ = in.ReadString('\n') // a parent that is gone is a stop, too
		close(stop)
	}()
	var g sync.WaitGroup
	var mu sync.Mutex
	for i, text := range hotLimits() {
		for range 2 {
			g.Go(func() {
				asks, d := []weir.Ask{hot(text)}, make([]weir.Decision, 1)
				for {
					select {
					case <-stop:
						return
					case <-time.After(500 * time.Microsecond):
					}
					if err := s.Take(context.Background(), asks, d); err != nil || d[0].Degraded != "" || d[0].Outcome != weir.Allowed {
						continue
					}
					mu.Lock()
					fmt.Fprintln(out, i, time.Now().UnixMicro())
					mu.Unlock()
				}
			})
		}
	}
	g.Wait()
	st := s.Stats()
	fmt.Fprintln(out, "stats", st.Local+st.Store, r.Stats().Calls)
	return cmp.Or(s.Close(context.Background()), r.Close(), out.Flush())
}

// node is a process of the test.
type node struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

func startNode(t *testing.T, env, url string) *node {
	t.Helper()
	n := &node{command: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")}
	n.command.Env = append(os.Environ(), env+"="+url)
	n.command.Stderr = os.Stderr
	in, err := n.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := n.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	n.in, n.out = in, bufio.NewScanner(out)
	if err := n.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = n.command.Process.Kill() // it may be gone
		_ = n.command.Wait()         // it was killed
	})
	return n
}

// TestProcesses: three processes on a real Redis ask for the same keys for a
// while. What passes is measured against the limit, and stays under the bound.
func TestProcesses(t *testing.T) {
	url := "redis://" + redistest.Start(t).Addr + "?prefix=synced:" + fmt.Sprint(time.Now().UnixNano()) + ":"
	nodes := []*node{startNode(t, nodeEnv, url), startNode(t, nodeEnv, url), startNode(t, nodeEnv, url)}
	for _, line := range []time.Duration{1500 * time.Millisecond, 0} {
		for _, n := range nodes {
			if _, err := fmt.Fprintln(n.in); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(line) // it is what is measured
	}
	passed := make([][]weir.Instant, len(hotLimits()))
	takes, calls := 0, 0
	for _, n := range nodes {
		for n.out.Scan() {
			var i int
			var at weir.Instant
			if rest, ok := strings.CutPrefix(n.out.Text(), "stats "); ok {
				var a, b int
				if _, err := fmt.Sscan(rest, &a, &b); err != nil {
					t.Fatalf("%q: %v", rest, err)
				}
				takes, calls = takes+a, calls+b
			} else if _, err := fmt.Sscan(n.out.Text(), &i, &at); err != nil {
				t.Fatalf("%q: %v", n.out.Text(), err)
			} else {
				passed[i] = append(passed[i], at)
			}
		}
	}
	for i, text := range hotLimits() {
		a := hot(text)
		bound := int64(len(nodes)) * a.Limit.Unsynced(a.Policy.Sync)
		beyond := excess(t, a.Limit, passed[i], 4*bound+10)
		t.Logf("%-24s %4d passed, %d beyond the limit at the worst moment, bound %d", text, len(passed[i]), beyond, bound)
		if beyond > bound {
			t.Errorf("%s: %d beyond the limit, more than %d", text, beyond, bound)
		}
		if len(passed[i]) == 0 {
			t.Errorf("%s: none passed", text)
		}
	}
	t.Logf("%d takes, %d calls of Redis", takes, calls)
	if calls > takes/4 {
		t.Errorf("%d takes cost %d calls of Redis", takes, calls)
	}
}

// excess is by how much a limit has to be larger to let all of these pass.
func excess(t *testing.T, limit *weir.Limit, at []weir.Instant, most int64) int64 {
	t.Helper()
	slices.Sort(at)
	n := int64(0)
	for ; n < most; n++ {
		spec := limit.Spec()
		if spec.Algorithm == weir.GCRA {
			spec.Burst, spec.Initial = spec.Burst+n, nil
		} else {
			spec.Count += n
		}
		larger, err := spec.Limit()
		if err != nil {
			t.Fatal(err)
		}
		if passes(larger, at) {
			break
		}
	}
	return n
}

// passes is whether a limit lets all of these pass.
func passes(l *weir.Limit, at []weir.Instant) bool {
	var s weir.State
	a := weir.Ask{Limit: l, Cost: 1}
	for _, now := range at {
		d := l.Decide(s, now, &a)
		if d.Outcome != weir.Allowed {
			return false
		}
		d.Charged = true
		s = l.Commit(s, now, &a, &d)
	}
	return true
}

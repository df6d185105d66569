package memcachestore

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/memcachedtest"
)

// The environment of a process that TestProcesses starts.
const (
	childServer = "WEIR_MEMCACHESTORE_SERVER"
	childPrefix = "WEIR_MEMCACHESTORE_PREFIX"
)

// TestChild is what the processes of TestProcesses do.
func TestChild(t *testing.T) {
	server := os.Getenv(childServer)
	if server == "" {
		t.Skip("it is run by TestProcesses, in processes of their own")
	}
	s, err := Dial("memcached://"+server, Options{Prefix: os.Getenv(childPrefix)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	crowd(t, s)
}

func child(t *testing.T, server, prefix string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestChild$", "-test.v")
	c.Env = append(os.Environ(), childServer+"="+server, childPrefix+"="+prefix)
	return c
}

const (
	crowdLimits = "5000/day;5000/day fixed-window;5000/day sliding-window"
	crowdCount  = 5000
)

// crowd takes from one key until nothing is left, and says how much it got.
func crowd(t *testing.T, s *Store) {
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until all are ready
	for limit := range strings.SplitSeq(crowdLimits, ";") {
		var passed atomic.Int64
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for {
					d, err := take(t.Context(), s, limit, limit, "k")
					switch {
					case errors.Is(err, weir.ErrBusy):
					case err != nil:
						t.Error(err)
						return
					case d.Outcome != weir.Allowed:
						return
					default:
						passed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		fmt.Printf("passed %d\n", passed.Load())
	}
	fmt.Printf("%+v\n", s.Stats())
}

// TestProcesses: many goroutines of several processes pass exactly the limit.
func TestProcesses(t *testing.T) {
	server := memcachedtest.Start(t)
	prefix := open(t, server, t.Name()).prefix
	var all [4]*exec.Cmd
	var outs [4]*bufio.Reader
	var ins [4]io.Closer
	for i := range all {
		all[i] = child(t, server.Addr, prefix)
		in, err := all[i].StdinPipe()
		out, err2 := all[i].StdoutPipe()
		if err := errors.Join(err, err2, all[i].Start()); err != nil {
			t.Fatal(err)
		}
		ins[i], outs[i] = in, bufio.NewReader(out)
		for line := ""; line != "ready\n"; {
			if line, err = outs[i].ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, in := range ins {
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	sums := make([]int, strings.Count(crowdLimits, ";")+1)
	for i := range all {
		text, err := io.ReadAll(outs[i])
		if err := errors.Join(err, all[i].Wait()); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		t.Logf("process %d: %s", i, text)
		for n, passed := range figures(string(text)) {
			sums[n] += passed
		}
	}
	for n, sum := range sums {
		if sum != crowdCount {
			t.Errorf("%s: %d passed in %d processes", strings.Split(crowdLimits, ";")[n], sum, len(all))
		}
	}
}

// figures are the numbers of the lines "passed N".
func figures(text string) []int {
	var all []int
	for line := range strings.Lines(text) {
		var n int
		if _, err := fmt.Sscanf(line, "passed %d", &n); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// TestEveryItemExpires: whatever is done, nothing stays for ever.
func TestEveryItemExpires(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	s := open(t, server, t.Name())
	for _, limit := range []string{"10/s", "1/year fixed-window", "10/31day", "1/400day burst 4", "100/h sliding-window 6", "3/month fixed-window"} {
		asks := []weir.Ask{{State: weir.StateKey{Rule: limit, Key: "k"}, Limit: weir.MustParseLimit(limit), Cost: 1, Receipt: 7, Once: true}}
		out := make([]weir.Decision, 1)
		for range 2 {
			if err := s.Take(t.Context(), asks, out); err != nil || out[0].Receipt == nil {
				t.Fatalf("%s: %+v, %v", limit, out[0], err)
			}
		}
		if n := remaining(t, s, limit, limit, "k"); n != out[0].Remaining {
			t.Errorf("%s: %d remain in the item, want %d", limit, n, out[0].Remaining)
		}
		var expires, now int64
		name := s.name(asks[0].State)
		answer := server.Ask(t, "mg "+name+" t")
		if _, err := fmt.Sscanf(answer, "HD t%d", &expires); err != nil {
			t.Fatalf("%s: %q", limit, answer)
		}
		if keep := int64(out[0].ResetAfter.Seconds()); expires < keep || expires > max(keep, 60)+10 {
			t.Errorf("%s: it expires in %d s at %d, and is used for %d s", limit, expires, now, keep)
		}
		if err := s.Settle(t.Context(), []weir.Settlement{{Receipt: out[0].Receipt}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Reset(t.Context(), []weir.StateKey{asks[0].State}); err != nil {
			t.Fatal(err)
		}
		if answer := server.Ask(t, "mg "+name+" t"); !strings.HasPrefix(answer, "HD t") || strings.HasPrefix(answer, "HD t-1") {
			t.Errorf("%s: after all of it %q", limit, answer)
		}
	}
}

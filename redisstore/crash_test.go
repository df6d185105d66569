package redisstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
)

// crashFor is how long each of these tests does harm.
const crashFor = 500 * time.Millisecond

// harm does something to a server, again and again, for crashFor.
func harm(every time.Duration, do func()) (times int) {
	for end := time.Now().Add(crashFor); time.Now().Before(end); times++ {
		time.Sleep(every/2 + rand.N(every))
		do()
	}
	return times
}

// used is how much of a limit is used, as a peek sees it.
func used(t *testing.T, s *Store, asks []weir.Ask) int64 {
	t.Helper()
	asks[0].Peek, asks[0].Once, asks[0].Receipt = true, false, 0
	return asks[0].Limit.Spec().Count - take(t, s, asks).Remaining
}

// TestCutConnections: a take whose answer was lost is not sent again, so that it
// charges once or not at all; with Once the caller may send it again, and it charges
// once for sure.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t, "timeout", "0").Addr
	client := connect(t, addr)
	for _, text := range []string{"1000000/720h", "1000000/720h fixed-window", "1000000/720h fixed-window with ids"} {
		limit, once := strings.CutSuffix(text, " with ids")
		s := New(connect(t, addr), Options{})
		asked := func(id uint64) []weir.Ask {
			asks := asksOf(limit, text)
			if once {
				asks[0].Once, asks[0].Receipt = true, id
			}
			return asks
		}
		var stop atomic.Bool
		var passed, failed, ids atomic.Int64
		var callers sync.WaitGroup
		for range 32 {
			callers.Go(func() {
				out := make([]weir.Decision, 1)
				for !stop.Load() {
					asks := asked(uint64(ids.Add(1)))
					err := s.Take(t.Context(), asks, out)
					for ; err != nil && once; err = s.Take(t.Context(), asks, out) {
						failed.Add(1)
					}
					if err != nil {
						failed.Add(1)
						continue
					}
					passed.Add(1)
				}
			})
		}
		cuts := harm(10*time.Millisecond, func() { run(t, client, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") })
		stop.Store(true)
		callers.Wait()
		sure, maybe := passed.Load(), failed.Load()
		n := used(t, New(connect(t, addr), Options{}), asked(0)) // old connections are cut
		t.Logf("%s: %d cuts, %d answers, %d lost, %d used", text, cuts, sure, maybe, n)
		switch {
		case maybe == 0:
			t.Errorf("%s: nothing was cut", text)
		case once && n != sure:
			t.Errorf("%s: %d used for %d ids", text, n, sure)
		case n < sure-1 || n > sure+maybe: // of 30 days one event may have come back
			t.Errorf("%s: %d used, of %d answers and %d that were lost", text, n, sure, maybe)
		}
	}
	expires(t, client)
}

// expires checks that no key of the store stays for ever.
func expires(t *testing.T, client rueidis.Client) {
	t.Helper()
	for key, ms := range ttls(t, client, DefaultPrefix) {
		if ms == -1 {
			t.Errorf("%s stays for ever", key)
		}
	}
}

// crashLimits are asked by the processes of TestCrash.
var crashLimits = []string{
	"2000/720h", "2000/720h fixed-window", "2000/720h sliding-log", "2000/720h sliding-window 4", "2000/720h leaky-queue queue 1999", "2000/720h debt 1",
}

// TestCrash: processes that are killed at any moment, a server that forgets its
// scripts, and connections that break under load pass no more than a limit, and
// leave nothing that stays for ever.
func TestCrash(t *testing.T) {
	if addr := os.Getenv("WEIR_CRASH_REDIS"); addr != "" {
		crashChild(addr)
		return
	}
	t.Parallel()
	addr := redistest.Start(t, "timeout", "0").Addr
	client := connect(t, addr)
	var mu sync.Mutex
	passed := make([]int, len(crashLimits))
	note := func(r io.Reader) {
		for lines := bufio.NewScanner(r); lines.Scan(); {
			var i int
			if n, _ := fmt.Sscanf(lines.Text(), "passed %d.", &i); n == 1 {
				mu.Lock()
				passed[i]++
				mu.Unlock()
			}
		}
	}
	var readers sync.WaitGroup
	start := func() *exec.Cmd {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCrash$")
		child.Env = append(os.Environ(), "WEIR_CRASH_REDIS="+addr)
		out, err := child.StdoutPipe()
		if err == nil {
			err = child.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		readers.Go(func() { note(out) })
		return child
	}
	children := []*exec.Cmd{start(), start()}
	kills := harm(40*time.Millisecond, func() {
		switch i := rand.N(4); i {
		case 2:
			run(t, client, "SCRIPT", "FLUSH")
		case 3:
			run(t, client, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		default:
			_ = children[i].Process.Kill() // it runs until then
			_ = children[i].Wait()         // it was killed
			children[i] = start()
		}
		expires(t, client)
	})
	for _, child := range children {
		_ = child.Process.Kill() // it runs until then
		_ = child.Wait()         // it was killed
	}
	readers.Wait()
	expires(t, client)
	s := New(connect(t, addr), Options{})
	for i, text := range crashLimits {
		rest := 0
		for take(t, s, asksOf(text, text)).Outcome == weir.Allowed {
			rest++
		}
		t.Logf("%s: %d passed, %d were left after %d crashes", text, passed[i], rest, kills)
		if passed[i] == 0 || passed[i]+rest > 2000+1 { // one event may have come back
			t.Errorf("%s: %d passed and %d were left", text, passed[i], rest)
		}
	}
	expires(t, client)
}

// crashChild takes until it is killed, and tells what has passed.
func crashChild(addr string) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableRetry: true, DisableCache: true})
	if err != nil {
		return // its connection was cut at once
	}
	s := New(client, Options{})
	var callers sync.WaitGroup
	for c := range 16 {
		callers.Go(func() {
			for n := 0; ; n++ {
				i := (c + n) % len(crashLimits)
				asks, out := asksOf(crashLimits[i], crashLimits[i]), make([]weir.Decision, 1)
				if n%16 == 0 { // the rare way
					asks[0].Once, asks[0].Receipt = true, rand.Uint64()|1
				}
				if err := s.Take(context.Background(), asks, out); err == nil && out[0].Outcome == weir.Allowed {
					fmt.Printf("passed %d.\n", i)
				}
			}
		})
	}
	callers.Wait()
}

// TestFlushedCounts: a server that forgets all of its keys under load passes the
// limit once more each time, and no more.
func TestFlushedCounts(t *testing.T) {
	t.Parallel()
	client := connect(t, redistest.Start(t, "timeout", "0").Addr)
	s := New(client, Options{})
	var stop atomic.Bool
	var passed atomic.Int64
	var callers sync.WaitGroup
	for range 32 {
		callers.Go(func() {
			out := make([]weir.Decision, 1)
			for n := 0; !stop.Load(); n++ {
				asks := asksOf("50/720h", "k")
				if n%16 == 0 { // the rare way
					asks[0].Once, asks[0].Receipt = true, rand.Uint64()|1
				}
				switch err := s.Take(t.Context(), asks, out); {
				case errors.Is(err, weir.ErrBusy): // many want one key
				case err != nil:
					t.Error(err)
				case out[0].Outcome == weir.Allowed:
					passed.Add(1)
				}
			}
		})
	}
	flushes := harm(20*time.Millisecond, func() { run(t, client, "FLUSHALL") })
	stop.Store(true)
	callers.Wait()
	if n := passed.Load(); n > 50*int64(flushes+1) || n < 50 {
		t.Errorf("%d passed of 50 after %d flushes", n, flushes)
	}
	expires(t, client)
}

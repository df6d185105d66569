package size

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/proxytest"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/pgstore"
	"github.com/weir-limit/weir/redisstore"
)

// BenchmarkTake tells what a take costs with a store outside of the process: its
// processor time there and here, and bytes between them. The constants of this
// package are from it; they are of the machine where it ran.
func BenchmarkTake(b *testing.B) {
	for _, limit := range []string{"100/min", "100/min sliding-window 6"} {
		for _, callers := range []int{1, 256} {
			b.Run(fmt.Sprintf("redis/%s/%d", limit, callers), func(b *testing.B) {
				server := redistest.Start(b, "timeout", "0") // options keep it apart from a server that others name
				s, err := redisstore.Dial("redis://" + server.Addr)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				cost := func() float64 { return number(b, server.Addr, "INFO", "used_cpu_user:", "used_cpu_sys:") }
				bytes := func() float64 {
					return number(b, server.Addr, "INFO", "total_net_input_bytes:", "total_net_output_bytes:")
				}
				measure(b, s, limit, callers, cost, bytes)
			})
			b.Run(fmt.Sprintf("postgres/%s/%d", limit, callers), func(b *testing.B) {
				server := postgrestest.StartTCP(b, "fsync=on")
				var wire atomic.Int64
				addr := proxytest.Start(b, server.Addr, func(_ bool, data []byte) (int, bool) {
					wire.Add(int64(len(data)))
					return len(data), false
				})
				s, err := pgstore.Dial(strings.Replace(server.Database(b), server.Addr, addr, 1), pgstore.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				measure(b, s, limit, callers, func() float64 { return server.CPU(b).Seconds() }, func() float64 { return float64(wire.Load()) })
			})
			b.Run(fmt.Sprintf("memcached/%s/%d", limit, callers), func(b *testing.B) {
				server := memcachedtest.Start(b, "-m", "512")
				s, err := memcachestore.Dial("memcached://"+server.Addr, memcachestore.Options{})
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = s.Close() }()
				cost := func() float64 { return number(b, server.Addr, "stats", "STAT rusage_user ", "STAT rusage_system ") }
				bytes := func() float64 {
					return number(b, server.Addr, "stats", "STAT bytes_read ", "STAT bytes_written ")
				}
				measure(b, s, limit, callers, cost, bytes)
			})
		}
	}
}

// measure asks about 100,000 keys by turns.
func measure(b *testing.B, s weir.Store, text string, callers int, cost, bytes func() float64) {
	const keys = 100_000
	limit := weir.MustParseLimit(text)
	takes := 100_000
	if testing.Short() {
		takes = 2_000
	}
	if callers == 1 {
		takes /= 10
	}
	waitFor(b, s, limit)
	for b.Loop() {
		server, wire, own := cost(), bytes(), ownCPU()
		began := time.Now()
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				out := make([]weir.Decision, 1)
				for i := c; i < takes; i += callers {
					n := i * 7919 % keys
					key := fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
					ask := []weir.Ask{{State: weir.StateKey{Rule: "shop/user#" + limit.Algorithm().String(), Key: key}, Limit: limit, Cost: 1}}
					if err := s.Take(context.Background(), ask, out); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		n := float64(takes)
		b.ReportMetric(n/time.Since(began).Seconds(), "takes/s")
		b.ReportMetric((cost()-server)*1e6/n, "store-µs/take")
		b.ReportMetric((ownCPU()-own)*1e6/n, "own-µs/take")
		b.ReportMetric((bytes()-wire)/n, "B/take")
	}
	b.ReportMetric(0, "ns/op") // a round is many takes
}

// waitFor waits until the store decides: it connects in the background.
func waitFor(b *testing.B, s weir.Store, limit *weir.Limit) {
	b.Helper()
	ask := []weir.Ask{{State: weir.StateKey{Rule: "first", Key: "first"}, Limit: limit, Cost: 1}}
	for tries := 0; ; tries++ {
		err := s.Take(b.Context(), ask, make([]weir.Decision, 1))
		switch {
		case err == nil:
			return
		case tries == 1000:
			b.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// number adds up numbers that stand behind names in what a server says.
func number(b *testing.B, addr, ask string, names ...string) float64 {
	b.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(b.Context(), "tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, ask+"\r\n"); err != nil {
		b.Fatal(err)
	}
	sum, found := 0.0, 0
	for r := bufio.NewReader(conn); found < len(names); {
		line, err := r.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "END") {
			b.Fatalf("%s says no %q: %v", addr, names, err)
		}
		for _, name := range names {
			text, ok := strings.CutPrefix(line, name)
			if !ok {
				continue
			}
			n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += n
			found++
		}
	}
	return sum
}

// ownCPU is the processor time of this process, in seconds.
func ownCPU() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

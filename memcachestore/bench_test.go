package memcachestore

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/record"
)

// BenchmarkTake is decisions of a store, by how many ask for how many keys.
func BenchmarkTake(b *testing.B) {
	for _, c := range []struct {
		name       string
		limit      string
		goroutines int
		keys       uint64
		stores     int
	}{
		{"1 goroutine, 1 key", "1000000/s", 1, 1, 1},
		{"1 goroutine, 10000 keys", "1000000/s", 1, 10_000, 1},
		{"64 goroutines, 10000 keys", "1000000/s", 64, 10_000, 1},
		{"64 goroutines, 10000 keys, 2 stores", "1000000/s", 64, 10_000, 2},
		{"64 goroutines, 10000 denied keys", "1/day", 64, 10_000, 1},
		{"64 goroutines, 1 key", "1000000/s", 64, 1, 1},
		{"64 goroutines, 1 key, 2 stores", "1000000/s", 64, 1, 2},
		{"64 goroutines, 1 key, 4 stores", "1000000/s", 64, 1, 4},
		{"64 goroutines, 1 key, 8 stores", "1000000/s", 64, 1, 8},
		{"64 goroutines, 100 keys, 4 stores", "1000000/s", 64, 100, 4},
	} {
		b.Run(c.name, func(b *testing.B) {
			server := memcachedtest.Start(b)
			stores := make([]*Store, c.stores)
			for i := range stores {
				stores[i] = open(b, server, b.Name())
			}
			limit := weir.MustParseLimit(c.limit)
			var next, busy atomic.Uint64
			b.SetParallelism((c.goroutines + 1) / 2)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				g := next.Add(1)
				if c.goroutines == 1 && g > 1 {
					return
				}
				store, x, out := stores[g%uint64(len(stores))], record.Mix(g), make([]weir.Decision, 1)
				for pb.Next() {
					x = record.Mix(x + 1)
					asks := []weir.Ask{{State: weir.StateKey{Rule: "bench", Key: fmt.Sprint(x % c.keys)}, Limit: limit, Cost: 1}}
					if err := store.Take(b.Context(), asks, out); errors.Is(err, weir.ErrBusy) {
						busy.Add(1)
					} else if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			var trips, lost int64
			for _, s := range stores {
				trips, lost = trips+s.Stats().Trips, lost+s.Stats().Lost
			}
			b.ReportMetric(float64(trips)/float64(b.N), "trips/op")
			b.ReportMetric(float64(busy.Load())/float64(b.N), "busy/op")
			b.ReportMetric(float64(lost)/float64(b.N), "lost/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
		})
	}
}

// BenchmarkTrip is the least that a decision by a plain counter could cost: one round
// trip by our own client, of which nothing is made.
func BenchmarkTrip(b *testing.B) {
	for _, c := range []struct {
		name   string
		keys   uint64
		stores int
	}{
		{"64 goroutines, 10000 keys", 10_000, 1},
		{"64 goroutines, 10000 keys, 2 stores", 10_000, 2},
		{"64 goroutines, 1 key", 1, 1},
		{"64 goroutines, 1 key, 4 stores", 1, 4},
	} {
		b.Run(c.name, func(b *testing.B) {
			server := memcachedtest.Start(b)
			stores := make([]*Store, c.stores)
			for i := range stores {
				stores[i] = open(b, server, b.Name())
			}
			var next atomic.Uint64
			b.SetParallelism(32)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				g := next.Add(1)
				s, x := stores[g%uint64(len(stores))], record.Mix(g)
				for pb.Next() {
					x = record.Mix(x + 1)
					name := s.name(weir.StateKey{Rule: "bench", Key: fmt.Sprint(x % c.keys)})
					conn, err := pick(s.cells.servers, name).open(s.cells)
					if err == nil {
						err = conn.do(newCall(command{verb: verbGet, key: name}))
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
		})
	}
}

// BenchmarkPlain is what clients do that have a connection for each caller and
// the classic commands: an incr that can only count, and a gets and cas.
func BenchmarkPlain(b *testing.B) {
	for _, c := range []struct {
		name string
		ask  func(c net.Conn, r *bufio.Reader, key string) error
	}{
		{"incr", plainIncr},
		{"gets and cas", plainCAS},
	} {
		for _, goroutines := range []int{1, 64} {
			b.Run(fmt.Sprintf("%s, %d goroutines", c.name, goroutines), func(b *testing.B) {
				server := memcachedtest.Start(b)
				var next atomic.Uint64
				b.SetParallelism((goroutines + 1) / 2)
				b.RunParallel(func(pb *testing.PB) {
					g := next.Add(1)
					if goroutines == 1 && g > 1 {
						return
					}
					var d net.Dialer
					conn, err := d.DialContext(b.Context(), "tcp", server.Addr)
					if err != nil {
						b.Error(err)
						return
					}
					defer conn.Close()
					r, x := bufio.NewReader(conn), record.Mix(g)
					for pb.Next() {
						x = record.Mix(x + 1)
						if err := c.ask(conn, r, fmt.Sprint("k", x%10_000)); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
			})
		}
	}
}

func plainAsk(c net.Conn, r *bufio.Reader, format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(c, format+"\r\n", args...); err != nil {
		return "", err
	}
	return r.ReadString('\n')
}

func plainIncr(c net.Conn, r *bufio.Reader, key string) error {
	answer, err := plainAsk(c, r, "incr %s 1", key)
	if err == nil && strings.HasPrefix(answer, "NOT_FOUND") {
		_, err = plainAsk(c, r, "add %s 0 60 1\r\n1", key)
	}
	return err
}

func plainCAS(c net.Conn, r *bufio.Reader, key string) error {
	const value = "a count and the text of its limit, in about as many bytes as Weir keeps of one"
	answer, err := plainAsk(c, r, "gets %s", key)
	if err != nil || answer == "END\r\n" {
		if err == nil {
			_, err = plainAsk(c, r, "add %s 0 60 %d\r\n%s", key, len(value), value)
		}
		return err
	}
	for range 2 {
		if _, err := r.ReadString('\n'); err != nil {
			return err
		}
	}
	fields := strings.Fields(answer)
	_, err = plainAsk(c, r, "cas %s 0 60 %d %s\r\n%s", key, len(value), fields[len(fields)-1], value)
	return err
}

// BenchmarkMemory is what memcached needs for a key in use, by algorithm, of a rule
// shop/user and a client's address: by its own account of items, and with the pages
// that it cuts into places for them. make bench-store-memory runs it.
func BenchmarkMemory(b *testing.B) {
	for _, limit := range []string{"100/day", "100/day leaky-queue", "100/day fixed-window", "100/day sliding-window", "100/day sliding-window 6", "100/day sliding-window 60"} {
		b.Run(limit, func(b *testing.B) {
			server := memcachedtest.Start(b, "-m", "1024")
			s := open(b, server, b.Name())
			const keys = 100_000
			l := weir.MustParseLimit(limit)
			for b.Loop() {
				var wg sync.WaitGroup
				for g := range 64 {
					wg.Go(func() {
						out := make([]weir.Decision, 1)
						for n := g; n < keys; n += 64 {
							key := fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)
							asks := []weir.Ask{{State: weir.StateKey{Rule: "shop/user#" + l.Algorithm().String(), Key: key}, Limit: l, Cost: 1}}
							if err := s.Take(b.Context(), asks, out); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			}
			st := s.Status(b.Context())[0]
			var pages float64
			for line := range strings.Lines(server.Ask(b, "stats slabs")) {
				if n, _ := fmt.Sscanf(line, "STAT total_malloced %f", &pages); n == 1 {
					break
				}
			}
			b.ReportMetric(float64(st.Bytes)/float64(st.Items), "B/item")
			b.ReportMetric(pages/float64(st.Items), "B/key")
		})
	}
}

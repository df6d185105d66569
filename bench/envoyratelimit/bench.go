package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// The size of a measurement.
const (
	benchKeys   = 10_000
	benchFlight = 64 // calls in flight
	benchConns  = 4
	benchRounds = 3
	benchWarm   = 500 * time.Millisecond
	benchTime   = 3 * time.Second
)

// measured is one server in one round, or the medians of all rounds.
type measured struct {
	Server string  `json:"server"`
	Rate   float64 `json:"calls_per_second"`
	CPU    float64 `json:"server_cpu_us_per_call"`
	Store  float64 `json:"redis_cpu_us_per_call"`
	P50    float64 `json:"p50_us"`
	P99    float64 `json:"p99_us"`
}

// bench measures both by turns, in the same run: all calls are allowed.
func (c *comparison) bench(ctx context.Context) error {
	const rules = "domain: bench\ndescriptors:\n  - key: user\n    rate_limit: {unit: hour, requests_per_unit: 1000000000}\n"
	if err := c.servers.load(ctx, map[string]string{"bench.yaml": rules}); err != nil {
		return err
	}
	s := c.servers
	var peer, ours []measured
	for round := range benchRounds {
		turns := []func() error{
			func() error { return measureInto(ctx, &peer, s.peer, s.peerRun, s.redis) },
			func() error { return measureInto(ctx, &ours, s.ours, s.oursRun, s.redis) },
		}
		if round%2 == 1 {
			slices.Reverse(turns)
		}
		for _, turn := range turns {
			if err := turn(); err != nil {
				return err
			}
		}
	}
	c.result.Measured = []measured{median(peer), median(ours)}
	return nil
}

func measureInto(ctx context.Context, into *[]measured, c *client, server, store *process) error {
	m, err := measure(ctx, c, server, store)
	*into = append(*into, m)
	return err
}

func measure(ctx context.Context, c *client, server, store *process) (measured, error) {
	if _, err := load(ctx, c, benchWarm); err != nil {
		return measured{}, err
	}
	cpu, err := cpuOf(server, store)
	if err != nil {
		return measured{}, err
	}
	took, err := load(ctx, c, benchTime)
	if err != nil {
		return measured{}, err
	}
	after, err := cpuOf(server, store)
	calls := float64(len(took))
	slices.Sort(took)
	return measured{
		Server: c.name, Rate: calls / benchTime.Seconds(),
		CPU:   micros(after[0]-cpu[0]) / calls,
		Store: micros(after[1]-cpu[1]) / calls,
		P50:   micros(took[len(took)/2]), P99: micros(took[len(took)*99/100]),
	}, err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// load keeps calls in flight for a time, and gives how long each took.
func load(ctx context.Context, c *client, length time.Duration) ([]time.Duration, error) {
	var conns []rls.RateLimitServiceClient
	for range benchConns {
		conn, err := grpc.NewClient(c.conn.Target(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, err
		}
		defer conn.Close() // its calls were answered
		conns = append(conns, rls.NewRateLimitServiceClient(conn))
	}
	var wg sync.WaitGroup
	took, errs := make([][]time.Duration, benchFlight), make([]error, benchFlight)
	end := time.Now().Add(length)
	for i := range benchFlight {
		wg.Go(func() {
			took[i], errs[i] = caller(ctx, conns[i%benchConns], i, end)
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("measure %s: %w", c.name, err)
		}
	}
	return slices.Concat(took...), nil
}

func caller(ctx context.Context, c rls.RateLimitServiceClient, i int, end time.Time) ([]time.Duration, error) {
	var took []time.Duration
	for n := i; ; n += benchFlight {
		q := &rls.RateLimitRequest{Domain: "bench", Descriptors: []*ratelimit.RateLimitDescriptor{
			{Entries: []*entry{{Key: "user", Value: strconv.Itoa(n % benchKeys)}}},
		}}
		begin := time.Now()
		if begin.After(end) {
			return took, nil
		}
		r, err := c.ShouldRateLimit(ctx, q)
		if err != nil {
			return took, err
		}
		if r.GetOverallCode() != rls.RateLimitResponse_OK {
			return took, fmt.Errorf("a call was answered with %v", r.GetOverallCode())
		}
		took = append(took, time.Since(begin))
	}
}

// cpuOf is the processor time of processes, in the system's hundredths.
func cpuOf(processes ...*process) ([]time.Duration, error) {
	var all []time.Duration
	for _, p := range processes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			return nil, err
		}
		// The name, in brackets, may have spaces; the times are the 12th and 13th words after it.
		words := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		var ticks int64
		for _, word := range words[11:13] {
			n, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return nil, err
			}
			ticks += n
		}
		all = append(all, time.Duration(ticks)*10*time.Millisecond)
	}
	return all, nil
}

func median(rounds []measured) measured {
	of := func(field func(*measured) float64) float64 {
		var all []float64
		for i := range rounds {
			all = append(all, field(&rounds[i]))
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return measured{
		Server: rounds[0].Server,
		Rate:   of(func(m *measured) float64 { return m.Rate }),
		CPU:    of(func(m *measured) float64 { return m.CPU }),
		Store:  of(func(m *measured) float64 { return m.Store }),
		P50:    of(func(m *measured) float64 { return m.P50 }),
		P99:    of(func(m *measured) float64 { return m.P99 }),
	}
}

// printMeasured prints the measurement, as text or JSON.
func (r *result) printMeasured(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := fmt.Fprintf(w, "gRPC ShouldRateLimit, one descriptor, %d keys, %d calls in flight, %d rounds of %v, medians; %d cores, client and servers together\n\n"+
		"| server | calls/s | p50 µs | p99 µs | CPU µs a call | Redis's CPU µs a call |\n|---|---|---|---|---|---|\n",
		benchKeys, benchFlight, benchRounds, benchTime, runtime.NumCPU())
	for _, m := range r.Measured {
		name, store := m.Server+" (memory)", "–"
		if m.Server != "weir" {
			name, store = m.Server+" "+r.Peer+" + Redis", fmt.Sprintf("%.1f", m.Store)
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "| %s | %.0f | %.0f | %.0f | %.1f | %s |\n", name, m.Rate, m.P50, m.P99, m.CPU, store)
		}
	}
	return err
}

package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/bench/internal/table"
	"github.com/weir-limit/weir/bench/internal/traffic"
)

// throttle compares CL.THROTTLE with INCR of a Redis server, both asked by Redis's own generator of load on as many
// connections, with so many commands sent at once.
func (b *bench) throttle(ctx context.Context) error {
	at, stop, err := startRedis(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, row := range []struct {
		pipeline int
		target   *table.Target
	}{{1, table.AtLeast(0.95)}, {16, table.AtLeast(0.9)}} {
		ask := func(address string, command ...string) side {
			return func(last time.Duration) ([]float64, error) {
				// At the rate that is aimed at, the time is about that of other rows.
				n := int(last.Seconds() * 100_000 * float64(min(row.pipeline, 8)))
				rate, err := redisBenchmark(ctx, address, row.pipeline, n, command...)
				return []float64{rate}, err
			}
		}
		all, err := b.compare([2]side{
			ask(b.weir.Addresses["resp"], "CL.THROTTLE", "user:__rand_int__", "1000000", "1000000", "1"), ask(at, "INCR", "user:__rand_int__"),
		})
		if err != nil {
			return err
		}
		b.table.Compare(fmt.Sprintf("CL.THROTTLE beside INCR of redis-server, pipeline %d: commands/s", row.pipeline), "", all[0][0], all[1][0], row.target)
	}
	return nil
}

// startRedis starts a server that keeps nothing on disk, until stop or the end of ctx.
func startRedis(ctx context.Context) (address string, stop func(), err error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return "", nil, errors.New("no redis-server: apt-get install redis-server redis-tools")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	address = l.Addr().String()
	if err := l.Close(); err != nil {
		return "", nil, err
	}
	_, port, _ := net.SplitHostPort(address) // it is one
	command := exec.CommandContext(ctx, path, "--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no")
	if err := command.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = command.Process.Kill() // it may have ended
		_ = command.Wait()         // it was killed
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := net.Dial("tcp", address)
		if err == nil {
			return address, stop, c.Close()
		}
		if time.Now().After(end) {
			stop()
			return "", nil, fmt.Errorf("redis-server does not answer: %w", err)
		}
	}
}

// redisBenchmark is how many commands a second a server answers to redis-benchmark.
func redisBenchmark(ctx context.Context, address string, pipeline, n int, command ...string) (float64, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	args := append([]string{
		"-h", host, "-p", port, "-c", "50", "-n", strconv.Itoa(n), "-P", strconv.Itoa(pipeline), "-r", strconv.Itoa(traffic.Keys), "--csv",
	}, command...)
	ctx, cancel := context.WithTimeout(ctx, time.Minute) // it waits for ever where nobody listens
	defer cancel()
	out, err := exec.CommandContext(ctx, "redis-benchmark", args...).Output() // it warns of a server without CONFIG, elsewhere
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w: %s", err, out)
	}
	lines, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(lines) != 2 || len(lines[1]) < 2 {
		return 0, fmt.Errorf("redis-benchmark says %q, which is no line of figures", out)
	}
	return strconv.ParseFloat(lines[1][1], 64)
}

package e2e

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// costs also measures what attacks cost, which needs the machine to itself: make bench-floods.
var costs = flag.Bool("costs", false, "measure what attacks on the gRPC listener cost")

const (
	// floodPace is how many bytes an attacker sends a second, and floodTime for how long. It connects again when it is
	// sent away, or when it can't write for floodPatience.
	floodPace     = 8 << 20
	floodTime     = 3 * time.Second
	floodPatience = 50 * time.Millisecond
)

// cost is what a flood cost.
type cost struct {
	bytes, connections int
	processor          time.Duration // of the daemon
	others             time.Duration // what 99 of 100 calls of another client took at most
}

// each is the processor's time for a KiB, beyond that of a daemon that is not attacked.
func (c cost) each(quiet cost) float64 {
	return float64((c.processor - quiet.processor).Microseconds()) / (float64(c.bytes) / 1024)
}

// TestAttackCosts prints what each attack costs the daemon's processor beside calls of as many bytes, and other
// clients beside a daemon that is left alone. × calls* is beside calls on as many connections: to connect costs
// more than most of what an attacker may send on a connection.
func TestAttackCosts(t *testing.T) {
	if !*costs {
		t.Skip("a test of times: make bench-floods")
	}
	d := edge(t)
	calls := &attack{each: func(a *attacker, id uint32) { a.asks(id, a.small) }}
	floods(t, d, calls, 1<<20) // to warm up
	quiet, one := floods(t, d, nil, 0), floods(t, d, calls, floodPace)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(number, name string, c, same cost) {
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%d\t%.1f\t%.2f\t%.2f\t%.2f\t%.1f\t%.1f\t\n",
			number, name, float64(c.bytes)/(1<<20), c.connections, c.each(quiet), c.each(quiet)/one.each(quiet), c.each(quiet)/same.each(quiet),
			c.others.Seconds()*1e3, c.others.Seconds()/quiet.others.Seconds(), c.others.Seconds()/same.others.Seconds())
	}
	fmt.Fprintln(w, "attack\t\tMiB\tconnections\tµs a KiB\t× calls\t× calls*\tp99 of others, ms\t× quiet\t× calls*\t")
	fmt.Fprintf(w, "–\tnone\t\t\t\t\t\t%.2f\t1.0\t\t\n", quiet.others.Seconds()*1e3)
	row("–", "calls", one, one)
	for i := range attacks {
		k := &attacks[i]
		if k.each == nil {
			continue // it waits, and sends next to nothing
		}
		c := floods(t, d, k, 1<<40)
		row(k.number, k.name, c, floods(t, d, calls, max(c.bytes/c.connections, 1<<10)))
	}
	if err := w.Flush(); err != nil {
		t.Error(err)
	}
}

// floods sends an attack for floodTime, up to so many bytes on a connection; nil: nothing.
func floods(t *testing.T, d *daemon, k *attack, most int) (c cost) {
	t.Helper()
	const processor = "process_cpu_seconds_total"
	before := d.metric(t, processor)
	over, stop := context.WithTimeout(t.Context(), floodTime)
	defer stop()
	took := make(chan []time.Duration)
	go func() { took <- timed(over, t, d) }()
	for begun := time.Now(); k != nil && over.Err() == nil; c.connections++ {
		a := attackAt(t, d.grpc, k.deaf)
		c.bytes += a.flood(k, func(sent int) bool {
			time.Sleep(time.Until(begun.Add(time.Duration(c.bytes+sent) * time.Second / floodPace)))
			_ = a.SetWriteDeadline(time.Now().Add(floodPatience)) // if it fails, so does the next write
			return sent < most && over.Err() == nil
		})
		if !k.deaf {
			a.settles(t)
		}
		a.closes()
	}
	all := <-took
	slices.Sort(all)
	c.others = all[len(all)*99/100]
	c.processor = time.Duration((d.metric(t, processor) - before) * float64(time.Second))
	return c
}

// timed makes a call each millisecond until over ends, and says how long each took.
func timed(over context.Context, t *testing.T, d *daemon) (all []time.Duration) {
	conn, err := grpc.NewClient(d.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Error(err)
		return nil
	}
	defer conn.Close()
	stub := rls.NewRateLimitServiceClient(conn)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ; over.Err() == nil; <-tick.C {
		begun := time.Now()
		if _, err := stub.ShouldRateLimit(t.Context(), unlimited()); err == nil { // it may be refused: the machine is busy
			all = append(all, time.Since(begun))
		}
	}
	return all
}

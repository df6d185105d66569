package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/weir-limit/weir/bench/internal/load"
	"github.com/weir-limit/weir/bench/internal/server"
	"github.com/weir-limit/weir/bench/internal/table"
	"github.com/weir-limit/weir/bench/internal/traffic"
)

// bench is one run.
type bench struct {
	short        bool
	old          bool // beside is an older program of the daemon, not a no-op server
	weir, beside *server.Process
	table        *table.Table
}

// atMost is the target of a row: at most so much beside a no-op server. A
// program may cost 5 % more than an older one.
func (b *bench) atMost(ratio float64) *table.Target {
	if b.old {
		return table.AtMost(1.05)
	}
	return table.AtMost(ratio)
}

// atLeast is the target of a rate.
func (b *bench) atLeast(ratio float64) *table.Target {
	if b.old {
		return table.AtLeast(0.95)
	}
	return table.AtLeast(ratio)
}

// rounds is how often each side is measured, and how long.
func (b *bench) rounds() (int, time.Duration) {
	if b.short {
		return 3, 500 * time.Millisecond
	}
	return 9, 1500 * time.Millisecond
}

func (b *bench) run() error {
	one, err := traffic.GRPC(1)
	if err != nil {
		return err
	}
	three, err := traffic.GRPC(3)
	if err != nil {
		return err
	}
	for _, inFlight := range []int{64, 256} {
		if err := b.grpc(inFlight, one); err != nil {
			return err
		}
	}
	if err := b.steady(one); err != nil {
		return err
	}
	if err := b.check(traffic.Check()); err != nil {
		return err
	}
	if err := b.descriptors(one, three); err != nil {
		return err
	}
	return b.match()
}

// side measures one server once, and says each number of it.
type side func(last time.Duration) ([]float64, error)

func (b *bench) compare(sides [2]side) ([2][][]float64, error) {
	rounds, last := b.rounds()
	return compare(rounds, last, sides)
}

// compare measures both sides by turns, AB BA AB …, and returns the numbers of
// each by kind: [side][kind][round].
func compare(rounds int, last time.Duration, sides [2]side) ([2][][]float64, error) {
	var all [2][][]float64
	for round := range rounds + 1 {
		for turn := range 2 {
			i := (round + turn) % 2
			numbers, err := sides[i](last)
			if err != nil {
				return all, err
			}
			if round == 0 {
				all[i] = make([][]float64, len(numbers))
				continue // to warm up
			}
			for kind, n := range numbers {
				all[i][kind] = append(all[i][kind], n)
			}
		}
	}
	return all, nil
}

// cost runs a load and returns calls per second, and the server's CPU time of a
// call in microseconds.
func cost(p *server.Process, run func() (*load.Result, error)) ([]float64, error) {
	before, err := p.CPU()
	if err != nil {
		return nil, err
	}
	r, err := run()
	if err != nil {
		return nil, err
	}
	after, err := p.CPU()
	if err != nil {
		return nil, err
	}
	if r.Refused > 0 {
		return nil, fmt.Errorf("%d of %d calls were refused", r.Refused, r.Refused+r.Answered)
	}
	return []float64{r.Rate(), float64(after-before) / float64(time.Microsecond) / float64(r.Answered)}, nil
}

func closedGRPC(p *server.Process, inFlight int, bodies [][]byte) side {
	return func(last time.Duration) ([]float64, error) {
		return cost(p, func() (*load.Result, error) {
			return load.ClosedH2(p.Addresses["grpc"], load.Connections, inFlight, bodies, last)
		})
	}
}

func (b *bench) grpc(inFlight int, bodies [][]byte) error {
	all, err := b.compare([2]side{closedGRPC(b.weir, inFlight, bodies), closedGRPC(b.beside, inFlight, bodies)})
	if err != nil {
		return err
	}
	b.table.Compare(fmt.Sprintf("gRPC, %d in flight: CPU of a call", inFlight), "µs", all[0][1], all[1][1], b.atMost(1.25))
	b.table.Compare(fmt.Sprintf("gRPC, %d in flight: calls/s", inFlight), "", all[0][0], all[1][0], nil)
	return nil
}

// steadyRate is calls per second of the load that comes steadily.
const steadyRate = 8000

// steadyRounds are more than elsewhere: of 16,000 calls 16 make the tail, and the
// machine's own hiccups are as long as it.
func (b *bench) steadyRounds() int {
	if b.short {
		return 7
	}
	return 31
}

func (b *bench) steady(bodies [][]byte) error {
	open := func(p *server.Process) side {
		return func(last time.Duration) ([]float64, error) {
			o := load.Open{Address: p.Addresses["grpc"], Connections: load.Connections, Rate: steadyRate, Bodies: bodies, Last: last}
			t, err := o.H2()
			if err != nil {
				return nil, err
			}
			slices.Sort(t.Latencies)
			return []float64{micro(quantile(t.Latencies, 0.5)), micro(quantile(t.Latencies, 0.99)), micro(quantile(t.Latencies, 0.999))}, nil
		}
	}
	all, err := compare(b.steadyRounds(), 2*time.Second, [2]side{open(b.weir), open(b.beside)})
	if err != nil {
		return err
	}
	for kind, name := range []string{"p50", "p99", "p99.9"} {
		var t *table.Target
		if name == "p99.9" {
			t = b.atMost(1.2)
		}
		b.table.Compare("gRPC, 8,000 calls/s: "+name, "µs", all[0][kind], all[1][kind], t)
	}
	return nil
}

func (b *bench) check(requests [][]byte) error {
	closed := func(p *server.Process) side {
		return func(last time.Duration) ([]float64, error) {
			return cost(p, func() (*load.Result, error) { return load.ClosedH1(p.Addresses["http"], 64, requests, last) })
		}
	}
	all, err := b.compare([2]side{closed(b.weir), closed(b.beside)})
	if err != nil {
		return err
	}
	b.table.Compare("/v1/check, 64 in flight: requests/s", "", all[0][0], all[1][0], b.atLeast(0.8))
	b.table.Compare("/v1/check, 64 in flight: CPU of a request", "µs", all[0][1], all[1][1], nil)
	return nil
}

func (b *bench) descriptors(one, three [][]byte) error {
	all, err := b.compare([2]side{closedGRPC(b.weir, 64, three), closedGRPC(b.weir, 64, one)})
	if err != nil {
		return err
	}
	b.table.Compare("three descriptors beside one: CPU of a call", "µs", all[0][1], all[1][1], table.AtMost(1.5))
	return nil
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// quantile is of sorted times.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

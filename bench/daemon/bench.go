package main

import (
	"context"
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
	store        string
	weir, beside *server.Process
	table        *table.Table
}

// target is that of a row beside a no-op server. A program may cost 5 % more than an older
// one.
func (b *bench) target(beside *table.Target) *table.Target {
	if b.old {
		return table.AtMost(1.05)
	}
	return beside
}

// rate is the target of a rate beside an older program.
func (b *bench) rate() *table.Target {
	if b.old {
		return table.AtLeast(0.95)
	}
	return nil
}

// rounds is how often each side is measured, and how long.
func (b *bench) rounds() (int, time.Duration) {
	if b.short {
		return 3, 500 * time.Millisecond
	}
	return 9, 1500 * time.Millisecond
}

func (b *bench) run(ctx context.Context) error {
	one, err := traffic.GRPC(1)
	if err != nil {
		return err
	}
	three, err := traffic.GRPC(3)
	if err != nil {
		return err
	}
	for _, row := range []struct {
		inFlight int
		target   *table.Target
	}{{64, table.AtMost(0.25).And(2.2)}, {256, table.AtMost(0.25).And(1.6)}} {
		if err := b.grpc(row.inFlight, one, row.target); err != nil {
			return err
		}
	}
	for _, measure := range []func(one [][]byte) error{b.stock, b.alone, b.steady, b.traced} {
		if err := measure(one); err != nil {
			return err
		}
	}
	if err := b.descriptors(one, three); err != nil {
		return err
	}
	if err := b.http("/v1/check", traffic.Check(), table.AtMost(0.4).And(9)); err != nil {
		return err
	}
	if err := b.http("/auth", traffic.Auth(), table.AtMost(1).And(7)); err != nil {
		return err
	}
	if err := b.throttle(ctx); err != nil {
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

// closed is a side that gRPC calls ask.
func closed(p *server.Process, l load.Closed) side {
	return func(last time.Duration) ([]float64, error) {
		l.Address, l.Last = p.Addresses["grpc"], last
		return cost(p, l.H2)
	}
}

func (b *bench) grpc(inFlight int, bodies [][]byte, beside *table.Target) error {
	l := load.Closed{InFlight: inFlight, Bodies: bodies}
	all, err := b.compare([2]side{closed(b.weir, l), closed(b.beside, l)})
	if err != nil {
		return err
	}
	b.table.Compare(fmt.Sprintf("gRPC, %d in flight: CPU of a call", inFlight), "µs", all[0][1], all[1][1], b.target(beside))
	b.table.Compare(fmt.Sprintf("gRPC, %d in flight: calls/s", inFlight), "", all[0][0], all[1][0], b.rate())
	return nil
}

// stock measures calls of grpc-go's own client, which takes most of the processors itself.
func (b *bench) stock(bodies [][]byte) error {
	ask := func(p *server.Process) side {
		return func(last time.Duration) ([]float64, error) {
			return cost(p, load.Closed{Address: p.Addresses["grpc"], InFlight: 256, Bodies: bodies, Last: last}.Stock)
		}
	}
	all, err := b.compare([2]side{ask(b.weir), ask(b.beside)})
	if err != nil {
		return err
	}
	b.table.Compare("grpc-go's client, 256 in flight: calls/s", "", all[0][0], all[1][0], b.rate())
	return nil
}

// alone measures how long a call takes when there is no other.
func (b *bench) alone(bodies [][]byte) error {
	ask := func(p *server.Process) side {
		return func(last time.Duration) ([]float64, error) {
			r, err := load.Closed{Address: p.Addresses["grpc"], Connections: 1, InFlight: 1, Bodies: bodies, Last: last}.H2()
			if err != nil {
				return nil, err
			}
			slices.Sort(r.Latencies)
			return []float64{micro(quantile(r.Latencies, 0.5))}, nil
		}
	}
	all, err := b.compare([2]side{ask(b.weir), ask(b.beside)})
	if err != nil {
		return err
	}
	b.table.Compare("gRPC, one call alone: p50", "µs", all[0][0], all[1][0], b.target(nil))
	return nil
}

// traceCost is what a traceparent in each call may cost, in microseconds.
const traceCost = 0.35

// traced measures what it costs to read another header in each call.
func (b *bench) traced(bodies [][]byte) error {
	plain, traced := load.Closed{InFlight: 64, Bodies: bodies}, load.Closed{InFlight: 64, Bodies: bodies, Traced: true}
	all, err := b.compare([2]side{closed(b.weir, traced), closed(b.weir, plain)})
	if err != nil {
		return err
	}
	more := make([]float64, len(all[0][1]))
	for i := range more {
		more[i] = all[0][1][i] - all[1][1][i]
	}
	b.table.Rows = append(b.table.Rows, table.Row{
		What: "a traceparent in each call beside none: CPU of a call", Weir: table.Spread(all[0][1], "µs"), Beside: table.Spread(all[1][1], "µs"),
		Measured: fmt.Sprintf("%+.2f µs", table.Median(more)), Target: fmt.Sprintf("≤ +%.2f µs", traceCost),
		Verdict: table.AtMost(traceCost).Verdict(table.Median(more)),
	})
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
			t = b.target(table.AtMost(1.2))
		}
		b.table.Compare("gRPC, 8,000 calls/s: "+name, "µs", all[0][kind], all[1][kind], t)
	}
	return nil
}

func (b *bench) http(path string, requests [][]byte, beside *table.Target) error {
	ask := func(p *server.Process) side {
		return func(last time.Duration) ([]float64, error) {
			return cost(p, func() (*load.Result, error) { return load.ClosedH1(p.Addresses["http"], 64, requests, last) })
		}
	}
	all, err := b.compare([2]side{ask(b.weir), ask(b.beside)})
	if err != nil {
		return err
	}
	b.table.Compare(path+", 64 in flight: CPU of a request", "µs", all[0][1], all[1][1], b.target(beside))
	b.table.Compare(path+", 64 in flight: requests/s", "", all[0][0], all[1][0], b.rate())
	return nil
}

func (b *bench) descriptors(one, three [][]byte) error {
	all, err := b.compare([2]side{
		closed(b.weir, load.Closed{InFlight: 64, Bodies: three}), closed(b.weir, load.Closed{InFlight: 64, Bodies: one}),
	})
	if err != nil {
		return err
	}
	b.table.Compare("three descriptors beside one: CPU of a call", "µs", all[0][1], all[1][1], table.AtMost(1.5).And(3.2))
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

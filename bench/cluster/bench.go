package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/weir-limit/weir/bench/internal/load"
	"github.com/weir-limit/weir/bench/internal/server"
	"github.com/weir-limit/weir/bench/internal/table"
	"github.com/weir-limit/weir/bench/internal/traffic"
)

const (
	nodes = 3
	// connections and inFlight are of each side: the nodes share them.
	connections = nodes * load.Connections
	inFlight    = nodes * 64
)

// bench is one run.
type bench struct {
	rounds             int
	last, first        time.Duration
	nodes, noop, alone side
	table              *table.Table
}

// side is servers that are asked by turns, each as much as the others.
type side []*server.Process

// use is what a side did in one round.
type use struct {
	calls, seconds, cpu float64 // microseconds
}

// ask has a server asked for a while, as the i-th of n of its side.
type ask func(p *server.Process, i, n int, last time.Duration) (*load.Result, error)

// turned is requests from another one on, so that servers are not all asked about the same.
func turned(requests [][]byte, i, n int) [][]byte {
	from := i * len(requests) / n
	return append(append([][]byte(nil), requests[from:]...), requests[:from]...)
}

func grpc(bodies [][]byte) ask {
	return func(p *server.Process, i, n int, last time.Duration) (*load.Result, error) {
		return load.Closed{Address: p.Addresses["grpc"], Connections: connections / n, InFlight: inFlight / n, Bodies: turned(bodies, i, n), Last: last}.H2()
	}
}

func http1(requests [][]byte) ask {
	return func(p *server.Process, i, n int, last time.Duration) (*load.Result, error) {
		return load.ClosedH1(p.Addresses["http"], inFlight/n, turned(requests, i, n), last)
	}
}

func (b *bench) run() error {
	one, err := traffic.GRPC(1)
	if err != nil {
		return err
	}
	before, err := b.traffic()
	if err != nil {
		return err
	}
	calls := 0.0
	for _, r := range []row{
		{"gRPC, beside a no-op grpc-go server", grpc(one), b.noop, 1.6, b.rounds, b.last},
		{"gRPC, beside one node on memory:", grpc(one), b.alone, 1.5, b.rounds, b.last},
		{"HTTP, beside one node on memory:", http1(traffic.Check()), b.alone, 1.5, b.rounds, b.last},
		{fmt.Sprintf("HTTP, the first %v of new keys, beside one node on memory:", b.first), http1(traffic.Fresh()), b.alone, 1.5, 0, b.first},
	} {
		n, err := b.compare(&r)
		if err != nil {
			return err
		}
		calls += n
	}
	after, err := b.traffic()
	if err != nil {
		return err
	}
	if unanswered := after.unanswered - before.unanswered; unanswered > calls/1000 {
		return fmt.Errorf("%.0f of %.0f takes were not answered by their owners: what was measured is denials", unanswered, calls)
	}
	b.table.Rows = append(b.table.Rows,
		table.Row{What: "messages of a decision, over all nodes", Weir: fmt.Sprintf("%.2f", (after.messages-before.messages)/calls)},
		table.Row{What: "packets of a decision, over all nodes", Weir: fmt.Sprintf("%.2f", (after.packets-before.packets)/calls)},
	)
	return nil
}

// row is one comparison of the nodes with servers beside them.
type row struct {
	what   string
	ask    ask
	beside side
	most   float64 // the ratio that is aimed at
	rounds int     // beside one to warm up; 0: that one is measured
	last   time.Duration
}

// compare measures the nodes and servers beside them by turns, and is how many calls the nodes had.
func (b *bench) compare(r *row) (calls float64, err error) {
	var rate, cpu [2][]float64
	for round := range r.rounds + 1 {
		for turn := range 2 {
			i := (round + turn) % 2
			u, err := [2]side{b.nodes, r.beside}[i].measure(r.ask, r.last)
			if err != nil {
				return 0, err
			}
			if i == 0 {
				calls += u.calls
			}
			if round > 0 || r.rounds == 0 {
				rate[i], cpu[i] = append(rate[i], u.calls/u.seconds), append(cpu[i], u.cpu/u.calls)
			}
		}
	}
	b.table.Compare(fmt.Sprintf("%d nodes, %d keys, any node asked by %s: CPU of a decision, over all nodes", nodes, traffic.Keys, r.what), "µs", cpu[0], cpu[1], table.AtMost(r.most))
	b.table.Compare("decisions/s", "", rate[0], rate[1], nil)
	return calls, nil
}

// measure asks all servers of a side at a time, and adds up what they did.
func (s side) measure(ask ask, last time.Duration) (use, error) {
	before, err := s.cpu()
	if err != nil {
		return use{}, err
	}
	type outcome struct {
		*load.Result
		error
	}
	outcomes := make(chan outcome)
	for i, p := range s {
		go func() {
			r, err := ask(p, i, len(s), last)
			outcomes <- outcome{r, err}
		}()
	}
	u := use{}
	for range s {
		switch o := <-outcomes; {
		case o.error != nil:
			err = o.error
		case o.Refused > 0:
			err = fmt.Errorf("%d of %d calls were refused", o.Refused, o.Refused+o.Answered)
		default:
			u.calls, u.seconds = u.calls+float64(o.Answered), max(u.seconds, o.Took.Seconds())
		}
	}
	if err != nil {
		return use{}, err
	}
	after, err := s.cpu()
	u.cpu = float64(after-before) / float64(time.Microsecond)
	return u, err
}

// cpu is the time that all servers of a side have used.
func (s side) cpu() (all time.Duration, err error) {
	for _, p := range s {
		used, err := p.CPU()
		if err != nil {
			return 0, err
		}
		all += used
	}
	return all, nil
}

// sent is what nodes have said to each other since their start.
type sent struct{ messages, packets, unanswered float64 }

func (b *bench) traffic() (all sent, err error) {
	for _, p := range b.nodes {
		s, err := status(p)
		if err != nil {
			return sent{}, err
		}
		all.messages += float64(s.Out.Messages)
		all.packets += float64(s.Out.Packets)
		all.unanswered += float64(s.Takes.Unanswered)
	}
	return all, nil
}

// standing is what GET /v1/cluster tells, as far as it is of use here.
type standing struct {
	Settled bool       `json:"settled"`
	Members []struct{} `json:"members"`
	Takes   struct {
		Unanswered int64 `json:"unanswered"`
	} `json:"takes"`
	Out struct {
		Packets  int64 `json:"packets"`
		Messages int64 `json:"messages"`
	} `json:"out"`
}

func status(p *server.Process) (s standing, err error) {
	r, err := http.Get("http://" + p.Addresses["admin"] + "/v1/cluster")
	if err != nil {
		return s, err
	}
	defer r.Body.Close()
	return s, json.NewDecoder(r.Body).Decode(&s)
}

// settled waits until all nodes are members to each, and decide.
func (b *bench) settled(ctx context.Context) error {
	for range 100 {
		ready := 0
		for _, p := range b.nodes {
			s, err := status(p)
			if err != nil {
				return err
			}
			if s.Settled && len(s.Members) == nodes {
				ready++
			}
		}
		if ready == nodes {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return errors.New("the nodes did not meet within 10 s")
}

// freePort is an address that nobody listens at.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

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
	rounds      int
	last        time.Duration
	nodes, noop side
	table       *table.Table
}

// side is servers that are asked by turns, each as much as the others.
type side []*server.Process

// use is what a side did in one round.
type use struct {
	calls, seconds, cpu float64 // microseconds
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
	var rate, cpu [2][]float64
	calls := 0.0
	for round := range b.rounds + 1 {
		for turn := range 2 {
			i := (round + turn) % 2
			u, err := [2]side{b.nodes, b.noop}[i].measure(one, b.last)
			if err != nil {
				return err
			}
			if i == 0 {
				calls += u.calls
			}
			if round > 0 { // the first is to warm up
				rate[i], cpu[i] = append(rate[i], u.calls/u.seconds), append(cpu[i], u.cpu/u.calls)
			}
		}
	}
	b.table.Compare(fmt.Sprintf("%d nodes, %d keys, any node asked: CPU of a decision, over all nodes", nodes, traffic.Keys), "µs", cpu[0], cpu[1], table.AtMost(1.6))
	b.table.Compare("decisions/s", "", rate[0], rate[1], nil)
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

// measure asks all servers of a side at a time, and adds up what they did.
func (s side) measure(bodies [][]byte, last time.Duration) (use, error) {
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
			from := i * len(bodies) / len(s) // so that they are not all asked about the same
			turned := append(append([][]byte(nil), bodies[from:]...), bodies[:from]...)
			r, err := load.Closed{Address: p.Addresses["grpc"], Connections: connections / len(s), InFlight: inFlight / len(s), Bodies: turned, Last: last}.H2()
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

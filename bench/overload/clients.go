//go:build linux

package main

import (
	"slices"
	"time"

	"github.com/weir-limit/weir/bench/internal/load"
	"github.com/weir-limit/weir/bench/internal/server"
	"github.com/weir-limit/weir/bench/internal/traffic"
)

// deadline is when Envoy gives up a call, unless it is told otherwise. A later answer is no
// goodput.
const deadline = 20 * time.Millisecond

// impatience is how long a call waits for a free stream or connection, where it
// does not wait until its deadline.
const impatience = 2 * time.Millisecond

// group is clients of a door by so many connections.
type group struct {
	door        string
	connections int
	inFlight    []int // of closed loops: one of them shows what the door can do
	closed      func(inFlight int, last time.Duration, counting func()) (*load.Result, error)
	open        []load.Open
	run         func(*load.Open) (*load.Tally, error)
}

// clients are all groups. The more connections, the less is read and written at
// once: so each group has its own measure of what can be done.
func clients(p *server.Process) ([]group, error) {
	bodies, err := traffic.GRPC(3)
	if err != nil {
		return nil, err
	}
	var all []group
	for _, connections := range []int{4, 32, 256} {
		all = append(all, callers(p.Addresses["grpc"], connections, bodies))
	}
	at, requests := p.Addresses["http"], traffic.Check()
	return append(all, askers(at, 256, requests, 0), askers(at, 2048, requests, time.Second, 100*time.Millisecond)), nil
}

// callers are clients of the gRPC door: those that give up soon when they have no
// stream, as with Envoy's circuit breakers, and those that queue until the
// deadline.
func callers(at string, connections int, bodies [][]byte) group {
	g := group{door: "grpc", connections: connections, run: (*load.Open).H2, inFlight: []int{64, 128, 256, 512}}
	g.inFlight = slices.DeleteFunc(g.inFlight, func(n int) bool { return n < connections })
	g.closed = func(n int, last time.Duration, counting func()) (*load.Result, error) {
		counting()
		return load.Closed{Address: at, Connections: connections, InFlight: n, Bodies: bodies, Last: last}.H2()
	}
	for _, patience := range []time.Duration{impatience, deadline} {
		g.open = append(g.open, load.Open{Address: at, Connections: connections, Deadline: deadline, Patience: patience, Bodies: bodies})
	}
	return g
}

// seats are as many HTTP connections as a processor is sure to serve.
const seats = 256

// askers are clients of the HTTP door, by how long they rest when a connection
// has failed. A closed loop is one where nobody gives up; it has no more
// connections than are served under overload, and no fewer, as a call costs a
// quarter less on 32.
func askers(at string, connections int, requests [][]byte, rests ...time.Duration) group {
	g := group{door: "http", connections: connections, run: (*load.Open).H1, inFlight: []int{min(connections, seats)}}
	g.closed = func(n int, last time.Duration, counting func()) (*load.Result, error) {
		const endless = 1e6 // calls a second
		o := load.Open{Address: at, Connections: n, Rate: endless, Patience: impatience, Bodies: requests, Last: last, Counting: counting}
		t, err := o.H1()
		if err != nil {
			return nil, err
		}
		return &t.Result, nil
	}
	for _, rest := range rests {
		g.open = append(g.open, load.Open{Address: at, Connections: connections, Deadline: deadline, Patience: impatience, Rest: rest, Bodies: requests})
	}
	return g
}

package load

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Result is what came of a run.
type Result struct {
	Answered  int64
	Refused   int64
	Latencies []time.Duration // of answered calls; of gRPC in a closed loop only of one call alone
	Took      time.Duration
}

// Rate is answered calls per second.
func (r *Result) Rate() float64 { return float64(r.Answered) / r.Took.Seconds() }

// Connections is how many connections a closed loop has where nothing else is
// said.
const Connections = 4

// Closed is a load that keeps so many calls in flight for a time, at least one on each
// connection.
type Closed struct {
	Address     string
	Connections int // Connections where it is 0
	InFlight    int
	Bodies      [][]byte
	Traced      bool // each call has a traceparent of its own
	Last        time.Duration
}

// H2 makes the calls by gRPC.
func (l Closed) H2() (*Result, error) {
	if l.Connections == 0 {
		l.Connections = Connections
	}
	dial := func() (*H2, error) { return dialH2(l.Address, 0, l.Traced) }
	return closed(l.Connections, l.Last, dial, func(c *H2, i int, stop *atomic.Bool) (*Result, error) {
		r, next := &Result{}, i*len(l.Bodies)/l.Connections
		ask := func() {
			now := time.Now()
			c.Expire(now.Add(-time.Minute)) // moves on past the calls that have ended
			c.Call(l.Bodies[next%len(l.Bodies)], now)
			next++
		}
		for range max(l.InFlight/l.Connections, 1) {
			ask()
		}
		for err := c.Flush(); ; err = c.Flush() {
			if err != nil {
				return nil, err
			}
			err := c.Receive(func(begun time.Time, o Outcome) {
				switch {
				case o != Answered:
					r.Refused++
				case l.InFlight == 1:
					r.Latencies = append(r.Latencies, time.Since(begun))
					fallthrough
				default:
					r.Answered++
				}
				ask()
			})
			if err != nil {
				return nil, err
			}
			if stop.Load() {
				return r, nil
			}
		}
	})
}

// closed opens the connections, runs one goroutine for each and adds up what
// they did.
func closed[C io.Closer](
	connections int, last time.Duration, dial func() (C, error), run func(c C, i int, stop *atomic.Bool) (*Result, error),
) (*Result, error) {
	conns := make([]C, connections)
	for i := range conns {
		c, err := dial()
		if err != nil {
			return nil, err
		}
		defer c.Close()
		conns[i] = c
	}
	var g sync.WaitGroup
	var stop atomic.Bool
	results, errs := make([]*Result, connections), make([]error, connections)
	start := time.Now()
	for i, c := range conns {
		g.Go(func() { results[i], errs[i] = run(c, i, &stop) })
	}
	time.Sleep(last)
	stop.Store(true)
	g.Wait()
	sum := &Result{Took: time.Since(start)}
	for i, r := range results {
		if errs[i] != nil {
			return nil, errs[i]
		}
		sum.Answered += r.Answered
		sum.Refused += r.Refused
		sum.Latencies = append(sum.Latencies, r.Latencies...)
	}
	return sum, nil
}

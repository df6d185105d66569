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
	Latencies []time.Duration // of answered calls
	Took      time.Duration
}

// Rate is answered calls per second.
func (r *Result) Rate() float64 { return float64(r.Answered) / r.Took.Seconds() }

// Connections is how many connections a closed loop has where nothing else is
// said.
const Connections = 4

// ClosedH2 keeps so many calls in flight for a time, at least one on each
// connection.
func ClosedH2(address string, connections, inFlight int, bodies [][]byte, last time.Duration) (*Result, error) {
	dial := func() (*H2, error) { return DialH2(address, 0) }
	return closed(connections, last, dial, func(c *H2, i int, stop *atomic.Bool) (*Result, error) {
		r, next := &Result{}, i*len(bodies)/connections
		ask := func() {
			now := time.Now()
			c.Expire(now.Add(-time.Minute)) // moves on past the calls that have ended
			c.Call(bodies[next%len(bodies)], now)
			next++
		}
		for range max(inFlight/connections, 1) {
			ask()
		}
		for err := c.Flush(); ; err = c.Flush() {
			if err != nil {
				return nil, err
			}
			err := c.Receive(func(_ time.Time, o Outcome) {
				if o == Answered {
					r.Answered++
				} else {
					r.Refused++
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

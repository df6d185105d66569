package load

import (
	"sync"
	"time"
)

// Open is a load that comes however long answers take.
type Open struct {
	Address     string
	Connections int
	Rate        float64       // calls per second in all
	Deadline    time.Duration // when a caller gives up; 0: never
	// Patience is how long a call waits for a stream or connection that is free,
	// in order. With the deadline, only calls are sent that are about to be given
	// up.
	Patience time.Duration
	// Rest is how long a client waits, up to half less or more, before it opens an
	// HTTP connection again that failed. Calls in the first Rest do not count: clients that all
	// fail at once rest at once.
	Rest   time.Duration
	Bodies [][]byte
	Last   time.Duration
	// Counting is called when calls begin to count. Nil: nobody asks.
	Counting func()
}

// Tally is what came of an open load. Latencies count from when a call was due.
type Tally struct {
	Result

	Offered int64 // calls that were due
	Unsent  int64 // of them, those that had no stream in their patience
	Expired int64 // of them, those that were given up on the way
	Late    int64 // answers that came after the deadline
	Dialled int64 // connections opened again
	Refusal []time.Duration
}

// tick is how often what is due is sent: with less, the generator would take
// more of the machine than the server.
const tick = 200 * time.Microsecond

// H2 runs the load by HTTP/2.
func (o *Open) H2() (*Tally, error) {
	conns, tally, mu := make([]*H2, o.Connections), &Tally{}, sync.Mutex{}
	var g sync.WaitGroup
	for i := range conns {
		c, err := DialH2(o.Address, o.Deadline)
		if err != nil {
			return nil, err
		}
		conns[i] = c
	}
	for _, c := range conns {
		g.Go(func() {
			var own Tally
			done := func(begun time.Time, out Outcome) { own.count(out, time.Since(begun), o.Deadline) }
			for ended := false; !ended; ended = c.redial(o.Address, done) {
				for c.Receive(done) == nil {
				}
			}
			mu.Lock()
			tally.add(&own)
			mu.Unlock()
		})
	}
	o.counting()
	start := time.Now()
	o.send(conns, start, tally)
	tally.Took = time.Since(start)
	time.Sleep(max(o.Deadline, 50*time.Millisecond))
	for _, c := range conns {
		_ = c.Close() // ends its reader
	}
	g.Wait()
	return tally, nil
}

func (o *Open) counting() {
	if o.Counting != nil {
		o.Counting()
	}
}

// send sends what is due at each tick. Each connection is a client of its own.
func (o *Open) send(conns []*H2, start time.Time, t *Tally) {
	gap := time.Duration(float64(time.Second) / o.Rate * float64(len(conns)))
	first := make([]int64, len(conns)) // the first call that is not sent
	for now := start; now.Sub(start) < o.Last; now = time.Now() {
		t.Offered = 0
		for i, c := range conns {
			begin := start.Add(gap * time.Duration(i) / time.Duration(len(conns)))
			due := int64(0)
			if !now.Before(begin) {
				due = int64(now.Sub(begin)/gap) + 1 // the first is due at begin
			}
			t.Offered += due
			if o.Deadline > 0 {
				for ; first[i] < due && begin.Add(time.Duration(first[i])*gap).Before(now.Add(-o.Patience)); first[i]++ {
					t.Unsent++
				}
				t.Expired += c.Expire(now.Add(-o.Deadline))
			} else {
				c.Expire(start)
			}
			for first[i] < due && c.Call(o.Bodies[(int(first[i])*len(conns)+i)%len(o.Bodies)], begin.Add(time.Duration(first[i])*gap)) {
				first[i]++
			}
			_ = c.Flush() // its reader knows when it is broken
		}
		pause(tick)
	}
}

func (t *Tally) count(o Outcome, took, deadline time.Duration) {
	switch {
	case o == Refused:
		t.Refused++
		t.Refusal = append(t.Refusal, took)
	case deadline > 0 && took > deadline:
		t.Late++
	default:
		t.Answered++
		t.Latencies = append(t.Latencies, took)
	}
}

func (t *Tally) add(o *Tally) {
	t.Answered += o.Answered
	t.Refused += o.Refused
	t.Late += o.Late
	t.Expired += o.Expired
	t.Latencies = append(t.Latencies, o.Latencies...)
	t.Refusal = append(t.Refusal, o.Refusal...)
}

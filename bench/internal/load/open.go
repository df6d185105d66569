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
	Bodies      [][]byte
	Last        time.Duration
}

// Tally is what came of an open load. Latencies count from when a call was due.
type Tally struct {
	Result

	Offered int64 // calls that were due
	Unsent  int64 // of them, those that had no stream before their deadline
	Expired int64 // of them, those that were given up on the way
	Late    int64 // answers that came after the deadline
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
			for c.Receive(done) == nil {
			}
			mu.Lock()
			tally.add(&own)
			mu.Unlock()
		})
	}
	start := time.Now()
	err := o.send(conns, start, tally)
	tally.Took = time.Since(start)
	time.Sleep(max(o.Deadline, 50*time.Millisecond))
	for _, c := range conns {
		_ = c.Close() // ends its reader
	}
	g.Wait()
	return tally, err
}

// send sends what is due at each tick. A call that finds no stream waits until
// its deadline, in order.
func (o *Open) send(conns []*H2, start time.Time, t *Tally) error {
	gap := time.Duration(float64(time.Second) / o.Rate)
	first, at := int64(0), 0 // the first call that is not sent, the connection to begin with
	for now := start; now.Sub(start) < o.Last; now = time.Now() {
		t.Offered = int64(now.Sub(start) / gap)
		if o.Deadline > 0 {
			old := now.Add(-o.Deadline)
			for ; first < t.Offered && start.Add(time.Duration(first)*gap).Before(old); first++ {
				t.Unsent++
			}
			for _, c := range conns {
				t.Expired += c.Expire(old)
			}
		} else {
			for _, c := range conns {
				c.Expire(start)
			}
		}
		for tried := 0; first < t.Offered && tried < len(conns); at++ {
			if conns[at%len(conns)].Call(o.Bodies[int(first)%len(o.Bodies)], start.Add(time.Duration(first)*gap)) {
				first++
				tried = 0
			} else {
				tried++
			}
		}
		for _, c := range conns {
			if err := c.Flush(); err != nil {
				return err
			}
		}
		time.Sleep(tick)
	}
	return nil
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
	t.Latencies = append(t.Latencies, o.Latencies...)
	t.Refusal = append(t.Refusal, o.Refusal...)
}

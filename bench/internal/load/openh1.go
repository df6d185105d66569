package load

import (
	"sync"
	"time"
)

// H1 runs the load by HTTP/1.1. A request that is given up takes its connection
// with it, as it must; the next one opens another.
func (o *Open) H1() (*Tally, error) {
	tally, mu := &Tally{}, sync.Mutex{}
	var g sync.WaitGroup
	due := make(chan time.Time) // taken by connections that are free
	for i := range o.Connections {
		c, err := DialH1(o.Address)
		if err != nil {
			return nil, err
		}
		g.Go(func() {
			own := o.caller(c, i, due)
			mu.Lock()
			defer mu.Unlock()
			tally.add(own)
		})
	}
	start := time.Now()
	o.hand(due, start, tally)
	tally.Took = time.Since(start)
	close(due)
	g.Wait()
	return tally, nil
}

// hand gives what is due to free connections.
func (o *Open) hand(due chan<- time.Time, start time.Time, t *Tally) {
	gap, first := time.Duration(float64(time.Second)/o.Rate), int64(0)
	for now := start; now.Sub(start) < o.Last; now = time.Now() {
		t.Offered = int64(now.Sub(start) / gap)
		for old := now.Add(-o.Patience); first < t.Offered && start.Add(time.Duration(first)*gap).Before(old); first++ {
			t.Unsent++
		}
		free := true
		for first < t.Offered && free {
			select {
			case due <- start.Add(time.Duration(first) * gap):
				first++
			default:
				free = false
			}
		}
		time.Sleep(tick)
	}
}

// caller asks on one connection at a time, first on c.
func (o *Open) caller(c *H1, i int, due <-chan time.Time) *Tally {
	t, next := &Tally{}, i*len(o.Bodies)/o.Connections
	for begun := range due {
		status, closed, err := 0, false, error(nil)
		if c == nil {
			c, err = DialH1(o.Address)
		}
		if err == nil {
			err = c.conn.SetDeadline(begun.Add(o.Deadline))
		}
		if err == nil {
			status, closed, err = c.Ask(o.Bodies[next%len(o.Bodies)])
			next++
		}
		switch took := time.Since(begun); {
		case err != nil:
			t.Expired++
		case status == 200 || status == 429:
			t.count(Answered, took, o.Deadline)
		default:
			t.count(Refused, took, o.Deadline)
		}
		if c != nil && (closed || err != nil) {
			_ = c.Close() // it is of no more use
			c = nil
		}
	}
	if c != nil {
		_ = c.Close() // nothing more is asked
	}
	return t
}

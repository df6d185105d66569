package overload

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// server is a door at work, in time that is counted: its clients have as many
// calls in flight as they may, if they ask more than it can do.
type server struct {
	can  float64 // calls in a second
	c    controller
	held int // what the controller says
}

// run offers so much for so many intervals and returns how long the last calls
// waited, and how many were in flight.
func (s *server) run(offered float64, intervals int) (wait time.Duration, inFlight float64) {
	for range intervals {
		inFlight = offered / s.can
		if offered > s.can {
			inFlight = unlimited
			if s.held > 0 {
				inFlight = float64(s.held)
			}
		}
		wait = time.Duration(inFlight / s.can * float64(time.Second))
		s.held = s.c.tick(wait, min(offered, s.can), 0)
	}
	return wait, inFlight
}

// TestController: whatever a server can do and however much more is asked, calls
// soon wait neither too long nor so little that it has nothing to do; and when
// the load is gone, so is the limit.
func TestController(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := server{can: rapid.Float64Range(20_000, 1_000_000).Draw(t, "can")}
		load := rapid.Float64Range(1.1, 20).Draw(t, "load")
		if _, _ = s.run(s.can*0.9, 50); s.held != 0 {
			t.Fatalf("a limit of %d without need", s.held)
		}
		wait, inFlight := s.run(s.can*load, 30)
		if wait > most || wait < target/2 || inFlight < least-1 {
			t.Fatalf("calls wait %v, %v in flight", wait, inFlight)
		}
		if s.run(s.can*0.5, 60); s.held != 0 {
			t.Fatalf("the limit is still %d after 6 s", s.held)
		}
	})
}

// TestHeldUp: a process that is stopped for a while now and then has no limit.
func TestHeldUp(t *testing.T) {
	var c controller
	for i := range 100 {
		wait := time.Duration(0)
		if i%4 < 2 {
			wait = time.Second
		}
		if limit := c.tick(wait, 1000, 0); limit != 0 {
			t.Fatalf("interval %d: limit %d", i, limit)
		}
	}
}

// TestLate: calls that are given up before their turn are overload, wherever
// they waited.
func TestLate(t *testing.T) {
	var c controller
	for range patience {
		c.tick(0, 100_000, 0.5)
	}
	first := c.tick(0, 100_000, 0.5)
	if first == 0 || c.tick(0, 100_000, 0.5) > first {
		t.Errorf("limit %d, then %v", first, c.limit)
	}
}

// TestSeats: as many have seats as there are, who had one goes before newcomers,
// and who does not come loses it.
func TestSeats(t *testing.T) {
	var g Gate
	var a, b, c Seat
	takes := func(want ...bool) {
		t.Helper()
		for i, s := range []*Seat{&c, &b, &a} {
			if got := g.Take(s); got != want[i] {
				t.Errorf("seat %d: %v, want %v", i, got, want[i])
			}
		}
	}
	takes(true, true, true) // no limit
	g.SetLimit(2)
	takes(true, true, false)
	g.SetLimit(2)
	if !g.Take(&b) {
		t.Error("b lost its seat")
	}
	if g.Take(&a) {
		t.Error("a newcomer took the seat of one that may come yet")
	}
	g.SetLimit(2) // c has not come
	if !g.Full() && !g.Take(&a) {
		t.Error("a free seat was refused")
	}
	g.SetLimit(0)
	takes(true, true, true)
}

// TestWatcher: it measures, and ends with its context.
func TestWatcher(t *testing.T) {
	var g Gate
	w := NewWatcher(&g)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	for first := g.Epoch(); g.Epoch() == first; {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if w.Wait() <= 0 || w.Wait() == math.MaxInt64 {
		t.Errorf("wait %v", w.Wait())
	}
}

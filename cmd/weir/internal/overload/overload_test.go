package overload

import (
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// server is a listener at work, in time that is counted: its clients have as many
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
		connections := int64(inFlight) // of one call each
		if s.c.standing {
			connections = 4
		}
		s.held = s.c.tick(wait, connections, 0)
	}
	return wait, inFlight
}

// TestController: whatever a server can do and however much more is asked, calls
// soon wait neither too long nor so little that it has nothing to do; and when
// the load is gone, so is the limit, or it is what it was where it stands.
func TestController(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := server{can: rapid.Float64Range(30_000, 200_000).Draw(t, "can")}
		s.c.first, s.c.standing = perProcessor, rapid.Bool().Draw(t, "standing")
		usual := 0
		if s.c.standing {
			s.c.limit, s.held, usual = perProcessor, perProcessor, perProcessor
		}
		load := rapid.Float64Range(1.1, 20).Draw(t, "load")
		if _, _ = s.run(s.can*0.9, 50); s.held != usual {
			t.Fatalf("a limit of %d without need", s.held)
		}
		wait, inFlight := s.run(s.can*load, 20)
		if wait > most || inFlight < least-1 || inFlight < perProcessor && wait < target/2 {
			t.Fatalf("calls wait %v, %v in flight", wait, inFlight)
		}
		if s.run(s.can*0.5, 60); s.held != usual {
			t.Fatalf("the limit is still %d after 3 s", s.held)
		}
	})
}

// TestStanding: a limit that stands never lets more calls wait than it should,
// leaves many connections some calls each, and does not bind calls that wait for
// something else than a processor.
func TestStanding(t *testing.T) {
	s := server{can: 50_000, c: controller{limit: perProcessor, first: perProcessor, standing: true}, held: perProcessor}
	for i := range 20 {
		if wait, _ := s.run(s.can*5, 1); wait > most {
			t.Errorf("interval %d: calls wait %v", i, wait)
		}
	}
	grown := func(connections, deciding int64) (limit int) {
		c := controller{limit: perProcessor, first: perProcessor, standing: true}
		for range 100 {
			limit = c.tick(0, connections, deciding)
		}
		return limit
	}
	if got := grown(100, 0); got != 100*perConnection {
		t.Errorf("100 connections: %d", got)
	}
	if got := grown(1, 5000); got != 10_000 {
		t.Errorf("5000 calls that wait for a store: %d", got)
	}
}

// TestUnused: a limit that nobody comes up to does not grow, and goes after 2 s.
func TestUnused(t *testing.T) {
	c := controller{first: perProcessor}
	limit := c.tick(2*most, 5000, 0)
	for i := range unused - 1 {
		if limit = c.tick(0, perProcessor-1, 0); limit != perProcessor {
			t.Fatalf("interval %d: limit %d", i, limit)
		}
	}
	if grown := c.tick(0, perProcessor, 0); grown <= perProcessor {
		t.Errorf("limit %d, and all of it is used", grown)
	}
	for range unused {
		limit = c.tick(0, perProcessor, 0) // less than it has grown to
	}
	if limit != 0 {
		t.Errorf("limit %d after 2 s", limit)
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
	held := Gate{Standing: true}
	w := NewWatcher(&g, &held)
	if g.Limit() != 0 || held.Limit() == 0 {
		t.Errorf("limits %d, %d", g.Limit(), held.Limit())
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	for first := g.epoch.Load(); g.epoch.Load() == first; {
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

// TestWatcherRests: it measures less often once nothing is in flight, and again as often as something is.
func TestWatcherRests(t *testing.T) {
	var g Gate
	held := Gate{Standing: true}
	w := NewWatcher(&g, &held)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	until := func(rests bool) {
		t.Helper()
		for begun := time.Now(); w.rests.Load() != rests; time.Sleep(time.Millisecond) {
			if time.Since(begun) > 20*time.Second {
				t.Fatalf("rests: %v", !rests)
			}
		}
	}
	until(true)
	g.Begin()
	until(false)
	g.End()
	until(true)
	var seat Seat
	if !held.Take(&seat) {
		t.Fatal("the first call is refused")
	}
	until(false) // a connection is in use
	until(true)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

package pgstore

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/proxytest"
)

// TestSkew: two processes whose clocks are apart pass what the limit promises for a time that is longer by
// as much.
func TestSkew(t *testing.T) {
	c := dial(t, postgrestest.Common(t).Database(t)).cells
	for _, text := range []string{"5/100us", "7/100us burst 3", "5/100us fixed-window", "5/100us sliding-window", "4/100us sliding-window 5", "3/50us leaky-queue queue 2"} {
		t.Run(text, func(t *testing.T) {
			limit, trial := weir.MustParseLimit(text), 0
			rapid.Check(t, func(rt *rapid.T) {
				trial++
				if trial > 15 {
					return
				}
				skew := rapid.Int64Range(0, 120).Draw(rt, "skew")
				holdSkew(rt, c, fmt.Sprint(t.Name(), trial, skew), limit, skew)
			})
		})
	}
}

func holdSkew(t *rapid.T, c *cells, name string, limit *weir.Limit, skew int64) {
	now := int64(1_800_000_000_000_000)
	var stores []*Store
	for i := range int64(2) {
		s := named(c, name).(timed).Store
		s.At(func() weir.Instant { return weir.Instant(now + i*skew) }, 0)
		stores = append(stores, s)
	}
	var passed []int64
	for range 150 {
		now += rapid.Int64Range(0, 9).Draw(t, "step")
		s := stores[rapid.IntRange(0, 1).Draw(t, "store")]
		out := make([]weir.Decision, 1)
		if err := s.Take(t.Context(), []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 1}}, out); err != nil {
			t.Fatal(err)
		}
		if out[0].Charged {
			passed = append(passed, now+int64(out[0].Hold/time.Microsecond))
		}
	}
	for i := range passed {
		for j := i; j < len(passed); j++ {
			width := time.Duration(passed[j]-passed[i]+1) * time.Microsecond
			if n, most := int64(j-i+1), limit.Bound(width+time.Duration(skew)*time.Microsecond, 1); n > most {
				t.Fatalf("%s, skew %d us: %d passed in %v, and the bound is %d", limit, skew, n, width, most)
			}
		}
	}
}

// TestClock: what is reckoned is no further from the server's clock than the bound says, whatever part of the
// round trip each way takes.
func TestClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		ahead := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "ahead"))
		at := c.begin
		for range rapid.IntRange(1, 20).Draw(t, "answers") {
			there := time.Duration(rapid.Int64Range(0, int64(50*time.Millisecond)).Draw(t, "there"))
			back := time.Duration(rapid.Int64Range(0, int64(50*time.Millisecond)).Draw(t, "back"))
			at = at.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "pause")))
			if moved := rapid.IntRange(0, 9).Draw(t, "another server") == 0; moved {
				ahead += time.Duration(rapid.Int64Range(-int64(time.Second), int64(time.Second)).Draw(t, "ahead of the last"))
				c.renew()
			}
			asked := at
			at = at.Add(there + back)
			c.tell(asked.Add(there+ahead).UnixMicro(), asked, at)
			c.mu.Lock()
			since := at.Sub(c.begin)
			reckoned, bound := c.ahead+since.Microseconds(), c.boundAt(since)
			c.mu.Unlock()
			off := time.Duration(reckoned-at.Add(ahead).UnixMicro()) * time.Microsecond
			if off.Abs() > bound+2*time.Microsecond {
				t.Fatalf("off by %v, and the bound is %v", off, bound)
			}
			if bound > (there+back)/2+time.Microsecond {
				t.Fatalf("the bound is %v after a round trip of %v", bound, there+back)
			}
		}
	})
}

// TestClockOfAnotherServer: an answer that does not fit to what is known is believed, though it took longer. Behind a
// pooler it is all that tells of a failover.
func TestClockOfAnotherServer(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Minute, -50 * time.Millisecond, 50 * time.Millisecond, time.Minute} {
		c := newClock()
		at := c.begin.Add(time.Second)
		c.tell(at.UnixMicro(), at.Add(-time.Millisecond), at.Add(time.Millisecond))
		at = at.Add(time.Second)
		c.tell(at.Add(ahead).UnixMicro(), at.Add(-20*time.Millisecond), at.Add(20*time.Millisecond))
		now, bound := c.now()
		if off := now.Time().Sub(time.Now().Add(ahead)).Abs(); off > bound+time.Millisecond {
			t.Errorf("off by %v from a server that is %v ahead, and the bound is %v", off, ahead, bound)
		}
	}
}

// TestServerClock: with clock=server, a process whose own clock is 10 minutes off decides by the server's;
// a slow answer does not make it worse.
func TestServerClock(t *testing.T) {
	server := postgrestest.Common(t)
	database := with(t, server.Database(t), "clock", "server")
	addr, tell := proxytest.Delay(t, server.Addr)
	s := dial(t, with(t, strings.Replace(database, server.Addr, addr, 1), "connections", "1"))
	take := func() {
		t.Helper()
		if _, err := take(t.Context(), s, "10/day", "r", "k"); err != nil {
			t.Fatal(err)
		}
	}
	take()
	s.cells.clock.mu.Lock()
	s.cells.clock.begin = s.cells.clock.begin.Add(10 * time.Minute) // as if this process's clock were slow from here on
	s.cells.clock.known = false
	s.cells.clock.mu.Unlock()
	take()
	now, bound := s.cells.clock.now()
	if off := time.Until(now.Time()); off.Abs() > bound+5*time.Millisecond || bound > time.Second {
		t.Errorf("%v off, and the bound is %v", off, bound)
	}
	tell(100 * time.Millisecond)
	take()
	if after := s.Stats().SkewBound; after > bound+time.Millisecond || after == 0 {
		t.Errorf("after a slow answer the bound is %v, and was %v", after, bound)
	}
	if dial(t, server.Database(t)).Stats().SkewBound != 0 {
		t.Error("a store that decides by its own clock tells a bound")
	}
}

// TestClockApart: a process whose clock is 10 minutes ahead or behind passes no more in all than it and the others
// may in a time that is longer by as much, and leaves no row that is swept too early.
func TestClockApart(t *testing.T) {
	c := dial(t, postgrestest.Common(t).Database(t)).cells
	right, wrong := named(c, "k").(timed).Store, named(c, "k").(timed).Store
	for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		right.At(func() weir.Instant { return weir.InstantOf(time.Now()) }, 0)
		wrong.At(func() weir.Instant { return weir.InstantOf(time.Now().Add(off)) }, 0)
		passed := 0
		for n := range 40 {
			s := []*Store{right, wrong}[n%2]
			d, err := take(t.Context(), s, "10/h fixed-window", "r", fmt.Sprint(off))
			if err != nil {
				t.Fatal(err)
			}
			if d.Outcome == weir.Allowed {
				passed++
			}
		}
		if passed < 10 || passed > 20 {
			t.Errorf("%v off: %d passed", off, passed)
		}
	}
}

// TestClockFarOff: a process whose clock is 10 minutes from the server's decides nothing, says why, and goes on when
// they are near. With clock=server it decides by the server's.
func TestClockFarOff(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	var off atomic.Int64 // microseconds that the server's clock seems to be ahead
	addr := proxytest.Change(t, server.Addr, func(b []byte) []byte {
		for i := 0; i+12 <= len(b); i++ {
			at := int64(binary.BigEndian.Uint64(b[i+4:]))
			if b[i+3] == 8 && time.Until(time.UnixMicro(at)).Abs() < time.Minute { // of 8 bytes: the server's time
				binary.BigEndian.PutUint64(b[i+4:], uint64(at+off.Load()))
				break
			}
		}
		return b
	})
	there := strings.Replace(database, server.Addr, addr, 1)
	s := dial(t, with(t, there, "connections", "1"))
	mustTake := func() {
		t.Helper()
		for n := 0; ; n++ { // on a busy machine a server may take too long to connect
			_, err := take(t.Context(), s, "10/day", "r", "k")
			if err == nil {
				return
			}
			if n == 10 || !strings.Contains(err.Error(), "nothing was decided: failed to connect") {
				t.Fatal(err)
			}
			time.Sleep(2 * longest)
		}
	}
	for _, wrong := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		off.Store(0)
		time.Sleep(2 * longest) // the longest wait before it connects again
		mustTake()
		off.Store(wrong.Microseconds())
		mustTake() // the answer tells of the clock
		_, err := take(t.Context(), s, "10/day", "r", "k")
		want(t, err, "nothing was decided", "the server's is apart from it by "+wrong.String(), "run NTP on both, or write clock=server")
		for n := 0; !Answers(s.Status(t.Context()).Err); n++ { // on a busy machine it may take its time
			if n == 10 {
				t.Fatalf("the status is %v", s.Status(t.Context()).Err)
			}
		}
	}
	if n := remaining(t, dial(t, database), "10/day", "r", "k"); n != 6 {
		t.Errorf("%d remain of 10, want 6", n)
	}
	if _, err := take(t.Context(), dial(t, with(t, there, "clock", "server")), "10/day", "r", "k2"); err != nil {
		t.Error(err)
	}
}

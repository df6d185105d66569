package memcachestore

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/proxytest"
)

// TestUnsentToldAsMaybe: a take of an item that was known, whose connection is gone and whose server accepts
// but does not answer, has sent nothing; the caller that leaves hears that nothing was decided.
func TestUnsentToldAsMaybe(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	var mute, cut atomic.Bool
	addr := proxytest.Start(t, server.Addr, func(answer bool, b []byte) (int, bool) {
		if cut.Load() && !bytes.HasPrefix(b, []byte("version")) && !bytes.HasPrefix(b, []byte("VERSION")) {
			return 0, true
		}
		if mute.Load() {
			return 0, false
		}
		return len(b), false
	})
	s := open(t, &memcachedtest.Server{Addr: addr}, t.Name())
	for range 2 {
		if _, err := take(t.Context(), s, "10/day", "r", "k"); err != nil {
			t.Fatal(err)
		}
	}
	// The connection fails while nothing is on its way.
	for i := range s.cells.servers[0].lines {
		l := &s.cells.servers[0].lines[i]
		l.mu.Lock()
		if l.conn != nil {
			l.conn.fail(errors.New("cut"))
		}
		l.mu.Unlock()
	}
	mute.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := take(ctx, s, "10/day", "r", "k")
	if err == nil || !strings.Contains(err.Error(), "nothing was decided") {
		t.Errorf("nothing was sent, and the error is: %v", err)
	}
}

// TestReconnectIsNoLoss: a connection made anew is no other process that has written.
func TestReconnectIsNoLoss(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	s := open(t, server, t.Name())
	for range 2 {
		if _, err := take(t.Context(), s, "10/day", "r", "k"); err != nil {
			t.Fatal(err)
		}
	}
	before := s.Stats()
	for i := range s.cells.servers[0].lines {
		l := &s.cells.servers[0].lines[i]
		l.mu.Lock()
		if l.conn != nil {
			l.conn.fail(errors.New("cut"))
		}
		l.mu.Unlock()
	}
	if _, err := take(t.Context(), s, "10/day", "r", "k"); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Lost != 0 || st.Trips != before.Trips+2 {
		t.Errorf("%d writes came too late, for another process had written, and none had; %d trips, and 2 were sent", st.Lost, st.Trips-before.Trips)
	}
}

// TestSpillLost: the answer to notes that were to leave their item is lost; no charge was sent.
func TestSpillLost(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	var charges atomic.Int64
	var cut atomic.Bool
	addr := proxytest.Start(t, server.Addr, func(answer bool, b []byte) (int, bool) {
		if !answer && bytes.HasPrefix(b, []byte("ms ")) && bytes.Contains(b[:bytes.IndexByte(b, '\n')], []byte("|s")) {
			cut.Store(true)
			return 0, true
		}
		if !answer && cut.Load() && bytes.HasPrefix(b, []byte("ms ")) {
			charges.Add(1)
		}
		return len(b), false
	})
	s := open(t, &memcachedtest.Server{Addr: addr}, t.Name())
	for id := range uint64(200) {
		out := make([]weir.Decision, 1)
		asks := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit("1000/day"), Cost: 1, Receipt: id + 1}}
		if err := s.Take(t.Context(), asks, out); err != nil {
			t.Fatal(err)
		}
		if err := s.Settle(t.Context(), []weir.Settlement{{Receipt: out[0].Receipt}}); err != nil {
			if strings.Contains(err.Error(), "may have been a charge") && charges.Load() == 0 {
				t.Errorf("only notes were sent, and the error is: %v", err)
			}
			return
		}
	}
	t.Fatal("no spill")
}

// TestFlapping: connections that end after each answer to a get are a failure of the server, and no other
// processes that write.
func TestFlapping(t *testing.T) {
	server := memcachedtest.Start(t, "-m", "8")
	var flap atomic.Bool
	addr := proxytest.Start(t, server.Addr, func(answer bool, b []byte) (int, bool) {
		return len(b), flap.Load() && answer && bytes.HasPrefix(b, []byte("VA"))
	})
	via := &memcachedtest.Server{Addr: addr}
	s := open(t, via, t.Name())
	if _, err := take(t.Context(), s, "10/day", "r", "k"); err != nil {
		t.Fatal(err)
	}
	flap.Store(true)
	s2 := open(t, via, t.Name())
	for range 5 {
		if _, err := take(t.Context(), s2, "10/day", "r", "k"); errors.Is(err, weir.ErrBusy) {
			t.Errorf("nobody else writes, and the error is: %v", err)
		} else {
			t.Log(err)
		}
	}
}

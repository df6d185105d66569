package redisstore

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
)

// TestTakeRightAfterOpen: a take that comes before the store has connected waits for
// that, and is decided.
func TestTakeRightAfterOpen(t *testing.T) {
	addr := redistest.Start(t).Addr
	for range 5 {
		s, err := Dial("redis://" + addr)
		if err != nil {
			t.Fatal(err)
		}
		out := make([]weir.Decision, 1)
		if err := s.Take(t.Context(), asksOf("1000/day", "k"), out); err != nil || !out[0].Charged {
			t.Errorf("%+v, %v", out[0], err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTakeBeforeAConnection: with a server that accepts and says nothing, a take ends
// with its context, and Close waits for nobody.
func TestTakeBeforeAConnection(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := Dial("redis://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = s.Take(ctx, asksOf("1000/day", "k"), make([]weir.Decision, 1))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a take without a connection: %v", err)
	}
	waits := make(chan error)
	go func() { waits <- s.Take(t.Context(), asksOf("1000/day", "k"), make([]weir.Decision, 1)) }()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waits; err == nil {
		t.Error("a take without a server is decided")
	}
}

package redisstore

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
)

// leaving is a client whose caller leaves after some calls.
type leaving struct {
	rueidis.Client

	calls atomic.Int64
	leave context.CancelFunc
}

func (l *leaving) Do(ctx context.Context, c rueidis.Completed) rueidis.RedisResult {
	r := l.Client.Do(ctx, c)
	if l.calls.Add(-1) == 0 {
		l.leave()
	}
	return r
}

// TestCallerLeavesHalfway: on a Cluster, what one node has charged goes back when
// the caller leaves before the next one is asked.
func TestCallerLeavesHalfway(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	client := &leaving{Client: connect(t, redistest.Start(t).Addr), leave: cancel}
	s, limit := New(client, Options{Cluster: true}), weir.MustParseLimit("10/day")
	asks := func(peek bool) []weir.Ask {
		return []weir.Ask{
			{State: weir.StateKey{Rule: "a", Key: "k"}, Limit: limit, Cost: 3, Peek: peek},
			{State: weir.StateKey{Rule: "b", Key: "k"}, Limit: limit, Cost: 3, Peek: peek},
		}
	}
	out := make([]weir.Decision, 2)
	for _, peek := range []bool{true, false} { // the server learns the scripts
		if err := s.Take(t.Context(), asks(peek), out); err != nil {
			t.Fatal(err)
		}
	}
	client.calls.Store(3) // two look, and one charges
	if err := s.Take(ctx, asks(false), out); err == nil {
		t.Fatalf("it was decided: %+v", out)
	}
	if err := s.Take(t.Context(), asks(true), out); err != nil {
		t.Fatal(err)
	}
	if out[0].Remaining != 7 || out[1].Remaining != 7 {
		t.Errorf("%d and %d remain, want 7 of each", out[0].Remaining, out[1].Remaining)
	}
}

package memcachestore

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/record"
)

// TestDenialsAreForgotten: what another process has given back or reset is seen
// after DenialLife at the latest, what this one has at once.
func TestDenialsAreForgotten(t *testing.T) {
	server := memcachedtest.Start(t)
	here, there := open(t, server, t.Name()), open(t, server, t.Name())
	now := weir.Instant(1_800_000_000_000_000)
	for _, s := range []*Store{here, there} {
		s.At(func() weir.Instant { return now }, 0)
	}
	ask := []weir.Ask{{State: weir.StateKey{Rule: "r#1", Key: "k"}, Limit: weir.MustParseLimit("1/day"), Cost: 1}}
	out := make([]weir.Decision, 1)
	allowed := func() bool {
		t.Helper()
		if err := here.Take(t.Context(), ask, out); err != nil {
			t.Fatal(err)
		}
		return out[0].Outcome == weir.Allowed
	}
	for _, by := range []*Store{here, there} {
		if err := by.Reset(t.Context(), []weir.StateKey{ask[0].State}); err != nil {
			t.Fatal(err)
		}
		if by == there {
			now += weir.Instant(record.DenialLife/time.Microsecond) - 1
			if allowed() {
				t.Error("the denial was forgotten too early to be one that was remembered")
			}
			now++
		}
		if !allowed() || allowed() {
			t.Errorf("after a reset %+v", out[0])
		}
	}
	if here.Stats().Remembered == 0 {
		t.Error("nothing was answered locally")
	}
}

// TestEvidence: a denial tells the state that it stood on, asked of the server
// and remembered alike.
func TestEvidence(t *testing.T) {
	s := open(t, memcachedtest.Start(t), t.Name())
	limit := weir.MustParseLimit("2/day count-denied fixed-window")
	for _, limit := range []*weir.Limit{limit, weir.MustParseLimit("2/day fixed-window")} {
		ask := []weir.Ask{{State: weir.StateKey{Rule: limit.String(), Key: "k"}, Limit: limit, Cost: 1}}
		out := make([]weir.Decision, 1)
		for n := range 4 {
			seen := weir.Evidence{}
			ask[0].Evidence = &seen
			if err := s.Take(t.Context(), ask, out); err != nil {
				t.Fatal(err)
			}
			want := int64(2)
			if limit.Spec().CountDenied {
				want = int64(n)
			}
			if n < 2 && seen.Told || n >= 2 && (!seen.Told || limit.Used(seen.State, seen.At) != want) {
				t.Errorf("%s, take %d: it tells %+v", limit, n, seen)
			}
		}
	}
}

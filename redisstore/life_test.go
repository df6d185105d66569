package redisstore

import (
	"strings"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
)

// TestGeneralScript: what pace.lua does for plain takes, take.lua does alike.
func TestGeneralScript(t *testing.T) {
	t.Parallel()
	runSuite(t, "general:", true)
}

// TestNoKeyExpiresEarly: a key lives until its count says no more than nothing
// would, and what was reset until the last receipt from before has expired.
func TestNoKeyExpiresEarly(t *testing.T) {
	client := connect(t, redistest.Start(t).Addr)
	s := New(client, Options{Prefix: "early:"})
	for i, text := range []string{
		"5/min", "100/day", "5/min initial 1", "5/min debt 2", "5/min leaky-queue", "5/min fixed-window", "2/day fixed-window zone Asia/Tokyo",
		"5/min sliding-log", "5/min sliding-window 5", "2 concurrent ttl 1min", "5/min fixed-window anchored",
	} {
		asks := asksOf(text, strings.Repeat("k", i+1))
		alive := func(what string) {
			t.Helper()
			out := make([]weir.Decision, 1)
			if err := s.Take(t.Context(), asks, out); err != nil {
				t.Fatal(err)
			}
			ms, err := run(t, client, "PTTL", s.key(asks[0].State)).AsInt64()
			if err != nil || ms < out[0].ResetAfter.Milliseconds()-1000 {
				t.Errorf("%s, %s: its key lives %d ms, and counts for %v: %v", text, what, ms, out[0].ResetAfter, err)
			}
			if what == "reset" && ms < (24*3600+14*60)*1000 {
				t.Errorf("%s: its key lives %d ms after a reset", text, ms)
			}
		}
		alive("new")
		alive("again")
		asks[0].Cost = 50
		alive("denied")
		if err := s.Reset(t.Context(), []weir.StateKey{asks[0].State}); err != nil {
			t.Fatal(err)
		}
		asks[0].Cost = 1
		alive("reset")
	}
}

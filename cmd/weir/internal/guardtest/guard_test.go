package guardtest

import (
	"testing"

	"github.com/weir-limit/weir"
)

func ask(limit string, f weir.Fallback) []weir.Ask {
	return []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit(limit), Cost: 1, Policy: weir.Policy{Fallback: f}}}
}

func take(t testing.TB, s weir.Store, asks []weir.Ask) weir.Decision {
	t.Helper()
	out := make([]weir.Decision, len(asks))
	if err := s.Take(t.Context(), asks, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

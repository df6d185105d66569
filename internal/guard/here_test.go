package guard_test

import (
	"errors"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/here"
)

// TestHere: where a decision has to be waited for, no fallback decides in its place, and none is said to be needed.
func TestHere(t *testing.T) {
	r := newRemote()
	waits := here.ErrWaits
	r.broken.Store(&waits)
	g := guard.New(r, guard.Options{Near: true, Changed: func(string, error) { t.Error("the store is said to be away") }})
	only, out := &here.Context{Context: t.Context()}, make([]weir.Decision, 1)
	if err := g.Take(only, ask("10/h", weir.FallbackOpen), out); !errors.Is(err, here.ErrWaits) || out[0].Outcome == weir.Allowed {
		t.Errorf("%+v, %v", out[0], err)
	}
	// The store is told first of events that a fallback let pass, and that waits.
	away := weir.ErrAway
	r.broken.Store(&away)
	take(t, g, ask("10/h", weir.FallbackLocal))
	r.broken.Store(nil)
	if err := g.Take(only, ask("10/h", weir.FallbackLocal), out); !errors.Is(err, here.ErrWaits) {
		t.Errorf("with unreported usage: %+v, %v", out[0], err)
	}
	if d := take(t, g, ask("10/h", weir.FallbackLocal)); d.Remaining != 8 {
		t.Errorf("%d left, want 8", d.Remaining)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

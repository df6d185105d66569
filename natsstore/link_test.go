package natsstore

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-limit/weir/internal/cas"
)

// TestTurns: while no call gets its answer, others wait for their turn as long as for an answer, and
// not for ever: those that were sent by one swap of several keys hold turns until they are waited for.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink(&target{bucket: "weir"})
		close(l.tried)
		l.ready = true
		for range maxInFlight {
			if err := l.turn(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		_, err := (&cells{l}).Swap(context.Background(), "", make([]cas.Swap, 100))
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(err, errUnsent) {
			t.Errorf("without a turn: %v", err)
		}
		if took := time.Since(begin); took != patience {
			t.Errorf("it waited %v", took)
		}
	})
}

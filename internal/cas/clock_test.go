package cas

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestNear: a server's clock may be apart by maxApart, and by the time that its answer took.
func TestNear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 3 * time.Second
		asked := time.Now()
		time.Sleep(took)
		for off, near := range map[time.Duration]bool{
			0: true, took: true, -maxApart: true, -maxApart - 1: false, took + maxApart: true, took + maxApart + 1: false,
		} {
			if err := Near(asked.Add(off), asked); (err == nil) != near || err != nil && !errors.Is(err, ErrApart) {
				t.Errorf("apart by %v: %v", off, err)
			}
		}
		if err := Near(time.Time{}, asked); err != nil {
			t.Errorf("a server that tells no time: %v", err)
		}
	})
}

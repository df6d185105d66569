package pgstore

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cas"
	"github.com/weir-limit/weir/internal/postgrestest"
)

// TestSweep: rows that are over go, and only they; one process sweeps at a time, and the next when that is
// over.
func TestSweep(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	a, b := dial(t, database).cells, dial(t, database).cells
	var wg sync.WaitGroup
	for i := range 3000 {
		wg.Go(func() {
			keep := time.Hour
			if i%3 > 0 {
				keep = time.Millisecond
			}
			w := []cas.Swap{{Name: "r:" + strconv.Itoa(i), Value: make([]byte, 50), Keep: keep}}
			if ok, err := a.Swap(t.Context(), w[0].Name, w); err != nil || !ok {
				t.Error(ok, err)
			}
		})
	}
	wg.Wait()
	time.Sleep(5 * time.Millisecond)
	if turn, err := b.claimSweep(t.Context(), 1, 300*time.Millisecond); err != nil || !turn {
		t.Fatal(turn, err)
	}
	if n, err := a.sweepOnce(t.Context()); n != 0 || err != nil {
		t.Errorf("%d rows were swept while another process sweeps; %v", n, err)
	}
	time.Sleep(350 * time.Millisecond)
	n, err := a.sweepOnce(t.Context())
	if n != 2000 || err != nil {
		t.Errorf("%d rows were swept, want 2000; %v", n, err)
	}
	if left := server.Query(t, database, "select count(*), min(until) > now() from weir where k like 'r:%'"); left != "1000|t" {
		t.Errorf("left: %s", left)
	}
	if n, err := b.sweepOnce(t.Context()); n != 0 || err != nil {
		t.Errorf("%d rows were swept soon after; %v", n, err)
	}
	if a.swept.Load() != 2000 {
		t.Errorf("%d are counted", a.swept.Load())
	}
}

// TestSweepBesideTakes: a row that is written again while it is swept stays, or is made again; no charge is
// lost for it.
func TestSweepBesideTakes(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	c, s := dial(t, database).cells, dial(t, database)
	done := make(chan struct{})
	var sweeping sync.WaitGroup
	defer func() { close(done); sweeping.Wait() }()
	sweeping.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				if _, err := c.sweepSome(t.Context(), 0); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for n := range 300 {
		if _, err := take(t.Context(), s, "5/1ms", "short", fmt.Sprint(n%7)); err != nil && !errors.Is(err, weir.ErrBusy) {
			t.Fatal(err)
		}
		if d, err := take(t.Context(), s, "1000/day", "long", "k"); err != nil || d.Remaining != int64(999-n) {
			t.Fatalf("%+v, %v", d, err)
		}
	}
}

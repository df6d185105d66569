package memstore

import (
	"path/filepath"
	"testing"

	"github.com/weir-limit/weir"
)

// TestRestoreKeepsTables: a rule whose limit has changed has as many tables after a restart
// as before, and those that were retired have their counts.
func TestRestoreKeepsTables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	s, err := Open(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	limits := []*weir.Limit{
		weir.MustParseLimit("10/day"), weir.MustParseLimit("20/day fixed-window"),
		weir.MustParseLimit("30/day sliding-log"), weir.MustParseLimit("40/day sliding-window 4"),
	}
	now := s.clock.now()
	var out [1]weir.Decision
	for _, l := range limits {
		if err := s.TakeAt(now, []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: l, Cost: 1}}, out[:]); err != nil {
			t.Fatal(err)
		}
	}
	owing := s.branchRetired("r", weir.MustParseLimit("5/day leaky-queue"), now)
	owing.insert(s.hash.print("k"), owing.limit.Load(), weir.State{uint64(now) + 1e9, 0}, now)
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	was, is := s.tables["r"].current(), again.tables["r"].current()
	if len(is.live) != len(was.live) || len(is.retired) != 1 {
		t.Fatalf("%d tables and %d retired, want %d and 1", len(is.live), len(is.retired), len(was.live))
	}
	if l := is.retired[0].limit.Load(); l.String() != "5/day leaky-queue" || is.retired[0].idle(now) {
		t.Errorf("the retired table is of %s, and owes nothing: %v", l, is.retired[0].idle(now))
	}
}

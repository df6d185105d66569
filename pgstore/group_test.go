package pgstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cas"
	"github.com/weir-limit/weir/internal/postgrestest"
)

// TestGroups: many processes add one to several rows each at one moment, in any order, while rows are
// deleted. Each row ends as what was added to it: no write is lost, none is written in part, and none waits for
// another in a circle.
func TestGroups(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	const names = 10
	var added [names]atomic.Int64
	var written, refused atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		c := dialPatiently(t, database).cells
		for range 8 {
			wg.Go(func() {
				for range 150 {
					some := rand.Perm(names)[:1+rand.IntN(4)]
					if err := addOne(c, some, &written, &refused, added[:]); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	c := dial(t, database).cells
	for i := range names {
		cell, err := lookAt(c, fmt.Sprint("n:", i))
		if err != nil || int64(countOf(cell)) != added[i].Load() {
			t.Errorf("row %d has %d, and %d were added; %v", i, countOf(cell), added[i].Load(), err)
		}
	}
	t.Logf("%d groups were written, %d were not", written.Load(), refused.Load())
	if written.Load() == 0 || refused.Load() == 0 {
		t.Error("a test without a conflict shows nothing")
	}
	if n := server.Query(t, database, "select deadlocks from pg_stat_database where datname = current_database()"); n != "0" {
		t.Errorf("%s deadlocks", n)
	}
}

func addOne(c *cells, some []int, written, refused *atomic.Int64, added []atomic.Int64) error {
	names := make([]string, len(some))
	for i, n := range some {
		names[i] = fmt.Sprint("n:", n)
	}
	seen := make([]cas.Cell, len(some))
	if err := c.Look(context.Background(), names[0], names, seen); err != nil {
		return err
	}
	swaps := make([]cas.Swap, len(some))
	for i := range some {
		swaps[i] = cas.Swap{Name: names[i], Seen: seen[i].Version, Value: binary.AppendUvarint(nil, countOf(seen[i])+1), Keep: time.Hour}
	}
	ok, err := c.Swap(context.Background(), names[0], swaps)
	if err != nil {
		return err
	}
	if !ok {
		refused.Add(1)
		return nil
	}
	written.Add(1)
	for i, n := range some {
		added[n].Add(1)
		if swaps[i].Version.Number == 0 || swaps[i].Life != time.Hour {
			return fmt.Errorf("a swap that was written says %+v", swaps[i])
		}
	}
	return nil
}

func countOf(c cas.Cell) uint64 {
	n, _ := binary.Uvarint(c.Value)
	return n
}

func lookAt(c *cells, name string) (cas.Cell, error) {
	all := make([]cas.Cell, 1)
	err := c.Look(context.Background(), name, []string{name}, all)
	return all[0], err
}

// TestGroupIsWhole: a group of which one row is not as it was seen leaves the others as they are, those that
// were there and those that were not.
func TestGroupIsWhole(t *testing.T) {
	c := dial(t, postgrestest.Common(t).Database(t)).cells
	swap := func(swaps ...cas.Swap) (bool, []cas.Swap) {
		t.Helper()
		for i := range swaps {
			swaps[i].Value, swaps[i].Keep = []byte{byte(i + 1)}, time.Hour
		}
		ok, err := c.Swap(t.Context(), "a", swaps)
		if err != nil {
			t.Fatal(err)
		}
		return ok, swaps
	}
	_, first := swap(cas.Swap{Name: "b"})
	b := first[0].Version
	for _, wrong := range [][]cas.Swap{
		{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		{{Name: "c"}, {Name: "b", Seen: cas.Version{Number: b.Number + 1}}, {Name: "a"}},
		{{Name: "b", Seen: b}, {Name: "a", Seen: cas.Version{Number: 5}}},
		{{Name: "b", Seen: b}, {Name: "d", Seen: cas.Version{Number: 5}}},
	} {
		if ok, _ := swap(wrong...); ok {
			t.Errorf("%+v was written", wrong)
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			cell, err := lookAt(c, name)
			switch {
			case err != nil:
				t.Fatal(err)
			case name == "b" && (cell.Version != b || !slices.Equal(cell.Value, []byte{1})), name != "b" && len(cell.Value) > 0:
				t.Errorf("%+v was not written, and left %s as %+v", wrong, name, cell)
			}
		}
	}
	a, err := lookAt(c, "a")
	if err != nil || a.Version.Number == 0 {
		t.Fatalf("no placeholder: %+v, %v", a, err)
	}
	if ok, _ := swap(cas.Swap{Name: "a", Seen: a.Version}, cas.Swap{Name: "b", Seen: b}, cas.Swap{Name: "e"}); !ok {
		t.Error("what is as it was seen, over a placeholder too, was not written")
	}
}

// TestOneOfEach: of processes that add one row at once, or swap it, one does.
func TestOneOfEach(t *testing.T) {
	database := postgrestest.Common(t).Database(t)
	var all []*cells
	for range 4 {
		all = append(all, dialPatiently(t, database).cells)
	}
	var seen cas.Version
	for n := range 50 {
		var won atomic.Int64
		var next atomic.Uint64
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				w := []cas.Swap{{Name: "x", Seen: seen, Value: []byte("v"), Keep: time.Hour}}
				if i%2 == 0 { // as one of two, whose other is its own
					w = append(w, cas.Swap{Name: fmt.Sprint("own", n, i), Value: []byte("v"), Keep: time.Hour})
				}
				ok, err := all[i%4].Swap(t.Context(), "x", w)
				if err != nil {
					t.Error(err)
				}
				if ok {
					won.Add(1)
					next.Store(w[0].Version.Number)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d writes of one version", won.Load())
		}
		seen.Number = next.Load()
	}
}

// TestTogether: takes that name two descriptors charge both or neither, in one swap.
func TestTogether(t *testing.T) {
	database := postgrestest.Common(t).Database(t)
	a, b := dial(t, database), dial(t, database)
	limit := weir.MustParseLimit("100/day fixed-window")
	var passed atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			s := []*Store{a, b}[i%2]
			for range 30 {
				asks := []weir.Ask{
					{State: weir.StateKey{Rule: "tenant", Key: "t"}, Limit: limit, Cost: 1},
					{State: weir.StateKey{Rule: "user", Key: fmt.Sprint(i % 4)}, Limit: weir.MustParseLimit("40/day fixed-window"), Cost: 1},
				}
				out := make([]weir.Decision, 2)
				for {
					err := s.Take(t.Context(), asks, out)
					if err == nil {
						break
					}
				}
				if out[0].Charged != out[1].Charged {
					t.Errorf("%+v", out)
				}
				if out[0].Charged {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := remaining(t, a, "100/day fixed-window", "tenant", "t"); passed.Load() != 100 || n != 0 {
		t.Errorf("%d passed, and %d remain of 100", passed.Load(), n)
	}
	used := int64(0)
	for i := range 4 {
		used += 40 - remaining(t, b, "40/day fixed-window", "user", fmt.Sprint(i))
	}
	if used != 100 {
		t.Errorf("users were charged %d, and 100 passed", used)
	}
}

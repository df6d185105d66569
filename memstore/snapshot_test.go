package memstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

var keptLimits = []string{
	"10/day", "10/day burst 4 debt 3", "10/day initial 2", "10/day leaky-queue", "10/day fixed-window anchored", "10/day sliding-log",
	"10/day sliding-window", "10/day sliding-window 24", "10/day warm-up 1h", "10 concurrent ttl 1h",
}

func openStore(t *testing.T, file string, o memstore.Options) *memstore.Store {
	t.Helper()
	store, err := memstore.Open(file, o)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func save(t *testing.T, store *memstore.Store) {
	t.Helper()
	if err := store.Save(); err != nil {
		t.Fatal(err)
	}
}

// use takes up to nine events of each of n keys of every limit, and returns what
// remains of each.
func use(t *testing.T, store *memstore.Store, n, times int) []int64 {
	t.Helper()
	out := make([]weir.Decision, 1)
	var remaining []int64
	for r, text := range append(keptLimits, "7/day") {
		limit := weir.MustParseLimit(text)
		rule := fmt.Sprint("rule", r)
		if r == len(keptLimits) {
			rule = "" // has a mark of its own in the file
		}
		for k := range n {
			asks := []weir.Ask{{State: weir.StateKey{Rule: rule, Key: fmt.Sprint(k)}, Limit: limit, Cost: 1}}
			for range min(times, 1+k%9) {
				if err := store.Take(t.Context(), asks, out); err != nil {
					t.Fatal(err)
				}
			}
			asks[0].Peek = true
			if err := store.Take(t.Context(), asks, out); err != nil {
				t.Fatal(err)
			}
			remaining = append(remaining, out[0].Remaining)
		}
	}
	return remaining
}

// TestSnapshot: every count of every algorithm is there again, also in a store
// that is larger, and so it is a second time.
func TestSnapshot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	store := openStore(t, file, memstore.Options{MaxKeys: 4000})
	want := use(t, store, 1000, 9)
	for round := range 3 {
		save(t, store)
		store = openStore(t, file, memstore.Options{MaxKeys: 4000 << (4 * round)})
		for i, got := range use(t, store, 1000, 0) {
			if got != want[i] {
				t.Fatalf("round %d: %d remain of number %d, want %d", round, got, i, want[i])
			}
		}
	}
	info, err := os.Stat(file)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if left, _ := filepath.Glob(file + "?*"); len(left) > 0 {
		t.Error("left behind:", left)
	}
}

// TestSnapshotReceipts: after a restart, receipts from before give nothing back,
// and permits can still be freed.
func TestSnapshotReceipts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	store := openStore(t, file, memstore.Options{})
	out := make([]weir.Decision, 2)
	asks := []weir.Ask{
		{State: weir.StateKey{Rule: "a"}, Limit: weir.MustParseLimit("10/day"), Cost: 4, Receipt: 1},
		{State: weir.StateKey{Rule: "b"}, Limit: weir.MustParseLimit("10 concurrent ttl 1h"), Cost: 4, Receipt: 1},
	}
	if err := store.Take(t.Context(), asks, out); err != nil {
		t.Fatal(err)
	}
	settlements := []weir.Settlement{{Receipt: out[0].Receipt}, {Receipt: out[1].Receipt}}
	if err := store.Settle(t.Context(), settlements[:1]); err != nil {
		t.Fatal(err)
	}
	save(t, store)
	store = openStore(t, file, memstore.Options{})
	for i := range asks {
		asks[i].Peek, asks[i].Receipt = true, 0
	}
	if err := store.Settle(t.Context(), settlements); err != nil {
		t.Fatal(err)
	}
	if err := store.Take(t.Context(), asks, out); err != nil || out[0].Remaining != 10 || out[1].Remaining != 10 {
		t.Error(out, err)
	}
	save(t, store)
}

// TestSnapshotRefused: a file that can't be used is told, kept aside, and
// followed by a store that works.
func TestSnapshotRefused(t *testing.T) {
	dir := t.TempDir()
	good := filepath.Join(dir, "good")
	store := openStore(t, good, memstore.Options{})
	use(t, store, 20, 9)
	save(t, store)
	text, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	changed := func(at int, to byte) string {
		b := []byte(string(text))
		b[at] = to
		return string(b)
	}
	for name, c := range map[string]struct{ text, says string }{
		"empty":          {"", "no snapshot, or cut short"},
		"something":      {strings.Repeat("another file ", 100), "no snapshot"},
		"newer":          {changed(8, 2), "it has format 2, and this version of Weir reads format 1"},
		"older":          {changed(8, 0), "it has format 0, and this"},
		"head only":      {string(text[:16]), "damaged or cut short"},
		"cut short":      {string(text[:len(text)-1]), "damaged or cut short"},
		"half":           {string(text[:len(text)/2]), "damaged or cut short"},
		"more":           {string(text) + "x", "damaged or cut short"},
		"one bit":        {changed(len(text)/2, text[len(text)/2]^1), "damaged or cut short"},
		"one of its sum": {changed(len(text)-1, text[len(text)-1]^1), "damaged or cut short"},
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		store, err := memstore.Open(file, memstore.Options{})
		failed, ok := errors.AsType[*memstore.SnapshotError](err)
		if !ok || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if kept, err := os.ReadFile(failed.Aside); err != nil || string(kept) != c.text {
			t.Errorf("%s: it was not kept: %v", name, err)
		}
		if got := use(t, store, 1, 0); got[0] != 10 {
			t.Errorf("%s: %d remain in a store that starts anew", name, got[0])
		}
		save(t, store)
		openStore(t, file, memstore.Options{})
	}
}

// TestSaveFails: a failed save is told and leaves nothing behind.
func TestSaveFails(t *testing.T) {
	if err := memstore.New(memstore.Options{}).Save(); err == nil || !strings.Contains(err.Error(), "Open") {
		t.Error(err)
	}
	dir := filepath.Join(t.TempDir(), "later")
	store := openStore(t, filepath.Join(dir, "counts"), memstore.Options{})
	use(t, store, 10, 9)
	if err := store.Save(); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	// A folder stands where the file should be: it can be neither read nor replaced.
	if err := os.MkdirAll(filepath.Join(dir, "counts", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := store.Save(); err == nil {
		t.Error("saved over a folder")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "counts?*")); len(left) > 0 {
		t.Error("left behind:", left)
	}
}

// TestSaveWhileTaking: a snapshot of a store in use has, of every key, a state it
// had while the snapshot was made, however the table grows meanwhile.
func TestSaveWhileTaking(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	store := openStore(t, file, memstore.Options{})
	const most = 20_000
	for _, text := range []string{"10/day", "1000/day sliding-log"} {
		limit := weir.MustParseLimit(text)
		var done atomic.Int64 // keys that have been taken once
		var stop atomic.Bool
		var wg sync.WaitGroup
		wg.Go(func() {
			out := make([]weir.Decision, 1)
			for k := 0; !stop.Load() && k < most; k++ {
				asks := []weir.Ask{{State: weir.StateKey{Rule: text, Key: fmt.Sprint(k)}, Limit: limit, Cost: 1}}
				if err := store.Take(context.Background(), asks, out); err != nil {
					t.Error(err)
				}
				done.Store(int64(k + 1))
			}
		})
		halt := func() { stop.Store(true); wg.Wait() }
		defer halt()
		for range 3 {
			for start := done.Load(); done.Load() < min(start+3000, most); {
				runtime.Gosched()
			}
			before := done.Load()
			save(t, store)
			after := min(done.Load()+1, most)
			kept := openStore(t, file, memstore.Options{})
			out := make([]weir.Decision, 1)
			for k := range after {
				asks := []weir.Ask{{State: weir.StateKey{Rule: text, Key: fmt.Sprint(k)}, Limit: limit, Cost: 1, Peek: true}}
				if err := kept.Take(t.Context(), asks, out); err != nil {
					t.Fatal(err)
				}
				used := limit.Spec().Count - out[0].Remaining
				if used > 1 || k < before && used == 0 {
					t.Fatalf("%s: key %d of %d has used %d", text, k, before, used)
				}
			}
		}
		halt()
	}
}

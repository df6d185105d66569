//go:build unix

package memstore_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// killedFile tells a process of TestKill where its counts are.
const killedFile = "WEIR_TEST_KILLED_FILE"

// TestKill kills a process that takes and saves, again and again. The next one
// finds what was counted when the last save began that was finished, or more, and
// no more than was ever taken.
func TestKill(t *testing.T) {
	if file := os.Getenv(killedFile); file != "" {
		takeAndSave(t, file)
		return
	}
	file := filepath.Join(t.TempDir(), "counts")
	for round := range 12 {
		saved, taken := killWhileSaving(t, file, time.Duration(round)*3*time.Millisecond)
		store := openStore(t, file, memstore.Options{})
		if used := takeHot(t, store, 0); used < saved || used > taken {
			t.Fatalf("round %d: %d are counted; %d were saved, and %d taken at most", round, used, saved, taken)
		}
	}
	// What killed saves have left is removed, but not at once: it may be another
	// process's that still works.
	store := openStore(t, file, memstore.Options{})
	if err := os.WriteFile(file+".tmp-1", []byte("weir"), 0o600); err != nil {
		t.Fatal(err)
	}
	save(t, store)
	if left, _ := filepath.Glob(file + ".tmp-*"); len(left) == 0 {
		t.Error("what another process writes was removed")
	}
	left, _ := filepath.Glob(file + ".tmp-*")
	for _, name := range left {
		if err := os.Chtimes(name, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	openStore(t, file, memstore.Options{})
	if left, _ := filepath.Glob(file + "?*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// takeHot takes cost events of one key, and returns how many it has used.
func takeHot(t *testing.T, store *memstore.Store, cost int64) (used int64) {
	t.Helper()
	limit := weir.MustParseLimit("1000000000/day fixed-window anchored")
	out := make([]weir.Decision, 1)
	asks := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "hot"}, Limit: limit, Cost: cost}}
	if err := store.Take(t.Context(), asks, out); err != nil {
		t.Fatal(err)
	}
	return limit.Spec().Count - out[0].Remaining
}

// takeAndSave is the process that is killed. It says how much it may have taken
// before it takes, and how much was taken before each save that is finished.
func takeAndSave(t *testing.T, file string) {
	store := openStore(t, file, memstore.Options{})
	use(t, store, 2000, 1) // so that a save takes some time
	var taken atomic.Int64
	taken.Store(takeHot(t, store, 0))
	go func() {
		for {
			before := taken.Load()
			if err := store.Save(); err != nil {
				panic(err)
			}
			fmt.Println("saved", before)
		}
	}()
	for {
		fmt.Println("taken", taken.Load()+1000)
		for range 1000 {
			taken.Store(takeHot(t, store, 1))
		}
	}
}

// killWhileSaving starts a process and kills it some time after its second save.
func killWhileSaving(t *testing.T, file string, after time.Duration) (saved, taken int64) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKill$")
	c.Env = append(os.Environ(), killedFile+"="+file)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Wait() }() // it was killed
	saves := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var n int64
		switch text := lines.Text(); {
		case scanned(text, "saved %d", &n):
			saved = n
			if saves++; saves == 2 {
				time.AfterFunc(after, func() { _ = c.Process.Kill() })
			}
		case scanned(text, "taken %d", &n):
			taken = n
		default:
			t.Errorf("the process says %q", text)
		}
	}
	if saves < 2 {
		t.Fatal("it ended by itself")
	}
	return saved, taken
}

// scanned is whether text has this form to its end: the last line may be cut.
func scanned(text, form string, n *int64) bool {
	_, err := fmt.Sscanf(text, form, n)
	return err == nil && text == fmt.Sprintf(form, *n)
}

// TestSaveWhereNoMoreFits: a disk that is full when half is written is told, the
// old file stays, and nothing is left behind; when there is room again, it is saved.
func TestSaveWhereNoMoreFits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	store := openStore(t, file, memstore.Options{})
	use(t, store, 1, 3)
	save(t, store)
	use(t, store, 2000, 3)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	small := before
	small.Cur = 1 << 17
	signal.Ignore(syscall.SIGXFSZ) // files of this process end here as on a full disk
	defer signal.Reset(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	err := store.Save()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err == nil || !strings.Contains(err.Error(), "file too large") {
		t.Errorf("saved more than fits: %v", err)
	}
	if left, _ := filepath.Glob(file + "?*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if got := use(t, openStore(t, file, memstore.Options{}), 1, 0)[0]; got != 9 {
		t.Errorf("the old file says that %d remain", got)
	}
	save(t, store)
	if got := use(t, openStore(t, file, memstore.Options{}), 1, 0)[0]; got != 8 {
		t.Errorf("the new file says that %d remain", got)
	}
}

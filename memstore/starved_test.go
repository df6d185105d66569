//go:build linux

package memstore_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

// What a process of TestLackOfMemory is told: where its counts are, and how many
// keys a rule may have.
const (
	starvedFile = "WEIR_TEST_STARVED_FILE"
	starvedKeys = "WEIR_TEST_STARVED_KEYS"
)

// A process that is starved may have so many bytes more when the flood begins.
// All keys of the flood would need four times as many: 8 kB each.
const (
	starvedMemory = 128 << 20
	starvedFlood  = 1 << 16
)

// TestLackOfMemory floods a store in a process that gets little memory. Where
// MaxKeys fit in it, the store goes on, and who is denied stays denied. Where they
// don't, the process ends, as every Go program that is refused memory; the next
// one finds what was saved.
func TestLackOfMemory(t *testing.T) {
	if file := os.Getenv(starvedFile); file != "" {
		starve(t, file)
		return
	}
	for _, c := range []struct {
		name  string
		keys  int
		lives bool
	}{
		{"keys that fit", 1000, true},
		{"more keys than fit", starvedFlood, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "counts")
			p := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLackOfMemory$")
			p.Env = append(os.Environ(), starvedFile+"="+file, starvedKeys+"="+strconv.Itoa(c.keys))
			said, err := p.CombinedOutput()
			// The race detector has words of its own for it.
			refused := strings.Contains(string(said), "fatal error") || strings.Contains(string(said), "ThreadSanitizer failed")
			if lives := err == nil; lives != c.lives || refused == c.lives {
				t.Fatalf("it ends with %v, and says %.1000s", err, said)
			}
			if d := takeOnce(t, openStore(t, file, memstore.Options{}), "hot"); d.Outcome != weir.Denied {
				t.Errorf("what was saved is lost: %+v", d)
			}
		})
	}
}

// starve denies one key, saves that, and asks for others until they are enough
// or the system gives no more memory.
func starve(t *testing.T, file string) {
	keys, err := strconv.Atoi(os.Getenv(starvedKeys))
	if err != nil {
		t.Fatal(err)
	}
	store := openStore(t, file, memstore.Options{MaxKeys: keys})
	takeOnce(t, store, "hot")
	save(t, store)
	leave(t, starvedMemory)
	for n := range starvedFlood {
		takeOnce(t, store, strconv.Itoa(n))
	}
	if d := takeOnce(t, store, "hot"); d.Outcome != weir.Denied {
		t.Errorf("the flood has freed a key that was denied: %+v", d)
	}
	if st := store.Stats(); st.Overflow == 0 {
		t.Errorf("the flood was none: %+v", st)
	}
}

var once = weir.MustParseLimit("1000/day sliding-log")

// takeOnce takes all that key may have.
func takeOnce(t *testing.T, store *memstore.Store, key string) weir.Decision {
	asks, out := [1]weir.Ask{{State: weir.StateKey{Rule: "r", Key: key}, Limit: once, Cost: 1000}}, [1]weir.Decision{}
	if err := store.Take(t.Context(), asks[:], out[:]); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// leave lets this process have so many bytes more than it has.
func leave(t *testing.T, bytes uint64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var pages uint64
	if _, err := fmt.Sscan(string(text), &pages); err != nil {
		t.Fatal(err)
	}
	most := pages*uint64(os.Getpagesize()) + bytes
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		t.Fatal(err)
	}
}

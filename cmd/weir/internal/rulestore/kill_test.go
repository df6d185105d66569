package rulestore

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/weir-limit/weir/internal/postgrestest"
)

// The words by which a child process knows what to do.
const (
	childDir = "WEIR_TEST_RULESTORE_DIR"
	childAt  = "WEIR_TEST_RULESTORE_DIE_AT" // writes after which it dies
)

// TestKilled: a process that is killed between any two writes of a change leaves
// the old or the new version of all that it changed, and the next one goes on.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	s := shop(t, dir)
	step(t, s, 1)
	for at, done := 0, false; !done; at++ {
		before := evenly(t, s)
		c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledChild$")
		c.Env = append(os.Environ(), childDir+"="+dir, fmt.Sprintf("%s=%d", childAt, at))
		out, err := c.CombinedOutput()
		if done = err == nil; !done && c.ProcessState.ExitCode() != -1 {
			t.Fatalf("killed at write %d, it failed: %s", at, out)
		}
		switch after := evenly(t, s); {
		case done && (after != before+1 || at < 30):
			t.Errorf("with %d writes: from %d to %d", at, before, after)
		case !done && after != before && after != before+1:
			t.Errorf("killed at write %d: from %d to %d", at, before, after)
		}
		if err := sound(t.Context(), s.write, dir); err != nil {
			t.Errorf("killed at write %d: %v", at, err)
		}
	}
}

// TestKilledChild is the process that is killed. It does nothing by itself.
func TestKilledChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	var left atomic.Int64
	n, err := strconv.ParseInt(os.Getenv(childAt), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	left.Store(n)
	if err := sqlite.RegisterScalarFunction("die", 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		if left.Add(-1) < 0 {
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return nil, err
			}
			if err := self.Kill(); err != nil {
				return nil, err
			}
			select {} // until it has an effect
		}
		return int64(0), nil
	}); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	for _, table := range []string{"counters", "teams", "domains", "rules", "versions", "audit"} {
		for _, act := range []string{"INSERT", "UPDATE"} {
			for _, when := range []string{"BEFORE", "AFTER"} {
				_, err := s.write.ExecContext(t.Context(), fmt.Sprintf("CREATE TEMP TRIGGER die_%s_%s_%s %[1]s %[2]s ON main.%[3]s BEGIN SELECT die(); END", when, act, table))
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	step(t, s, evenly(t, s)+1)
}

// step sets all rules of the domain to one number, in one change.
func step(t *testing.T, s *Store, n int) {
	t.Helper()
	if err := tryStep(t, s, n); err != nil {
		t.Fatal(err)
	}
}

func tryStep(t *testing.T, s *Store, n int) error {
	t.Helper()
	var text strings.Builder
	text.WriteString("domain: shop\ndescriptors:\n")
	for _, key := range []string{"a", "b", "c"} {
		text.WriteString("  - key: " + key + fmt.Sprintf("\n    limits: [%d/s, %d/h fixed-window]\n", n, n))
	}
	d, err := s.Domain(t.Context(), "shop")
	if err != nil {
		return err
	}
	_, _, err = s.Import(t.Context(), root(), Import{Text: text.String(), Match: d.Revision, To: Enforced, Reason: "step"})
	return err
}

// evenly is the number that all rules are at; anything else is half of a change.
func evenly(t *testing.T, s *Store) int {
	t.Helper()
	text, last := file(t, s).File, 0
	for line := range strings.Lines(text) {
		var a, b int
		if n, _ := fmt.Sscanf(line, "    limits: [%d/s, %d/h fixed-window]", &a, &b); n == 2 {
			if a != b || last != 0 && last != a {
				t.Fatalf("half of a change: %s", text)
			}
			last = a
		}
	}
	// History, audit and what is in force say the same.
	r, err := s.Rule(t.Context(), "shop", "a")
	if last == 0 && kindOf(err) == int(NotFound) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	events, err := s.Audit(t.Context(), Audited{Domain: "shop", Rule: "a", Changes: true})
	if err != nil || r.Latest != int64(last) || r.Enforced != r.Latest || len(events) != last {
		t.Fatalf("at %d: %+v, %d events, %v", last, r, len(events), err)
	}
	return last
}

// TestPostgresKilled: the same when the server is killed in the middle of changes:
// what was answered is there, and what was not is there or not.
func TestPostgresKilled(t *testing.T) {
	server := postgrestest.Start(t)
	s := shop(t, server.Database(t))
	step(t, s, 1)
	for round := range 6 {
		answered := evenly(t, s)
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			time.Sleep(time.Duration(5+round*13) * time.Millisecond) // another moment each time
			server.Kill()
		}()
		var err error
		for ; err == nil; answered++ {
			err = tryStep(t, s, answered+1)
		}
		answered--
		<-killed
		if !IsKind(err, Unavailable) {
			t.Error(err)
		}
		server.Restart(t)
		if now := settled(t, s); now != answered && now != answered+1 {
			t.Errorf("%d changes were answered, and %d are there", answered, now)
		}
	}
}

// settled is evenly, when connections that the server has lost are replaced.
func settled(t *testing.T, s *Store) int {
	t.Helper()
	var err error
	for range 2 * maxConnections {
		if _, err = s.Revision(t.Context()); err == nil {
			return evenly(t, s)
		}
	}
	t.Fatal(errors.Join(errors.New("the server is back"), err))
	return 0
}

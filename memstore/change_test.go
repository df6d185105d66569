package memstore_test

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
)

const monday = weir.Instant(1_800_000_000_000_000)

// passes is how many single events of 2000 pass for a key at now.
func passes(t *testing.T, s *memstore.Store, now weir.Instant, limit, key string) (n int) {
	t.Helper()
	l := weir.MustParseLimit(limit)
	var out [1]weir.Decision
	for range 2000 {
		if err := s.TakeAt(now, []weir.Ask{{State: weir.StateKey{Rule: "r", Key: key}, Limit: l, Cost: 1}}, out[:]); err != nil {
			t.Fatal(err)
		}
		if out[0].Charged {
			n++
		}
	}
	return n
}

func peek(t *testing.T, s *memstore.Store, now weir.Instant, limit string) int64 {
	t.Helper()
	var out [1]weir.Decision
	a := weir.Ask{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit(limit), Cost: 1, Peek: true}
	if err := s.TakeAt(now, []weir.Ask{a}, out[:]); err != nil {
		t.Fatal(err)
	}
	return out[0].Remaining
}

// changedLimits are of every kind, and what they are lowered to.
var changedLimits = [][2]string{
	{"1000/month fixed-window", "10/month fixed-window"},
	{"1000/day", "10/day"},
	{"1000/day", "600/h burst 10"},
	{"1000/day sliding-log", "10/day sliding-log"},
	{"1000/day sliding-window 4", "10/day sliding-window 4"},
	{"1000/day fixed-window", "10/h sliding-log"},
	{"1000/day sliding-log", "0/s"},
	{"1000/day leaky-queue queue 999", "10/day leaky-queue"},
}

// TestLoweredAndRestored: whoever asks while a limit is lowered, with a peek or for
// another key, all that was used is used when it is restored.
func TestLoweredAndRestored(t *testing.T) {
	for _, c := range changedLimits {
		s, high, low := memstore.New(memstore.Options{}), c[0], c[1]
		var used int64
		for n := range int64(900) {
			take := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit(high), Cost: 1}}
			if err := s.TakeAt(monday, take, make([]weir.Decision, 1)); err != nil {
				t.Fatal(err)
			}
			used = n + 1
		}
		before := peek(t, s, monday, high)
		peek(t, s, monday+1, low)
		passes(t, s, monday+2, low, "other")
		if left := peek(t, s, monday+3, low); left > 1 {
			t.Errorf("%s with %d used becomes %s with %d left", high, used, low, left)
		}
		if left := peek(t, s, monday+4, high); left != before {
			t.Errorf("%s had %d left; lowered to %s and restored %d", high, before, low, left)
		}
		more := passes(t, s, monday+5, low, "k") + passes(t, s, monday+6, high, "k") + passes(t, s, monday+7, low, "k")
		if int64(more) > before {
			t.Errorf("%s had %d left; %d passed by turns with %s", high, before, more, low)
		}
	}
}

// TestReloadUnderLoad: while many ask, some of them still by the old limit, no more
// passes than the larger lets.
func TestReloadUnderLoad(t *testing.T) {
	for _, c := range [][2]string{
		{"1200/day", "1000/day"},
		{"1000/day", "1200/day"},
		{"1200/day fixed-window anchored", "1000/day fixed-window anchored"},
		{"1200/day sliding-log", "1000/day sliding-log"},
		{"1200/day", "1100/h burst 7"},
	} {
		s := memstore.New(memstore.Options{})
		limits := []*weir.Limit{weir.MustParseLimit(c[0]), weir.MustParseLimit(c[1])}
		var passed, asked atomic.Int64
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				var out [1]weir.Decision
				for range 600 {
					limit := limits[0]
					if n := asked.Add(1); n > 700 && (g < 6 || n%3 > 0) {
						limit = limits[1]
					}
					ask := []weir.Ask{{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: limit, Cost: 1}}
					if err := s.TakeAt(monday, ask, out[:]); err != nil {
						t.Error(err)
						return
					}
					if out[0].Charged {
						passed.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if n := passed.Load(); n > 1200 || n < 1000 && c[1] != "1100/h burst 7" {
			t.Errorf("%d passed while %s became %s", n, limits[0], limits[1])
		}
	}
}

// TestOldLimitsAreForgotten: states of a limit that would have recovered take up no room,
// and a rule that has changed often knows few limits.
func TestOldLimitsAreForgotten(t *testing.T) {
	s, now := memstore.New(memstore.Options{}), monday
	for n, limit := range []string{"10/s", "20/s", "30/s", "40/s", "50/s", "60/s", "70/s"} {
		passes(t, s, now, limit, "k")
		if slots := s.Stats().Slots; slots > weir.MaxVersions*5 {
			t.Errorf("after %d limits there are %d slots", n+1, slots)
		}
	}
	if n := passes(t, s, now, "80/s", "k"); n > 0 {
		t.Errorf("%d pass of a limit for which there is no table", n)
	}
	now += weir.Instant(10 * time.Second / time.Microsecond)
	passes(t, s, now, "80/s", "k")
	now += weir.Instant(10 * time.Second / time.Microsecond)
	if n := passes(t, s, now, "80/s", "k"); n != 80 {
		t.Errorf("%d of 80 pass when all others have recovered", n)
	}
	if st := s.Stats(); st.Slots > 5 || st.Rules != 1 {
		t.Errorf("what is left: %+v", st)
	}
}

// TestChangedLimitsAreSaved: a snapshot has the states of all limits of a rule.
func TestChangedLimitsAreSaved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	s, err := memstore.Open(file, memstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	now := weir.InstantOf(time.Now())
	passes(t, s, now, "1000/day burst 500", "k")
	passes(t, s, now, "10/min", "k")
	passes(t, s, now, "10/min", "other")
	if err := s.Save(); err != nil {
		t.Fatal(err)
	}
	if s, err = memstore.Open(file, memstore.Options{}); err != nil {
		t.Fatal(err)
	}
	now = weir.InstantOf(time.Now())
	if n := passes(t, s, now, "10/min", "k") + passes(t, s, now, "1000/day burst 500", "k"); n > 5 {
		t.Errorf("%d pass of a key that had used all", n)
	}
	if n := passes(t, s, now, "1000/day burst 500", "other"); n > 490 {
		t.Errorf("%d pass of a key that had used 10 by another limit", n)
	}
}

// BenchmarkTakeChanged is of a rule whose limit has changed a moment ago.
func BenchmarkTakeChanged(b *testing.B) {
	s := memstore.New(memstore.Options{})
	ask := weir.Ask{State: weir.StateKey{Rule: "r", Key: "k"}, Limit: weir.MustParseLimit("1000/h"), Cost: 1}
	var out [1]weir.Decision
	for range b.N {
		if err := s.Take(b.Context(), []weir.Ask{ask}, out[:]); err != nil {
			b.Fatal(err)
		}
		if ask.Limit.Spec().Count == 1000 {
			ask.Limit = weir.MustParseLimit("1000000000/h")
		}
	}
}

// TestChangedWhileTheClockIsBehind: a limit that is new to a rule gets its table though
// others were asked later by a clock that has stepped back since.
func TestChangedWhileTheClockIsBehind(t *testing.T) {
	s := memstore.New(memstore.Options{})
	for _, step := range []struct {
		at    weir.Instant
		limit string
		want  int
	}{{monday, "100/day", 100}, {monday + 1_000_000, "200/day", 100}, {monday + 500_000, "300/day", 99}} {
		if n := passes(t, s, step.at, step.limit, "ann"); n != step.want {
			t.Errorf("%d pass of %s, want %d", n, step.limit, step.want)
		}
	}
}

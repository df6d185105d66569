package memstore

import (
	"fmt"
	"testing"

	"github.com/weir-limit/weir"
)

// take1 takes one event of a key of a limit.
func take1(t *testing.T, s *Store, now weir.Instant, rule, key string, limit *weir.Limit) weir.Decision {
	t.Helper()
	asks := []weir.Ask{{State: weir.StateKey{Rule: rule, Key: key}, Limit: limit, Cost: 1}}
	out := make([]weir.Decision, 1)
	if err := s.TakeAt(now, asks, out); err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// TestBroughtLimitsShareRoom: all limits that come with requests have together the
// room of one rule, however many keys are asked about. Who is denied stays denied, and
// a limit that came late has its part.
func TestBroughtLimitsShareRoom(t *testing.T) {
	const keys, limits = 5000, 8
	s, alone := New(Options{MaxKeys: keys}), New(Options{MaxKeys: keys})
	rule := func(n int) string { return fmt.Sprint(weir.Brought, "CL.THROTTLE ", n) }
	limit, now := weir.MustParseLimit("1/day burst 1"), s.clock.now()
	for n := range limits {
		take1(t, s, now, rule(n), "hot", limit)
		for k := range 2 * keys {
			take1(t, s, now, rule(n), fmt.Sprint("k", k), limit)
			if n == 0 {
				take1(t, alone, now, rule(n), fmt.Sprint("k", k), limit)
			}
		}
	}
	if most := 3 * alone.Stats().Slots / 2; s.Stats().Slots > most {
		t.Errorf("%d limits have %d slots; one alone has %d", limits, s.Stats().Slots, alone.Stats().Slots)
	}
	for n := range limits {
		if d := take1(t, s, now, rule(n), "hot", limit); d.Outcome != weir.Denied {
			t.Errorf("limit %d: the flood has freed a key that was denied", n)
		}
	}
	late, passed := rule(limits), 0
	for k := range leastBrought / 2 {
		if take1(t, s, now, late, fmt.Sprint("k", k), limit).Outcome == weir.Allowed {
			passed++
		}
	}
	if passed != leastBrought/2 {
		t.Errorf("%d of %d keys of a limit that came late pass", passed, leastBrought/2)
	}
	if d := take1(t, s, now, "demo/of a file#1", "k", limit); d.Outcome != weir.Allowed {
		t.Errorf("a rule of a file: %+v", d)
	}
}

// TestBroughtLimitsMakePlace: tables of limits that came with requests and are as never
// used are dropped when there is no room left, and others are not.
func TestBroughtLimitsMakePlace(t *testing.T) {
	s := New(Options{MaxKeys: 64})
	long, short := weir.MustParseLimit("1/day burst 1"), weir.MustParseLimit("1/s burst 1")
	now := s.clock.now()
	take1(t, s, now, weir.Brought+"long", "k", long)
	take1(t, s, now-2*hour, "of a file", "k", short)
	for n := range 200 {
		take1(t, s, now-2*hour, fmt.Sprint(weir.Brought, n), "k", short)
	}
	s.brought.swept = s.brought.swept.Add(-hour.Duration())
	take1(t, s, now, weir.Brought+"new", "k", short)
	if n := s.Stats().Rules; n > 3+50 {
		t.Errorf("%d rules have tables", n)
	}
	if !s.known("of a file") {
		t.Error("a rule of a file has lost its table")
	}
	if d := take1(t, s, now, weir.Brought+"long", "k", long); d.Outcome != weir.Denied {
		t.Errorf("a key that was denied is free: %+v", d)
	}
}

// TestSplitKeepsOverflow: keys that found no slot while a table was crowded stay denied when
// there is room again and their segment is split.
func TestSplitKeepsOverflow(t *testing.T) {
	s, limit := New(Options{}), weir.MustParseLimit("1/day burst 1")
	now := s.clock.now()
	take1(t, s, now, "r", "somebody", limit)
	table, err := s.table("r")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c", "d"} { // in either half
		f := table.hash.print(key)
		sg := table.lock(f)
		sg.spill(f)
		sg.overflow = limit.Charge(sg.overflow, now, 1)
		sg.split()
		sg.mu.Unlock()
		if d := take1(t, s, now, "r", key, limit); d.Outcome != weir.Denied {
			t.Errorf("%s: %v; the overflow state was lost", key, d.Outcome)
		}
	}
}

package memstore

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/weir-limit/weir"
)

var torture = flag.Bool("torture", false, "run the slow proofs, too")

// takeOnce takes once of each key, and says how many passed.
func (s *Store) takeOnce(t *testing.T, limit *weir.Limit, now weir.Instant, keys func(yield func(string) bool)) (passed int) {
	t.Helper()
	asks, out := []weir.Ask{{State: weir.StateKey{Rule: "r"}, Limit: limit, Cost: 1}}, make([]weir.Decision, 1)
	for key := range keys {
		asks[0].State.Key = key
		if err := s.TakeAt(now, asks, out); err != nil {
			t.Fatal(err)
		}
		if out[0].Charged {
			passed++
		}
	}
	return passed
}

// TestOddKeys: each key has a count of its own, whatever it looks like: empty, of
// one byte, of a mebibyte that differs in one byte at the end, and thousands that
// begin alike.
func TestOddKeys(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	alike := strings.Repeat("/api/v1/", 512)
	var keys []string
	for i := range 256 {
		keys = append(keys, string([]byte{byte(i)}))
	}
	for i := range 5000 {
		keys = append(keys, fmt.Sprint(alike, i), fmt.Sprint(i, alike))
	}
	keys = append(keys, "", "\x00\x00", long, long+"x", long[1:]+"y", long[1:]+"z")
	each := func(yield func(string) bool) {
		for _, k := range keys {
			if !yield(k) {
				return
			}
		}
	}
	for _, keyed := range []bool{false, true} {
		s, limit := New(Options{}), weir.MustParseLimit("1/day")
		s.hash.keyed = keyed
		if passed := s.takeOnce(t, limit, 0, each); passed != len(keys) {
			t.Errorf("keyed %v: %d of %d keys passed once", keyed, passed, len(keys))
		}
		if passed := s.takeOnce(t, limit, 1, each); passed != 0 {
			t.Errorf("keyed %v: %d passed twice", keyed, passed)
		}
	}
}

// TestChosenKeys: keys that were chosen to fill one bucket of a store whose secret
// is known do nothing to a store with another.
func TestChosenKeys(t *testing.T) {
	var known, other hasher
	known.keyed, other.keyed, other.key = true, true, [2]uint64{1, 2}
	var chosen []string
	for i := 0; len(chosen) < 1000; i++ {
		if key := fmt.Sprint("key", i); known.print(key)>>54 == 5 {
			chosen = append(chosen, key)
		}
	}
	lead := map[uint64]int{}
	most := 0
	for _, key := range chosen {
		f := other.print(key) >> 54
		lead[f]++
		most = max(most, lead[f])
	}
	if len(lead) < 500 || most > 10 { // of 1,024 places about 640, and 6
		t.Errorf("%d keys share %d places, %d the fullest", len(chosen), len(lead), most)
	}
}

// TestStaysSmall: keys that come once and are as never used soon after leave a table
// about as small as those that are in use at a time need it.
func TestStaysSmall(t *testing.T) {
	s, limit := New(Options{}), weir.MustParseLimit("1/s burst 1")
	for i := range 1000 { // a hundred each tenth of a second, so a thousand are in use
		s.takeOnce(t, limit, weir.Instant(i)*100_000, func(yield func(string) bool) {
			for k := range 100 {
				yield(fmt.Sprint(i, "-", k))
			}
		})
	}
	if slots := s.Stats().Slots; slots > 4000 {
		t.Errorf("%d slots for a thousand keys at a time", slots)
	}
}

// TestTortureFlood: ten million keys that come once against a bound of a million.
// The store stays as large as it was said to be, counts whom it denied without a
// place of their own, and frees nobody who is denied.
func TestTortureFlood(t *testing.T) {
	if !*torture {
		t.Skip("make torture runs it")
	}
	const most = 1_000_000
	s, limit := New(Options{MaxKeys: most}), weir.MustParseLimit("1/h burst 1")
	flood := func(from, to int) func(yield func(string) bool) {
		return func(yield func(string) bool) {
			for i := from; i < to && yield(fmt.Sprint("flood", i)); i++ {
			}
		}
	}
	first := s.takeOnce(t, limit, 1, flood(0, most/2))
	passed := first + s.takeOnce(t, limit, 2, flood(most/2, 10*most))
	st := s.Stats()
	t.Logf("%d of %d keys passed; %+v", passed, 10*most, st)
	if first != most/2 || st.Slots > most*3/2 || passed > st.Slots+len(s.tables["r"].dir.Load().segments) {
		t.Errorf("%d and then %d keys passed, there are %d slots", first, passed, st.Slots)
	}
	if st.Evicted != 0 || st.Overflow == 0 {
		t.Errorf("evicted %d, shared %d", st.Evicted, st.Overflow)
	}
	if again := s.takeOnce(t, limit, 3, flood(0, 10*most)); again != 0 {
		t.Errorf("%d passed twice", again)
	}
}

package rules

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// TestExceptionsOracle: whatever is set, ended and has expired, one by one and many at once, is found as a map has it; with hashes that collide, too.
func TestExceptionsOracle(t *testing.T) {
	places := []string{"shop/user#gcra", "shop/user#name=day", "shop/path/user#gcra"}
	limits := []*weir.Limit{weir.MustParseLimit("1/s"), weir.MustParseLimit("2/s"), weir.MustParseLimit("3/s")}
	rapid.Check(t, func(t *rapid.T) {
		x := new(Exceptions)
		if n := rapid.SampledFrom([]uint64{0, 1, 3}).Draw(t, "hashes"); n > 0 {
			x.hash = func(rule uint64, key string) uint64 { return (rule + uint64(len(key))) % n * 0x0100_0000_0001 }
		}
		type held struct {
			limit *weir.Limit
			until weir.Instant
		}
		oracle := map[weir.StateKey]held{}
		now := weir.Instant(1000)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			now += weir.Instant(rapid.IntRange(0, 5).Draw(t, "later"))
			anew := rapid.IntRange(0, 9).Draw(t, "anew") == 0
			if anew {
				clear(oracle)
			}
			changed := map[weir.StateKey]bool{}
			var changes []Exception
			for range rapid.IntRange(0, 12).Draw(t, "changes") {
				at := weir.StateKey{Rule: rapid.SampledFrom(places).Draw(t, "place"), Key: rapid.SampledFrom([]string{"", "a", "b", "aa", "ab", "ba"}).Draw(t, "key")}
				if changed[at] {
					continue
				}
				changed[at] = true
				e := Exception{State: at, Limit: rapid.SampledFrom(limits).Draw(t, "limit"), Until: now + weir.Instant(rapid.IntRange(-2, 12).Draw(t, "until"))}
				if rapid.IntRange(0, 3).Draw(t, "end") == 0 {
					e.Limit = nil
				}
				delete(oracle, at)
				if e.Limit != nil {
					oracle[at] = held{e.Limit, e.Until}
				}
				changes = append(changes, e)
			}
			x.Change(changes, anew, now)
			at := now + weir.Instant(rapid.IntRange(0, 6).Draw(t, "asked"))
			v, active := x.view.Load(), 0
			for _, place := range places {
				for _, key := range []string{"", "a", "b", "aa", "ab", "ba", "c"} {
					want := oracle[weir.StateKey{Rule: place, Key: key}]
					if want.until <= at {
						want = held{}
					} else {
						active++
					}
					got, until := x.find(v, hashPlace(place), place, key, at)
					if got == nil && want.limit != nil || got != nil && (got.limit != want.limit || until != want.until) {
						t.Fatalf("%s of %q at %d: %v until %d, want %v", place, key, at, got, until, want)
					}
					if got != nil && v.rules[hashPlace(place)] == 0 {
						t.Fatalf("%s is told to have none", place)
					}
				}
			}
			if n := x.Active(at); n != active || x.Len() < active {
				t.Fatalf("%d of %d hold, want %d", n, x.Len(), active)
			}
		}
	})
}

// TestExceptionsForgetLimits: limits that no exception has any more do not pile up.
func TestExceptionsForgetLimits(t *testing.T) {
	var x Exceptions
	at := weir.StateKey{Rule: "shop/user#gcra", Key: "a"}
	for i := range 10 * leastUnused {
		x.Change([]Exception{{at, weir.MustParseLimit(fmt.Sprintf("%d/s", i+1)), 10}}, false, 1)
	}
	if n := len(x.view.Load().held); n > 2*leastUnused+2 {
		t.Errorf("%d limits for one exception", n)
	}
	if held, _ := x.find(x.view.Load(), hashPlace(at.Rule), at.Rule, "a", 1); held == nil || held.limit.String() != "10000/s" {
		t.Error(held)
	}
}

package weir_test

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// kinds is a limit of every kind, with the same count.
var kinds = []string{
	"10/h", "10/h burst 4 initial 1", "10/h strict", "10/h leaky-queue", "10/h fixed-window", "10/h fixed-window anchored",
	"10/day fixed-window zone Europe/Berlin", "10/h sliding-log", "10/h sliding-window 4", "10/h sliding-window relaxed",
	"10/h warm-up 10s", "10 concurrent", "0/h", "0/h leaky-queue", "0/h fixed-window", "0/h sliding-log", "0/h sliding-window",
	"0/h warm-up 1s", "0 concurrent",
}

// TestChangeFromEveryKindToEveryOther: what was used stays used, up to what the
// new limit passes at once; nothing goes over between permits and events.
func TestChangeFromEveryKindToEveryOther(t *testing.T) {
	const now = 1_700_000_000_000_000
	for _, from := range kinds {
		for _, to := range kinds {
			old, l := weir.MustParseLimit(from), weir.MustParseLimit(to)
			s, d := take(old, nil, now, weir.Ask{Cost: 3, AtLeast: 1})
			s = l.Adopt(s, old, now)
			fresh, _ := l.Standing(nil, now)
			remaining, _ := l.Standing(s, now)
			want := max(fresh-d.Cost, 0)
			permits := old.Algorithm() == weir.Concurrent
			switch {
			case from == to, d.Charged && old.Algorithm() == weir.WarmUp && l.Algorithm() != weir.WarmUp:
				continue // its events in use are time, which passes while it is slow
			case !d.Charged, permits != (l.Algorithm() == weir.Concurrent):
				want = fresh
			case strings.Contains(from, "initial"):
				continue // what it began without counts as used
			case strings.Contains(to, "initial"):
				want = 4 - d.Cost
			}
			if remaining != want {
				t.Errorf("%s with %d used becomes %s with %d remaining, want %d", from, d.Cost, to, remaining, want)
			}
		}
	}
}

// TestNothingPassesZero: a count of 0 denies by every way there is.
func TestNothingPassesZero(t *testing.T) {
	for _, text := range kinds {
		if !strings.HasPrefix(text, "0") {
			continue
		}
		l := weir.MustParseLimit(text)
		var s weir.State
		for _, a := range []weir.Ask{{Cost: 1}, {Cost: weir.MaxCount}, {Cost: 1, MaxHold: time.Hour}, {Cost: 5, AtLeast: 1}, {Cost: 1, Shadow: true}} {
			var d weir.Decision
			if s, d = take(l, s, 5, a); d.Outcome != weir.Impossible || d.Charged || d.Remaining != 0 || d.RetryAfter != 0 || d.NextAfter != 0 {
				t.Errorf("%s says %+v to %+v", text, d, a)
			}
		}
		if l.Algorithm() == weir.Concurrent {
			continue
		}
		s, d := take(l, s, 5, weir.Ask{Cost: 1, After: true})
		if d.Outcome != weir.Impossible {
			t.Errorf("%s says %+v to work already done", text, d)
		}
		r := &weir.Receipt{ID: 1, Limit: l, Cost: 1, Expires: 100}
		for _, used := range []int64{0, 1, 9} {
			if _, err := l.Settle(s, 5, 0, &weir.Settlement{Receipt: r, Used: used}); err != nil {
				t.Errorf("%s: settling %d: %v", text, used, err)
			}
		}
		if b := l.Bound(time.Hour, 1); b != 0 {
			t.Errorf("%s lets %d pass in an hour", text, b)
		}
	}
}

// TestForcedChargeIsBounded: work that is reported beyond a limit makes later
// work wait no longer than a full bucket or queue does, and what is settled beyond
// it no longer than MaxCount events take, or MaxDrain.
func TestForcedChargeIsBounded(t *testing.T) {
	for text, longest := range map[string][2]time.Duration{
		"10/10s":                     {10 * time.Second, (weir.MaxCount + 10) * time.Second},
		"10/10s debt 5":              {15 * time.Second, (weir.MaxCount + 10) * time.Second},
		"10/10s leaky-queue queue 4": {5 * time.Second, (weir.MaxCount + 5) * time.Second},
		"1/h":                        {time.Hour, weir.MaxDrain},
		"10/10s fixed-window":        {10 * time.Second, 10 * time.Second},
		"10/10s sliding-log":         {10 * time.Second, 10 * time.Second},
		"10/10s warm-up 1s":          {weir.MaxDrain + time.Second, weir.MaxDrain + time.Second},
	} {
		l := weir.MustParseLimit(text)
		var reported, settled weir.State
		r := &weir.Receipt{ID: 1, Limit: l, Cost: 1, Expires: 1 << 40}
		for range 50 {
			reported, _ = take(l, reported, 0, weir.Ask{Cost: weir.MaxCount * 4, After: true})
			var err error
			if settled, err = l.Settle(settled, 0, 0, &weir.Settlement{Receipt: r, Used: weir.MaxCount * 4}); err != nil {
				t.Fatal(err)
			}
		}
		checkLongest(t, l, reported, longest[0])
		checkLongest(t, l, settled, longest[1])
	}
}

func checkLongest(t *testing.T, l *weir.Limit, s weir.State, longest time.Duration) {
	t.Helper()
	if _, reset := l.Standing(s, 0); reset > longest+time.Millisecond || reset < longest-time.Second {
		t.Errorf("%s is as never used after %v, want about %v", l, reset, longest)
	}
	if _, d := take(l, s, 0, weir.Ask{Cost: 1}); d.Outcome != weir.Denied {
		t.Errorf("%s after far too much: %+v", l, d)
	}
}

// TestFreshInTheRepeatedHour: at St. John's the clocks went back over midnight. A
// key first seen in the hour that shows yesterday's date again belongs to the
// day that had begun.
func TestFreshInTheRepeatedHour(t *testing.T) {
	l := weir.MustParseLimit("1/day fixed-window zone America/St_Johns")
	at := weir.InstantOf(time.Date(2007, 11, 4, 2, 45, 0, 0, time.UTC)) // 23:15 on the 3rd, again
	_, d := take(l, nil, at, weir.Ask{Cost: 1})
	if want := 24*time.Hour + 45*time.Minute; d.ResetAfter != want {
		t.Errorf("the window ends in %v, want %v", d.ResetAfter, want)
	}
}

// TestMaxHolders: a key's permits have a bound beside their count.
func TestMaxHolders(t *testing.T) {
	l := weir.MustParseLimit("1000000 concurrent ttl 1s")
	var s weir.State
	for i := range weir.MaxHolders {
		var d weir.Decision
		if s, d = take(l, s, 0, weir.Ask{Cost: 1}); !d.Charged {
			t.Fatalf("holder %d is %+v", i, d)
		}
	}
	s, d := take(l, s, 0, weir.Ask{Cost: 1})
	if d.Outcome != weir.Denied || d.Remaining != 0 {
		t.Errorf("one holder too many is %+v", d)
	}
	if _, d := take(l, s, 1_000_000, weir.Ask{Cost: 1}); d.Outcome != weir.Allowed || d.Remaining != 999_999 {
		t.Errorf("when all have run out: %+v", d)
	}
}

// TestHoldRoundsUp: who is ready to be held for a nanosecond is ready for a
// microsecond, the unit of all times.
func TestHoldRoundsUp(t *testing.T) {
	l := weir.MustParseLimit("1/us burst 1")
	s, _ := take(l, nil, 0, weir.Ask{Cost: 1})
	if _, d := take(l, s, 0, weir.Ask{Cost: 1, MaxHold: 1}); d.Outcome != weir.Allowed || d.Hold != time.Microsecond {
		t.Errorf("%+v", d)
	}
	if _, d := take(l, s, 0, weir.Ask{Cost: 1, MaxHold: -time.Second}); d.Outcome != weir.Denied {
		t.Errorf("a negative hold: %+v", d)
	}
}

// TestClockBeyondItsRange: instants that no state can hold count as the nearest
// that it can.
func TestClockBeyondItsRange(t *testing.T) {
	for _, text := range kinds {
		l := weir.MustParseLimit(text)
		for _, now := range []weir.Instant{-1 << 63, -1, 1<<52 + 1, 1<<63 - 1} {
			s, d := take(l, nil, now, weir.Ask{Cost: 1, Receipt: 1})
			if want := !strings.HasPrefix(text, "0"); d.Charged != want {
				t.Errorf("%s at %d: %+v", text, now, d)
			}
			if _, _, err := next(l, s, now, d.Receipt); err != nil && !errors.Is(err, weir.ErrExpired) {
				t.Errorf("%s at %d: %v", text, now, err)
			}
		}
	}
}

// next settles and asks again, to see that nothing panics.
func next(l *weir.Limit, s weir.State, now weir.Instant, r *weir.Receipt) (weir.State, weir.Decision, error) {
	var err error
	if r != nil {
		s, err = l.Settle(s, now, 0, &weir.Settlement{Receipt: r})
	}
	s, d := take(l, s, now, weir.Ask{Cost: 1})
	return s, d, err
}

func TestNamesOfNothing(t *testing.T) {
	for _, text := range []string{weir.Algorithm(99).String(), weir.Calendar(99).String(), weir.Mode(99).String()} {
		if !strings.Contains(text, "(99)") {
			t.Errorf("a constant that is none is called %q", text)
		}
	}
	for _, e := range []*weir.DeniedError{{Answer: weir.Answer{}}, {Answer: weir.Answer{Decision: weir.Decision{Outcome: weir.Impossible}}}} {
		if !strings.HasPrefix(e.Error(), "rate limit: ") {
			t.Error(e)
		}
	}
}

// TestBoundGrows: at the largest counts and widths, a bound is never negative, no less
// for a longer width or larger costs, and no less than what passes at once; of a bucket
// it is what big numbers say, over any time.
func TestBoundGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		l := makeLimit(t, spec)
		widths := []int64{wide(t, 1, math.MaxInt64/1000, "width"), wide(t, 1, math.MaxInt64/1000, "other width")}
		slices.Sort(widths)
		largest := wide(t, 1, weir.MaxCost, "largest cost")
		nodes, delay := int(wide(t, 1, 1<<20, "nodes")), time.Duration(wide(t, 0, math.MaxInt64, "delay"))
		for name, bound := range map[string]func(width time.Duration, largest int64) int64{
			"alone":  l.Bound,
			"shared": func(w time.Duration, n int64) int64 { return bounds.Shared(l, weir.SharingMesh, nodes, delay, w, n) },
			"synced": func(w time.Duration, n int64) int64 { return l.BoundSynced(w, delay, nodes, n) },
		} {
			short, long := time.Duration(widths[0])*time.Microsecond, time.Duration(widths[1])*time.Microsecond
			least, most, dear := bound(short, 1), bound(long, 1), bound(long, largest)
			at, _ := l.Standing(nil, 0)
			if spec.Initial == nil && spec.Algorithm != weir.LeakyQueue && least < min(at, spec.Count) || least < 0 || most < least || dear < most {
				t.Fatalf("%s, %s: %d in %v, %d in %v, %d by costs of up to %d", l, name, least, short, most, long, dear, largest)
			}
		}
		if spec.Algorithm <= weir.LeakyBucket && spec.Mode != weir.Strict {
			spec = l.Spec()
			exact := new(big.Int).Mul(big.NewInt(widths[1]-1), big.NewInt(spec.Count))
			exact.Div(exact, big.NewInt(spec.Period.Microseconds())).Add(exact, big.NewInt(spec.Burst+spec.Debt))
			got := l.Bound(time.Duration(widths[1])*time.Microsecond, 1)
			if exact.IsInt64() && got != exact.Int64() || !exact.IsInt64() && got != math.MaxInt64 {
				t.Fatalf("%s: the bound of %d µs is %d, want %s", l, widths[1], got, exact)
			}
		}
	})
}

// TestBoundSaturates: bounds beyond int64 are the largest int64.
func TestBoundSaturates(t *testing.T) {
	for _, text := range []string{"1073741824/us", "1073741824/us sliding-window relaxed", "4294967295/us fixed-window", "9 concurrent", "1073741824/us leaky-queue"} {
		if b := weir.MustParseLimit(text).Bound(1<<62, weir.MaxCount); b < 1<<62 {
			t.Errorf("%s lets %d pass in 146 years", text, b)
		}
	}
	if b := weir.MustParseLimit("65536/us sliding-window strict").Bound(8*365*24*time.Hour, 1); b != math.MaxInt64 {
		t.Errorf("65536/us lets %d pass in 8 years", b)
	}
	if b := weir.MustParseLimit("5/s").Bound(0, 1); b != 0 {
		t.Errorf("%d pass in no time", b)
	}
}

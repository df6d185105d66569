package weir_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

func TestBackoffDelay(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	own := weir.Backoff{First: 3 * s, Most: 20 * s}
	for _, c := range []struct {
		backoff    weir.Backoff
		try        int
		after      time.Duration
		from, till time.Duration
	}{
		{weir.Backoff{}, 0, 0, 0, 100 * ms},
		{weir.Backoff{}, 3, 0, 0, 800 * ms},
		{weir.Backoff{}, 7, 0, 0, 10 * s},
		{weir.Backoff{}, math.MaxInt, 0, 0, 10 * s},
		{weir.Backoff{}, -1, -s, 0, 100 * ms},
		{weir.Backoff{}, 0, 500 * ms, 500 * ms, 600 * ms}, // First is more than a tenth
		{weir.Backoff{}, 0, 60 * s, 60 * s, 66 * s},
		{weir.Backoff{}, 6, 60 * s, 60 * s, 66*s + 400*ms}, // the herd was denied again: wider
		{weir.Backoff{}, 0, time.Hour, time.Hour, time.Hour + 10*s},
		{own, 0, 0, 0, 3 * s},
		{own, 1, 0, 0, 6 * s},
		{own, 3, 0, 0, 20 * s},
		{weir.Backoff{First: time.Hour, Most: s}, 0, 0, 0, s},
		{weir.Backoff{}, 0, math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{weir.Backoff{First: math.MaxInt64, Most: math.MaxInt64}, 9, 0, 0, math.MaxInt64},
	} {
		got := [2]time.Duration{c.backoff.Delay(c.try, c.after, 0), c.backoff.Delay(c.try, c.after, math.MaxUint64)}
		if want := [2]time.Duration{c.from, c.till}; got != want {
			t.Errorf("%+v, try %d after %v: %v, want %v", c.backoff, c.try, c.after, got, want)
		}
	}
}

// TestBackoffSpreads: random picks evenly, so that those who were denied together
// come back spread over the whole span.
func TestBackoffSpreads(t *testing.T) {
	const n = 1000
	var got, want [10]int
	for i := range uint64(n) {
		d := weir.Backoff{}.Delay(0, 2*time.Second, i*(math.MaxUint64/n))
		got[min((d-2*time.Second)*10/(200*time.Millisecond), 9)]++
	}
	for i := range want {
		want[i] = n / 10
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestBackoffEnds: a span that can't be doubled any more is reached, and not looked
// for as often as was tried.
func TestBackoffEnds(t *testing.T) {
	b := weir.Backoff{First: 1, Most: math.MaxInt64}
	if got := b.Delay(math.MaxInt, 0, math.MaxUint64); got != math.MaxInt64 {
		t.Errorf("waits %d, want %d", got, math.MaxInt64)
	}
}

func TestBackoffNeverEarlier(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := weir.Backoff{First: time.Duration(rapid.Int64().Draw(t, "first")), Most: time.Duration(rapid.Int64().Draw(t, "most"))}
		after := time.Duration(rapid.Int64().Draw(t, "after"))
		try := rapid.Int().Draw(t, "try")
		random := rapid.Uint64().Draw(t, "random")
		d := b.Delay(try, after, random)
		if d < after || d < 0 {
			t.Fatalf("waits %v, which is before %v", d, after)
		}
		if again := b.Delay(max(try, 0)/2, after, random); again > d && try > 0 {
			t.Fatalf("waits %v in an earlier try, and then only %v", again, d)
		}
	})
}

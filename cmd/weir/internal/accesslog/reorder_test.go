package accesslog

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// event is a line as the tests of Reorder see it.
type event struct {
	at   weir.Instant
	turn int
}

// reordered is what a Reorder makes of lines with these times, popped as late
// as it allows.
func reordered(r *Reorder[int], times []weir.Instant) []event {
	var out []event
	drain := func() {
		for at, turn, ok := r.Pop(); ok; at, turn, ok = r.Pop() {
			out = append(out, event{at, turn})
		}
	}
	for turn, at := range times {
		r.Push(at, 1, turn)
		drain()
	}
	r.End()
	drain()
	return out
}

// naive sorts all lines at once.
func naive(slack weir.Instant, times []weir.Instant) (out []event, late int64) {
	newest := weir.Instant(math.MinInt64 / 2)
	for turn, at := range times {
		newest = max(newest, at)
		if at < newest-slack {
			at = newest
			late++
		}
		out = append(out, event{at, turn})
	}
	slices.SortStableFunc(out, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return out, late
}

// naiveBounded holds a sorted list, and when that is longer than most it lets
// all go that are in one slot with the oldest.
func naiveBounded(slack, width weir.Instant, most int, times []weir.Instant) (out []event, late, early int64) {
	var list []event
	slot := func(at weir.Instant) int64 { return int64(math.Floor(float64(at) / float64(width))) }
	newest, floor := weir.Instant(math.MinInt64/2), weir.Instant(math.MinInt64)
	release := func(goes func(at weir.Instant) bool) (n int64) {
		for ; len(list) > 0 && goes(list[0].at); n++ {
			out, list = append(out, list[0]), list[1:]
		}
		return n
	}
	for turn, at := range times {
		newest = max(newest, at)
		if at < newest-slack || at < floor {
			at = newest
			late++
		}
		due := func(at weir.Instant) bool { return weir.Instant(slot(at)+1)*width-1 <= newest-slack }
		release(due)
		list = append(list, event{at, turn})
		slices.SortStableFunc(list, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		release(due)
		for len(list) > most {
			oldest := slot(list[0].at)
			early += release(func(at weir.Instant) bool { return slot(at) == oldest })
			floor = out[len(out)-1].at
		}
	}
	release(func(weir.Instant) bool { return true })
	return out, late, early
}

func TestReorderIsStableSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := drawTimes(t)
		slack := rapid.SampledFrom([]int64{100, 239, 360, 1000}).Draw(t, "slack")
		want, late := naive(weir.Instant(slack), times)
		r := newReorder[int](time.Duration(slack)*time.Microsecond, math.MaxInt, math.MaxInt)
		got := reordered(r, times)
		if !slices.Equal(got, want) || r.Late != late || r.Early != 0 {
			t.Fatalf("%v:\n got %v, %d late, %d early\nwant %v, %d late", times, got, r.Late, r.Early, want, late)
		}
	})
}

func TestReorderBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times, most := drawTimes(t), rapid.IntRange(0, 8).Draw(t, "most")
		slack := weir.Instant(rapid.SampledFrom([]int64{100, 239, 360, 1000}).Draw(t, "slack"))
		r := newReorder[int](time.Duration(slack)*time.Microsecond, most, math.MaxInt)
		want, late, early := naiveBounded(slack, r.width, most, times)
		if rapid.Bool().Draw(t, "by bytes") {
			r.maxHeld, r.maxBytes = math.MaxInt, most
		}
		got := reordered(r, times)
		if !slices.Equal(got, want) || r.Late != late || r.Early != early {
			t.Fatalf("%v, most %d:\n got %v, %d late, %d early\nwant %v, %d late, %d early",
				times, most, got, r.Late, r.Early, want, late, early)
		}
		if !slices.IsSortedFunc(got, func(a, b event) int { return cmp.Compare(a.at, b.at) }) {
			t.Fatalf("time runs backwards in %v", got)
		}
	})
}

// drawTimes draws times that mostly go up, by steps about the slack of 100.
func drawTimes(t *rapid.T) []weir.Instant {
	now := weir.Instant(rapid.Int64Range(-50, 50).Draw(t, "start"))
	var times []weir.Instant
	for _, step := range rapid.SliceOf(rapid.Int64Range(-150, 160)).Draw(t, "steps") {
		now += weir.Instant(step)
		times = append(times, now)
	}
	return times
}

func TestReorderEdges(t *testing.T) {
	const s = weir.Instant(1_000_000)
	for _, c := range []struct {
		name  string
		times []weir.Instant
		want  []event
		late  int64
	}{
		{"just in time", []weir.Instant{300 * s, 180 * s}, []event{{180 * s, 1}, {300 * s, 0}}, 0},
		{"a microsecond too late", []weir.Instant{300 * s, 180*s - 1}, []event{{300 * s, 0}, {300 * s, 1}}, 1},
		{"late lines keep their turn", []weir.Instant{300 * s, s, 300 * s, 2 * s}, []event{{300 * s, 0}, {300 * s, 1}, {300 * s, 2}, {300 * s, 3}}, 2},
		{"late takes the newest, not the last", []weir.Instant{300 * s, 200 * s, s}, []event{{200 * s, 1}, {300 * s, 0}, {300 * s, 2}}, 1},
		{"before 1970", []weir.Instant{-500 * s, -600 * s}, []event{{-600 * s, 1}, {-500 * s, 0}}, 0},
	} {
		r := NewReorder[int]()
		if got := reordered(r, c.times); !slices.Equal(got, c.want) || r.Late != c.late {
			t.Errorf("%s: got %v, %d late; want %v, %d", c.name, got, r.Late, c.want, c.late)
		}
	}
}

func BenchmarkReorder(b *testing.B) {
	const perSecond = 1000
	r := NewReorder[*int]()
	turn := 0
	for b.Loop() {
		turn++
		r.Push(weir.Instant(turn*1_000_000/perSecond-turn%7*1_000_000), 1, nil)
		for _, _, ok := r.Pop(); ok; _, _, ok = r.Pop() {
		}
	}
}

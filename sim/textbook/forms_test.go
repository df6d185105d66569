package textbook_test

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/sim/textbook"
)

const (
	second = weir.Instant(1_000_000)
	minute = 60 * second
	hour   = 60 * minute
)

// passing is how many of so many events pass at one instant.
func passing(m textbook.Model, at weir.Instant, events int) int {
	passed := 0
	for range events {
		if m.Take(at, 1) {
			passed++
		}
	}
	return passed
}

// every asks for one event at equal gaps, n times, and shows who passed.
func every(m textbook.Model, from, gap weir.Instant, n int) string {
	var line []byte
	for i := range n {
		line = append(line, "DA"[passing(m, from+weir.Instant(i)*gap, 1)])
	}
	return string(line)
}

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// The well-known prose of GCRA, taken at its word, forgets max(now, TAT) and
// one event of the burst.
func TestLiteralGCRA(t *testing.T) {
	fresh := func() *textbook.LiteralGCRA { return &textbook.LiteralGCRA{Interval: time.Second, Burst: 5} }
	check(t, "20 at once, by the prose", passing(fresh(), 0, 20), 6)
	check(t, "20 at once", passing(limitOf("1/s burst 5"), 0, 20), 5)

	prose, right := fresh(), limitOf("1/s burst 5")
	check(t, "first, by the prose", passing(prose, 0, 1), 1)
	check(t, "first", passing(right, 0, 1), 1)
	check(t, "500 after 100 s, by the prose", passing(prose, 100*second, 500), 105)
	check(t, "500 after 100 s", passing(right, 100*second, 500), 5)
}

// A bucket that is refilled whole passes twice its count in a moment, and then
// nothing for the rest of the window.
func TestRefillWhole(t *testing.T) {
	whole := &textbook.RefillWhole{Count: 100, Period: time.Minute}
	drip := &textbook.TokenBucket{Rate: textbook.Rate{Events: 100, Period: time.Minute}, Burst: 100}
	check(t, "first, refilled whole", passing(whole, 0, 1), 1)
	check(t, "first", passing(drip, 0, 1), 1)
	check(t, "before the edge, refilled whole", passing(whole, minute-1, 100), 99)
	check(t, "before the edge", passing(drip, minute-1, 100), 100)
	check(t, "at the edge, refilled whole", passing(whole, minute, 100), 100)
	check(t, "at the edge", passing(drip, minute, 100), 0)
	check(t, "half a minute on, refilled whole", passing(whole, minute+minute/2, 100), 0)
	check(t, "half a minute on", passing(drip, minute+minute/2, 100), 50)
}

// A daily limit in a cache that drops what was idle for a minute is a limit a
// minute.
func TestExpiringBucket(t *testing.T) {
	daily := textbook.TokenBucket{Rate: textbook.Rate{Events: 100, Period: 24 * time.Hour}, Burst: 100}
	dropped := &textbook.ExpiringBucket{Bucket: daily, Idle: time.Minute}
	kept := &textbook.ExpiringBucket{Bucket: daily, Idle: 24 * time.Hour}
	var passed, right int
	for at := weir.Instant(0); at < 24*hour; at += minute {
		passed += passing(dropped, at, 100)
		right += passing(kept, at, 100)
	}
	check(t, "in a day, dropped when idle", passed, 144_000)
	check(t, "in a day, dropped when full", right, 199)
}

// Whole seconds of elapsed time lose the rest at every ask.
func TestTruncatingBucket(t *testing.T) {
	cut := &textbook.TruncatingBucket{PerSecond: 10, Burst: 10}
	exact := &textbook.TokenBucket{Rate: textbook.Rate{Events: 10, Period: time.Second}, Burst: 10}
	check(t, "drained, cut", passing(cut, 0, 20), 10)
	check(t, "drained", passing(exact, 0, 20), 10)
	var passed, right int
	for i := range weir.Instant(100) {
		passed += passing(cut, (i+1)*second/2, 10)
		right += passing(exact, (i+1)*second/2, 10)
	}
	check(t, "in 50 s, asked twice a second, cut", passed, 0)
	check(t, "in 50 s, asked twice a second", right, 500)
}

// Intervals in whole milliseconds are too short, and 0 above 1000 a second.
func TestMillisecondPacer(t *testing.T) {
	for perSecond, want := range map[int64]int{
		500:  500,
		600:  1000, // 1000/600 is 1 ms
		2000: 10_000,
	} {
		passed := count(every(&textbook.MillisecondPacer{PerSecond: perSecond}, 0, 100, 10_000))
		check(t, "one every 0.1 ms for a second", passed, want)
	}
	check(t, "at once, by an interval of 0", passing(&textbook.MillisecondPacer{PerSecond: 2000}, 0, 10_000), 10_000)
}

func TestFixedWindow(t *testing.T) {
	window := &textbook.FixedWindow{Count: 5, Period: time.Second}
	log := &textbook.SlidingLog{Count: 5, Period: time.Second}
	check(t, "before the edge", passing(window, second*9/10, 5)+passing(window, second, 5), 10)
	check(t, "by the log", passing(log, second*9/10, 5)+passing(log, second, 5), 5)

	window = &textbook.FixedWindow{Count: 100, Period: time.Minute}
	nine := 7*hour + 9*minute + 59*second
	check(t, "7:09:59 and 7:10:00", passing(window, nine, 100)+passing(window, nine+second, 100), 200)
}

func TestSlidingLog(t *testing.T) {
	log := &textbook.SlidingLog{Count: 2, Period: time.Minute}
	all := &textbook.SlidingLog{Count: 2, Period: time.Minute, CountDenied: true}
	at := []weir.Instant{58 * second, 59 * second, 61 * second, 62 * second, 118*second - 1, 118 * second}
	var says, denials string
	for _, now := range at {
		says += every(log, now, 0, 1)
		denials += every(all, now, 0, 1)
	}
	check(t, "2/min", says, "AADDDA")
	check(t, "2/min, denials too", denials, "AADDDD")
}

func TestSlidingCounter(t *testing.T) {
	settles := func(strict bool) int {
		c := &textbook.SlidingCounter{Count: 5, Period: time.Second, Strict: strict}
		every(c, 0, second/10, 1000)
		return count(every(c, 100*second, second/10, 100)) // 10 s
	}
	check(t, "5/s, one every 0.1 s, ten seconds, relaxed", settles(false), 50)
	check(t, "5/s, one every 0.1 s, ten seconds, strict", settles(true), 40)

	c := &textbook.SlidingCounter{Count: 100, Period: time.Minute, Strict: true}
	check(t, "at the end of a window", passing(c, minute-1, 100), 100)
	check(t, "at the end of the next, within a minute", passing(c, 2*minute-2, 100), 99)

	// 99 × 40/60 + 33 + 1 is 100, but not in floats.
	float := &textbook.SlidingCounter{Count: 100, Period: time.Minute, Strict: true}
	exact := &textbook.SubWindows{Count: 100, Period: time.Minute, Parts: 1}
	for _, m := range []textbook.Model{float, exact} {
		passing(m, 0, 99)
	}
	check(t, "at 1:20, in floats", passing(float, 80*second, 100), 33)
	check(t, "at 1:20, exact", passing(exact, 80*second, 100), 34)
	check(t, "at 1:20, by package weir", func() int {
		k := limitOf("100/min sliding-window")
		passing(k, 0, 99)
		return passing(k, 80*second, 100)
	}(), 34)
}

func count(line string) int {
	n := 0
	for _, c := range line {
		if c == 'A' {
			n++
		}
	}
	return n
}

func TestTokenBucketDrips(t *testing.T) {
	b := &textbook.TokenBucket{Rate: textbook.Rate{Events: 100, Period: time.Minute}, Burst: 100}
	passing(b, 0, 100)
	check(t, "tokens after 30 s", b.Tokens(30*second).RatString(), "50")
	check(t, "tokens after 60 s", b.Tokens(60*second).RatString(), "100")
	check(t, "tokens after 90 s", b.Tokens(90*second).RatString(), "100")
	check(t, "one each 0.5 s", every(b, second/2, second/2, 13), "DAAAAADAAAAAD")
}

func TestLeakyQueue(t *testing.T) {
	q := &textbook.LeakyQueue{Rate: textbook.Rate{Events: 60, Period: time.Minute}, Queue: 3}
	for i, hold := range []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second} {
		check(t, "hold", q.Hold(0), hold)
		check(t, "room", q.Take(0, 1), i <= 3)
	}
	check(t, "full", q.Take(0, 1), false)
	check(t, "one has left", q.Take(second, 1), true)
}

// A minute's limit charged by requests that the second's limit turns away.
func TestOneByOne(t *testing.T) {
	naive := textbook.OneByOne{
		&textbook.FixedWindow{Count: 60, Period: time.Minute},
		&textbook.FixedWindow{Count: 10, Period: time.Second},
	}
	together := both{limitOf("60/min fixed-window"), limitOf("10/s fixed-window")}
	var passed, right []int
	sum, all := 0, 0
	for s := range weir.Instant(8) {
		passed = append(passed, passing(naive, s*second, 20))
		right = append(right, passing(together, s*second, 20))
		sum, all = sum+passed[s], all+right[s]
	}
	check(t, "one by one", sum, 30)
	check(t, "together", all, 60)
	check(t, "together, the second before the last that passes", right[5], 10)
	check(t, "together, after the minute's limit is used up", right[6], 0)
}

// both decides limits together, all or nothing.
type both []*key

func (b both) Take(now weir.Instant, cost int64) bool {
	asks, out := make([]weir.Ask, len(b)), make([]weir.Decision, len(b))
	for i, k := range b {
		asks[i] = weir.Ask{Limit: k.limit, Cost: cost}
		out[i] = k.limit.Decide(k.state, now, &asks[i])
	}
	pass := weir.Resolve(asks, out)
	for i, k := range b {
		k.state = k.limit.Commit(k.state, now, &asks[i], &out[i])
	}
	return pass
}

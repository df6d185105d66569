package weir_test

import (
	"math"
	"math/bits"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// wide draws integers evenly over their magnitudes, with the ends often.
func wide(t *rapid.T, low, high int64, label string) int64 {
	if rapid.IntRange(0, 9).Draw(t, label+" at an end") == 0 {
		return rapid.SampledFrom([]int64{low, high}).Draw(t, label)
	}
	size := bits.Len64(uint64(high - low))
	n := rapid.Uint64Range(0, 1<<rapid.IntRange(0, size).Draw(t, label+" bits")-1).Draw(t, label)
	return low + int64(min(n, uint64(high-low)))
}

const year71 = int64(weir.MaxDrain / time.Microsecond)

// drawBucket draws a limit of the GCRA family over the whole supported range.
func drawBucket(t *rapid.T) weir.Spec {
	s := weir.Spec{
		Algorithm: rapid.SampledFrom([]weir.Algorithm{weir.GCRA, weir.TokenBucket, weir.LeakyBucket}).Draw(t, "name"),
		Count:     wide(t, 1, weir.MaxCount, "count"),
		Period:    drawPeriod(t),
	}
	// burst + debt must drain within 71 years.
	most := int64(min(float64(weir.MaxCount), float64(year71)/float64(s.Period.Microseconds())*float64(s.Count)*0.999))
	if rapid.Bool().Draw(t, "strict") {
		s.Mode = weir.Strict
		s.Burst = wide(t, 1, s.Count, "burst")
		for s.Burst > 1 && float64(s.Burst)*math.Ceil(float64(s.Period.Microseconds())/float64(s.Count-s.Burst+1)) > float64(year71)*0.999 {
			s.Burst /= 2
		}
		return s
	}
	s.Burst = wide(t, 1, max(most, 1), "burst")
	if rest := most - s.Burst; rest > 0 && rapid.Bool().Draw(t, "with debt") {
		s.Debt = wide(t, 0, min(rest, weir.MaxCount), "debt")
	}
	if rapid.Bool().Draw(t, "with initial") {
		s.Initial = new(wide(t, 0, s.Burst, "initial"))
	}
	return s
}

func drawPeriod(t *rapid.T) time.Duration {
	return time.Duration(wide(t, 1, int64(weir.MaxPeriod/time.Microsecond), "period")) * time.Microsecond
}

func drawQueue(t *rapid.T) weir.Spec {
	s := weir.Spec{Algorithm: weir.LeakyQueue, Count: wide(t, 1, weir.MaxCount, "count"), Period: drawPeriod(t)}
	most := int64(min(float64(weir.MaxCount), float64(year71)/float64(s.Period.Microseconds())*float64(s.Count)*0.999))
	s.Queue = new(wide(t, 0, max(most-1, 0), "queue"))
	return s
}

func drawFixed(t *rapid.T) weir.Spec {
	s := weir.Spec{
		Algorithm: weir.FixedWindow, Count: wide(t, 1, weir.MaxWindowCount, "count"),
		CountDenied: rapid.Bool().Draw(t, "count-denied"), Anchored: rapid.Bool().Draw(t, "anchored"),
	}
	if !s.Anchored && rapid.Bool().Draw(t, "civil") {
		s.Calendar = rapid.SampledFrom([]weir.Calendar{weir.Day, weir.Week, weir.Month, weir.Year}).Draw(t, "calendar")
		zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kolkata", "Pacific/Apia", "Antarctica/Troll", "Asia/Beirut"}).Draw(t, "zone")
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		s.Zone = loc
		return s
	}
	s.Period = drawPeriod(t)
	return s
}

func drawLog(t *rapid.T) weir.Spec {
	return weir.Spec{
		Algorithm: weir.SlidingLog, Count: wide(t, 1, 40, "count"), Period: drawPeriod(t),
		CountDenied: rapid.Bool().Draw(t, "count-denied"),
	}
}

func drawSliding(t *rapid.T) weir.Spec {
	n := wide(t, 1, weir.MaxSubWindows, "sub-windows")
	sub := wide(t, 1, int64(weir.MaxPeriod/time.Microsecond)/n, "sub-window")
	return weir.Spec{
		Algorithm: weir.SlidingWindow, Count: wide(t, 1, weir.MaxCount, "count"), SubWindows: n,
		Period:      time.Duration(n*sub) * time.Microsecond,
		Mode:        rapid.SampledFrom([]weir.Mode{weir.Strict, weir.Relaxed, weir.Conservative}).Draw(t, "mode"),
		CountDenied: rapid.Bool().Draw(t, "count-denied"),
	}
}

func drawWarmUp(t *rapid.T) weir.Spec {
	return weir.Spec{
		Algorithm: weir.WarmUp, Count: wide(t, 1, weir.MaxCount, "count"), Period: drawPeriod(t),
		WarmUp: time.Duration(wide(t, 1, int64(weir.MaxWarmUp/time.Microsecond), "warm-up")) * time.Microsecond,
		Cold:   wide(t, 2, weir.MaxCold, "cold"),
	}
}

func drawPermits(t *rapid.T) weir.Spec {
	return weir.Spec{
		Algorithm: weir.Concurrent, Count: wide(t, 1, weir.MaxCount, "count"),
		TTL: time.Duration(wide(t, 1, int64(weir.MaxPeriod/time.Microsecond), "ttl")) * time.Microsecond,
	}
}

var drawers = []func(*rapid.T) weir.Spec{drawBucket, drawQueue, drawFixed, drawLog, drawSliding, drawWarmUp, drawPermits}

// drawSpec draws a limit of any algorithm.
func drawSpec(t *rapid.T) weir.Spec {
	return drawers[rapid.IntRange(0, len(drawers)-1).Draw(t, "algorithm")](t)
}

func makeLimit(t *rapid.T, s weir.Spec) *weir.Limit {
	l, err := s.Limit()
	if err != nil {
		t.Fatalf("%+v: %v", s, err)
	}
	return l
}

// scale is the time in which something happens to a limit.
func scale(s weir.Spec) int64 {
	if s.Algorithm == weir.Concurrent {
		return s.TTL.Microseconds()
	}
	return max(s.Period.Microseconds(), 1)
}

// clock draws instants: steps of every size up to a few periods, sometimes none
// and sometimes back.
type clock struct {
	now   weir.Instant
	scale int64
}

func newClock(t *rapid.T, s weir.Spec) *clock {
	from := weir.Instant(wide(t, 0, 1_800_000_000_000_000, "start"))
	return &clock{now: from, scale: scale(s)}
}

func (c *clock) step(t *rapid.T) weir.Instant {
	d := weir.Instant(wide(t, 0, 3*c.scale, "step"))
	if rapid.IntRange(0, 7).Draw(t, "clock goes back") == 0 {
		d = -d
	}
	c.now = max(c.now+d, 0)
	return c.now
}

func drawCost(t *rapid.T, s weir.Spec) int64 {
	most := min(s.Count+s.Burst+s.Debt, weir.MaxCount)
	return wide(t, 0, most, "cost")
}

// take asks once, and charges when allowed.
func take(l *weir.Limit, s weir.State, now weir.Instant, a weir.Ask) (weir.State, weir.Decision) {
	d := l.Decide(s, now, &a)
	out := []weir.Decision{d}
	weir.Resolve([]weir.Ask{a}, out)
	s = l.Commit(s, now, &a, &out[0])
	return s, out[0]
}

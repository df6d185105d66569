package textbook_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/sim/textbook"
	"pgregory.net/rapid"
)

// oracle is a model that can be asked without charging.
type oracle interface {
	textbook.Model
	Fits(now weir.Instant, cost int64) bool
}

// key is one key under a limit of package weir.
type key struct {
	limit *weir.Limit
	state weir.State
}

func (k *key) take(now weir.Instant, cost int64) weir.Decision {
	asks := []weir.Ask{{Limit: k.limit, Cost: cost}}
	out := []weir.Decision{k.limit.Decide(k.state, now, &asks[0])}
	weir.Resolve(asks, out)
	k.state = k.limit.Commit(k.state, now, &asks[0], &out[0])
	return out[0]
}

// Take makes a key a model, so that the forms of the book can stand beside it.
func (k *key) Take(now weir.Instant, cost int64) bool {
	return k.take(now, cost).Outcome == weir.Allowed
}

func limitOf(text string) *key { return &key{limit: weir.MustParseLimit(text)} }

// drawSpec draws the numbers of a limit over the whole range that a limit may
// have, with those that are hard on arithmetic among them.
func drawSpec(t *rapid.T, most int64) weir.Spec {
	known := []weir.Spec{
		{Count: 1, Period: 365 * 24 * time.Hour},
		{Count: 1_000_000_000, Period: time.Second},
		{Count: 999_983, Period: 24 * time.Hour},
		{Count: 3, Period: time.Microsecond},
		{Count: 7, Period: 10 * time.Second},
		{Count: 1 << 30, Period: weir.MaxPeriod},
		{Count: 5000, Period: time.Hour},
	}
	s := known[rapid.IntRange(0, len(known)-1).Draw(t, "known")]
	if rapid.Bool().Draw(t, "random") {
		s.Count = size(t, "count", most)
		s.Period = time.Duration(size(t, "period", int64(weir.MaxPeriod/time.Microsecond))) * time.Microsecond
	}
	s.Count = min(s.Count, most)
	return s
}

// size draws from 1 to most with every order of magnitude as likely as another.
func size(t *rapid.T, label string, most int64) int64 {
	bits := rapid.IntRange(0, int(math.Log2(float64(most)))).Draw(t, label+" bits")
	return min(rapid.Int64Range(1<<bits, 1<<(bits+1)-1).Draw(t, label), most)
}

// limit makes the limit of s, or has rapid draw another where s is out of
// bounds.
func limit(t *rapid.T, s weir.Spec) *weir.Limit {
	l, err := s.Limit()
	if err != nil {
		t.Skip(err)
	}
	t.Logf("%s", l)
	return l
}

// trace asks k and the oracles the same questions at random times, among them
// the instant at which a denied ask is allowed and the one before it.
func trace(t *rapid.T, k *key, costs *rapid.Generator[int64], oracles ...oracle) {
	now := weir.Instant(rapid.Int64Range(1, 3e15).Draw(t, "start"))
	pace := float64(k.limit.Spec().Period/time.Microsecond) / float64(k.limit.Spec().Count)
	var retry weir.Instant
	for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
		switch gap := weir.Instant(pace * rapid.Float64Range(0, 3).Draw(t, "gap")); rapid.IntRange(0, 4).Draw(t, "wait") {
		case 0:
		case 1:
			now += gap
		case 2:
			now += weir.Instant(size(t, "pause", int64(k.limit.Spec().Period/time.Microsecond)))
		case 3:
			now += max(retry-1, 0)
		case 4:
			now += retry
		}
		if now > 1<<52 {
			return // in the year 2112, where the limits' time ends
		}
		cost := costs.Draw(t, "cost")
		before := append(weir.State(nil), k.state...)
		d := k.take(now, cost)
		retry = weir.Instant(d.RetryAfter.Microseconds())
		for _, o := range oracles {
			if err := agree(k.limit, o, now, cost, d); err != nil {
				t.Fatalf("step %d at %d, cost %d, state %v: %T: %v\n%+v", step, now, cost, before, o, err, d)
			}
		}
	}
}

// agree is whether o says the same as d, about this ask and about what fits
// next and when.
func agree(l *weir.Limit, o oracle, now weir.Instant, cost int64, d weir.Decision) error {
	allowed := d.Outcome == weir.Allowed
	if o.Fits(now, cost) != allowed {
		return fmt.Errorf("fits: %v", !allowed)
	}
	if d.Outcome == weir.Denied {
		retry := now + weir.Instant(d.RetryAfter.Microseconds())
		if !o.Fits(retry, cost) || o.Fits(retry-1, cost) {
			return fmt.Errorf("retry %v: fits %v, and %v a microsecond earlier", d.RetryAfter, o.Fits(retry, cost), o.Fits(retry-1, cost))
		}
	}
	if o.Take(now, cost) != allowed {
		return fmt.Errorf("took: %v", !allowed)
	}
	if s := l.Spec(); s.Algorithm == weir.SlidingWindow && s.Mode == weir.Relaxed {
		return nil // one by one is not what fits at once, and an estimate of 0 may be not as never used
	}
	if !o.Fits(now, d.Remaining) || o.Fits(now, d.Remaining+1) {
		return fmt.Errorf("remaining %d: fits %v, one more %v", d.Remaining, o.Fits(now, d.Remaining), o.Fits(now, d.Remaining+1))
	}
	return rests(l, o, now, d)
}

// rests is whether o can pass all that the limit ever passes at once when d
// says so, and no microsecond earlier.
func rests(l *weir.Limit, o oracle, now weir.Instant, d weir.Decision) error {
	s, most := l.Spec(), l.Spec().Count
	switch s.Algorithm {
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket:
		most = s.Burst
	case weir.LeakyQueue:
		most = *s.Queue + 1
	case weir.FixedWindow, weir.SlidingLog, weir.SlidingWindow, weir.WarmUp, weir.Concurrent:
	}
	reset := now + weir.Instant(d.ResetAfter.Microseconds())
	if !o.Fits(reset, most) || d.ResetAfter > 0 && o.Fits(reset-1, most) {
		return fmt.Errorf("reset %v: passes all %v, and %v a microsecond earlier", d.ResetAfter, o.Fits(reset, most), o.Fits(reset-1, most))
	}
	return nil
}

// costs are few events or many, up to one more than fits.
func costs(most int64) *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(0, min(3, most+1)), rapid.Int64Range(0, most+1), rapid.Int64Range(most, most+1))
}

func TestBucketsDecideAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, weir.MaxCount)
		s.Algorithm = rapid.SampledFrom([]weir.Algorithm{weir.GCRA, weir.TokenBucket, weir.LeakyBucket}).Draw(t, "word")
		s.Burst = rapid.OneOf(rapid.Just(s.Count), rapid.Just(int64(1)), rapid.Int64Range(1, 10)).Draw(t, "burst")
		l := limit(t, s)
		rate := textbook.Rate{Events: s.Count, Period: s.Period}
		trace(t, &key{limit: l}, costs(s.Burst),
			&textbook.TokenBucket{Rate: rate, Burst: s.Burst},
			&textbook.LeakyMeter{Rate: rate, Capacity: s.Burst},
			&textbook.GCRA{Rate: rate, Burst: s.Burst},
		)
	})
}

func TestStrictIsASlowerBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, weir.MaxCount)
		s.Mode, s.Burst = weir.Strict, min(size(t, "burst", s.Count), s.Count)
		l := limit(t, s)
		free := s.Count - s.Burst + 1
		interval := (s.Period.Microseconds() + free - 1) / free
		rate := textbook.Rate{Events: 1, Period: time.Duration(interval) * time.Microsecond}
		trace(t, &key{limit: l}, costs(s.Burst), &textbook.TokenBucket{Rate: rate, Burst: s.Burst})
	})
}

// How much is left is counted one by one, without the debt.
func TestDebt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, 1<<20)
		s.Burst = rapid.Int64Range(1, 10).Draw(t, "burst")
		s.Debt = rapid.Int64Range(1, 20).Draw(t, "debt")
		l := limit(t, s)
		k, o := &key{limit: l}, &textbook.TokenBucket{Rate: textbook.Rate{Events: s.Count, Period: s.Period}, Burst: s.Burst, Debt: s.Debt}
		now := weir.Instant(rapid.Int64Range(1, 4e15).Draw(t, "start"))
		for range 20 {
			now += weir.Instant(rapid.Int64Range(0, 3*s.Period.Microseconds()/s.Count+1).Draw(t, "gap"))
			cost := rapid.Int64Range(1, s.Burst+s.Debt+1).Draw(t, "cost")
			d := k.take(now, cost)
			if fits := o.Fits(now, cost); fits != (d.Outcome == weir.Allowed) {
				t.Fatalf("at %d, cost %d: fits %v, %+v", now, cost, fits, d)
			}
			if retry := now + weir.Instant(d.RetryAfter.Microseconds()); d.Outcome == weir.Denied &&
				(!o.Fits(retry, cost) || o.Fits(retry-1, cost)) {
				t.Fatalf("at %d, cost %d: retry %v is not exact", now, cost, d.RetryAfter)
			}
			o.Take(now, cost)
			if o.Fits(now, 1) != (d.Remaining >= 1) {
				t.Fatalf("at %d, cost %d: one fits %v, %+v", now, cost, o.Fits(now, 1), d)
			}
		}
	})
}

func TestQueueIsALine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, weir.MaxCount)
		s.Algorithm, s.Queue = weir.LeakyQueue, new(rapid.Int64Range(0, 20).Draw(t, "queue"))
		l := limit(t, s)
		o := &textbook.LeakyQueue{Rate: textbook.Rate{Events: s.Count, Period: s.Period}, Queue: int(*s.Queue)}
		trace(t, &key{limit: l}, costs(*s.Queue+1), o)
		// How long each is held, asked in a line that has been used.
		k, now := &key{limit: l}, weir.Instant(5e15/2)
		o = &textbook.LeakyQueue{Rate: o.Rate, Queue: o.Queue}
		for range 20 {
			now += weir.Instant(rapid.Int64Range(0, 2*s.Period.Microseconds()/s.Count+1).Draw(t, "gap"))
			hold := o.Hold(now)
			d := k.take(now, 1)
			if o.Take(now, 1) != (d.Outcome == weir.Allowed) || d.Outcome == weir.Allowed && d.Hold != hold {
				t.Fatalf("at %d: held %v in the line, %+v", now, hold, d)
			}
		}
	})
}

func TestWindowsDecideAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, weir.MaxCount)
		s.Algorithm = weir.FixedWindow
		l := limit(t, s)
		trace(t, &key{limit: l}, costs(s.Count), &textbook.FixedWindow{Count: s.Count, Period: s.Period})
	})
}

func TestLogNeedsOnlyItsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, 50)
		s.Algorithm, s.CountDenied = weir.SlidingLog, rapid.Bool().Draw(t, "count denied")
		l := limit(t, s)
		o := &textbook.SlidingLog{Count: s.Count, Period: s.Period, CountDenied: s.CountDenied}
		if !s.CountDenied {
			trace(t, &key{limit: l}, costs(s.Count), o)
			return
		}
		k, now := &key{limit: l}, weir.Instant(1)
		for range 50 {
			now += weir.Instant(rapid.Int64Range(0, 2*s.Period.Microseconds()/s.Count+1).Draw(t, "gap"))
			cost := rapid.Int64Range(1, s.Count).Draw(t, "cost")
			if got, want := k.Take(now, cost), o.Take(now, cost); got != want {
				t.Fatalf("at %d, cost %d: %v, with all stamps %v", now, cost, got, want)
			}
		}
	})
}

func TestSubWindowsDecideAlike(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, weir.MaxCount)
		s.Algorithm = weir.SlidingWindow
		s.SubWindows = rapid.Int64Range(1, weir.MaxSubWindows).Draw(t, "parts")
		s.Mode = rapid.SampledFrom([]weir.Mode{weir.Strict, weir.Relaxed, weir.Conservative}).Draw(t, "mode")
		s.Period -= s.Period % (time.Duration(s.SubWindows) * time.Microsecond)
		l := limit(t, s)
		c := rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, s.Count+1))
		trace(t, &key{limit: l}, c, &textbook.SubWindows{Count: s.Count, Period: s.Period, Parts: s.SubWindows, Mode: s.Mode})
	})
}

func TestRefillWholeIsAnAnchoredWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, 1<<20)
		s.Algorithm, s.Anchored = weir.FixedWindow, true
		k, o := &key{limit: limit(t, s)}, &textbook.RefillWhole{Count: s.Count, Period: s.Period}
		now := weir.Instant(rapid.Int64Range(0, 4e15).Draw(t, "start"))
		for range 30 {
			now += weir.Instant(size(t, "gap", 2*s.Period.Microseconds()))
			cost := rapid.Int64Range(1, s.Count).Draw(t, "cost")
			if got, want := k.Take(now, cost), o.Take(now, cost); got != want {
				t.Fatalf("at %d, cost %d: the window says %v, the bucket %v", now, cost, got, want)
			}
		}
	})
}

// A bucket may be dropped when it is full, and no earlier.
func TestExpiringBucketIsRightWhenFull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, 1<<20)
		s.Burst = rapid.Int64Range(1, 10).Draw(t, "burst")
		limit(t, s)
		fills := time.Duration((s.Period.Microseconds()*s.Burst+s.Count-1)/s.Count) * time.Microsecond
		right := textbook.TokenBucket{Rate: textbook.Rate{Events: s.Count, Period: s.Period}, Burst: s.Burst}
		drops := textbook.ExpiringBucket{Bucket: right, Idle: fills}
		now := weir.Instant(1)
		for range 30 {
			now += weir.Instant(size(t, "gap", 2*fills.Microseconds()))
			cost := rapid.Int64Range(1, s.Burst).Draw(t, "cost")
			if got, want := drops.Take(now, cost), right.Take(now, cost); got != want {
				t.Fatalf("at %d, cost %d: %v, never dropped %v", now, cost, got, want)
			}
		}
	})
}

// Whoever had fewer than the count in the last period is not refused, except by
// estimates and small bursts; and only the log refuses all others.
func TestBelowTheCountPasses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, 50)
		s.Algorithm = rapid.SampledFrom([]weir.Algorithm{weir.GCRA, weir.FixedWindow, weir.SlidingLog}).Draw(t, "algorithm")
		s.Anchored = s.Algorithm == weir.FixedWindow && rapid.Bool().Draw(t, "anchored")
		k := &key{limit: limit(t, s)}
		recent := &textbook.SlidingLog{Count: weir.MaxCount, Period: s.Period}
		now := weir.Instant(1)
		for range 100 {
			now += weir.Instant(rapid.Int64Range(0, s.Period.Microseconds()/s.Count+1).Draw(t, "gap"))
			below := recent.Fits(now, weir.MaxCount-s.Count+1)
			passed := k.Take(now, 1)
			if below && !passed || !below && passed && s.Algorithm == weir.SlidingLog {
				t.Fatalf("%s at %d: below the count %v, passed %v", k.limit, now, below, passed)
			}
			if passed {
				recent.Take(now, 1)
			}
		}
	})
}

// No more fits when the clock has stepped back than before.
func TestStepBackMintsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSpec(t, 1000)
		s.Algorithm = weir.Algorithm(rapid.IntRange(0, int(weir.SlidingWindow)).Draw(t, "algorithm"))
		k := &key{limit: limit(t, s)}
		now, end := weir.Instant(2e15), weir.Instant(0)
		for range 20 {
			now += weir.Instant(size(t, "gap", s.Period.Microseconds()))
			d := k.take(now, rapid.Int64Range(1, s.Count).Draw(t, "cost"))
			end = now + weir.Instant(d.ResetAfter.Microseconds())
			if end == now {
				continue
			}
			back := now - weir.Instant(size(t, "back", 2*s.Period.Microseconds()))
			if left, _ := k.limit.Standing(k.state, back); left > d.Remaining {
				t.Fatalf("%d left at %d, and %d when the clock shows %d", d.Remaining, now, left, back)
			}
		}
	})
}

package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/sim/textbook"
)

// drawLimit draws small limits of every algorithm that can be simulated, with
// periods of a few seconds at most.
func drawLimit(t *rapid.T) *weir.Limit {
	s := weir.Spec{
		Count: rapid.Int64Range(1, 12).Draw(t, "count"), Period: time.Duration(rapid.Int64Range(1, 50).Draw(t, "period")) * 60 * time.Millisecond,
		Algorithm: rapid.SampledFrom([]weir.Algorithm{
			weir.GCRA, weir.LeakyQueue, weir.FixedWindow, weir.SlidingLog, weir.SlidingWindow, weir.WarmUp,
		}).Draw(t, "algorithm"),
	}
	switch s.Algorithm {
	case weir.GCRA:
		s.Burst = rapid.Int64Range(1, s.Count).Draw(t, "burst")
		s.Mode = rapid.SampledFrom([]weir.Mode{weir.DefaultMode, weir.Strict}).Draw(t, "mode")
	case weir.LeakyQueue:
		s.Queue = new(rapid.Int64Range(0, 20).Draw(t, "queue"))
	case weir.FixedWindow:
		s.Anchored = rapid.Bool().Draw(t, "anchored")
	case weir.SlidingWindow:
		s.SubWindows = rapid.SampledFrom([]int64{1, 2, 3, 4, 60}).Draw(t, "sub-windows")
		s.Mode = rapid.SampledFrom([]weir.Mode{weir.Strict, weir.Relaxed, weir.Conservative}).Draw(t, "mode")
	case weir.WarmUp:
		s.WarmUp = s.Period
	case weir.TokenBucket, weir.LeakyBucket, weir.SlidingLog, weir.Concurrent:
	}
	if (s.Algorithm == weir.FixedWindow || s.Algorithm >= weir.SlidingLog && s.Algorithm <= weir.SlidingWindow) && rapid.Bool().Draw(t, "count-denied") {
		s.CountDenied = true
	}
	l, err := s.Limit()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// drawTraffic draws requests whose times often fall together and on edges.
func drawTraffic(t *rapid.T, clients int32, cost int64) []Request {
	at := Start + weir.Instant(rapid.Int64Range(0, 3000).Draw(t, "begin"))*1000
	var all []Request
	for range rapid.IntRange(1, 60).Draw(t, "requests") {
		at += weir.Instant(rapid.SampledFrom([]int64{0, 0, 1, 999, 60_000, 100_000, 600_000}).Draw(t, "gap"))
		all = append(all, Request{at, rapid.Int32Range(0, clients-1).Draw(t, "client"), rapid.Int64Range(0, cost).Draw(t, "cost")})
	}
	return all
}

// event is a request that passed, when it went.
type event struct {
	Request

	went weir.Instant
	key  int32
}

// plain is what the definitions of Figures come to when they are taken at their
// word: every request looks at all that was before.
func plain(l *weir.Limit, all []Request, shared bool) (f Figures) {
	spec := l.Spec()
	period := weir.Instant(spec.Period / time.Microsecond)
	within := func(events []event, key int32, now weir.Instant) (sum int64) {
		for _, e := range events {
			if e.key == key && e.went > now-period && e.went <= now {
				sum += e.Cost
			}
		}
		return sum
	}
	states := map[int32]weir.State{}
	var asked, went, missed []event
	for _, r := range all {
		key := r.Client
		if shared {
			key = 0
		}
		f.Asked++
		a := weir.Ask{Limit: l, Cost: r.Cost}
		asks, out := [...]weir.Ask{a}, [...]weir.Decision{l.Decide(states[key], r.At, &a)}
		weir.Resolve(asks[:], out[:])
		states[key] = l.Commit(states[key], r.At, &a, &out[0])
		asked = append(asked, event{r, r.At, key})
		if out[0].Outcome == weir.Allowed {
			f.Passed++
			went = append(went, event{r, r.At + weir.Instant(out[0].Hold/time.Microsecond), key})
			continue
		}
		f.Denied++
		line := int64(0)
		for _, e := range went {
			if e.key == key && e.went > r.At {
				line += e.Cost
			}
		}
		if within(went, key, r.At)+line+within(missed, key, r.At)+r.Cost <= spec.Count {
			f.WronglyDenied++
			missed = append(missed, event{r, r.At, key})
		}
	}
	slices.SortStableFunc(went, func(a, b event) int { return int(a.went - b.went) })
	for i, e := range went {
		sum := within(went[:i+1], e.key, e.went)
		f.WorstPeriod = max(f.WorstPeriod, sum)
		if e.Cost > 0 && sum > spec.Count {
			f.WronglyPassed++
		}
	}
	f.Excess = max(f.WorstPeriod-spec.Count, 0)
	f.MeanTrue = share(trueSum(asked, within), f.Asked)
	return f
}

func trueSum(asked []event, within func([]event, int32, weir.Instant) int64) (sum int64) {
	for i, e := range asked {
		sum += within(asked[:i], e.key, e.At)
	}
	return sum
}

// TestFigures: the figures are what their definitions say, for every limit.
func TestFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t)
		traffic := drawTraffic(t, 3, rapid.SampledFrom([]int64{1, 1, 5}).Draw(t, "largest cost"))
		shared := rapid.Bool().Draw(t, "shared")
		w, err := Recorded("drawn", traffic)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Of(l)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), w, []Contender{c}, Options{Shared: shared})
		if err != nil {
			t.Fatal(err)
		}
		got, want := r.Trials[0].Figures, plain(l, traffic, shared)
		if got.WorstPeriod > got.Bound {
			t.Errorf("%s: %d in a period, the bound is %d", l, got.WorstPeriod, got.Bound)
		}
		got = Figures{
			Asked: got.Asked, Passed: got.Passed, Denied: got.Denied, WronglyPassed: got.WronglyPassed, WronglyDenied: got.WronglyDenied,
			WorstPeriod: got.WorstPeriod, Excess: got.Excess, MeanTrue: got.MeanTrue,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s, shared %v: (-by definition +got)\n%s\n%v", l, shared, d, traffic)
		}
		checkSeries(t, r)
	})
}

// checkSeries: the steps add up to the figures.
func checkSeries(t *rapid.T, r *Result) {
	f, s := r.Trials[0].Figures, r.Trials[0].Series
	sum := func(xs []int64) (n int64) {
		for _, x := range xs {
			n += x
		}
		return n
	}
	if sum(s.Asked) != f.Asked || sum(s.Passed) != f.Passed || sum(s.Denied) != f.Denied {
		t.Errorf("steps add up to %d, %d and %d of %d, %d and %d", sum(s.Asked), sum(s.Passed), sum(s.Denied), f.Asked, f.Passed, f.Denied)
	}
	for _, xs := range [][]int64{s.Passed, s.Denied, s.Gone, s.True, s.Within} {
		if len(xs) != len(s.Asked) || int64(len(xs)) != int64((r.Duration-1)/r.Step)+1 {
			t.Fatalf("%d and %d steps", len(xs), len(s.Asked))
		}
	}
	if (s.Believed != nil) != f.Believes {
		t.Errorf("believes is %v and the series has %d values", f.Believes, len(s.Believed))
	}
}

// TestTextbookAgrees: where a form of the textbooks is right, it decides in a run as
// the product does, request by request.
func TestTextbookAgrees(t *testing.T) {
	rate := func(l weir.Spec) textbook.Rate { return textbook.Rate{Events: l.Count, Period: l.Period} }
	for text, model := range map[string]func(l weir.Spec) textbook.Model{
		"10/s": func(l weir.Spec) textbook.Model { return &textbook.TokenBucket{Rate: rate(l), Burst: l.Burst} },
		"7/s burst 3": func(l weir.Spec) textbook.Model {
			return &textbook.LeakyMeter{Rate: rate(l), Capacity: l.Burst}
		},
		"10/s fixed-window": func(l weir.Spec) textbook.Model {
			return &textbook.FixedWindow{Count: l.Count, Period: l.Period}
		},
		"10/s sliding-log": func(l weir.Spec) textbook.Model {
			return &textbook.SlidingLog{Count: l.Count, Period: l.Period}
		},
		"10/s sliding-window 4": func(l weir.Spec) textbook.Model {
			return &textbook.SubWindows{Count: l.Count, Period: l.Period, Parts: l.SubWindows}
		},
		"10/s sliding-window relaxed": func(l weir.Spec) textbook.Model {
			return &textbook.SubWindows{Count: l.Count, Period: l.Period, Parts: 1, Mode: weir.Relaxed}
		},
	} {
		l := weir.MustParseLimit(text)
		book := Contender{Name: "book", Limit: l, model: func() textbook.Model { return model(l.Spec()) }}
		w, err := ParseWorkload("poisson rate=40/s clients=3 skew=1 cost=1-2", l)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Of(l)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), w, []Contender{c, book}, Options{Seed: 7, Step: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(r.Trials[1].Series.Passed, r.Trials[0].Series.Passed); d != "" {
			t.Errorf("%s: (-book +product)\n%s", text, d)
		}
		if f := r.Trials[0].Figures; f.Passed == 0 || f.Denied == 0 {
			t.Errorf("%s: %s decides nothing: %d passed, %d denied", text, r.Workload, f.Passed, f.Denied)
		}
	}
}

// TestFairness: Jain's index, starvation, waits and load of small cases, by hand.
func TestFairness(t *testing.T) {
	second := weir.Instant(1_000_000)
	minute := 60 * second
	at := func(client int32, times ...weir.Instant) (all []Request) {
		for _, t := range times {
			all = append(all, Request{Start + t, client, 1})
		}
		return all
	}
	for _, c := range []struct {
		name, limit string
		requests    []Request
		shared      bool
		want        string
	}{
		{
			"three of one, one of another: 16/(2×10)", "100/min", append(at(0, 0, 0, 0), at(1, minute-1)...), true,
			"jain 0.8 starved 0 wait 0s load 3 0.066666",
		},
		{
			"two pass in the first half, none of two in the second", "2/min fixed-window", at(0, 0, 0, 40*second, 50*second), false,
			"jain 1 starved 1 wait 10s load 2 0.039215",
		},
		{
			"the queue lets one go each 30 s", "2/min leaky-queue", at(0, 0, 0, 0, minute-1), false,
			"jain 1 starved 0 wait 1m0s load 1 0.043956", // the last goes at 90 s, in the 91st second: no mean is above the peak
		},
	} {
		w, err := Recorded(c.name, c.requests)
		if err != nil {
			t.Fatal(err)
		}
		contender, err := Of(weir.MustParseLimit(c.limit))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), w, []Contender{contender}, Options{Shared: c.shared})
		if err != nil {
			t.Fatal(err)
		}
		f := r.Trials[0].Figures
		got := fmt.Sprintf("jain %v starved %v wait %v load %d %v", f.Jain, f.Starved, f.LongestWait, f.PeakLoad, f.MeanLoad)
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

package sim_test

import (
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/sim"
)

// contenders are limits of the product.
func contenders(t *testing.T, limits ...string) []sim.Contender {
	t.Helper()
	var all []sim.Contender
	for _, text := range limits {
		c, err := sim.Of(weir.MustParseLimit(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// simulate runs limits on a workload that suits the first.
func simulate(t *testing.T, workload string, o sim.Options, limits ...string) *sim.Result {
	t.Helper()
	all := contenders(t, limits...)
	w, err := sim.ParseWorkload(workload, all[0].Limit)
	if err != nil {
		t.Fatal(err)
	}
	result, err := sim.Run(t.Context(), w, all, o)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestWellKnownComparison: for the same random traffic, what a fixed window
// believes drops to nothing at the full minute; two windows follow the true count,
// five of 15 s follow it closer, and a log is the true count.
func TestWellKnownComparison(t *testing.T) {
	r := simulate(t, "poisson", sim.Options{Seed: 1},
		"100/min fixed-window", "100/min sliding-window", "100/min sliding-window 4", "100/min sliding-log")
	fixed, two, five, log := r.Trials[0], r.Trials[1], r.Trials[2], r.Trials[3]
	minute := int(60_000_000_000 / r.Step)
	for i := minute; i < len(fixed.Series.True); i += minute {
		if truth := fixed.Series.True[i]; fixed.Series.Believed[i] != 0 || truth < 60 {
			t.Errorf("after %d minutes the fixed window believes %d of %d", i/minute, fixed.Series.Believed[i], truth)
		}
	}
	for i, truth := range fixed.Series.True {
		if two.Series.True[i] != truth || five.Series.True[i] != truth || log.Series.True[i] != truth {
			t.Fatalf("step %d: the contenders did not see the same traffic", i)
		}
		if log.Series.Believed[i] != truth {
			t.Errorf("step %d: the log believes %d of %d", i, log.Series.Believed[i], truth)
		}
	}
	if f, w, v := fixed.Figures.MeanError, two.Figures.MeanError, five.Figures.MeanError; f < 10*w || w < v*5/4 || v == 0 {
		t.Errorf("mean errors %v, %v and %v", f, w, v)
	}
	if f := log.Figures; f.MeanError != 0 || f.WorstError != 0 || f.WronglyPassed != 0 || f.WronglyDenied != 0 || f.Excess != 0 {
		t.Errorf("the log is wrong: %+v", f)
	}
}

// TestHeld: of five requests at once one goes, three wait in the queue, and one is denied though a
// log would have let all five go.
func TestHeld(t *testing.T) {
	f := simulate(t, "bursts size=5 every=1h", sim.Options{Duration: time.Hour}, "5/5s leaky-queue queue 3").Trials[0].Figures
	if f.Asked != 5 || f.Passed != 4 || f.Held != 3 || f.WronglyPassed != 0 || f.WronglyDenied != 1 || f.Otherwise() != 4 {
		t.Errorf("%+v", f)
	}
}

// BenchmarkAlgorithms runs 1 million requests of 1,000 clients, as much as the limit
// lets pass, on each algorithm.
func BenchmarkAlgorithms(b *testing.B) {
	limits, err := sim.Algorithms(weir.MustParseLimit("100/min"))
	if err != nil {
		b.Fatal(err)
	}
	for _, l := range limits {
		b.Run(l.String(), func(b *testing.B) { benchmark(b, 1_000_000, l) })
	}
}

// BenchmarkTenMillion runs 10 million such requests through all algorithms, one
// after the other.
func BenchmarkTenMillion(b *testing.B) {
	limits, err := sim.Algorithms(weir.MustParseLimit("100/min"))
	if err != nil {
		b.Fatal(err)
	}
	benchmark(b, 10_000_000, limits...)
}

func benchmark(b *testing.B, requests int64, limits ...*weir.Limit) {
	if testing.Short() {
		requests /= 100
	}
	w, err := sim.ParseWorkload("poisson rate=100000/min clients=1000", limits[0])
	if err != nil {
		b.Fatal(err)
	}
	var all []sim.Contender
	for _, l := range limits {
		c, err := sim.Of(l)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, c)
	}
	asked := int64(0)
	for b.Loop() {
		r, err := sim.Run(b.Context(), w, all, sim.Options{Seed: 1, Duration: time.Minute * time.Duration(requests) / 100_000})
		if err != nil {
			b.Fatal(err)
		}
		for i := range r.Trials {
			asked += r.Trials[i].Figures.Asked
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(asked), "ns/request")
}

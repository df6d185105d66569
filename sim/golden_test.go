package sim

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// everything is all algorithms and naive forms of a limit.
func everything(t testing.TB, l *weir.Limit) (all []Contender) {
	t.Helper()
	limits, err := Algorithms(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range limits {
		c, err := Of(l)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	for _, name := range NaiveNames() {
		c, err := Naive(name, l)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	return all
}

// TestGolden: every kind of traffic on every algorithm gives what it has always
// given, on every machine: the figures to the letter, and the series by their sum.
func TestGolden(t *testing.T) {
	l := weir.MustParseLimit("100/min")
	var got bytes.Buffer
	for _, k := range kinds() {
		text := k.name
		if text == "daily" {
			text += " every=5min"
		}
		w, err := ParseWorkload(text, l)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), w, everything(t, l), Options{Seed: 1, Duration: 5 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.WriteJSON(&got, false); err != nil {
			t.Fatal(err)
		}
		var series bytes.Buffer
		if err := r.WriteJSON(&series, true); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&got, "%s: with series %d bytes, CRC-32 %08x\n\n", k.name, series.Len(), crc32.ChecksumIEEE(series.Bytes()))
	}
	name := filepath.Join("testdata", "kinds.golden")
	if *update {
		if err := os.WriteFile(name, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

// TestAlgorithmsOfAll: Algorithms leaves out what can't be, and nothing else.
func TestAlgorithmsOfAll(t *testing.T) {
	for text, want := range map[string]int{"100/min": 13, "1/s": 12, "20000/s": 12, "1/us": 9, "4000000000/h fixed-window": 2} {
		limits, err := Algorithms(weir.MustParseLimit(text))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, l := range limits {
			seen[l.String()] = true
		}
		if len(seen) != want {
			t.Errorf("%s: %d algorithms, want %d: %v", text, len(seen), want, limits)
		}
	}
	for _, text := range []string{"0/s", "1 concurrent"} {
		if _, err := Algorithms(weir.MustParseLimit(text)); err == nil {
			t.Errorf("%s has algorithms", text)
		}
	}
}

// TestRunRefuses: what is beyond a bound is refused, and says what to do.
func TestRunRefuses(t *testing.T) {
	l := weir.MustParseLimit("100/min")
	w, err := ParseWorkload("poisson", l)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Of(l)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"negative": {Duration: -1}, "too long": {Duration: MaxDuration + 1}, "nanoseconds": {Duration: 1}, "steps": {Step: 5},
		"too many": {Duration: time.Hour, Step: time.Millisecond}, "step": {Step: -time.Second},
	} {
		_, err := Run(t.Context(), w, []Contender{c}, o)
		if _, ok := errors.AsType[*InputError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, contenders := range [][]Contender{nil, make([]Contender, MaxContenders+1)} {
		if _, err := Run(t.Context(), w, contenders, Options{}); err == nil {
			t.Errorf("%d contenders run", len(contenders))
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ended, w, []Contender{c}, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was stopped: %v", err)
	}
}

// TestBounds: a log of more requests than can be remembered, and a longer line than
// there may be, are refused; clients that wait to ask again give up.
func TestBounds(t *testing.T) {
	p := newPeriod(1000, 1)
	p.queue = make([]stamp, MaxRemembered)
	if _, ok := errors.AsType[*InputError](p.add(1, 0, 1)); !ok {
		t.Error("more than MaxRemembered requests are remembered")
	}
	if err := p.add(1, 0, 0); err != nil {
		t.Errorf("what costs nothing: %v", err)
	}
	l := later{heap: make(turns, maxLater)}
	if l.push(turn{}) {
		t.Error("more than maxLater wait")
	}
	w, err := ParseWorkload("edge size=1000000 every=2s", weir.MustParseLimit("1000000/s"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Of(weir.MustParseLimit("1/s leaky-queue queue 2000000"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(t.Context(), w, []Contender{c}, Options{Duration: 3 * time.Second})
	if _, ok := errors.AsType[*InputError](err); !ok {
		t.Errorf("a line of two million: %v", err)
	}
}

// TestSilence: a silence that would take for ever to draw can be stopped.
func TestSilence(t *testing.T) {
	l := weir.MustParseLimit("100/min")
	w, err := ParseWorkload("square rate=0/s low=1000000/s every=400day", l)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	o := Options{Duration: 300 * 24 * time.Hour, Progress: func(_, _ time.Duration) { stop() }}
	if _, err := Run(ctx, w, everything(t, l), o); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestProgress: it goes up to the end, by contender.
func TestProgress(t *testing.T) {
	l := weir.MustParseLimit("100/s")
	w, err := ParseWorkload("poisson rate=10000/s", l)
	if err != nil {
		t.Fatal(err)
	}
	var last time.Duration
	calls := 0
	_, err = Run(t.Context(), w, everything(t, l)[:2], Options{Duration: 5 * time.Second, Progress: func(done, total time.Duration) {
		if done < last || done > total || total != 10*time.Second {
			t.Errorf("%v of %v after %v", done, total, last)
		}
		last = done
		calls++
	}})
	if err != nil || calls < 10 || last < 8*time.Second {
		t.Errorf("%d calls up to %v, %v", calls, last, err)
	}
}

// TestRoundStep: the points of a series lie at round times, and are neither few nor
// too many.
func TestRoundStep(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		time.Microsecond: time.Microsecond, 10 * time.Microsecond: time.Microsecond, time.Millisecond: 5 * time.Microsecond,
		time.Second: 5 * time.Millisecond, 10 * time.Second: 50 * time.Millisecond, 10 * time.Minute: 2 * time.Second,
		time.Hour: 10 * time.Second, 10 * time.Hour: 2 * time.Minute, 24 * time.Hour: 5 * time.Minute, 10 * 24 * time.Hour: time.Hour,
		MaxDuration: 24 * time.Hour,
	} {
		if got := roundStep(d); got != want {
			t.Errorf("%v in steps of %v, want %v", d, got, want)
		}
	}
	for d := time.Microsecond; d < MaxDuration; d += d/7 + time.Microsecond {
		if n := int64((d-1)/roundStep(d)) + 1; n > MaxSteps/100 || n < 199 && d > 200*time.Microsecond {
			t.Errorf("%v makes %d steps", d, n)
		}
	}
}

package weir_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// drawSmall draws limits that are often alike but for a number.
func drawSmall(t *rapid.T, label string) *weir.Limit {
	draw := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label+" "+what) }
	n := rapid.IntRange(1, 6).Draw(t, label+" count")
	text := fmt.Sprintf("%d/%s", n, draw("period", "10s", "1s", "20s"))
	switch draw("algorithm", "gcra", "queue", "fixed", "log", "window", "permits") {
	case "gcra":
		burst := rapid.IntRange(1, 8).Draw(t, label+" burst")
		text += fmt.Sprintf(" burst %d", burst)
		text += draw("more", "", "", fmt.Sprintf(" initial %d", burst/2), " debt 3")
	case "queue":
		text += fmt.Sprintf(" leaky-queue queue %d", rapid.IntRange(0, 4).Draw(t, label+" queue"))
	case "fixed":
		text += " fixed-window" + draw("anchored", "", " anchored") + draw("denied", "", " count-denied")
	case "log":
		text += " sliding-log" + draw("denied", "", " count-denied")
	case "window":
		text += " sliding-window" + draw("parts", "", " 5") + draw("mode", "", " relaxed", " conservative") + draw("denied", "", " count-denied")
	case "permits":
		text = fmt.Sprintf("%d concurrent ttl %s", n, draw("ttl", "1s", "20s"))
	}
	l, err := weir.ParseLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestCovers: a limit that covers another lets all pass that the other does.
func TestCovers(t *testing.T) {
	var covered, not int
	rapid.Check(t, func(t *rapid.T) {
		l, o := drawSmall(t, "l"), drawSmall(t, "o")
		for i := range 20 {
			if l.Covers(o) {
				break
			}
			not++
			l, o = drawSmall(t, fmt.Sprint("l", i)), drawSmall(t, fmt.Sprint("o", i))
		}
		if !l.Covers(o) {
			return
		}
		covered++
		var mine, theirs weir.State
		now := weir.Instant(1e15)
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			now += weir.Instant(rapid.SampledFrom([]int64{0, 1, 500_000, 1_000_000, 2_500_000, 10_000_000, 60_000_000}).Draw(t, "pause"))
			a := weir.Ask{Limit: o, Cost: rapid.Int64Range(1, 4).Draw(t, "cost")}
			after, d := take(o, slices.Clone(theirs), now, a)
			a.Limit = l
			own, e := take(l, slices.Clone(mine), now, a)
			switch {
			case d.Outcome == weir.Allowed && e.Outcome != weir.Allowed:
				t.Fatalf("%v covers %v, and denies what that lets pass", l, o)
			case (d.Outcome == weir.Allowed) == (e.Outcome == weir.Allowed):
				theirs, mine = after, own
			}
		}
		for _, width := range []int64{1, 1e6, 1e7, 1e8} {
			if most, least := l.Bound(weir.Instant(width).Duration(), 1), o.Bound(weir.Instant(width).Duration(), 1); most < least {
				t.Fatalf("%v covers %v, and its bound is %d in place of %d", l, o, most, least)
			}
		}
	})
	if covered < 5 || not < 5 {
		t.Errorf("%d pairs were covered, %d were not", covered, not)
	}
	for text, other := range map[string]string{
		"12/s": "10/s", "10/s burst 20": "10/s", "10/s": "10/s", "5 concurrent": "4 concurrent", "100/day fixed-window": "10/day fixed-window",
		"10/s sliding-log": "9/s sliding-log", "600/min burst 600": "10/s", "1/day": "0/s",
	} {
		if l, o := weir.MustParseLimit(text), weir.MustParseLimit(other); !l.Covers(o) || l.String() != o.String() && o.Covers(l) {
			t.Errorf("%s and %s", text, other)
		}
	}
}

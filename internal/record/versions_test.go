package record_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/record"
)

// versions is a count that processes with different limits ask for.
type versions struct {
	record record.Record
	passed []weir.Instant // when events passed
}

func (v *versions) ask(now weir.Instant, l *weir.Limit) {
	asks, all, out := []weir.Ask{{Limit: l, Cost: 1}}, []record.Record{v.record}, make([]weir.Decision, 1)
	record.Take(now, asks, all, out)
	var err error
	if v.record, err = record.Parse(all[0].Append(nil), l); err != nil {
		panic(err)
	}
	if out[0].Charged {
		v.passed = append(v.passed, now+weir.Instant(out[0].Hold/time.Microsecond))
	}
}

// TestTwoVersions: while two versions of a limit ask for a count by turns, it passes
// no more than the larger one lets.
func TestTwoVersions(t *testing.T) {
	for _, form := range []string{"%d/min", "%d/min burst 3", "%d/min fixed-window", "%d/min sliding-window", "%d/min sliding-window 6", "%d/min sliding-log"} {
		t.Run(form, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				small := rapid.Int64Range(3, 20).Draw(t, "small")
				large := small + rapid.Int64Range(1, 20).Draw(t, "more")
				limits := []*weir.Limit{weir.MustParseLimit(fmt.Sprintf(form, small)), weir.MustParseLimit(fmt.Sprintf(form, large))}
				var v versions
				now := weir.Instant(rapid.Int64Range(0, 90_000_000).Draw(t, "start"))
				step := rapid.Int64Range(1, 3_000_000).Draw(t, "step")
				for range 300 {
					v.ask(now, limits[rapid.IntRange(0, 1).Draw(t, "version")])
					now += weir.Instant(rapid.Int64Range(0, step).Draw(t, "passes"))
				}
				v.check(t, limits[1])
			})
		})
	}
}

// check holds what has passed in any time to the larger limit.
func (v *versions) check(t *rapid.T, l *weir.Limit) {
	for i := range v.passed {
		for j := i; j < len(v.passed); j++ {
			width := (v.passed[j] - v.passed[i] + 1).Duration()
			if n, most := int64(j-i+1), l.Bound(width, 1); n > most {
				t.Fatalf("%d passed in %v, want at most %d", n, width, most)
			}
		}
	}
}

// TestVersionsByTurns: who asks by turns all the time gets what a limit lets, neither
// nothing nor without end.
func TestVersionsByTurns(t *testing.T) {
	for _, c := range []struct{ small, large string }{
		{"100/min", "120/min"},
		{"100/min", "1000/min"},
		{"100/min fixed-window", "120/min fixed-window"},
		{"100/min fixed-window", "120/min"},
		{"100/min sliding-window", "120/min sliding-log"},
		{"100/min", "6000/h"},
	} {
		small, large := weir.MustParseLimit(c.small), weir.MustParseLimit(c.large)
		var v versions
		const minutes = 30
		for now := weir.Instant(0); now < minutes*60_000_000; now += 50_000 {
			v.ask(now, []*weir.Limit{small, large}[now/50_000%2])
		}
		least, most := int64(minutes-2)*100/2, large.Bound(minutes*time.Minute, 1)+minutes*(large.Bound(1, 1)+1)
		if n := int64(len(v.passed)); n < least || n > most {
			t.Errorf("%s and %s: %d passed in %d minutes, want %d to %d", small, large, n, minutes, least, most)
		}
		t.Logf("%s and %s: %d passed in %d minutes", small, large, len(v.passed), minutes)
	}
}

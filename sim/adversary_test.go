package sim

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weir-limit/weir"
)

// TestSearchFindsTheWorst: the search reaches what is proved to be the most, for
// every algorithm, and by as few requests as are known.
func TestSearchFindsTheWorst(t *testing.T) {
	for text, by := range map[string]struct {
		found    int64
		requests int
	}{
		"100/min":                                {199, 2},   // burst + count − 1
		"100/min burst 10":                       {109, 25},  // it has to be drained all the time
		"100/min burst 200":                      {299, 9},   //
		"100/min debt 20":                        {219, 2},   //
		"100/min initial 5":                      {199, 9},   //
		"100/min strict burst 50":                {100, 2},   // hard
		"100/min leaky-queue":                    {100, 110}, // they go one by one
		"100/min fixed-window":                   {200, 2},   // twice the count around an edge
		"100/min fixed-window anchored":          {199, 3},   // one opens the first window
		"100/min fixed-window count-denied":      {200, 2},   //
		"1000/month fixed-window":                {3000, 3},  // February lies within 30 days
		"100/min sliding-log":                    {100, 1},   // hard
		"100/min sliding-window":                 {199, 2},   // all at the end of a window, all but one at the end of the next
		"100/min sliding-window 4":               {199, 2},   //
		"100/min sliding-window 60":              {199, 2},   //
		"100/min sliding-window relaxed":         {200, 2},   //
		"100/min sliding-window 6 relaxed":       {200, 2},   //
		"100/min sliding-window 12 conservative": {100, 1},   // hard
		"100/min warm-up 10s":                    {100, 150}, // when warm
		"1000000000/s fixed-window":              {2e9, 2},   //
		"4000000000/h fixed-window":              {8e9, 8},   // requests cost at most 2^30
		"1/us":                                   {1, 1},     //
	} {
		l := weir.MustParseLimit(text)
		a, err := Search(t.Context(), l, 1, 20_000)
		if err != nil {
			t.Error(err)
			continue
		}
		if a.Found != by.found || a.Bound != by.found || len(a.Requests) > by.requests {
			t.Errorf("%s: found %d of %d by %d requests, want %d by at most %d", text, a.Found, a.Bound, len(a.Requests), by.found, by.requests)
		}
		checkAttack(t, a)
	}
}

// checkAttack runs what was found as a workload: as many go in a period.
func checkAttack(t interface {
	Context() context.Context
	Errorf(string, ...any)
	Fatal(...any)
}, a *Attack,
) {
	w, err := Recorded("attack", a.Requests)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Of(a.Limit)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(t.Context(), w, []Contender{c}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if f := r.Trials[0].Figures; f.WorstPeriod != a.Found || f.Denied != 0 {
		t.Errorf("%s: found %d, but of its requests %d go in a period and %d are denied", a.Limit, a.Found, f.WorstPeriod, f.Denied)
	}
}

// TestSearchNeverPassesTheBound: for limits at random no traffic is found that
// passes more than is proved.
func TestSearchNeverPassesTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t)
		a, err := Search(t.Context(), l, rapid.Uint64().Draw(t, "seed"), 300)
		if err != nil {
			t.Fatal(err)
		}
		if a.Found > a.Bound {
			t.Errorf("%s: %d pass in a period from %v, the bound is %d: %v", l, a.Found, a.From, a.Bound, a.Requests)
		}
		checkAttack(t, a)
	})
}

func TestSearchRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"5 concurrent":         "simulate a limit with a period",
		"0/min":                "nothing to find",
		"2000/min leaky-queue": "the same for a smaller one",
	} {
		_, err := Search(t.Context(), weir.MustParseLimit(text), 1, 10)
		if bad, ok := errors.AsType[*InputError](err); !ok || !strings.Contains(bad.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, plans := range []int{0, -1, MaxPlans + 1} {
		if _, err := Search(t.Context(), weir.MustParseLimit("1/s"), 1, plans); err == nil {
			t.Errorf("%d plans are searched", plans)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Search(ended, weir.MustParseLimit("9/min burst 3"), 1, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that was stopped: %v", err)
	}
}

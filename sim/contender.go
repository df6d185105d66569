package sim

import (
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/sim/textbook"
)

// Contender is what decides in a run: a limit of the product, or a naive form of
// the literature that is meant to keep the same limit.
type Contender struct {
	// Name is the limit's text, or the naive form's name and the limit.
	Name string
	// Limit is what the contender is held to: its count and period.
	Limit *weir.Limit
	// Naive is the name of a naive form; empty for the product's own.
	Naive string
	// Says tells in a sentence what is wrong with a naive form.
	Says string

	// A model keeps one key, so a run makes one for each client that asks.
	model func() textbook.Model // of one key; nil for the product's own
}

// Of is the contender that decides by l.
func Of(l *weir.Limit) (Contender, error) {
	return Contender{Name: l.String(), Limit: l}, unfit(l)
}

// unfit says why a limit can't be simulated, and what to take instead.
func unfit(l *weir.Limit) error {
	if l.Algorithm() == weir.Concurrent {
		return inputf("%s bounds how much runs at a time, and a workload does not tell how long requests run; simulate a limit with a period, such as 100/min", l)
	}
	return nil
}

// verdict is what a contender says to one request.
//
// hold is 0 where a request goes at once. Then it is in the logs at the moment of its decision.
type verdict struct {
	passes bool
	hold   int64 // microseconds until it goes, when it passes
	retry  int64 // microseconds until it would pass, when it is denied and that is known; else 0
}

// decider is a contender at work.
//
// A decider is asked in the order of time, and never for a moment before the last. It keeps the
// states of its keys in slices: clients are numbers, and a run has no names.
type decider interface {
	decide(now weir.Instant, key int32, cost int64) verdict
	// bytes is how large the state of a key is, where states grow.
	bytes(key int32) int64
}

// decider begins a run with so many keys.
//
// It begins with no state, so no trial depends on those before it.
func (c *Contender) decider(keys int) decider {
	if c.model != nil {
		return &modelled{make: c.model, models: make([]textbook.Model, keys)}
	}
	return &limited{limit: c.Limit, states: make([]weir.State, keys)}
}

// limited decides by a limit of the product, as stores do.
type limited struct {
	limit  *weir.Limit
	states []weir.State // by key
}

func (l *limited) decide(now weir.Instant, key int32, cost int64) verdict {
	var d weir.Decision
	l.states[key] = l.limit.Take(l.states[key], now, cost, &d)
	return verdict{
		passes: d.Outcome == weir.Allowed,
		hold:   int64(d.Hold / time.Microsecond), retry: int64(d.RetryAfter / time.Microsecond),
	}
}

func (l *limited) bytes(key int32) int64 {
	// A state of fixed size is known without a look: tally.sum adds it.
	if l.limit.Words() > 0 {
		return 0
	}
	return 8 * int64(len(l.states[key]))
}

// modelled decides by a form of the textbooks.
type modelled struct {
	make   func() textbook.Model
	models []textbook.Model // by key
}

func (m *modelled) decide(now weir.Instant, key int32, cost int64) verdict {
	if m.models[key] == nil {
		m.models[key] = m.make()
	}
	return verdict{passes: m.models[key].Take(now, cost)}
}

func (m *modelled) bytes(int32) int64 { return 0 }

// naive is a form of sim/textbook that goes wrong.
type naive struct {
	name, says string
	model      func(l weir.Spec) textbook.Model // of one key; nil where it can't keep such a limit
}

func naives() []naive {
	// It is rounded down: the forms that use it count whole events a second.
	perSecond := func(l weir.Spec) int64 { return l.Count * int64(time.Second) / int64(l.Period) }
	return []naive{
		{"refill-whole", "refills all at once when the period is over, and so passes twice its count around that moment", func(l weir.Spec) textbook.Model {
			return &textbook.RefillWhole{Count: l.Count, Period: l.Period}
		}},
		{"expiring-bucket", "forgets a bucket without a request for a tenth of the period, and finds it full again", func(l weir.Spec) textbook.Model {
			rate := textbook.Rate{Events: l.Count, Period: l.Period}
			return &textbook.ExpiringBucket{Bucket: textbook.TokenBucket{Rate: rate, Burst: l.Count}, Idle: (l.Period / 10).Truncate(time.Microsecond)}
		}},
		{"truncating-bucket", "measures time in whole seconds, and so never refills when it is asked more often than once a second", func(l weir.Spec) textbook.Model {
			return &textbook.TruncatingBucket{PerSecond: perSecond(l), Burst: l.Count}
		}},
		{"literal-gcra", "forgets max(now, TAT), so that idle time piles up without end and passes at once", func(l weir.Spec) textbook.Model {
			return &textbook.LiteralGCRA{Interval: (l.Period / time.Duration(l.Count)).Truncate(time.Microsecond), Burst: l.Count}
		}},
		{"millisecond-pacer", "spaces requests by whole milliseconds, rounded down", func(l weir.Spec) textbook.Model {
			if perSecond(l) == 0 {
				return nil
			}
			return &textbook.MillisecondPacer{PerSecond: perSecond(l)}
		}},
		{"sliding-counter", "weighs two windows in floats, and tests before it adds", func(l weir.Spec) textbook.Model {
			return &textbook.SlidingCounter{Count: l.Count, Period: l.Period}
		}},
	}
}

// NaiveNames are the naive forms that Naive knows.
func NaiveNames() []string {
	var names []string
	for _, n := range naives() {
		names = append(names, n.name)
	}
	return names
}

// Naive is a naive form that is meant to keep the count and period of l.
func Naive(name string, l *weir.Limit) (Contender, error) {
	if err := unfit(l); err != nil {
		return Contender{}, err
	}
	s := l.Spec()
	if s.Count == 0 {
		return Contender{}, inputf("naive forms need a count of at least 1")
	}
	for _, n := range naives() {
		if n.name != name {
			continue
		}
		if n.model(s) == nil {
			return Contender{}, inputf("%s needs a limit of at least one a second, such as 10/s; %s is less", name, l)
		}
		// It is held to the plain limit: a form that knows no burst or mode is not to be judged by
		// them.
		plain, err := weir.Spec{Count: s.Count, Period: s.Period}.Limit()
		if err != nil {
			return Contender{}, inputf("%s for %s: %w", name, l, err)
		}
		return Contender{Name: name + " " + plain.String(), Limit: plain, Naive: name, Says: n.says, model: func() textbook.Model { return n.model(s) }}, nil
	}
	return Contender{}, inputf("no naive form %q; there are %s", name, strings.Join(NaiveNames(), ", "))
}

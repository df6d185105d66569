package sim

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/memstore"
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

	model func() textbook.Model // of one key; nil for the product's own
}

// Of is the contender that decides by l, through a memstore.
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
type verdict struct {
	passes bool
	hold   int64 // microseconds until it goes, when it passes
	retry  int64 // microseconds until it would pass, when it is denied and that is known; else 0
}

// decider is a contender at work.
type decider interface {
	decide(now weir.Instant, key int32, cost int64) (verdict, error)
	// bytes is how large the state of a key is now, where states grow.
	bytes(now weir.Instant, key int32) (int64, error)
}

// decider begins a run with so many keys.
func (c *Contender) decider(keys int) decider {
	if c.model != nil {
		return &modelled{make: c.model, models: make([]textbook.Model, keys)}
	}
	return newStored(c.Limit, keys)
}

// stored decides through the product's own store in memory, at the time of the
// requests.
type stored struct {
	store *memstore.Store
	names string // of the keys, keyBytes each
	asks  []weir.Ask
	out   []weir.Decision
}

const keyBytes = 4

func newStored(l *weir.Limit, keys int) *stored {
	names := make([]byte, 0, keys*keyBytes)
	for i := range keys {
		names = binary.BigEndian.AppendUint32(names, uint32(i))
	}
	return &stored{
		// Twice the room, so that the store, whose places depend on chance of its own,
		// never has to forget a key.
		store: memstore.New(memstore.Options{MaxKeys: 2 * keys}), names: string(names),
		asks: []weir.Ask{{State: weir.StateKey{Rule: "sim"}, Limit: l}}, out: make([]weir.Decision, 1),
	}
}

func (s *stored) ask(key int32, cost int64) []weir.Ask {
	s.asks[0].State.Key = s.names[keyBytes*key : keyBytes*(key+1)]
	s.asks[0].Cost = cost
	return s.asks
}

func (s *stored) decide(now weir.Instant, key int32, cost int64) (verdict, error) {
	if err := s.store.TakeAt(now, s.ask(key, cost), s.out); err != nil {
		return verdict{}, fmt.Errorf("decide: %w", err)
	}
	d := &s.out[0]
	return verdict{
		passes: d.Outcome == weir.Allowed,
		hold:   int64(d.Hold / time.Microsecond), retry: int64(d.RetryAfter / time.Microsecond),
	}, nil
}

func (s *stored) bytes(now weir.Instant, key int32) (int64, error) {
	if s.asks[0].Limit.Words() > 0 {
		return 0, nil
	}
	states, err := s.store.LookAt(now, s.ask(key, 0))
	if err != nil {
		return 0, fmt.Errorf("look at a state: %w", err)
	}
	return 8 * int64(len(states[0])), nil
}

// modelled decides by a form of the textbooks.
type modelled struct {
	make   func() textbook.Model
	models []textbook.Model // by key
}

func (m *modelled) decide(now weir.Instant, key int32, cost int64) (verdict, error) {
	if m.models[key] == nil {
		m.models[key] = m.make()
	}
	return verdict{passes: m.models[key].Take(now, cost)}, nil
}

func (m *modelled) bytes(weir.Instant, int32) (int64, error) { return 0, nil }

// naive is a form of sim/textbook that goes wrong.
type naive struct {
	name, says string
	model      func(l weir.Spec) func() textbook.Model // nil where it can't keep such a limit
}

func naives() []naive {
	return []naive{
		{"refill-whole", "refills all at once when the period is over, and so passes twice its count around that moment", func(l weir.Spec) func() textbook.Model {
			return func() textbook.Model { return &textbook.RefillWhole{Count: l.Count, Period: l.Period} }
		}},
		{"expiring-bucket", "forgets a bucket without a request for a tenth of the period, and finds it full again", func(l weir.Spec) func() textbook.Model {
			idle := (l.Period / 10).Truncate(time.Microsecond)
			rate := textbook.Rate{Events: l.Count, Period: l.Period}
			return func() textbook.Model {
				return &textbook.ExpiringBucket{Bucket: textbook.TokenBucket{Rate: rate, Burst: l.Count}, Idle: idle}
			}
		}},
		{"truncating-bucket", "measures time in whole seconds, and so never refills when it is asked more often than once a second", func(l weir.Spec) func() textbook.Model {
			perSecond := l.Count * int64(time.Second) / int64(l.Period)
			return func() textbook.Model { return &textbook.TruncatingBucket{PerSecond: perSecond, Burst: l.Count} }
		}},
		{"literal-gcra", "forgets max(now, TAT), so that idle time piles up without end and passes at once", func(l weir.Spec) func() textbook.Model {
			return func() textbook.Model {
				return &textbook.LiteralGCRA{Interval: (l.Period / time.Duration(l.Count)).Truncate(time.Microsecond), Burst: l.Count}
			}
		}},
		{"millisecond-pacer", "spaces requests by whole milliseconds, rounded down", func(l weir.Spec) func() textbook.Model {
			perSecond := l.Count * int64(time.Second) / int64(l.Period)
			if perSecond == 0 {
				return nil
			}
			return func() textbook.Model { return &textbook.MillisecondPacer{PerSecond: perSecond} }
		}},
		{"sliding-counter", "weighs two windows in floats, and tests before it adds", func(l weir.Spec) func() textbook.Model {
			return func() textbook.Model { return &textbook.SlidingCounter{Count: l.Count, Period: l.Period} }
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
		model := n.model(s)
		if model == nil {
			return Contender{}, inputf("%s needs a limit of at least one a second, such as 10/s; %s is less", name, l)
		}
		plain, err := weir.Spec{Count: s.Count, Period: s.Period}.Limit()
		if err != nil {
			return Contender{}, inputf("%s for %s: %w", name, l, err)
		}
		return Contender{Name: name + " " + plain.String(), Limit: plain, Naive: name, Says: n.says, model: model}, nil
	}
	return Contender{}, inputf("no naive form %q; there are %s", name, strings.Join(NaiveNames(), ", "))
}

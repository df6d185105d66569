package sim

import (
	"slices"
	"time"

	"github.com/weir-limit/weir"
)

// kind is a kind of workload.
//
// A kind never changes. words is the list of what ParseWorkload takes for it; all that it does not
// name keeps the value of defaults and suit.
type kind struct {
	name  string
	says  string
	words []string          // of its settings, in the order in which they print
	suit  func(s *settings) // makes the defaults its own; nil: they are
	// begin is called once for each trial. Sources of the same settings and seed give the same
	// requests, which is what makes trials comparable.
	begin func(s *settings, seed uint64) source // without end
}

// Kind tells about a kind of workload.
type Kind struct {
	Name     string
	Says     string // in a sentence
	Defaults string // as a workload's text with every word, for the limit asked about
}

// Kinds are the kinds of workload, with the defaults that suit l.
func Kinds(l *weir.Limit) ([]Kind, error) {
	var all []Kind
	for _, k := range kinds() {
		w, err := ParseWorkload(k.name, l)
		if err != nil {
			return nil, err
		}
		all = append(all, Kind{Name: k.name, Says: k.says, Defaults: w.String()})
	}
	return all, nil
}

func kindOf(name string) *kind {
	all := kinds()
	if i := slices.Index(kindNames(), name); i >= 0 {
		return &all[i]
	}
	return nil
}

func kindNames() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

func kinds() []kind {
	return []kind{
		{
			name: "poisson", says: "requests at random, at an even rate",
			words: []string{"rate", "clients", "skew", "cost", "tries", "retry"},
			begin: poisson,
		},
		{
			name: "bursts", says: "size requests at once, at a random moment of each stretch of every",
			words: []string{"size", "every", "clients", "skew", "cost", "tries", "retry"},
			begin: bursts,
		},
		{
			name: "square", says: "at random, half of every at rate and half of it at low",
			words: []string{"rate", "low", "every", "clients", "skew", "cost", "tries", "retry"},
			suit: func(s *settings) {
				s.rate.count, s.every = 2*s.rate.count, 4*s.every
			},
			begin: square,
		},
		{
			name: "ramp", says: "at random, from low at the beginning to rate at the end",
			words: []string{"low", "rate", "clients", "skew", "cost", "tries", "retry"},
			suit:  func(s *settings) { s.rate.count *= 2 },
			begin: ramp,
		},
		{
			name: "daily", says: "at random, from low at midnight to rate at noon, in a smooth curve of every",
			words: []string{"rate", "low", "every", "clients", "skew", "cost", "tries", "retry"},
			suit: func(s *settings) {
				s.rate.count, s.every = 2*s.rate.count, 24*time.Hour
				s.duration = s.every
			},
			begin: daily,
		},
		{
			name: "greedy", says: "at random, the first client at rate and all others together at low",
			words: []string{"rate", "low", "clients", "cost", "tries", "retry"},
			suit: func(s *settings) {
				s.low = s.rate
				s.rate.count, s.clients = 10*s.rate.count, 20
			},
			begin: greedy,
		},
		{
			name: "edge", says: "size requests gap before the end of every second stretch of every, and as many at its end",
			words: []string{"size", "every", "gap", "clients", "skew", "cost", "tries", "retry"},
			begin: edge,
		},
		{
			name: "herd", says: "each client size times within gap, at the beginning of each stretch of every",
			words: []string{"size", "every", "gap", "clients", "cost", "tries", "retry"},
			suit: func(s *settings) {
				s.clients = 20
			},
			begin: herd,
		},
		{
			name: "retrying", says: "at random; who is denied asks again, tries times in all, when it was told to or after retry, then twice that and so on",
			words: []string{"rate", "clients", "skew", "cost", "tries", "retry"},
			suit: func(s *settings) {
				s.rate.count, s.clients, s.tries = 20*s.rate.count, 10, 5
			},
			begin: poisson,
		},
	}
}

// Words tells what the words of workloads mean, for people.
const Words = `rate=100/min, low=10/min   how many requests come, of all clients together
clients=20 skew=1.1        how many clients; the i-th asks in proportion to 1/i^skew, 0: all alike
cost=1, cost=1-10          events that a request is worth; of a range, each as often
size=100 every=1min gap=1s what comes together, and when
tries=5 retry=told         how often one asks for the same, and when again: as the denial says, or after
                           a time such as 1s that doubles with each try
`

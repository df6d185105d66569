// Package sim runs traffic that was never sent against limits that nobody has
// deployed yet: a [Workload] makes requests, each [Contender] decides about them,
// and a [Result] says what passed, and how wrong it was against an exact log.
//
// All is virtual: time is that of the requests, chance comes from a seed, and
// every figure is computed in integers. The same seed gives the same result, byte
// for byte, on every machine.
//
// Contenders of the product decide by the code that stores run. Beside them may stand
// the naive forms of [github.com/weir-limit/weir/sim/textbook], to see where they
// go wrong.
//
// workload.go and kinds.go say which traffic, contender.go who decides, tally.go how wrong
// it was, adversary.go looks for the worst traffic, cluster.go asks whole clusters.
//
// # Time
//
// No clock is read, and nothing waits. A run holds the present as a weir.Instant, in microseconds,
// and moves it from one moment to the next at which something happens: a request comes, one that
// was denied asks again, or one that stood in a queue goes. The present never moves back. So a day
// of traffic takes as long as its requests take to decide, and a silence takes next to nothing.
//
// # Trials
//
// Each contender has a trial of its own, from the first request to the last, and trials do not
// know of each other. All get the same fresh requests, for these come from the workload and the
// seed alone. Requests that clients make again come from the trial: they follow its denials.
//
// # Oracle
//
// A trial is judged by an exact log: all events of a key within the last period, one by one, so
// that their sum is true at every microsecond. No perfect limiter decides beside the contender;
// Figures say why. Search and RunCluster compare with a proven bound instead: weir.Limit.Bound,
// and how far nodes may be ahead of each other.
//
// # Determinism
//
// Each draw has a stream of its own, by its use: who asks is drawn apart from when, so that
// another skew leaves the times as they are. Where two things happen at one microsecond, their
// order is that in which they were put into the queue. No figure depends on the order of a map or
// on goroutines, for there are none, and none is computed in floats, which need not round alike on
// all machines.
//
// # Bounds
//
// All that grows with the input has a bound, and input beyond it is an InputError that says what
// to take instead: no run is cut short in silence. One bound has no error: of requests that wait
// to ask again, those beyond a million give up, as clients may.
package sim

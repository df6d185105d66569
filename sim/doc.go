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
package sim

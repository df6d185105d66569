// Package weir decides who may send how much, and when to come back.
//
// A Limit says how many events may pass in how long, and by which algorithm. It
// is written as text, the same in programs, rule files and requests:
//
//	100/min                           GCRA, which is the token bucket
//	5/s burst 10                      ten at once after rest, then five a second
//	60/min leaky-queue                one a second, in order, the rest waits
//	1000/day fixed-window zone Europe/Berlin
//	100/min sliding-window 6
//	20 concurrent ttl 5min
//
// A Limiter asks limits about keys and keeps the counts in a Store:
//
//	limiter := weir.NewLimiter(memstore.New(memstore.Options{}), "login", weir.MustParseLimit("5/min"))
//	d, err := limiter.Take(ctx, user, 1)
//	if err == nil && d.Outcome != weir.Allowed {
//		// come back after d.RetryAfter
//	}
//
// # Guarantees
//
// Pure functions of state, limit, time and cost decide: Limit.Decide and Limit.Commit. They count
// in integers and exact fractions of a microsecond, so that no decision depends on rounding and
// nothing drifts. RetryAfter is exact: alone, asking again then is allowed, and a microsecond
// earlier is not. A denial uses nothing up, unless the limit says count-denied. A clock that steps
// back mints nothing. Limit.Bound is the most that can pass in any interval. docs/algorithms.md
// tells how the algorithms compare.
//
// # For authors of stores
//
// A program that uses a store needs none of this. docs/write-a-store.md is the page for an
// author, and package storetest has the suite and a whole store as its example.
//
// A store implements Store: it is given asks (Ask), whose counts it finds by StateKey, and
// answers with decisions (Decision). Kept is what it keeps of a count. Kept.Decide says what
// each limit alone answers, Resolve whether the asks pass together, and Kept.Commit makes
// what is to be kept. Traits are what the store promises. Evidence, Looker, Plain and PlainWith are
// optional. Policy is not for stores.
//
// # The code
//
// limiter.go serves programs that have keys and limits but no rules; text.go reads
// limits; each algorithm has a file of its own. instant.go has the exact arithmetic:
// instants are whole microseconds, and an interval is a fraction in lowest terms.
// civil.go cuts time into days, weeks, months and years of a zone. change.go has what
// becomes of a count whose limit has changed (Kept), wherever it is kept.
//
// Limit.Decide says what one limit alone answers, given a state, an instant and an ask.
// Resolve says whether the asks of a request pass together. Limit.Commit makes the
// states to keep, and completes the answers. Limit.Take is these three steps in one,
// for a plain ask. A store finds the states, holds them still in between, and keeps
// what comes out; it knows nothing of algorithms. So the same functions decide in
// memory, in a replay of a log at the log's own time, and in tests against models in
// big numbers.
//
// A program that takes limits without a Limiter reads the decisions by Judge
// (verdict.go), and settles, gives back or renews the charge by Charge (charge.go), as
// Limiter, rules, middleware and interceptors do.
package weir

// Package usagelog counts what rules decide for whom, and tells it in intervals: one record for each
// rule and key that had decisions or settlements in an interval. Records are for billing and
// audit, so their sums are exact: each decision is counted in one interval, an interval never
// changes once it has ended, and its records wait in memory until they are acknowledged.
//
// table.go counts, on the goroutine of the request; record.go is the form of records; log.go ends
// intervals and has them kept; file.go keeps them in files. Packages beside this one keep them
// elsewhere, each as a Sink.
//
// Memory is bounded while nobody takes records. First an interval lasts longer, so that its keys
// are told apart less often; then, beyond MaxKeys, keys of a rule are counted together. No sum is
// ever dropped while the process lives.
package usagelog

// Package offenders keeps what rules have passed and denied, and whom they
// denied most: for each rule exact counts, an hour of them in steps, and a
// sketch of the clients that were denied in the last minutes. All of it is
// bounded, and to record a decision costs little beside making it.
//
// The names of clients are personal data. They are in memory alone, for at most
// 2 × PaneLife and a Step.
package offenders

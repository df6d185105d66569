// Package offenders keeps what rules have passed and denied, and whom they
// denied most: for each rule exact counts, an hour of them in steps, and a
// sketch of the clients that were denied in the last minutes. All of it is
// bounded, and to record a decision costs little beside making it.
//
// The names of clients are personal data. They are in memory alone, for at most
// 2 × PaneLife and a Step.
//
// sketch.go finds whom rules deny most, window.go makes it the last minutes, history.go
// and book.go are an hour in steps. The daemon's meter records each decision here, beside
// its metrics, for weir top and the pages.
package offenders

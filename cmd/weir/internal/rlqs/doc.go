// Package rlqs gives portions of limits to proxies that ask once for many requests: Envoy's rate limit quota
// service (RLQS), version 3. A proxy reports every few seconds how much it was asked for, by buckets, and gets
// a bucket of tokens for each that is good for TTL.
//
// A proxy can't be called back, and tells late what passed. So all that it may pass until its assignment ends is taken
// from the store before it hears of it, and no interval passes more than the limit does, whatever is lost: see Book for a
// limit whose pace is booked, and lump.go for one whose portions are charged to the count of the rule.
//
// book.go is what is promised of one count, and share.go how much each is to have, as pure functions; bucket.go and lump.go decide
// what to tell a proxy; buy.go asks the store; server.go has the table and the bounds; stream.go is the service.
package rlqs

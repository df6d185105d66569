// Package unreported keeps usage that was allowed without the store, until the store knows of it.
//
// A process allows events by itself in two cases: a fallback decides while the store is away, and
// a limit with sync is decided locally. Both then have the same duties, and this package has them
// once. They keep the usage of a bounded number of keys (Table). They report each event in one
// report at a time (Usage), many keys in one call (Table.Report), and keep what the store did not
// confirm. A caller that needs the store's answer about a key waits for the report of that key
// (Entry.Answer). A process that ends tells the rest, and says of how many keys the usage is lost
// (Table.ReportAll).
//
// The owner of a Table decides the rest: when to report, how many of the events, and whether the
// store charges them in any case or only if it has room. Packages guard and synced are the owners.
package unreported

// Usage is the events of one key that the store does not know. An event is pending until a
// report takes it along, and then sent until that report has ended. So it is in at most one
// report at a time, and whoever counts locally counts it all the while. The zero value is no usage.
//
// Neither number is ever negative. Sent is above 0 only while a report is under way, and does not change
// until that ends: the owner may change what is pending, say after a refund, but not what the store may
// have read already.
type Usage struct {
	Pending int64 // in no report
	Sent    int64 // in the report that is under way
}

// Events are all that the store does not know.
func (u *Usage) Events() int64 { return u.Pending + u.Sent }

// Send begins a report of so many pending events, 0…Pending. No report may be under way: what it has sent
// would be forgotten. Table.Report sees to that.
func (u *Usage) Send(events int64) int64 {
	u.Pending, u.Sent = u.Pending-events, events
	return events
}

// Confirm ends a report that the store has charged.
func (u *Usage) Confirm() { u.Sent = 0 }

// Return ends a report that the store has not charged, as far as is known: its events are
// pending again. If the store has charged them and only its answer was lost, they count twice:
// rather too much is counted than too little.
func (u *Usage) Return() { u.Pending, u.Sent = u.Events(), 0 }

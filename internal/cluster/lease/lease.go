// Package lease lets nodes keep one limit together. Every key has an owner among
// the nodes, which keeps its state. The other nodes hold leases: events that the owner has set
// aside for them, to let pass without asking. Package member says which node owns a key, and on whose votes.
//
// A Node is a state machine without clock, network and goroutine: its caller tells it what happens
// and when, and sends what it wants sent. So a simulation runs the code of the daemon.
//
// At no time do all nodes together let more pass than the limit lets pass on one, whatever is lost,
// late, doubled, cut, paused or killed: docs/cluster-protocol.md has the invariants, by the numbers that
// stand beside the code that keeps them, and the proof. Package simulation looks for a way round it.
//
// In the code, node.go is told what happens and tells what to send. Package holder decides by a lease or asks the key's
// owner, package ledger is what the owner keeps, package protocol what they say to each other: an ask brings its limit
// along, so that an owner need not have the rule. call.go is what an owner decides whole, handoff.go is how a ledger goes to
// its next owner, and backup.go how what an owner grants of a slow limit outlives it. leads.go says who leads a rule.
package lease

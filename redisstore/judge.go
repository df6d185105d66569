package redisstore

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The numbers beyond which a server is unwise.
const (
	// A script that calls TIME is not repeatable. Since version 5 the server sends its replicas what
	// a script has written, and not the script, so that they write the same.
	oldest     = 5                      // the first version whose scripts may ask for the time and write
	muchSkew   = time.Second            // between the clocks
	mostCall   = 400 * time.Millisecond // no call is given more: package guard's longest deadline
	envoyCall  = 15 * time.Millisecond  // nor one by way of Envoy that waits 20 ms
	fullPart   = 80                     // percent of maxmemory
	keepCounts = "appendonly yes"
)

// judge finds what is unwise in what was found. Faults come first: with one of them the store does
// not work at all. All else are warnings about what becomes of counts when memory is short, when
// the server stops, or when the clocks differ.
func (e *examiner) judge() {
	for i := range e.Nodes {
		e.judgeNode(&e.Nodes[i])
	}
	if e.Kind == "cluster" && !slices.ContainsFunc(e.Nodes, func(n Node) bool { return n.Role == "replica" }) && !e.mute {
		e.warn("", "give each primary a replica", "the cluster has no replicas: when a primary dies, the fallbacks of the rules decide for its keys until it is back")
	}
	// Calls have deadlines: where takes need longer, the fallbacks
	// decide although the server is there.
	switch p99 := e.Take.P99; {
	case p99 > mostCall:
		e.warn("", "go nearer to the server, or give it more to work with", "one take of 100 needs %v, and none is given more than %v: the fallbacks of the rules will decide often", p99.Round(time.Microsecond), mostCall)
	case p99 > envoyCall:
		e.warn("", "go nearer to the server, or let Envoy wait longer (its timeout, 20 ms by default)",
			"one take of 100 needs %v; by way of Envoy none is given more than %v", p99.Round(time.Microsecond), envoyCall)
	}
	// All processes decide by the server's clock, so a skew passes nothing too much. But a day
	// begins by it.
	if e.Skew.Abs() > muchSkew {
		e.warn("", "run NTP on both", "the server's clock is %v apart from this machine's; the server's decides, so that windows of a calendar begin by it", e.Skew)
	}
	if e.secret && !e.TLS && slices.ContainsFunc(e.Nodes, func(n Node) bool { return !nearby(n.Address) }) {
		e.warn("", "write rediss://, or tls=1 behind the URL", "the password goes over the network without TLS")
	}
	if e.mute {
		e.warn("", "allow the user +info for this command; weir serve does not need it", "the server does not tell this user about itself, so that not all was looked at")
	}
	e.Findings = slices.Concat(e.faults, e.warnings)
}

func (e *examiner) judgeNode(n *Node) {
	if major, _, _ := strings.Cut(n.Version, "."); n.Version != "" {
		if v, err := strconv.Atoi(major); err == nil && v < oldest {
			e.fault(n.Address, "it is Redis "+n.Version, fmt.Sprintf("take Redis %d or later", oldest))
		}
	}
	// A URL of the wrong kind may work for a while: a node of a cluster answers for its own slots,
	// and a replica until the first write.
	switch {
	case n.Mode == "sentinel":
		e.fault(n.Address, "this is a sentinel", "write redis+sentinel://host:port/master")
		return
	case n.Mode == "cluster" && e.Kind != "cluster":
		e.fault(n.Address, "this is a node of a Redis Cluster", "write redis+cluster://host:port,…")
	}
	if n.Mode == "standalone" && e.Kind == "cluster" {
		e.warn(n.Address, "write redis://host:port, which decides all descriptors of a request at one moment", "this is no cluster")
	}
	if n.Role == "replica" {
		if e.Kind == "standalone" {
			e.fault(n.Address, "this is a replica, which writes nothing", "give the URL of the primary, or redis+sentinel://")
		}
		return // the primary decides
	}
	// Every key of Weir expires. One that does not was written by another program, under a name
	// that a count may have.
	if n.Immortal > 0 {
		e.fault(n.Address, fmt.Sprintf("%d of %d keys under Weir's prefix never expire; Weir writes none like that", n.Immortal, n.Keys), "find the program that also writes there; give Weir a prefix of its own by ?prefix=")
	}
	e.judgeMemory(n)
	// With a snapshot or a replica a restart loses the last charges only; without both it loses all
	// of them.
	if n.AOF == "no" && n.RDB == "no" && n.Replicas == 0 {
		e.warn(n.Address, "set "+keepCounts+", or run a replica", "it writes nothing to disk and has no replica: a restart forgets all counts, and each key may pass its limit once more")
	}
}

// judgeMemory judges what the server does when its memory is full. It should forget first what
// would recover first (volatile-ttl), or refuse writes, so that the fallbacks of the rules decide.
// A policy that evicts any key lets denied clients pass again, which is what an attacker of many
// keys wants.
func (e *examiner) judgeMemory(n *Node) {
	switch {
	case n.Policy == "": // it does not say
		return
	case strings.HasPrefix(n.Policy, "allkeys-"):
		e.warn(n.Address, "set maxmemory-policy volatile-ttl, or noeviction and enough memory",
			"maxmemory-policy %s: when memory is short it forgets any key, and a denied one then passes again", n.Policy)
	case strings.HasPrefix(n.Policy, "volatile-") && n.Policy != "volatile-ttl":
		e.warn(n.Address, "set maxmemory-policy volatile-ttl, which first evicts the keys nearest to unused",
			"maxmemory-policy %s: when memory is short it forgets keys in another order than they recover", n.Policy)
	}
	switch {
	case n.Max == 0:
		e.warn(n.Address, "set maxmemory to what the machine can spare", "there is no maxmemory: the server grows until the system ends it")
	case n.Used >= n.Max/100*fullPart && n.Policy == "noeviction":
		e.warn(n.Address, "raise maxmemory", "%d %% of maxmemory are used; when it is full, takes fail and the fallbacks of the rules decide", percent(n.Used, n.Max))
	case n.Used >= n.Max/100*fullPart:
		e.warn(n.Address, "raise maxmemory", "%d %% of maxmemory are used; then counts are forgotten", percent(n.Used, n.Max))
	}
}

func percent(part, of int64) int64 { return int64(float64(part) / float64(of) * 100) }

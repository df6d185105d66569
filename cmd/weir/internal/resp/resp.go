// Package resp is the Redis listener: CL.THROTTLE as redis-cell has it, and
// WEIR.CHECK, which asks the rules. Any Redis client can talk to it, by RESP2,
// RESP3 or lines typed by hand; commands.go lists all it answers.
//
// CL.THROTTLE brings its limit along and has no rule, so this package asks the store for
// it.
package resp

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/overload"
	"github.com/weir-limit/weir/rules"
)

// The bounds of the listener. How many connections it has is its listener's to say.
const (
	// maxBulk is how long a word of a command may be, maxWords how many words it
	// may have, and maxRequest how long they may be together. Beyond, the command
	// is a protocol error, and the connection is closed: the rest is not worth
	// reading.
	maxBulk    = 64 << 10
	maxWords   = 1024
	maxRequest = 256 << 10
	// readBuffer is how much is read at a time. A pipeline of any length is
	// answered in pieces of it, so it needs no memory. A line may be as long: a
	// command typed by hand, or the head of an array or word.
	readBuffer = 8 << 10
	// writeBuffer is how much is written at a time: the answers to all commands of CL.THROTTLE that one read
	// brings. Longer answers wait until the client has taken the first part.
	writeBuffer = 8 << 10
	// keptBuffer is how much memory of a large command a connection keeps.
	keptBuffer = 8 << 10
	// idle is how long a connection may be without commands. Clients keep them
	// for later; those whose peer is gone are found by the keepalive of TCP.
	idle = time.Hour
	// handshake is how long a connection may take to be made safe.
	handshake = 10 * time.Second
	// stranger is how long a client may take to say the password. Until then a word
	// may be strangerBulk long, and a command have strangerWords.
	stranger      = 15 * time.Second
	strangerBulk  = 16 << 10
	strangerWords = 10
	// slow is how long a command may take to arrive.
	slow = 15 * time.Second
	// stuck is how long a client may take to read answers. Then it is dropped.
	stuck = 15 * time.Second
	// linger is how long, and maxLinger how much, is read and thrown away after a
	// last answer: a connection that is closed with something unread takes its
	// answer with it.
	linger    = 250 * time.Millisecond
	maxLinger = 1 << 20
	// maxName is how long the name of a connection may be.
	maxName = 256
)

// Bound is a bound of the listener that a client can reach.
type Bound string

// The bounds.
const (
	BoundBulk    Bound = "bulk"    // a word is too long
	BoundWords   Bound = "words"   // a command has too many words
	BoundRequest Bound = "request" // a command is too long
	BoundLine    Bound = "line"    // a line is too long
	BoundIdle    Bound = "idle"    // nothing was asked for too long
	BoundSlow    Bound = "slow"    // a command took too long to arrive
	BoundStuck   Bound = "unread"  // answers were not read for too long
	BoundLimits  Bound = "limits"  // CL.THROTTLE has too many different limits in use
	// BoundStranger: the password was not said in time.
	BoundStranger Bound = "unauthenticated"
	// BoundMemory: commands that have come in part hold too much together, and this was
	// one of the slowest.
	BoundMemory Bound = "memory"
)

// Bounds are all that Options.Reached is called with.
func Bounds() []Bound {
	return []Bound{BoundBulk, BoundWords, BoundRequest, BoundLine, BoundIdle, BoundSlow, BoundStuck, BoundLimits, BoundStranger, BoundMemory}
}

// Limiter is what decides WEIR.CHECK; *rules.Limiter is one.
type Limiter interface {
	Check(context.Context, *rules.Request) (*rules.Answer, error)
}

// Options of the listener.
type Options struct {
	// Password is whether a word is the password of the user default. Nil: there is
	// none, and everybody is that user.
	Password func([]byte) bool
	// Version is what HELLO and INFO say. Empty: "unknown".
	Version string
	// Log gets the errors that are the daemon's own. Nil logs nothing.
	Log *slog.Logger
	// Observe is called after each command with its name in lower case. It is
	// "other" for commands that there are not, and "protocol" for what is none.
	Observe func(command string, ok bool, took time.Duration)
	// Decided is called after each decision of CL.THROTTLE that is no peek.
	Decided func(key string, d *weir.Decision)
	// Reached is called when a client has reached a bound.
	Reached func(Bound)
	// Panicked is called after a connection was closed because of a panic.
	Panicked func()
	// HandshakeFailed is called after each handshake of TLS that failed.
	HandshakeFailed func()
	// Client is what of a client's address bounds how many different limits of
	// CL.THROTTLE it may have in use. Nil: all are one client.
	Client func(address string) string
	// Budget is what commands may hold together that have come in part. Nil bounds
	// nothing.
	Budget *overload.Budget
}

// Server is the Redis listener. It is made by New.
type Server struct {
	limiter  Limiter
	store    weir.Store
	options  Options
	commands map[string]*command
	limits   *limits
	keys     *keys
	ids      atomic.Int64 // of connections
	conns    listen.Conns
}

// New makes the listener to limiter, and to store for CL.THROTTLE, whose keys are
// its own.
func New(limiter Limiter, store weir.Store, o Options) *Server {
	if o.Version == "" {
		o.Version = "unknown"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Observe == nil {
		o.Observe = func(string, bool, time.Duration) {}
	}
	if o.Decided == nil {
		o.Decided = func(string, *weir.Decision) {}
	}
	if o.Reached == nil {
		o.Reached = func(Bound) {}
	}
	if o.Panicked == nil {
		o.Panicked = func() {}
	}
	if o.HandshakeFailed == nil {
		o.HandshakeFailed = func() {}
	}
	if o.Client == nil {
		o.Client = func(string) string { return "" }
	}
	if o.Budget == nil {
		o.Budget = new(overload.Budget)
	}
	return &Server{
		limiter: limiter, store: store, options: o,
		commands: table(), limits: newLimits(), keys: newKeys(),
	}
}

// Commands are the names that Options.Observe is called with.
func Commands() []string {
	return slices.AppendSeq([]string{other, protocol}, maps.Keys(table()))
}

// Serve answers commands on l until Stop. It closes l.
func (s *Server) Serve(l net.Listener) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer func() {
		s.conns.Wait()
		cancel()
	}()
	retried := func(err error, wait time.Duration) {
		s.options.Log.Warn("a connection could not be accepted", "listener", "resp", "error", err, "wait", wait)
	}
	return s.conns.Each(l, retried, func(nc net.Conn) { s.serve(ctx, nc) })
}

// Stop closes the listener, answers what was sent until then, and closes the
// connections. When ctx ends first, those that are left get no answer.
func (s *Server) Stop(ctx context.Context) error { return s.conns.Stop(ctx) }

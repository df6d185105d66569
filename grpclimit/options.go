package grpclimit

import (
	"context"
	"log/slog"
	"time"

	"github.com/weir-limit/weir"
)

// Rule is one limit, and which calls it is for.
type Rule struct {
	// Name is what clients are told, and where the counts live in the store: a limit
	// that comes back changed under its name keeps what was used. It has 1…128
	// letters, digits, and . _ ~ * / = -
	Name string
	// Limit is how many events may pass.
	Limit *weir.Limit
	// Key says whose count a call is. Nil is Everyone.
	Key Key
	// Optional lets calls pass that have no key, as if the rule were not there. Else
	// they end with INVALID_ARGUMENT: nobody gets around a limit by leaving out who
	// he is.
	Optional bool
	// Cost is the events that a call is worth, 0…weir.MaxCount. More can never pass;
	// less than 0 says that it can't be told, and ends with INVALID_ARGUMENT. message
	// is the request of a unary call, or nil for a stream, or with Messages that
	// which has come. Nil is 1.
	Cost func(ctx context.Context, method string, message any) int64
	// Plan is the limit for this call, as of the plan that a user has paid for, or
	// of a table of exceptions. Nil, and where it returns nil, it is Limit. Each plan
	// has counts of its own.
	Plan func(ctx context.Context, method string) *weir.Limit
	// Messages counts the messages that a client sends on a stream, instead of the
	// stream. One that is denied ends it. A concurrent limit counts calls only.
	Messages bool
	// Shadow decides and reports to Options.OnDenied, and denies nothing.
	Shadow bool
}

// Options are all that need not be said.
type Options struct {
	// Skip tells which methods pass uncounted, as HealthOrReflection. Nil: none.
	Skip func(method string) bool
	// FailOpen lets calls pass when the store can't decide. Else they end with
	// UNAVAILABLE.
	FailOpen bool
	// Domain is the domain of ErrorInfo: the name of the service that limits, as
	// "pubsub.example.com". Empty is "weir".
	Domain string
	// Backoff is the jitter of grpc-retry-pushback-ms, on top of the time that a
	// call has to wait.
	Backoff weir.Backoff
	// OnDenied hears of each call that is denied, or would be but for Shadow or
	// FailOpen.
	OnDenied func(ctx context.Context, method string, d *Denial)
	// Log is told, once each, of interceptors that are applied twice to a call, and of
	// permits that could not be given back. Nil: nobody is.
	Log *slog.Logger
}

// Denial is why a call does not pass.
type Denial struct {
	Rules      []string      // the names of those that deny
	RetryAfter time.Duration // until another try is worth it; 0: never, or nobody knows
	Never      bool          // the call costs more than a limit can ever pass
	Shadow     bool          // the rules are in shadow and deny nothing
	Passed     bool          // it passed all the same, by Shadow or Options.FailOpen
	Err        error         // why nothing could be decided; not for the client
}

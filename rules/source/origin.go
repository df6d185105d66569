package source

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-limit/weir/rules"
)

// Options of a source.
type Options struct {
	// Cache is the file that keeps the last good copy of rules that came over
	// HTTP. Empty: DefaultCache.
	Cache string
	// Transport carries requests to the daemon: one that shows a token or a
	// certificate, or believes a CA of its own. Nil: http.DefaultTransport.
	Transport http.RoundTripper
	// NotCached is told when the copy can't be kept. The rules are in order all
	// the same, but a start without the daemon that they come from would fail.
	// Nil: nobody is told.
	NotCached func(error)
	// Poll is how often a daemon is asked for new rules, and how often files are
	// looked at where the system does not tell of changes. 0: 10 s and 2 s.
	Poll time.Duration
	// Check refuses rules that were read by failing: such as rules.Set.Fits. Nil:
	// all are taken.
	Check func(*rules.Set) error
}

// origin is a kind of source.
type origin interface {
	// read gives the rules as they are now. With an error beside them they are
	// good, but not what should be had.
	read(ctx context.Context) (*rules.Set, error)
	// accepted is told which of the rules that were read are active now.
	accepted(set *rules.Set)
	// watch calls look when something may have changed, until ctx ends; forced
	// when it was told by reload.
	watch(ctx context.Context, reload <-chan struct{}, look func(forced bool))
}

// FetchError says that a daemon did not give its rules.
type FetchError struct{ Err error }

func (e *FetchError) Error() string { return "fetch rules: " + e.Err.Error() }

// Unwrap is what went wrong.
func (e *FetchError) Unwrap() error { return e.Err }

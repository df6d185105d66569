// Package source brings rules to a program, and again when they change: from a
// file, from a folder, or from the /v1/export of a daemon.
//
//	fits := func(set *rules.Set) error { return set.Fits(store.Traits()) }
//	s, err := source.Open("/etc/weir/rules", source.Options{Check: fits})
//	set, err := s.Load(ctx)
//	limiter := rules.NewLimiter(store, set)
//	go s.Watch(ctx, func(set *rules.Set, err error) {
//		if set != nil {
//			limiter.Replace(set) // whole and checked
//		}
//		…                        // else the rules before it stay: err says why
//	})
//
// Files may be changed by renaming, in place, or by links that are turned, as
// Kubernetes does with a ConfigMap. A change is read when two looks 100 ms apart
// show the same, so that a file that is being written is not read by halves; an author that writes
// more slowly than that should rename. A file without a descriptors key is taken for half written,
// and when no file is left the rules stay.
//
// A source says what can't be loaded, and leaves the active rules to its caller. It
// keeps a last good copy on disk of the rules of a daemon.
package source

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/weir-limit/weir/rules"
)

// Source is a place that rules come from. It is made by Open.
type Source struct {
	origin origin
	check  func(*rules.Set) error
	reload chan struct{}
	told   string // what Load or Watch said last, to say it once
}

// Open makes a source of place: an http or https URL of /v1/export, or else the
// path of a rule file or of a folder of them. It reads nothing yet, and fails
// when the URL is none.
func Open(place string, o Options) (*Source, error) {
	if o.Check == nil {
		o.Check = func(*rules.Set) error { return nil }
	}
	s := &Source{reload: make(chan struct{}, 1), check: o.Check}
	if !IsURL(place) {
		s.origin = newFiles(place, o)
		return s, nil
	}
	r, err := newRemote(place, o)
	if err != nil {
		return nil, fmt.Errorf("rules from a URL: %w", err)
	}
	s.origin = r
	return s, nil
}

// IsURL is whether Open takes place for a URL.
func IsURL(place string) bool {
	return strings.HasPrefix(place, "http://") || strings.HasPrefix(place, "https://")
}

// Load gives the rules to begin with. It fails as rules.Load does, or when there
// is neither an answer nor a copy of one; a daemon that does not answer takes
// 10 s. With an error beside them the rules are the last good copy.
func (s *Source) Load(ctx context.Context) (*rules.Set, error) {
	set, err := s.origin.read(ctx)
	if set != nil {
		if bad := s.check(set); bad != nil {
			return nil, bad
		}
		s.origin.accepted(set)
	}
	s.told = saying(set, err)
	return set, err
}

// Watch tells of each change until ctx ends, from this goroutine: of new rules,
// or of an error on whose account the rules before it should stay. The error is
// a *rules.Error with all that is wrong in the files, fs.ErrNotExist when there
// are none, or says what could not be read. Changes since Load are told at once.
func (s *Source) Watch(ctx context.Context, tell func(*rules.Set, error)) {
	s.origin.watch(ctx, s.reload, func(forced bool) {
		set, err := s.origin.read(ctx)
		if ctx.Err() != nil {
			return
		}
		if set != nil && err == nil {
			err = set.Complete()
		}
		if set != nil && err == nil {
			err = s.check(set)
		}
		if err != nil {
			set = nil
		} else {
			s.origin.accepted(set)
		}
		if now := saying(set, err); forced || now != s.told {
			s.told = now
			tell(set, err)
		}
	})
}

// Reload makes Watch read the rules and tell of them, changed or not. It does
// not wait for it.
func (s *Source) Reload() {
	select {
	case s.reload <- struct{}{}:
	default: // one is on its way
	}
}

// saying is a text that is another when there is something else to tell.
func saying(set *rules.Set, err error) string {
	if _, away := errors.AsType[*FetchError](err); away {
		return "error: no answer" // why differs from one time to the next, by ports and such
	}
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprintf("rules: %x", sha256.Sum256(set.Export()))
}

// Result is one word for what came of reading rules: loaded, refused for what
// the files say, missing, or unreadable.
func Result(err error) string {
	switch _, bad := errors.AsType[*rules.Error](err); {
	case err == nil:
		return "loaded"
	case bad:
		return "refused"
	case errors.Is(err, fs.ErrNotExist):
		return "missing"
	}
	return "unreadable"
}

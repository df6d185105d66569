// Package xds brings the rules of a control plane to a node, and again when they change, by the
// xDS protocol: resources of the type ratelimit.config.ratelimit.v3.RateLimitConfig, as Envoy Gateway
// and other control planes hand them to envoyproxy/ratelimit.
//
//	xds://HOST:PORT?node=NAME&option=value…
//
//	node=NAME                what this node is called there: by it the control plane knows which rules are meant; needed
//	node-metadata=K=V,…      fields of the node's metadata, texts
//	metadata=K:V,…           metadata of the gRPC call, such as authorization:Bearer%20TOKEN
//	tls=true                 speak TLS; so do ca, cert, key and server-name. Without any of them nothing is encrypted
//	ca=FILE                  the CA to believe, in PEM; else those of this machine
//	cert=FILE, key=FILE      a certificate to show, and its key
//	server-name=NAME         the name that the certificate there must have; else the host
//	last=FILE                where the last good copy is kept; else in the user's cache folder, by a hash of the URL
//	wait=5s                  how long a start waits for the first rules
//	force-start=true         start without rules after that, if there is no copy either; requests fail until there are some
//
// It is state of the world, aggregated: one stream, on which each answer has all resources, each of them
// a domain. An answer is taken whole or not at all: when one resource of it is bad, the
// active rules stay, and the control plane is told which are bad and why (NACK). A domain that an answer leaves
// out is gone; book.go has when that is believed at once, and when after half a minute.
//
// place.go reads the URL, translate.go makes a rule file of a resource, which the reader of
// rule files judges, book.go keeps the domains, stream.go speaks with the control plane, copy.go keeps the last good copy, and
// xds.go puts them together.
package xds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/credentials"
	"github.com/weir-limit/weir/rules"
	"github.com/weir-limit/weir/rules/source"
)

const (
	// settled is how long a stream lasts that was no failure: after a shorter one the next try waits longer.
	settled = 10 * time.Second
	// againFirst and againMost are the longest pauses before another stream: at first, and of all.
	againFirst = 500 * time.Millisecond
	againMost  = 30 * time.Second
	// refuseFirst and refuseMost are those before an answer is refused again that was refused already.
	refuseFirst = time.Second
	refuseMost  = 5 * time.Second
	// silence is how long the control plane may say nothing on a new stream before that is told.
	silence = 10 * time.Second
	// between is how long the next answer waits after one was read: of those that come meanwhile only the last counts.
	between = 100 * time.Millisecond
)

// pace is how long things take. Tests have less patience.
type pace struct {
	// again is how long to wait before the next stream, after one that failed or ended.
	again weir.Backoff
	// refuse is how long to wait before an answer is refused again that is the same as the one refused
	// before: there are control planes that send it again as soon as they hear.
	refuse weir.Backoff

	silence, between time.Duration
}

func usualPace() pace {
	return pace{
		again: weir.Backoff{First: againFirst, Most: againMost}, refuse: weir.Backoff{First: refuseFirst, Most: refuseMost},
		silence: silence, between: between,
	}
}

// Options of a source.
type Options struct {
	// Check refuses rules by failing, such as rules.Set.Fits. Nil: all are taken.
	Check func(*rules.Set) error
	// NotKept is told when the last good copy can't be kept, each reason once. Nil: nobody is told.
	NotKept func(error)
	// Held is told which domains stay for a while though the control plane does not name them any more, and until when. Nil: nobody is told.
	Held func(domains []string, until time.Time)
}

// Source is the rules of a control plane. It is made by Open. Load and Watch are called one after the other, the other
// methods from any goroutine.
type Source struct {
	place   *place
	options Options
	files   *credentials.ClientTLS // nil: it does not speak TLS
	copy    keeper
	book    book
	pace    pace
	reload  chan struct{}
	failed  string // what was told to be wrong last; empty: nothing
	status  tally
}

// Open makes a source of the URL of a control plane. It connects to nothing yet, and fails
// when the URL can't be meant, or with a *credentials.Error.
func Open(url string, o Options) (*Source, error) {
	p, err := parsePlace(url)
	if err != nil {
		return nil, err
	}
	if o.Check == nil {
		o.Check = func(*rules.Set) error { return nil }
	}
	if o.NotKept == nil {
		o.NotKept = func(error) {}
	}
	if o.Held == nil {
		o.Held = func([]string, time.Time) {}
	}
	s := &Source{place: p, options: o, book: book{hold: holdTime}, pace: usualPace(), reload: make(chan struct{}, 1), copy: keeper{file: p.last, complain: o.NotKept}}
	if s.copy.file == "" {
		if name, err := source.DefaultCache(url); err != nil {
			s.copy.fail(err)
		} else {
			s.copy.file = strings.TrimSuffix(name, ".yaml") + ".xds"
		}
	}
	if p.tls {
		if s.files, err = p.show.TLS(time.Now()); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Name is the URL without its options.
func (s *Source) Name() string { return s.place.name }

// Load gives the rules to begin with: those of the control plane, or with an error beside them the last good copy.
// It waits for them as the URL says, but where there is a copy, no longer than until the control plane
// can't be reached. It fails with a *rules.Error when what the control plane has is bad, and with a *source.FetchError when it can't be
// asked; with force-start it gives no rules then, and no error: Watch brings them.
func (s *Source) Load(ctx context.Context) (*rules.Set, error) {
	copied, noCopy := s.loadCopy()
	// It has no deadline: gRPC would tell the control plane of it, and break off a moment early by it.
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer time.AfterFunc(s.place.wait, stop).Stop()
	var set *rules.Set
	var last error
	s.failed = anything // so that whatever comes first is told
	s.run(waiting, func(now *rules.Set, err error) {
		if set, last = now, err; set != nil || copied != nil {
			stop()
		}
	})
	if last == nil {
		last = s.away(fmt.Errorf("it has not sent any rules within %v; is %q the node that it knows?", s.place.wait, s.place.node.GetId()))
	}
	switch s.failed = ""; {
	case set != nil:
		return set, nil
	case copied != nil:
		s.failed = said(last)
		return copied, last
	case s.place.force:
		return nil, nil // Watch tells why
	case noCopy == nil:
		return nil, last
	}
	// Not wrapped: what is wrong with the copy is not what the control plane has.
	return nil, errors.Join(last, fmt.Errorf("last good copy: %s", noCopy.Error()))
}

// Watch tells of each change until ctx ends, from this goroutine: of new rules, whole and checked, or
// of an error on whose account the rules before it stay.
func (s *Source) Watch(ctx context.Context, tell func(*rules.Set, error)) { s.run(ctx, tell) }

// Reload makes Watch open another stream, with the certificates as they are then, and tell of what comes of it, changed
// or not. It does not wait for it.
func (s *Source) Reload() {
	select {
	case s.reload <- struct{}{}:
	default: // one is on its way
	}
}

// run keeps a stream open, and tells what comes of it, until ctx ends.
func (s *Source) run(ctx context.Context, tell func(*rules.Set, error)) {
	defer s.copy.flush(&s.book)
	for try := 0; ctx.Err() == nil; try++ {
		began := time.Now()
		answered, err := s.follow(ctx, tell)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errReload):
			try = -1
			continue
		case !answered:
			s.tell(nil, s.away(err), tell)
		case time.Since(began) > settled:
			try = 0
		}
		s.wait(ctx, s.pace.again.Delay(try, 0, rand.Uint64()))
	}
}

// wait waits, or until there is something to do at once.
func (s *Source) wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	case <-s.reload:
		s.failed = anything
	}
}

// anything is not what is ever told, so that whatever comes next is.
const anything = "\x00"

// tell tells of rules, and of an error that was not told last.
func (s *Source) tell(set *rules.Set, err error, to func(*rules.Set, error)) {
	if err != nil && said(err) == s.failed {
		return
	}
	if s.failed = ""; err != nil {
		s.failed = said(err)
	}
	to(set, err)
}

// away is the error of a control plane that can't be asked.
func (s *Source) away(err error) error {
	return &source.FetchError{Err: fmt.Errorf("%s: %w", s.place.name, err)}
}

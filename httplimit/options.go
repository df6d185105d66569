package httplimit

import (
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"net/http"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/admission"
)

// Rule is one limit, and which requests it is for.
type Rule struct {
	// Name is the name of the policy in header fields, and where the counts live in
	// the store: a limit that comes back changed under its name keeps what was
	// used. It has 1…128 letters, digits, and . _ ~ * / = -
	Name string
	// Limit is how many events may pass.
	Limit *weir.Limit
	// Key says whose count a request is. Nil is Everyone.
	Key Key
	// Optional lets requests pass that have no key (ErrNoKey), as if the rule were not there.
	// Else they are answered with 400: nobody gets around a limit by leaving out
	// who he is.
	Optional bool
	// Cost is the events that a request is worth, 0…weir.MaxCount. More can never
	// pass; less than 0 says that it can't be told, and is answered with 400. Nil
	// is 1.
	Cost func(*http.Request) int64
	// Plan is the limit for this request, as of the plan that a user has paid for,
	// or of a table of exceptions. Nil, and where it returns nil, it is Limit. Each
	// plan has counts of its own.
	Plan func(*http.Request) *weir.Limit
	// MaxHold is the longest that a request is held for its turn: at most 24 h
	// (weir.MaxWait). 0 holds requests in a leaky-queue for as long as its queue is,
	// and others not. More also holds those that a bucket or warm-up would deny; that
	// is for a rule that is alone.
	MaxHold time.Duration
	// Shadow decides and reports to Options.OnDenied, and denies nothing.
	Shadow bool
	// Unit is what is counted, for clients: "tokens". Empty is requests.
	Unit string
}

// Options are all that need not be said.
type Options struct {
	// Fields are the header fields that tell clients of the limits. 0 is Draft10.
	Fields Fields
	// Jitter is added to Retry-After at random, 0…Jitter, so that clients that were denied together
	// don't come back together.
	Jitter time.Duration
	// Skip tells which requests pass uncounted. Nil: none.
	Skip func(*http.Request) bool
	// Deny tells which requests are answered with 403, before all else. Nil: none.
	Deny func(*http.Request) bool
	// FailOpen lets requests pass when the store can't decide. Else they are
	// answered with 503.
	FailOpen bool
	// Counts tells by the status of the response whether a request counts: only
	// failures, say. The charge of any other request is given back afterwards; until then it
	// counts, so that many at once are no way around. Nil: all count. A store remembers for 15
	// minutes which receipts were given back, at most some millions: requests beyond that stay
	// counted.
	Counts func(status int) bool
	// Settle gives handlers a Charge, by ChargeOf, to tell what a request really
	// cost.
	Settle bool
	// OnDenied hears of each request that is denied, or would be but for Shadow
	// or FailOpen. It must not write the answer.
	OnDenied func(*http.Request, *Denial)
	// Answer writes the body of an answer to a client that is denied; all fields but those of
	// the body are set, and the status is its to write. Nil: problem details
	// (RFC 9457) as JSON, HTML or text, by the field Accept.
	Answer func(http.ResponseWriter, *http.Request, *Denial)
	// Log is told, once each, of a middleware that is applied twice to a request, and of
	// charges that could not be settled. Nil: nobody is.
	Log *slog.Logger
}

// Fields are kinds of header fields, added up by |. Draft10, Draft7 and Draft6
// exclude each other, and so do Envoy03 and XRateLimit: they share names.
type Fields uint8

// The kinds of header fields.
const (
	// NoFields tells clients nothing but Retry-After.
	NoFields Fields = 1 << iota
	// Draft10 is RateLimit-Policy and RateLimit of
	// draft-ietf-httpapi-ratelimit-headers-08 to -10: all limits, by name.
	Draft10
	// Draft7 is RateLimit-Policy and RateLimit of draft 7: the limit that is
	// closest.
	Draft7
	// Draft6 is RateLimit-Limit, -Remaining, -Reset and -Policy of draft 6.
	Draft6
	// Envoy03 is X-RateLimit-Limit, -Remaining and -Reset as Envoy sends them by
	// draft 3: Reset is in how many seconds.
	Envoy03
	// XRateLimit is X-RateLimit-Limit, -Remaining and -Reset as GitHub sends them:
	// Reset is when, in seconds since 1970.
	XRateLimit
)

// check finds what is wrong with o.
func (o *Options) check() error {
	var faults []error
	f := o.Fields
	switch {
	case f >= XRateLimit<<1:
		faults = append(faults, fmt.Errorf("httplimit: Options.Fields %d has kinds that there are not", f))
	case f&NoFields != 0 && f != NoFields:
		faults = append(faults, errors.New("httplimit: Options.Fields has NoFields beside other fields; leave one of them out"))
	case bits.OnesCount8(uint8(f&(Draft10|Draft7|Draft6))) > 1:
		faults = append(faults, errors.New("httplimit: Options.Fields has several drafts, which share names; take one"))
	case f&(Envoy03|XRateLimit) == Envoy03|XRateLimit:
		faults = append(faults, errors.New("httplimit: Options.Fields has Envoy03 and XRateLimit, which share names; take one"))
	}
	if o.Jitter < 0 || o.Jitter > weir.MaxWait {
		faults = append(faults, fmt.Errorf("httplimit: Options.Jitter is %v; it must be 0…%v", o.Jitter, weir.MaxWait))
	}
	return errors.Join(faults...)
}

// check finds what is wrong with the i-th rule of many, whose counts live in a store with
// these traits.
func (r *Rule) check(i, many int, store weir.Traits) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("httplimit: rule %d, %q: "+format, append([]any{i, r.Name}, args...)...))
	}
	if text := admission.NameFault(r.Name); text != "" {
		fault("%s", text)
	}
	if strings.IndexFunc(r.Unit, func(c rune) bool { return c < ' ' || c > '~' }) >= 0 {
		fault("Unit %q is not printable ASCII", r.Unit)
	}
	if text := admission.LimitFault(r.Limit, store); text != "" {
		fault("%s", text)
	}
	if r.Limit == nil {
		return errors.Join(faults...)
	}
	switch a := r.Limit.Algorithm(); {
	case r.MaxHold < 0 || r.MaxHold > weir.MaxWait:
		fault("MaxHold is %v; it must be 0…%v", r.MaxHold, weir.MaxWait)
	case r.MaxHold > 0 && a != weir.LeakyQueue && many > 1:
		fault("MaxHold reserves ahead, which the other rules would count too early; use it with one rule, or take leaky-queue")
	case r.MaxHold > 0 && a != weir.LeakyQueue && !reserves(a):
		fault("MaxHold is for buckets, leaky-queue and warm-up, not for %v", a)
	}
	return errors.Join(faults...)
}

// reserves is whether limits of an algorithm can be taken ahead.
func reserves(a weir.Algorithm) bool {
	switch a {
	case weir.GCRA, weir.TokenBucket, weir.LeakyBucket, weir.LeakyQueue, weir.WarmUp:
		return true
	case weir.FixedWindow, weir.SlidingLog, weir.SlidingWindow, weir.Concurrent:
	}
	return false
}

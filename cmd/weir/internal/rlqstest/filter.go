// Package rlqstest is Envoy's rate_limit_quota filter in virtual time, for tests of package rlqs: what
// source/extensions/filters/http/rate_limit_quota of Envoy does, in global_client_impl.cc and filter.cc, with all that one would not
// expect of it:
//
//   - A fill interval is cut to whole seconds. Below one it divides by zero, and nothing is limited.
//   - Two buckets of tokens are equal when their sizes, their tokens per fill and the nanoseconds of their intervals are:
//     whole seconds do not matter. An equal one keeps its level, and its old pace.
//   - Any other begins full, also one that comes after a blanket rule or after the end of the one before.
//   - Requests per time unit are refused: the assignment before goes on.
//   - A time to live is cut to whole seconds, and none is 0: it ends at once.
//   - After its end comes the fallback, if there is one, and then what holds without an assignment.
//   - Reports are differences. They are lost when the stream is, and limits go on meanwhile.
//   - A bucket that is abandoned is forgotten, and begins anew with the next request.
//   - Requests are counted as allowed before there is an assignment, and by each worker as it knows the bucket.
package rlqstest

import (
	"maps"
	"slices"
	"strings"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// ReportEvery is how often a filter reports of all its buckets.
const ReportEvery = 5 * time.Second

// Settings of a filter: those of its buckets.
type Settings struct {
	Domain string
	// AllowFirst is no_assignment_behavior: requests without an assignment pass; else they are denied.
	AllowFirst bool
	// Expired is expired_assignment_behavior, for so long; nil: there is none.
	Expired    *typev3.RateLimitStrategy
	ExpiredFor time.Duration
	// Workers is how many threads serve requests; 0: one.
	Workers int
}

// Filter is one Envoy. Its methods are called by one goroutine, with times that never fall.
type Filter struct {
	settings Settings
	buckets  map[string]*bucket // the main thread's
	workers  []map[string]*bucket
	began    bool
	next     time.Time // of the reports
	Open     bool      // the stream is
	out      []*rlqs.RateLimitQuotaUsageReports
	posts    []post
}

// post is a request that met an unknown bucket, on its way to the main thread.
type post struct {
	id      map[string]string
	allowed bool
}

// usage is counted by all workers.
type usage struct {
	allowed, denied uint64
	last            time.Time
}

type bucket struct {
	id     *rlqs.BucketId
	usage  *usage
	action *rlqs.RateLimitQuotaResponse_BucketAction // nil: no assignment
	tokens *tokens
	until  time.Time // of the action, or the fallback
	fell   bool      // it is the fallback
}

// tokens is AtomicTokenBucketImpl: doubles, filled evenly.
type tokens struct {
	most, rate float64
	from       float64 // the second at which it would have been empty
}

func newTokens(now time.Time, b *typev3.TokenBucket) *tokens {
	seconds := b.GetFillInterval().AsDuration() / time.Second // cut
	rate := float64(b.GetTokensPerFill().GetValue()) / float64(seconds)
	const least = 1.0 / (365 * 24 * 60 * 60)
	t := &tokens{most: float64(b.GetMaxTokens()), rate: max(rate, least)}
	t.from = clock(now) - t.most/t.rate
	return t
}

func clock(now time.Time) float64 { return float64(now.UnixMicro()) / 1e6 }

func (t *tokens) take(now time.Time) bool {
	at := clock(now)
	level := min(t.most, (at-t.from)*t.rate)
	if t.rate > 1e300 { // by zero: all of it is there again at any later moment
		level = t.most
	}
	if level < 1 {
		return false
	}
	t.from = at - (level-1)/t.rate
	return true
}

// New makes a filter whose stream can be opened.
func New(s Settings) *Filter {
	return &Filter{settings: s, buckets: map[string]*bucket{}, workers: make([]map[string]*bucket, max(s.Workers, 1))}
}

// name is what a bucket id is hashed by.
func name(id map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(id)) {
		b.WriteString(k + "\x00" + id[k] + "\x00")
	}
	return b.String()
}

// Request is a request that a worker serves: whether it passes.
func (f *Filter) Request(now time.Time, worker int, id map[string]string) bool {
	b := f.workers[worker%len(f.workers)][name(id)]
	if b == nil {
		f.posts = append(f.posts, post{id, f.settings.AllowFirst})
		return f.settings.AllowFirst
	}
	if !b.allows(now, f.settings.AllowFirst) {
		b.usage.denied++
		return false
	}
	b.usage.allowed++
	return true
}

func (b *bucket) allows(now time.Time, first bool) bool {
	if b.action == nil {
		return first
	}
	switch s := b.action.GetQuotaAssignmentAction().GetRateLimitStrategy(); s.GetStrategy().(type) {
	case *typev3.RateLimitStrategy_BlanketRule_:
		return s.GetBlanketRule() == typev3.RateLimitStrategy_ALLOW_ALL
	case *typev3.RateLimitStrategy_TokenBucket:
		return b.tokens.take(now)
	}
	return true
}

// Tick does what the main thread has to do by now, and has its workers know of it. It returns the messages that go out.
func (f *Filter) Tick(now time.Time) (reports []*rlqs.RateLimitQuotaUsageReports) {
	for _, p := range f.posts {
		f.create(now, p)
	}
	f.posts = f.posts[:0]
	for k, b := range f.buckets {
		if b.action != nil && !now.Before(b.until) {
			f.expire(now, k, b)
		}
	}
	if f.began && !now.Before(f.next) {
		f.next = f.next.Add(ReportEvery)
		q := &rlqs.RateLimitQuotaUsageReports{Domain: f.settings.Domain}
		for _, k := range slices.Sorted(maps.Keys(f.buckets)) {
			q.BucketQuotaUsages = append(q.BucketQuotaUsages, f.buckets[k].report(now))
		}
		f.Open = true // it is opened again with the next report
		f.send(q)
	}
	f.push()
	reports, f.out = f.out, nil
	return reports
}

// push has the workers know what the main thread knows.
func (f *Filter) push() {
	for i := range f.workers {
		f.workers[i] = maps.Clone(f.buckets)
	}
}

func (f *Filter) send(q *rlqs.RateLimitQuotaUsageReports) {
	if f.Open {
		f.out = append(f.out, q)
	}
}

func (f *Filter) create(now time.Time, p post) {
	if !f.began {
		f.began, f.Open, f.next = true, true, now.Add(ReportEvery)
	}
	k := name(p.id)
	b := f.buckets[k]
	if known := b != nil; !known {
		b = &bucket{id: &rlqs.BucketId{Bucket: maps.Clone(p.id)}, usage: &usage{last: now}}
		f.buckets[k] = b
		defer func() {
			f.send(&rlqs.RateLimitQuotaUsageReports{Domain: f.settings.Domain, BucketQuotaUsages: []*rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{b.report(now)}})
		}()
	}
	if p.allowed {
		b.usage.allowed++
	} else {
		b.usage.denied++
	}
}

// report is the usage since the last one, which is forgotten.
func (b *bucket) report(now time.Time) *rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage {
	u := b.usage
	r := &rlqs.RateLimitQuotaUsageReports_BucketQuotaUsage{
		BucketId: b.id, NumRequestsAllowed: u.allowed, NumRequestsDenied: u.denied,
		TimeElapsed: durationpb.New(now.Sub(u.last).Truncate(time.Second)),
	}
	u.allowed, u.denied, u.last = 0, 0, now
	return r
}

// expire ends an assignment, or a fallback.
func (f *Filter) expire(now time.Time, k string, b *bucket) {
	next := &bucket{id: b.id, usage: b.usage}
	if e := f.settings.Expired; e != nil && !b.fell {
		next.action = assignment(b.id, e)
		next.fell, next.until = true, now.Add(f.settings.ExpiredFor)
		if e.GetTokenBucket() != nil {
			next.tokens = b.tokens
			if !b.equal(e) {
				next.tokens = newTokens(now, e.GetTokenBucket())
			}
		}
	}
	f.buckets[k] = next
}

func assignment(id *rlqs.BucketId, s *typev3.RateLimitStrategy) *rlqs.RateLimitQuotaResponse_BucketAction {
	return &rlqs.RateLimitQuotaResponse_BucketAction{BucketId: id, BucketAction: &rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
		QuotaAssignmentAction: &rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{RateLimitStrategy: s},
	}}
}

// equal is whether a bucket of tokens is kept when it is assigned anew.
func (b *bucket) equal(s *typev3.RateLimitStrategy) bool {
	if b.action == nil {
		return false
	}
	was, is := b.action.GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket(), s.GetTokenBucket()
	return was != nil && was.GetMaxTokens() == is.GetMaxTokens() &&
		was.GetTokensPerFill().GetValue() == is.GetTokensPerFill().GetValue() &&
		was.GetFillInterval().GetNanos() == is.GetFillInterval().GetNanos()
}

// Receive is a message of the server. Known tells of how many of its actions the filter has the bucket.
func (f *Filter) Receive(now time.Time, q *rlqs.RateLimitQuotaResponse) (known int) {
	for _, a := range q.GetBucketAction() {
		k := name(a.GetBucketId().GetBucket())
		b := f.buckets[k]
		if len(a.GetBucketId().GetBucket()) == 0 || b == nil {
			continue
		}
		known++
		if a.GetAbandonAction() != nil {
			delete(f.buckets, k)
			continue
		}
		next := &bucket{id: b.id, usage: b.usage, action: proto.CloneOf(a)}
		quota := a.GetQuotaAssignmentAction()
		if quota != nil {
			switch s := quota.GetRateLimitStrategy(); s.GetStrategy().(type) {
			case *typev3.RateLimitStrategy_BlanketRule_:
			case *typev3.RateLimitStrategy_TokenBucket:
				if next.tokens = b.tokens; !b.equal(s) {
					next.tokens = newTokens(now, s.GetTokenBucket())
				}
			default: // refused
				continue
			}
		}
		next.until = now.Add(time.Duration(quota.GetAssignmentTimeToLive().GetSeconds()) * time.Second)
		f.buckets[k] = next
	}
	f.push()
	return known
}

// Lose is that the stream breaks. Messages on their way are lost.
func (f *Filter) Lose() { f.Open = false }

// Buckets is how many the filter knows.
func (f *Filter) Buckets() int { return len(f.buckets) }

package rlqs

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// The bounds of the service.
const (
	// MaxStreams is how many proxies may report at a time. Further streams are closed with RESOURCE_EXHAUSTED.
	MaxStreams = 4096
	// MaxStreamBuckets is how many buckets one stream may report of. Further ones get no assignment.
	MaxStreamBuckets = 1 << 14
	// MaxHolders is how many buckets all streams together may report of. Further ones get no assignment.
	MaxHolders = 1 << 21
	// MaxBucketID is how many bytes the keys and values of a bucket id may have together. Larger ones, and those of more
	// than rules.MaxEntries keys or none, get no assignment.
	MaxBucketID = 4 << 10
	// MaxReports is how many reports a stream may send at once beyond one for each new bucket and ReportRate a
	// second. A stream that sends more is closed with RESOURCE_EXHAUSTED.
	MaxReports = 64
	// ReportRate is how many reports a stream may send a second for a long time.
	ReportRate = 4
	// workers is how many buckets of one report the store is asked about at a time.
	workers = 16
	// sweepEvery is how often buckets are dropped of which no proxy holds anything.
	sweepEvery = 15 * time.Second
	// reread is for how long a bucket goes by the rules that it found: an exception for its key is seen then.
	reread = time.Second
)

// Event is what the service counts.
type Event uint8

// The events.
const (
	Reports        Event = iota // messages of proxies
	Usages                      // usages of buckets in them
	Assigned                    // new buckets of tokens
	Extended                    // assignments that go on
	Denied                      // assignments of DENY_ALL
	Allowed                     // assignments of ALLOW_ALL: no rule limits the bucket
	Abandoned                   // buckets that proxies were told to forget
	Unfit                       // usages of buckets whose limit has no quota
	BadBucket                   // usages whose bucket id is empty or too large
	TooMany                     // usages beyond MaxStreamBuckets or MaxHolders
	TooManyStreams              // streams beyond MaxStreams
	Flooded                     // streams that sent too many reports
	BadStream                   // streams that broke the protocol
	Overrun                     // events that proxies passed beyond what they were given
	StoreFailed                 // asks that the store did not decide
	Late                        // answers that could not be sent in time
	events
)

var eventNames = [events]string{
	"reports", "usages", "assigned", "extended", "denied", "allowed", "abandoned", "unfit", "bad_bucket", "too_many_buckets",
	"too_many_streams", "flooded", "bad_stream", "overrun", "store_failed", "late",
}

// String is the event's word in metrics.
func (e Event) String() string { return eventNames[e] }

// Options of a Server.
type Options struct {
	// Remembers is that the store remembers what was given before a restart of this process.
	Remembers bool
	// Local is that the store answers without waiting.
	Local bool
	// Log gets what operators have to mend. Nil logs nothing.
	Log *slog.Logger
	// Began is when the process began. Where the store does not remember, nothing is given until all has ended that was
	// given before.
	Began time.Time
}

// Server gives quotas. It must be made by New. Its methods may be called from many goroutines.
type Server struct {
	limiter *rules.Limiter
	store   weir.Store
	local   bool
	log     *slog.Logger
	quiet   weir.Instant // until then nothing is given

	counts  [events]atomic.Int64
	streams atomic.Int64
	holders atomic.Int64

	mu      sync.Mutex
	buckets map[string]*bucket
	swept   weir.Instant
	told    map[string]struct{} // rules without a quota that the log has

	windows sync.Map  // of counts, to *weir.Limit
	spare   sync.Pool // of *[]int64, for shares
}

// maxTold is of how many rules the log tells that proxies get nothing.
const maxTold = 100

// New makes a server that gives quotas of limiter's rules, whose counts are in store.
func New(limiter *rules.Limiter, store weir.Store, o Options) *Server {
	s := &Server{
		limiter: limiter, store: store, local: o.Local, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		buckets: map[string]*bucket{}, told: map[string]struct{}{},
	}
	if !o.Remembers {
		s.quiet = after(weir.InstantOf(o.Began), TTL+Delay)
	}
	return s
}

func (s *Server) count(e Event, n int64) { s.counts[e].Add(n) }

// Stats are counts of a server since it was made, by event, and what it has now.
type Stats struct {
	Events                    map[string]int64
	Streams, Buckets, Holders int64
}

// Stats are the counts.
func (s *Server) Stats() Stats {
	all := Stats{Events: map[string]int64{}, Streams: s.streams.Load(), Holders: s.holders.Load()}
	for e := range events {
		all.Events[e.String()] = s.counts[e].Load()
	}
	s.mu.Lock()
	all.Buckets = int64(len(s.buckets))
	s.mu.Unlock()
	return all
}

// window is the limit of a slice's count.
func (s *Server) window(count int64) *weir.Limit {
	if l, ok := s.windows.Load(count); ok {
		return l.(*weir.Limit)
	}
	l := newWindow(count)
	s.windows.Store(count, l)
	return l
}

func (s *Server) scratch(n int) []int64 {
	if p, ok := s.spare.Get().(*[]int64); ok {
		return slices.Grow((*p)[:0], n)
	}
	return make([]int64, 0, n)
}

func (s *Server) scratched(wants []int64) { s.spare.Put(&wants) }

// Session is one proxy's stream. Its methods are called by one goroutine.
type Session struct {
	server  *Server
	domain  string
	holders map[string]*holder
	credit  int64 // reports that it may send
	granted weir.Instant
	name    []byte
	entries []rules.Entry
}

// Open begins a session. It fails when there are too many.
func (s *Server) Open() (*Session, error) {
	if n := s.streams.Add(1); n > MaxStreams {
		s.streams.Add(-1)
		s.count(TooManyStreams, 1)
		return nil, status.Errorf(codes.ResourceExhausted, "%d proxies report to this daemon already; ask another one", MaxStreams)
	}
	return &Session{server: s, holders: map[string]*holder{}, credit: MaxReports}, nil
}

// Close ends a session. The portions of its proxy stay charged until they end.
func (x *Session) Close() {
	for _, h := range x.holders {
		x.forget(h)
	}
	x.holders = nil
	x.server.streams.Add(-1)
}

func (x *Session) forget(h *holder) {
	b := h.bucket
	b.mu.Lock()
	delete(b.holders, h)
	b.mu.Unlock()
	x.server.holders.Add(-1)
}

// Report answers a message of a proxy; nil where there is nothing to tell. An error ends the stream.
func (x *Session) Report(ctx context.Context, now time.Time, q *rlqs.RateLimitQuotaUsageReports) (*rlqs.RateLimitQuotaResponse, error) {
	s, at := x.server, weir.InstantOf(now)
	s.count(Reports, 1)
	if err := x.admit(at, q); err != nil {
		return nil, err
	}
	if at < s.quiet {
		return nil, nil
	}
	s.sweep(at)
	r := &reply{at: at, usages: make([]usage, 0, len(q.GetBucketQuotaUsages()))}
	for _, u := range q.GetBucketQuotaUsages() {
		s.count(Usages, 1)
		if h := x.holder(at, u.GetBucketId()); h != nil {
			r.usages = append(r.usages, usage{h: h, id: u.GetBucketId(), allowed: events64(u.GetNumRequestsAllowed()), denied: events64(u.GetNumRequestsDenied())})
		}
	}
	if s.local || len(r.usages) < 2 {
		for i := range r.usages {
			x.decide(ctx, r, i)
		}
	} else {
		var group sync.WaitGroup
		var next atomic.Int64
		for range min(workers, len(r.usages)) {
			group.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(r.usages); i = int(next.Add(1)) - 1 {
					x.decide(ctx, r, i)
				}
			})
		}
		group.Wait()
	}
	out := &rlqs.RateLimitQuotaResponse{}
	for i := range r.usages {
		if u := &r.usages[i]; u.tell.strategy != nothing {
			out.BucketAction = append(out.BucketAction, action(u.id, &u.tell))
			if u.tell.strategy == abandon {
				x.abandoned(u.h)
			}
		}
	}
	if len(out.BucketAction) == 0 {
		return nil, nil
	}
	return out, nil
}

// reply is an answer in the making.
type reply struct {
	at     weir.Instant
	usages []usage
}

type usage struct {
	h               *holder
	id              *rlqs.BucketId
	allowed, denied int64
	tell            assignment
}

func events64(n uint64) int64 { return int64(min(n, uint64(most))) }

// admit refuses messages that no proxy sends.
func (x *Session) admit(now weir.Instant, q *rlqs.RateLimitQuotaUsageReports) error {
	bad := func(e Event, code codes.Code, text string) error {
		x.server.count(e, 1)
		return status.Error(code, text)
	}
	switch d := q.GetDomain(); {
	case x.domain == "" && d == "":
		return bad(BadStream, codes.InvalidArgument, "domain is empty; the first report of a stream names the domain of its rules")
	case x.domain == "":
		x.domain = strings.Clone(d)
		x.granted = now
	case d != "" && d != x.domain:
		return bad(BadStream, codes.InvalidArgument, "domain differs from that of the first report; open another stream for another domain")
	}
	second := weir.Instant(time.Second / time.Microsecond)
	if n := int64((now - x.granted) / second); n > 0 {
		x.credit = min(x.credit+n*ReportRate, MaxReports)
		x.granted += weir.Instant(n) * second
	}
	if x.credit--; x.credit < 0 && !x.fresh(q) {
		return bad(Flooded, codes.ResourceExhausted, "too many reports; send one for each new bucket at once, and all others together every few seconds")
	}
	x.credit = max(x.credit, 0)
	return nil
}

// fresh is whether a report is of one new bucket, as a proxy sends for each.
func (x *Session) fresh(q *rlqs.RateLimitQuotaUsageReports) bool {
	u := q.GetBucketQuotaUsages()
	if len(u) != 1 || len(x.holders) >= MaxStreamBuckets {
		return false
	}
	if !x.reads(u[0].GetBucketId()) {
		return false
	}
	return x.holders[string(x.name)] == nil
}

// reads writes a bucket id in the order of its keys into x.name and x.entries; it says no where the id is none.
func (x *Session) reads(id *rlqs.BucketId) bool {
	x.entries, x.name = x.entries[:0], x.name[:0]
	size := 0
	for k, v := range id.GetBucket() {
		if size += len(k) + len(v); k == "" || size > MaxBucketID || len(x.entries) == rules.MaxEntries {
			return false
		}
		x.entries = append(x.entries, rules.Entry{Key: k, Value: v})
	}
	if len(x.entries) == 0 {
		return false
	}
	slices.SortFunc(x.entries, func(a, b rules.Entry) int { return strings.Compare(a.Key, b.Key) })
	for _, e := range x.entries {
		x.name = append(append(append(append(x.name, e.Key...), 0), e.Value...), 0)
	}
	return true
}

// holder is that of a bucket id; nil: it can have none.
func (x *Session) holder(now weir.Instant, id *rlqs.BucketId) *holder {
	s := x.server
	if !x.reads(id) {
		s.count(BadBucket, 1)
		return nil
	}
	if h := x.holders[string(x.name)]; h != nil {
		return h
	}
	if len(x.holders) >= MaxStreamBuckets || s.holders.Load() >= MaxHolders {
		s.count(TooMany, 1)
		return nil
	}
	h := &holder{}
	b := s.bucket(now, x.domain+"\x00"+string(x.name), h)
	h.bucket = b
	s.holders.Add(1)
	x.holders[string(x.name)] = h
	return h
}

// bucket is that of a name, with h among its holders.
func (s *Server) bucket(now weir.Instant, name string, h *holder) *bucket {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[name]
	if b == nil {
		b = &bucket{name: name, server: s, holders: map[*holder]struct{}{}}
		s.buckets[name] = b
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holders[h] = struct{}{}
	b.touched = now
	return b
}

func (x *Session) abandoned(h *holder) {
	x.forget(h)
	for name, o := range x.holders {
		if o == h {
			delete(x.holders, name)
			return
		}
	}
}

// sweep drops the buckets that nobody reports of, when nothing of them is promised any more.
func (s *Server) sweep(now weir.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now < after(s.swept, sweepEvery) && now >= s.swept {
		return
	}
	s.swept = now
	for name, b := range s.buckets {
		b.mu.Lock()
		if len(b.holders) == 0 && now >= after(b.touched, longTTL*time.Second+Delay) {
			delete(s.buckets, name)
		}
		b.mu.Unlock()
	}
}

// decide decides what to tell of one usage.
func (x *Session) decide(ctx context.Context, r *reply, i int) {
	u := &r.usages[i]
	b, s := u.h.bucket, x.server
	b.mu.Lock()
	defer b.mu.Unlock()
	now := max(r.at, b.touched) // a clock may step back
	b.touched = now
	if u.h.tells(now, u.allowed, u.denied) {
		b.plan.moved = now
	}
	if over := u.h.passed - u.h.charged; u.h.charged > 0 && over > 0 {
		s.count(Overrun, over)
		u.h.passed = u.h.charged
	}
	fit, ok := b.rules(now)
	if !ok {
		return
	}
	if !fit {
		s.count(Unfit, 1)
		return
	}
	if u.h.newcomer() {
		b.plan.came = now
	}
	a, ok := b.decide(ctx, now, u.h)
	if !ok {
		return
	}
	g := &u.h.given
	switch {
	case a.strategy == allowAll:
		s.count(Allowed, 1)
	case a.strategy == denyAll:
		s.count(Denied, 1)
	case a.strategy == abandon:
		s.count(Abandoned, 1)
	case g.strategy == fill && g.holds == a.holds && g.fills == a.fills:
		s.count(Extended, 1)
	default:
		s.count(Assigned, 1)
	}
	if a.strategy == denyAll {
		u.h.since = now
	}
	a.sent = now
	*g, u.tell = a, a
}

// rules finds the rules of a bucket, where they are not known or have changed. fit is that they can be divided.
func (b *bucket) rules(now weir.Instant) (fit, ok bool) {
	s := b.server
	if set := s.limiter.Set(); b.set == nil || b.set != set || now >= after(b.read, reread) && s.limiter.Exceptions() != nil {
		domain, name, _ := strings.Cut(b.name, "\x00")
		var entries []rules.Entry
		words := strings.Split(strings.TrimSuffix(name, "\x00"), "\x00")
		for i := 0; i+1 < len(words); i += 2 {
			entries = append(entries, rules.Entry{Key: words[i], Value: words[i+1]})
		}
		all, key, err := s.limiter.Meets(domain, entries)
		if err != nil {
			return false, false
		}
		b.set, b.read = set, now
		b.meets(all, key)
	}
	for _, c := range b.counts {
		if c.way == rules.QuotaNone {
			return false, true
		}
	}
	return true, true
}

// meets takes over the rules of a bucket. A count that stays keeps what is promised of it.
func (b *bucket) meets(all []*rules.Rule, key string) {
	before := b.counts
	b.counts = nil
	for _, r := range all {
		if r.Unlimited || r.Shadow {
			continue
		}
		c := &count{rule: r, key: key}
		for _, o := range before {
			if o.rule.State("") == r.State("") {
				*c = *o
				c.rule = r
			}
		}
		switch way, why := rules.QuotaOf(r.Written()); {
		case r.Quota != nil:
			c.way, c.book.Terms = rules.QuotaBooked, TermsOf(r.Quota)
		case way == rules.QuotaPrepaid && !r.After:
			c.way = way
			if c.melts = r.Limit.Melts(TTL + Delay); c.melts == 0 && r.Limit.Spec().Burst > 0 {
				c.melts = 1
			}
		default:
			c.way = rules.QuotaNone
			b.server.unfit(r, why)
		}
		b.counts = append(b.counts, c)
	}
}

// unfit logs once of a rule why proxies get nothing of it.
func (s *Server) unfit(r *rules.Rule, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.told[r.Name]; known || len(s.told) >= maxTold {
		return
	}
	s.told[r.Name] = struct{}{}
	if why == "" {
		why = "the rule sets no part of it aside for proxies: write quota: 50%, or how much of it is theirs"
	}
	s.log.Warn("a proxy asks for a quota that can't be given", "rule", r.Name, "why", why)
}

// action is an assignment as Envoy reads it.
func action(id *rlqs.BucketId, a *assignment) *rlqs.RateLimitQuotaResponse_BucketAction {
	out := &rlqs.RateLimitQuotaResponse_BucketAction{BucketId: id}
	if a.strategy == abandon {
		out.BucketAction = &rlqs.RateLimitQuotaResponse_BucketAction_AbandonAction_{AbandonAction: &rlqs.RateLimitQuotaResponse_BucketAction_AbandonAction{}}
		return out
	}
	quota := &rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
		AssignmentTimeToLive: &durationpb.Duration{Seconds: a.ttl}, RateLimitStrategy: &typev3.RateLimitStrategy{},
	}
	switch a.strategy {
	case allowAll:
		quota.RateLimitStrategy.Strategy = &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: typev3.RateLimitStrategy_ALLOW_ALL}
	case denyAll:
		quota.RateLimitStrategy.Strategy = &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: typev3.RateLimitStrategy_DENY_ALL}
	case fill:
		quota.RateLimitStrategy.Strategy = &typev3.RateLimitStrategy_TokenBucket{TokenBucket: &typev3.TokenBucket{
			MaxTokens: uint32(min(a.holds, 1<<32-1)), TokensPerFill: &wrapperspb.UInt32Value{Value: uint32(min(a.fills, 1<<32-1))},
			FillInterval: &durationpb.Duration{Seconds: a.interval},
		}}
	case nothing, abandon:
	}
	out.BucketAction = &rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{QuotaAssignmentAction: quota}
	return out
}

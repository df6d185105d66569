package rlqs

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-limit/weir"
)

// eachBucket calls do with each bucket of tokens in a message.
func eachBucket(q *rlqs.RateLimitQuotaResponse, do func(*rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction, *typev3.TokenBucket)) {
	for _, a := range q.BucketAction {
		if quota := a.GetQuotaAssignmentAction(); quota.GetRateLimitStrategy().GetTokenBucket() != nil {
			do(quota, quota.RateLimitStrategy.GetTokenBucket())
		}
	}
}

// flaw is what a server might get wrong of Envoy's filter.
type flaw struct {
	name        string
	limit, more string
	proxies     int
	tamper      func() func(*proxy, *rlqs.RateLimitQuotaResponse)
	each        func(f *fleet, now time.Time) // each step
	over, under bool                          // how it shows
}

const booked = "    quota: 100%"

func flaws() []flaw {
	bucket := func(do func(*rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction, *typev3.TokenBucket)) func() func(*proxy, *rlqs.RateLimitQuotaResponse) {
		return func() func(*proxy, *rlqs.RateLimitQuotaResponse) {
			return func(_ *proxy, q *rlqs.RateLimitQuotaResponse) { eachBucket(q, do) }
		}
	}
	return []flaw{
		{name: "a fill interval below a second", limit: "200/s burst 100", more: booked, proxies: 3, over: true, tamper: bucket(
			func(_ *rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction, b *typev3.TokenBucket) {
				b.FillInterval = durationpb.New(b.FillInterval.AsDuration() / 100)
				b.TokensPerFill = wrapperspb.UInt32(max(b.TokensPerFill.Value/100, 1))
			},
		)},
		{name: "whole seconds alone change", limit: "200/s burst 100", more: booked, proxies: 3, under: true, tamper: bucket(
			func(_ *rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction, b *typev3.TokenBucket) {
				pace := float64(b.TokensPerFill.Value) / b.FillInterval.AsDuration().Seconds()
				b.MaxTokens, b.TokensPerFill = 5, wrapperspb.UInt32(1000)
				b.FillInterval = durationpb.New(time.Duration(1000/pace) * time.Second)
			},
		)},
		{name: "a changed bucket begins full", limit: "200/s burst 100", more: booked, proxies: 3, over: true, tamper: func() func(*proxy, *rlqs.RateLimitQuotaResponse) {
			n := 0
			return func(_ *proxy, q *rlqs.RateLimitQuotaResponse) {
				eachBucket(q, func(_ *rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction, b *typev3.TokenBucket) {
					n++
					b.MaxTokens = 40 + uint32(n/3%2) // as if it were for nothing
				})
			}
		}},
		{name: "requests per time unit", limit: "200/s burst 100", more: booked, proxies: 3, under: true, tamper: bucket(
			func(a *rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction, b *typev3.TokenBucket) {
				a.RateLimitStrategy.Strategy = &typev3.RateLimitStrategy_RequestsPerTimeUnit_{RequestsPerTimeUnit: &typev3.RateLimitStrategy_RequestsPerTimeUnit{
					RequestsPerTimeUnit: uint64(b.TokensPerFill.Value) / uint64(b.FillInterval.Seconds), TimeUnit: typev3.RateLimitUnit_SECOND,
				}}
			},
		)},
		{name: "no time to live", limit: "200/s burst 100", more: booked, proxies: 3, under: true, tamper: bucket(
			func(a *rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction, _ *typev3.TokenBucket) {
				a.AssignmentTimeToLive = nil
			},
		)},
		{name: "a time to live below a second", limit: "200/s burst 100", more: booked, proxies: 3, under: true, tamper: bucket(
			func(a *rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction, _ *typev3.TokenBucket) {
				a.AssignmentTimeToLive = durationpb.New(999 * time.Millisecond)
			},
		)},
		{name: "an equal bucket does not begin full", limit: "6000/min fixed-window", proxies: 3, under: true, tamper: bucket(
			func(_ *rlqs.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction, b *typev3.TokenBucket) {
				b.MaxTokens, b.TokensPerFill = 20, wrapperspb.UInt32(1)
			},
		)},
		{name: "a proxy whose stream is lost goes on", limit: "200/s burst 60", more: booked, proxies: 3, over: true, each: func(f *fleet, now time.Time) {
			p := f.proxies[0]
			if p.session == nil && p.on != nil {
				p.up = nil
				return
			}
			if now.Second() < 30 {
				return
			}
			for _, h := range p.session.holders {
				if h.given.strategy == fill && len(h.bucket.holders) > 1 { // what it has is given to others at once
					first, _, _ := span(weir.InstantOf(time.Now()))
					h.bucket.counts[0].book.lift(h.claim(0), first, -1)
					*h.claim(0) = Claim{}
					f.lose(p)
					return
				}
			}
		}},
		{name: "messages that take longer than Delay", limit: "200/s burst 60", more: booked, proxies: 3, over: true, each: func(f *fleet, now time.Time) {
			for i, p := range f.proxies {
				if p.demand = 1200; i > 0 && now.Minute()%2 == 0 {
					p.demand = 1
				}
			}
			f.proxies[0].late = 12 * time.Second
		}},
	}
}

// look is what a fleet passes in two minutes, while demands move.
func (w *flaw) look(t *testing.T, with bool) (over int64, under float64) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 7, w.limit, w.more, 1, w.proxies)
		if with && w.tamper != nil {
			f.tamper = w.tamper()
		}
		s := f.audits[0].spec
		demand := 3 * float64(s.Count) / s.Period.Seconds()
		f.demands(demand, 0)
		var ideal int64
		for i := range 12 {
			if i%3 == 0 {
				f.demands(demand, i/3%3)
			}
			for range 10 * int64(time.Second/f.step) {
				if with && w.each != nil {
					w.each(f, time.Now())
				}
				f.run(f.step)
			}
			ideal += f.ideal(10 * time.Second)
		}
		over, under = f.audits[0].over, 100*float64(ideal-f.passes())/float64(ideal)
	})
	return over, under
}

// TestQuirks: whatever of Envoy's filter a server gets wrong shows: too much passes, or hardly anything. Without it
// nothing passes beyond the limit, and it is used.
func TestQuirks(t *testing.T) {
	for _, w := range flaws() {
		t.Run(w.name, func(t *testing.T) {
			over, under := w.look(t, true)
			t.Logf("with it %d over, %.1f %% under", over, under)
			if w.over && over <= 0 || w.under && under < 20 {
				t.Errorf("it does not show: %d over, %.1f %% under", over, under)
			}
			if over, under = w.look(t, false); over > 0 || under > 15 {
				t.Errorf("without it %d are over, %.1f %% under", over, under)
			}
		})
	}
}

// TestNeverOver: whatever becomes of messages and streams, and whoever comes and goes, the proxies of two daemons that share a
// store pass no more than the limit.
func TestNeverOver(t *testing.T) {
	for _, limit := range []string{"200/s burst 20", "50/s burst 200", "1000/s burst 1000", "30/s strict burst 10", "6000/min fixed-window", "100/s fixed-window", "20/min burst 20", "1000/h fixed-window"} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(limit, " ", seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { neverOver(t, limit, seed) })
			})
		}
	}
}

func neverOver(t *testing.T, limit string, seed uint64) {
	l, err := weir.ParseLimit(limit)
	if err != nil {
		t.Fatal(err)
	}
	more := booked
	if way, _ := quotaOf(l); way == prepaidWay {
		more = ""
	}
	f := newFleet(t, seed, limit, more, 2, 6)
	f.step = 20 * time.Millisecond
	f.delay = func() time.Duration {
		if f.random.IntN(4) == 0 {
			return time.Duration(f.random.Int64N(int64(Delay - 2*f.step)))
		}
		return time.Duration(f.random.Int64N(int64(30 * time.Millisecond)))
	}
	s := f.audits[0].spec
	rate := float64(s.Count) / s.Period.Seconds()
	for range 60 {
		switch f.random.IntN(5) {
		case 0:
			f.demands(rate*(0.2+5*f.random.Float64()), f.random.IntN(3))
		case 1:
			f.lose(f.proxies[f.random.IntN(len(f.proxies))])
		case 2:
			f.proxies = append(f.proxies, f.proxy())
			f.demands(rate*2, f.random.IntN(3))
		case 3:
			for _, p := range f.proxies {
				if f.random.IntN(2) == 0 {
					p.demand = 0
				}
			}
		case 4:
			p := f.proxies[f.random.IntN(len(f.proxies))]
			p.owes += rate * 3 // a burst
		}
		f.run(time.Duration(f.random.Int64N(int64(8 * time.Second))))
	}
	if over := f.audits[0].over; over > 0 {
		t.Errorf("%d events over the limit", over)
	}
	if f.passes() == 0 {
		t.Error("nothing passed")
	}
	t.Logf("%d passed", f.passes())
}

// TestAbandon: a bucket that nobody asks for is forgotten at both sides, and begins anew.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 1, "100/s burst 100", booked, 1, 1)
		p := f.proxies[0]
		p.demand = 50
		f.run(20 * time.Second)
		p.demand = 0
		f.step = 100 * time.Millisecond
		f.run(abandonAfter + time.Minute)
		if n := p.filter.Buckets(); n != 0 {
			t.Fatalf("%d buckets are left", n)
		}
		if n := f.servers[0].Stats().Holders; n != 0 {
			t.Fatalf("%d holders are left", n)
		}
		f.step = 10 * time.Millisecond
		p.demand, p.passed = 50, 0
		f.run(20 * time.Second)
		if p.passed < 700 || f.audits[0].over > 0 {
			t.Errorf("%d passed afterwards, %d over", p.passed, f.audits[0].over)
		}
	})
}

// TestRestart: a server whose store forgets gives nothing until all has ended that was given before; one whose store
// remembers goes on at once. Neither passes too much.
func TestRestart(t *testing.T) {
	for _, remembers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t, 1, "200/s burst 20", booked, 1, 3)
			f.demands(600, 0)
			f.run(30 * time.Second)
			for _, p := range f.proxies {
				f.lose(p)
			}
			if !remembers {
				f.store = newStore()
				f.limiter = newLimiterOf(f.store, f.limiter.Set())
			}
			f.servers[0] = New(f.limiter, f.store, Options{Remembers: remembers, Local: true, Began: time.Now()})
			f.run(TTL - time.Second)
			given := f.servers[0].Stats().Events[Assigned.String()]
			if !remembers && given > 0 {
				t.Errorf("%d were assigned", given)
			}
			before := f.passes()
			f.run(40 * time.Second)
			if over, passed := f.audits[0].over, f.passes()-before; over > 0 || passed < 4000 {
				t.Errorf("remembers %v: %d over, %d passed", remembers, over, passed)
			}
		})
	}
}

// TestOneDaemonDies: what a daemon gave that is killed stays charged in the store that it shares.
func TestOneDaemonDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 3, "200/s burst 20", booked, 2, 4)
		f.demands(800, 0)
		for range 6 {
			f.run(20 * time.Second)
			dead := f.random.IntN(2)
			for i, p := range f.proxies {
				if i%2 == dead {
					f.lose(p)
				}
			}
			f.servers[dead] = New(f.limiter, f.store, Options{Remembers: true, Local: true, Began: time.Now()})
		}
		before := f.passes()
		f.run(40 * time.Second)
		if over, passed := f.audits[0].over, f.passes()-before; over > 0 || passed < 4000 {
			t.Errorf("%d over, %d passed", over, passed)
		}
	})
}

// TestFewerThanProxies: where a limit is smaller than its proxies are many, each gets something in its turn.
func TestFewerThanProxies(t *testing.T) {
	for limit, more := range map[string]string{"20/s burst 20": booked, "30/min burst 30": "", "120/min fixed-window": ""} {
		t.Run(limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, 3, limit, more, 1, 30)
				f.step = 100 * time.Millisecond
				f.demands(150, 0)
				f.run(25 * time.Minute)
				none := 0
				for _, p := range f.proxies {
					if p.passed == 0 {
						none++
					}
				}
				ideal := f.ideal(25 * time.Minute)
				t.Logf("%d of %d passed, %d proxies had nothing", f.passes(), ideal, none)
				if none > 0 || f.audits[0].over > 0 || f.passes() < ideal/6 {
					t.Errorf("%d proxies had nothing, %d over, %d of %d passed", none, f.audits[0].over, f.passes(), ideal)
				}
			})
		})
	}
}

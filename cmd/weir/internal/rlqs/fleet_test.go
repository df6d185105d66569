package rlqs

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	rlqs "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/rlqstest"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// audit holds what passes against a limit by a reckoning of its own: how many events are in use of a bucket, or of
// a window, and by how many that was ever too many.
type audit struct {
	spec   weir.Spec
	units  int64 // in use, in events × period
	last   time.Time
	window int64
	passed int64
	over   int64
}

func newAudit(l *weir.Limit) *audit { return &audit{spec: l.Spec()} }

func (a *audit) pass(now time.Time) {
	a.passed++
	us := a.spec.Period.Microseconds()
	if a.spec.Algorithm == weir.FixedWindow {
		if w := now.UnixMicro() / us; w != a.window {
			a.window, a.units = w, 0
		}
		a.units++
		a.over = max(a.over, a.units-a.spec.Count)
		return
	}
	if !a.last.IsZero() {
		a.units = max(a.units-a.spec.Count*now.Sub(a.last).Microseconds(), 0)
	}
	a.last = now
	a.units += us
	a.over = max(a.over, (a.units-a.spec.Burst*us+us-1)/us)
}

// proxy is an Envoy of a fleet.
type proxy struct {
	filter   *rlqstest.Filter
	session  *Session
	on       *Server
	demand   float64 // requests a second
	owes     float64
	up, down []message // on their way, in their order
	passed   int64
	late     time.Duration // of its messages
}

type message struct {
	at      time.Time
	reports *rlqs.RateLimitQuotaUsageReports
	answer  *rlqs.RateLimitQuotaResponse
}

// fleet is proxies that ask servers for quotas of one limit.
type fleet struct {
	t       testing.TB
	random  *rand.Rand
	limiter *rules.Limiter
	store   weir.Store
	servers []*Server
	proxies []*proxy
	audits  []*audit
	id      map[string]string
	// tamper changes a message of the server on its way; nil: nothing does.
	tamper func(p *proxy, q *rlqs.RateLimitQuotaResponse)
	// delay is how long messages are on their way.
	delay                   func() time.Duration
	reports, answers, wrong int64
	settings                rlqstest.Settings
	step                    time.Duration
}

const fleetRules = "domain: shop\ndescriptors:\n  - key: user\n    limits: [%s]\n%s"

func newFleet(t testing.TB, seed uint64, limit, more string, servers, proxies int) *fleet {
	t.Helper()
	set, err := rules.Parse("rules.yaml", fmt.Appendf(nil, fleetRules, limit, more))
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{
		t: t, random: rand.New(rand.NewPCG(seed, 1)), store: memstore.New(memstore.Options{}), id: map[string]string{"user": "ann"},
		settings: rlqstest.Settings{Domain: "shop", Workers: 2}, step: 10 * time.Millisecond,
	}
	f.delay = func() time.Duration {
		return time.Millisecond + time.Duration(f.random.Int64N(int64(50*time.Millisecond)))
	}
	f.limiter = rules.NewLimiter(f.store, set)
	f.audits = []*audit{newAudit(set.Rules()[0].Written())}
	for range servers {
		f.servers = append(f.servers, New(f.limiter, f.store, Options{Remembers: true, Local: true}))
	}
	for range proxies {
		f.proxies = append(f.proxies, f.proxy())
	}
	return f
}

func (f *fleet) proxy() *proxy { return &proxy{filter: rlqstest.New(f.settings)} }

// run lets time pass.
func (f *fleet) run(span time.Duration) {
	for range span / f.step {
		time.Sleep(f.step)
		now := time.Now()
		for i, p := range f.proxies {
			f.serve(now, p)
			f.carry(now, i, p)
		}
	}
}

// serve has a proxy serve its requests.
func (f *fleet) serve(now time.Time, p *proxy) {
	p.owes += p.demand * f.step.Seconds() * (0.5 + f.random.Float64())
	for ; p.owes >= 1; p.owes-- {
		if p.filter.Request(now, f.random.IntN(2), f.id) {
			p.passed++
			for _, a := range f.audits {
				a.pass(now)
			}
		}
	}
}

// carry carries the messages of a proxy.
func (f *fleet) carry(now time.Time, i int, p *proxy) {
	for _, q := range p.filter.Tick(now) {
		p.up = append(p.up, message{at: f.arrival(now.Add(p.late), p.up), reports: q})
	}
	for len(p.up) > 0 && !now.Before(p.up[0].at) {
		q := p.up[0].reports
		p.up = p.up[1:]
		f.reports++
		if p.session == nil {
			p.on = f.servers[i%len(f.servers)]
			var err error
			if p.session, err = p.on.Open(); err != nil {
				f.t.Fatal(err)
			}
		}
		answer, err := p.session.Report(f.t.Context(), now, q)
		if err != nil {
			f.t.Fatal(err)
		}
		if answer != nil {
			f.answers++
			if f.tamper != nil {
				f.tamper(p, answer)
			}
			p.down = append(p.down, message{at: f.arrival(now.Add(p.late), p.down), answer: answer})
		}
	}
	for len(p.down) > 0 && !now.Before(p.down[0].at) {
		q := p.down[0].answer
		p.down = p.down[1:]
		if p.filter.Receive(now, q) < len(q.BucketAction) {
			f.wrong++
		}
	}
}

func (f *fleet) arrival(now time.Time, before []message) time.Time {
	at := now.Add(f.delay())
	if n := len(before); n > 0 && at.Before(before[n-1].at) {
		at = before[n-1].at
	}
	return at
}

// lose breaks the stream of a proxy, with all that is on its way.
func (f *fleet) lose(p *proxy) {
	p.filter.Lose()
	p.up, p.down = nil, nil
	if p.session != nil {
		p.session.Close()
		p.session = nil
	}
}

// passes is how many events have passed.
func (f *fleet) passes() int64 { return f.audits[0].passed }

// ideal is what max–min shares would pass in a time.
func (f *fleet) ideal(span time.Duration) int64 {
	all := 0.0
	for _, p := range f.proxies {
		all += p.demand
	}
	s := f.audits[0].spec
	return int64(min(all, float64(s.Count)/s.Period.Seconds()) * span.Seconds())
}

// demands gives each proxy a part of a demand of all.
func (f *fleet) demands(all float64, kind int) {
	n := len(f.proxies)
	weights, sum := make([]float64, n), 0.0
	for i := range weights {
		switch kind {
		case 0:
			weights[i] = 1
		case 1: // some are much busier
			weights[i] = 1 / float64(1+i%10)
		default: // anything
			weights[i] = f.random.Float64() + 0.05
		}
		sum += weights[i]
	}
	for i, p := range f.proxies {
		p.demand = all * weights[i] / sum
	}
}

// TestFigures: fleets of 1 to 200 proxies whose demand is 1 to 10 times the limit and moves every 50 s never pass more
// than the limit, and hardly less once three reports were of the new demand alone; there is no more than a message for each
// report. make simulate-rlqs prints it.
func TestFigures(t *testing.T) {
	fleets, times := []int{1, 5, 50}, []float64{1, 2}
	if *whole {
		fleets, times = []int{1, 2, 5, 20, 50, 200}, []float64{0.8, 1, 1.2, 2, 10}
	}
	t.Logf("%-8s %-7s %6s %8s %9s", "proxies", "demand", "over", "under", "messages")
	for _, n := range fleets {
		for _, times := range times {
			synctest.Test(t, func(t *testing.T) { figures(t, n, times) })
		}
	}
}

var whole = flag.Bool("whole", false, "fleets of all sizes, which take minutes")

func figures(t *testing.T, n int, times float64) {
	rate := float64(max(4000, 50*n))
	f := newFleet(t, uint64(n), fmt.Sprintf("%g/s burst %g", rate, rate), booked, 1, n)
	const settled, measured = 4 * rlqstest.ReportEvery, 30 * time.Second
	var passed, ideal int64
	for move := range 3 {
		f.demands(rate*times, move)
		f.run(settled)
		before := f.passes()
		f.run(measured)
		passed += f.passes() - before
		ideal += f.ideal(measured)
	}
	under := 100 * float64(ideal-passed) / float64(ideal)
	t.Logf("%-8d %-7g %6d %7.2f%% %9.2f", n, times, max(f.audits[0].over, 0), under, float64(f.answers)/float64(f.reports))
	switch {
	case f.audits[0].over > 0:
		t.Errorf("%d proxies, demand %g: %d events over", n, times, f.audits[0].over)
	case under > 6: // docs/rlqs.md has what it is
		t.Errorf("%d proxies, demand %g: %.2f %% under", n, times, under)
	case f.answers > f.reports || f.wrong > 0:
		t.Errorf("%d messages for %d reports, %d of unknown buckets", f.answers, f.reports, f.wrong)
	}
}

const prepaidWay = rules.QuotaPrepaid

func quotaOf(l *weir.Limit) (rules.Quota, string) { return rules.QuotaOf(l) }
func newStore() weir.Store                        { return memstore.New(memstore.Options{}) }

func newLimiterOf(s weir.Store, set *rules.Set) *rules.Limiter { return rules.NewLimiter(s, set) }

package daemon

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	quota "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/weir-limit/weir/cmd/weir/internal/rlqstest"
	"github.com/weir-limit/weir/internal/redistest"
)

// passed is a reckoning of a bucket, by itself: what is in use of it, and what that was at most.
type passed struct {
	mu               sync.Mutex
	at               time.Time
	used, most, rate float64
	all              int
}

func (p *passed) pass(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() {
		p.used = max(p.used-p.rate*now.Sub(p.at).Seconds(), 0)
	}
	p.at = now
	p.used++
	p.most = max(p.most, p.used)
	p.all++
}

// quotaProxy serves requests as Envoy does, asking a daemon for quotas: the next one, when one is away.
func quotaProxy(ctx context.Context, t *testing.T, daemons []*running, first int, p *passed) {
	filter := rlqstest.New(rlqstest.Settings{Domain: "shop"})
	id := map[string]string{"user": "ann"}
	var stream quota.RateLimitQuotaService_StreamRateLimitQuotasClient
	answers := make(chan *quota.RateLimitQuotaResponse, 100)
	broken := make(chan quota.RateLimitQuotaService_StreamRateLimitQuotasClient, 100)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case s := <-broken:
			if s == stream {
				stream = nil
				filter.Lose()
				first++
			}
		case a := <-answers:
			filter.Receive(time.Now(), a)
		case now := <-tick.C:
			for range 2 { // 400 a second
				if filter.Request(now, 0, id) {
					p.pass(time.Now())
				}
			}
			for _, q := range filter.Tick(now) {
				if stream == nil {
					s, err := quota.NewRateLimitQuotaServiceClient(client(t, daemons[first%len(daemons)].grpc)).StreamRateLimitQuotas(ctx)
					if err != nil {
						first++
						continue
					}
					stream = s
					go func() {
						for {
							a, err := s.Recv()
							if err != nil {
								broken <- s
								return
							}
							answers <- a
						}
					}()
				}
				_ = stream.Send(q) // Recv tells
			}
		}
	}
}

// TestQuotas: proxies at two daemons on one Redis, and at three nodes of a cluster, pass no more together than the limit,
// also when a daemon drains.
func TestQuotas(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: quotas take as long as proxies report")
	}
	rules := rulesFile(t, "domain: shop\ndescriptors:\n  - key: user\n    limits: [200/s burst 200]\n    quota: 100%\n")
	for name, open := range map[string]func(t *testing.T) []*running{
		"redis": func(t *testing.T) []*running {
			store := "redis://" + redistest.Start(t).Addr
			return []*running{start(t, Config{Rules: rules, Store: store}), start(t, Config{Rules: rules, Store: store})}
		},
		"cluster": func(t *testing.T) (all []*running) {
			var join []string
			for range 3 {
				r := start(t, Config{Rules: rules, Store: "cluster:", Cluster: "127.0.0.1:0", Join: strings.Join(join, ",")})
				join = append(join, r.daemon.storage.node.Name())
				all = append(all, r)
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			daemons := open(t)
			p := &passed{rate: 200}
			ctx, cancel := context.WithCancel(t.Context())
			var proxies sync.WaitGroup
			for i := range 4 {
				proxies.Go(func() { quotaProxy(ctx, t, daemons, i, p) })
			}
			const span = 40 * time.Second
			time.AfterFunc(span/2, daemons[0].stop)
			time.Sleep(span)
			cancel()
			proxies.Wait()
			t.Logf("%d passed in %v, %.0f in use at most", p.all, span, p.most)
			if p.most > 201 { // and what a processor that is late may be wrong about now
				t.Errorf("%.1f in use of a burst of 200", p.most)
			}
			if p.all < 1500 {
				t.Errorf("%d passed", p.all)
			}
			if n := metric(t, daemons[1], `weir_quota_events_total{event="assigned"} `); n == "0" || n == "" {
				t.Errorf("assigned: %q", n)
			}
		})
	}
}

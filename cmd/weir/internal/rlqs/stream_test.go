package rlqs_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	quota "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/weir-limit/weir/cmd/weir/internal/rlqs"
	"github.com/weir-limit/weir/cmd/weir/internal/rls"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

const streamRules = `domain: shop
descriptors:
  - key: user
    limits: [100/s burst 100]
    quota: 80%
  - key: day
    limits: [1000/day]
  - key: bare
    limits: [100/s]
  - key: free
    rate_limit: {unlimited: true}
  - key: env
    descriptors:
      - key: name
        limits: [10/s burst 10]
        quota: 100%
`

// serve serves quotas at a listener of the daemon.
func serve(t *testing.T) (*rlqs.Server, *rls.Server, quota.RateLimitQuotaServiceClient) {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(streamRules))
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(memstore.Options{})
	limiter := rules.NewLimiter(store, set)
	server := rlqs.New(limiter, store, rlqs.Options{Remembers: true, Local: true})
	door := rls.New(limiter, rls.Options{Here: true, Quotas: rlqs.NewService(server)})
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- door.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), door.Stop(context.Background()), <-served); err != nil {
			t.Error(err)
		}
	})
	return server, door, quota.NewRateLimitQuotaServiceClient(conn)
}

type usages = quota.RateLimitQuotaUsageReports_BucketQuotaUsage

func report(domain string, all ...*usages) *quota.RateLimitQuotaUsageReports {
	return &quota.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: all}
}

func bucket(allowed uint64, words ...string) *usages {
	id := map[string]string{}
	for i := 0; i+1 < len(words); i += 2 {
		id[words[i]] = words[i+1]
	}
	return &usages{BucketId: &quota.BucketId{Bucket: id}, NumRequestsAllowed: allowed}
}

// TestStream: a stock client of gRPC gets assignments for what it reports, over one stream that stays.
func TestStream(t *testing.T) {
	server, door, client := serve(t)
	stream, err := client.StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(u *usages) *quota.RateLimitQuotaResponse_BucketAction {
		t.Helper()
		if err := stream.Send(report("shop", u)); err != nil {
			t.Fatal(err)
		}
		a, err := stream.Recv()
		if err != nil || len(a.GetBucketAction()) != 1 {
			t.Fatal(a, err)
		}
		if err := a.ValidateAll(); err != nil {
			t.Error(err)
		}
		return a.BucketAction[0]
	}
	a := ask(bucket(1, "user", "ann"))
	b := a.GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket()
	if a.GetBucketId().GetBucket()["user"] != "ann" || b.GetMaxTokens() < 1 || b.GetFillInterval().GetSeconds() < 1 || b.GetFillInterval().GetNanos() != 0 ||
		a.GetQuotaAssignmentAction().GetAssignmentTimeToLive().GetSeconds() != 10 {
		t.Error(a)
	}
	a = ask(bucket(1, "name", "x", "env", "prod")) // sorted by key: env, name
	if a.GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket() == nil {
		t.Error(a)
	}
	a = ask(bucket(0, "day", "x"))
	if b := a.GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket(); b.GetMaxTokens() != 1 {
		t.Error(a)
	}
	for _, words := range [][]string{{"free", "x"}, {"unknown", "x"}} {
		a = ask(bucket(1, words...))
		if s := a.GetQuotaAssignmentAction().GetRateLimitStrategy(); s.GetBlanketRule() != typev3.RateLimitStrategy_ALLOW_ALL || s.GetStrategy() == nil {
			t.Error(words, a)
		}
	}
	if n := server.Stats(); n.Streams != 1 || n.Holders != 5 || n.Buckets != 5 {
		t.Errorf("%+v", n)
	}
	// The daemon stops: the stream ends, and the client is told to ask another.
	stopped := make(chan error, 1)
	go func() { stopped <- door.Stop(context.Background()) }()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// TestLies: whatever a client sends is answered as it should be, and no stream of it takes the service down.
func TestLies(t *testing.T) {
	server, _, client := serve(t)
	events := func(e rlqs.Event) int64 { return server.Stats().Events[e.String()] }
	for _, c := range []struct {
		name string
		sent []*quota.RateLimitQuotaUsageReports
		code codes.Code // of the stream; OK: it goes on
		e    rlqs.Event
	}{
		{"no domain", []*quota.RateLimitQuotaUsageReports{report("", bucket(1, "user", "a"))}, codes.InvalidArgument, rlqs.BadStream},
		{"another domain", []*quota.RateLimitQuotaUsageReports{report("shop", bucket(1, "user", "a")), report("other", bucket(1, "user", "a"))}, codes.InvalidArgument, rlqs.BadStream},
		{"no bucket id", []*quota.RateLimitQuotaUsageReports{report("shop", &usages{}, bucket(1), bucket(1, "", "x"))}, codes.OK, rlqs.BadBucket},
		{"a large bucket id", []*quota.RateLimitQuotaUsageReports{report("shop", bucket(1, "user", string(make([]byte, rlqs.MaxBucketID))))}, codes.OK, rlqs.BadBucket},
		{"no quota", []*quota.RateLimitQuotaUsageReports{report("shop", bucket(1, "bare", "x"))}, codes.OK, rlqs.Unfit},
		{"the same bucket twice, and more than there is", []*quota.RateLimitQuotaUsageReports{report("shop", bucket(1<<63, "user", "a"), bucket(1<<64-1, "user", "a"))}, codes.OK, rlqs.Usages},
		{"nothing", []*quota.RateLimitQuotaUsageReports{report("shop")}, codes.OK, rlqs.Reports},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := events(c.e)
			stream, err := client.StreamRateLimitQuotas(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, q := range c.sent {
				if err := stream.Send(q); err != nil {
					break // Recv tells
				}
			}
			if c.code == codes.OK { // and it still answers
				if err := stream.Send(report("shop", bucket(1, "unknown", c.name))); err != nil {
					t.Fatal(err)
				}
			}
			for {
				a, err := stream.Recv()
				if c.code == codes.OK && err == nil && a.BucketAction[0].GetBucketId().GetBucket()["unknown"] == c.name {
					break
				}
				if err != nil {
					if status.Code(err) != c.code {
						t.Error(err)
					}
					break
				}
			}
			if events(c.e) == before {
				t.Errorf("%v is not counted", c.e)
			}
		})
	}
}

// TestFlood: a stream that reports without end is closed; one that has many new buckets is not.
func TestFlood(t *testing.T) {
	server, _, client := serve(t)
	stream, err := client.StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 * rlqs.MaxReports {
		if err := stream.Send(report("shop", bucket(1, "unknown", fmt.Sprint(i)))); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for range 5 * rlqs.MaxReports {
			if stream.Send(report("", bucket(1, "unknown", "0"))) != nil {
				return
			}
		}
	}()
	for {
		if _, err = stream.Recv(); err != nil {
			break
		}
	}
	if status.Code(err) != codes.ResourceExhausted || server.Stats().Events[rlqs.Flooded.String()] != 1 {
		t.Error(err)
	}
}

// TestManyStreams: there are no more streams than MaxStreams.
func TestManyStreams(t *testing.T) {
	server, _, _ := serve(t)
	var all []*rlqs.Session
	for range rlqs.MaxStreams {
		x, err := server.Open()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x)
	}
	if _, err := server.Open(); status.Code(err) != codes.ResourceExhausted {
		t.Error(err)
	}
	all[0].Close()
	if x, err := server.Open(); err != nil {
		t.Error(err)
	} else {
		x.Close()
	}
}

// TestIdleStream: a stream whose messages are seconds apart stays.
func TestIdleStream(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it waits for longer than a call may take to arrive")
	}
	t.Parallel()
	_, _, client := serve(t)
	stream, err := client.StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, pause := range []time.Duration{0, 12 * time.Second} {
		time.Sleep(pause)
		if err := stream.Send(report("shop", bucket(1, "user", "ann"))); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
}

var benchBuckets = flag.Int("buckets", 10_000, "buckets of BenchmarkReport")

// BenchmarkReport is what it costs to answer a report of 10,000 buckets, of each of which 100 proxies report.
func BenchmarkReport(b *testing.B) {
	set, err := rules.Parse("rules.yaml", []byte(streamRules))
	if err != nil {
		b.Fatal(err)
	}
	store := memstore.New(memstore.Options{})
	server := rlqs.New(rules.NewLimiter(store, set), store, rlqs.Options{Remembers: true, Local: true})
	const proxies = 100
	buckets := *benchBuckets
	var sessions [proxies]*rlqs.Session
	for i := range sessions {
		if sessions[i], err = server.Open(); err != nil {
			b.Fatal(err)
		}
	}
	q := report("shop")
	for j := range buckets {
		q.BucketQuotaUsages = append(q.BucketQuotaUsages, bucket(uint64(j%7), "user", fmt.Sprintf("user-%d", j)))
	}
	at := time.Now()
	one := func(i int) {
		at = at.Add(5 * time.Second / proxies)
		text, err := proto.Marshal(q)
		if err != nil {
			b.Fatal(err)
		}
		var heard quota.RateLimitQuotaUsageReports
		if err := proto.Unmarshal(text, &heard); err != nil {
			b.Fatal(err)
		}
		a, err := sessions[i%proxies].Report(b.Context(), at, &heard)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := proto.Marshal(a); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 2 * proxies { // all proxies are known
		one(i)
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := processor(b)
	for i := 0; b.Loop(); i++ {
		one(i)
	}
	took := processor(b) - before
	perSecond := float64(proxies) / 5 // reports
	b.ReportMetric(took.Seconds()/float64(b.N)*perSecond*10_000/float64(buckets), "cores/10k-buckets")
}

// processor is the processor time that this process has used.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

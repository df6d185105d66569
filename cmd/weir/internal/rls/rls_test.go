package rls

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

const ruleFile = `domain: d
descriptors:
  - key: k
    limits: [1000/day fixed-window anchored]
`

func newLimiter(t testing.TB) *rules.Limiter {
	t.Helper()
	set, err := rules.Parse("rules.yaml", []byte(ruleFile))
	if err != nil {
		t.Fatal(err)
	}
	return rules.NewLimiter(memstore.New(memstore.Options{}), set)
}

// open serves limiter on a port of its own, and connects a stock client.
func open(t testing.TB, limiter envoy.Limiter, o Options) (*Server, *grpc.ClientConn) {
	t.Helper()
	s := New(limiter, o)
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), s.Stop(context.Background()), <-served); err != nil {
			t.Error(err)
		}
	})
	return s, conn
}

func request() *rls.RateLimitRequest {
	return &rls.RateLimitRequest{Domain: "d", Descriptors: []*ratelimit.RateLimitDescriptor{{
		Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}},
	}}}
}

// heard is a limiter that remembers whose request it was asked about.
type heard struct {
	*rules.Limiter

	clients chan string
}

func (h heard) CheckInto(ctx context.Context, r *rules.Request, a *rules.Answer) error {
	h.clients <- r.Client
	return h.Limiter.CheckInto(ctx, r, a)
}

// TestClient: calls are those of the client whose connection they come by.
func TestClient(t *testing.T) {
	h := heard{newLimiter(t), make(chan string, 2)}
	_, conn := open(t, h, Options{Client: func(address string) string { return "at " + address[:strings.LastIndex(address, ":")] }})
	for range 2 {
		if _, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), request()); err != nil {
			t.Fatal(err)
		}
		if who := <-h.clients; who != "at 127.0.0.1" {
			t.Errorf("the client is %q", who)
		}
	}
}

// TestStockClient: many callers at once get no more than the limit.
func TestStockClient(t *testing.T) {
	var calls atomic.Int64
	_, conn := open(t, newLimiter(t), Options{Observe: func(code codes.Code, _ time.Duration) {
		if code == codes.OK {
			calls.Add(1)
		}
	}})
	client := rls.NewRateLimitServiceClient(conn)
	var ok, over atomic.Int64
	var g sync.WaitGroup
	for range 16 {
		g.Go(func() {
			for range 100 {
				r, err := client.ShouldRateLimit(t.Context(), request())
				switch {
				case err != nil:
					t.Error(err)
				case r.OverallCode == rls.RateLimitResponse_OK:
					ok.Add(1)
				case r.OverallCode == rls.RateLimitResponse_OVER_LIMIT:
					over.Add(1)
				}
			}
		})
	}
	g.Wait()
	if ok.Load() != 1000 || over.Load() != 600 || calls.Load() != 1600 {
		t.Errorf("%d OK, %d OVER_LIMIT, %d calls observed", ok.Load(), over.Load(), calls.Load())
	}
}

// raw sends bytes as they are.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (raw) Unmarshal([]byte, any) error   { return nil }
func (raw) Name() string                  { return "proto" }

// TestBadCalls: a call that is none is the client's fault, and the process lives.
func TestBadCalls(t *testing.T) {
	_, conn := open(t, newLimiter(t), Options{})
	override := request()
	override.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1}
	client := rls.NewRateLimitServiceClient(conn)
	if _, err := client.ShouldRateLimit(t.Context(), override); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "unit") {
		t.Errorf("an override without a unit: %v", err)
	}
	for _, c := range []struct {
		name string
		body []byte
		want codes.Code
	}{
		{"empty", nil, codes.InvalidArgument},
		{"noise", []byte("\xff\xff\xff\xff"), codes.InvalidArgument},
		{"half", []byte("\x0a\x7fd"), codes.InvalidArgument},
		{"domain not UTF-8", []byte("\x0a\x01\xff"), codes.InvalidArgument},
		{"key not UTF-8", []byte("\x0a\x01d\x12\x05\x0a\x03\x0a\x01\xff"), codes.InvalidArgument},
		{"domain and trailing bytes", []byte("\x0a\x01d\x00"), codes.InvalidArgument},
		{"2 MiB and a byte", make([]byte, MaxMessage+1), codes.ResourceExhausted},
		{"1 MiB in one value", append([]byte("\x0a\x01d\x12\x8b\x80\x40\x0a\x87\x80\x40\x0a\x01k\x12\x80\x80\x40"), make([]byte, 1<<20)...), codes.InvalidArgument},
		{"an unknown field", []byte("\x0a\x01d\x12\x08\x0a\x06\x0a\x01k\x12\x01v\x78\x01"), codes.OK},
	} {
		err := conn.Invoke(t.Context(), rls.RateLimitService_ShouldRateLimit_FullMethodName, c.body, new([]byte), grpc.ForceCodec(raw{}))
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := client.ShouldRateLimit(t.Context(), request()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := conn.Invoke(t.Context(), "/envoy.service.ratelimit.v3.RateLimitService/Nothing", request(), new(rls.RateLimitResponse)); status.Code(err) != codes.Unimplemented {
		t.Errorf("unknown method: %v", err)
	}
}

// faulty does what a limiter should not.
type faulty struct {
	err    error
	panics bool
}

func (f *faulty) CheckInto(context.Context, *rules.Request, *rules.Answer) error {
	if f.panics {
		panic("at the disco")
	}
	return f.err
}

// TestOwnFaults: a panic costs one call, and errors of the store tell nothing
// but to come again.
func TestOwnFaults(t *testing.T) {
	var log bytes.Buffer
	var panics atomic.Int64
	limiter := &faulty{err: errors.New("secret: the store is away")}
	_, conn := open(t, limiter, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Panicked: func() { panics.Add(1) }})
	client := rls.NewRateLimitServiceClient(conn)
	_, err := client.ShouldRateLimit(t.Context(), request())
	if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "secret") || !strings.Contains(log.String(), "secret") {
		t.Errorf("%v, log %s", err, log.String())
	}
	limiter.panics = true
	for range 3 {
		if _, err := client.ShouldRateLimit(t.Context(), request()); status.Code(err) != codes.Internal {
			t.Error(err)
		}
	}
	if panics.Load() != 3 || !strings.Contains(log.String(), "at the disco") {
		t.Errorf("%d panics, log %s", panics.Load(), log.String())
	}
}

// asking tells how long its callers would wait.
type asking struct{ within chan time.Duration }

func (a *asking) CheckInto(ctx context.Context, _ *rules.Request, to *rules.Answer) error {
	within := time.Duration(0)
	if end, ok := ctx.Deadline(); ok {
		within = time.Until(end)
	}
	a.within <- within
	*to = rules.Answer{Allowed: true, Decisive: -1}
	return nil
}

// TestPatience: callers have the time that they say, and what stands behind the listener
// says how long it takes of those who say none.
func TestPatience(t *testing.T) {
	limiter := &asking{make(chan time.Duration, 2)}
	_, conn := open(t, limiter, Options{})
	client := rls.NewRateLimitServiceClient(conn)
	for _, own := range []time.Duration{0, 20 * time.Second, time.Hour} {
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if own > 0 {
			ctx, cancel = context.WithTimeout(ctx, own)
		}
		if _, err := client.ShouldRateLimit(ctx, request()); err != nil {
			t.Fatal(err)
		}
		cancel()
		if within := <-limiter.within; within > own || within < own/2 {
			t.Errorf("of %v: %v", own, within)
		}
	}
}

// TestNoRules: "UNAVAILABLE before rules are loaded".
func TestNoRules(t *testing.T) {
	_, conn := open(t, rules.NewLimiter(memstore.New(memstore.Options{}), nil), Options{})
	if _, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), request()); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

// TestHealth: NOT_SERVING before it is said to serve, and while draining; under
// the names that clients use.
func TestHealth(t *testing.T) {
	s, conn := open(t, newLimiter(t), Options{})
	client := healthpb.NewHealthClient(conn)
	watch, err := client.Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "ratelimit"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{
		healthpb.HealthCheckResponse_NOT_SERVING, healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING,
	} {
		seen, err := watch.Recv()
		if err != nil || seen.Status != want {
			t.Fatalf("watch: %v %v, want %v", seen, err, want)
		}
		for _, name := range []string{"", "ratelimit", "envoy.service.ratelimit.v3.RateLimitService"} {
			r, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
			if err != nil || r.Status != want {
				t.Errorf("%q: %v %v, want %v", name, r, err, want)
			}
		}
		s.SetServing(want == healthpb.HealthCheckResponse_NOT_SERVING)
	}
	if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{Service: "x"}); status.Code(err) != codes.NotFound {
		t.Error(err)
	}
}

// TestStopWithWatchers: who watches the health does not keep the listener open.
func TestStopWithWatchers(t *testing.T) {
	s, conn := open(t, newLimiter(t), Options{})
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
}

// slow answers when it is told to.
type slow struct{ begun, go_ chan struct{} }

func (s *slow) CheckInto(_ context.Context, _ *rules.Request, a *rules.Answer) error {
	s.begun <- struct{}{}
	<-s.go_
	*a = rules.Answer{Allowed: true, Decisive: -1}
	return nil
}

// TestStop: a call in flight is answered, however long it takes within the time
// that stopping has.
func TestStop(t *testing.T) {
	limiter := &slow{make(chan struct{}), make(chan struct{})}
	s, conn := open(t, limiter, Options{})
	answered := make(chan error, 1)
	go func() {
		_, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), request())
		answered <- err
	}()
	<-limiter.begun
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(t.Context()) }()
	close(limiter.go_)
	if err := errors.Join(<-answered, <-stopped); err != nil {
		t.Error(err)
	}
}

// TestStopInTime: a call that takes longer is cut off.
func TestStopInTime(t *testing.T) {
	limiter := &slow{make(chan struct{}), make(chan struct{})}
	s, conn := open(t, limiter, Options{})
	answered := make(chan error, 1)
	go func() {
		_, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), request())
		answered <- err
	}()
	<-limiter.begun
	over, cancel := context.WithCancel(t.Context())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(over) }()
	if err := <-answered; status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	close(limiter.go_) // Stop waits for handlers: a goroutine has an owner
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestCrowdedCalls: a call that has more descriptors than it may is refused before
// memory is made of it; packed, it is not even unpacked to what a message may be.
func TestCrowdedCalls(t *testing.T) {
	_, conn := open(t, newLimiter(t), Options{})
	crowd := bytes.Repeat([]byte("\x12\x00"), MaxMessage/2)
	for _, c := range []struct {
		name string
		body []byte
		with []grpc.CallOption
		want codes.Code
		says string
	}{
		{"as it is", crowd, nil, codes.InvalidArgument, "descriptors: there are 1048576; there may be 100"},
		{"packed", crowd, []grpc.CallOption{grpc.UseCompressor(gzip.Name)}, codes.ResourceExhausted, "send it unpacked"},
		{"packed, and small", crowd[:maxUnpacked], []grpc.CallOption{grpc.UseCompressor(gzip.Name)}, codes.InvalidArgument, "descriptors: there are 131072; there may be 100"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := conn.Invoke(t.Context(), rls.RateLimitService_ShouldRateLimit_FullMethodName, c.body, new([]byte), append(c.with, grpc.ForceCodec(raw{}))...)
		runtime.ReadMemStats(&after)
		if status.Code(err) != c.want || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v %s", c.name, err, c.want, c.says)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 12<<20 { // of the client and the wire, most of it
			t.Errorf("%s: %d bytes", c.name, n)
		}
	}
	packed, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), request(), grpc.UseCompressor(gzip.Name))
	if err != nil || packed.OverallCode != rls.RateLimitResponse_OK {
		t.Errorf("a usual call, packed: %v %v", packed, err)
	}
}

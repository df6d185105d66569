package load

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// counting answers every second call, and refuses the others.
type counting struct {
	rls.UnimplementedRateLimitServiceServer

	calls, traces atomic.Int64
}

func (c *counting) ShouldRateLimit(ctx context.Context, _ *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	if sent, _ := metadata.FromIncomingContext(ctx); len(sent["traceparent"]) == 1 {
		c.traces.Add(1)
	}
	if c.calls.Add(1)%2 == 0 {
		return nil, status.Error(codes.Unavailable, "refused")
	}
	return &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OVER_LIMIT}, nil
}

func serve(t *testing.T, streams uint32) (*counting, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, s := &counting{}, grpc.NewServer(grpc.MaxConcurrentStreams(streams))
	rls.RegisterRateLimitServiceServer(s, c)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return c, l.Addr().String()
}

// TestClosed: the generators count what a stock server has seen, but for the calls that
// are on their way at the end.
func TestClosed(t *testing.T) {
	for name, run := range map[string]func(Closed) (*Result, error){"by frames": Closed.H2, "by grpc-go": Closed.Stock} {
		for _, traced := range []bool{false, true} {
			c, address := serve(t, 100)
			r, err := run(Closed{Address: address, InFlight: 16, Bodies: [][]byte{{}, {0x0a, 1, 'd'}}, Traced: traced, Last: 50 * time.Millisecond})
			if err != nil {
				t.Fatal(name, err)
			}
			seen := c.calls.Load()
			if got := r.Answered + r.Refused; got == 0 || got > seen || seen-got > 20 || r.Answered-r.Refused > 20 || r.Refused-r.Answered > 20 {
				t.Errorf("%s, traced %v: %d answered, %d refused, %d calls seen", name, traced, r.Answered, r.Refused, seen)
			}
			if traced && name == "by frames" && c.traces.Load() < seen {
				t.Errorf("%d of %d calls had a traceparent", c.traces.Load(), seen)
			}
		}
	}
}

// TestOpenH2: every call that was due is accounted for, and none is sent beyond
// the streams that the server takes.
func TestOpenH2(t *testing.T) {
	_, address := serve(t, 2)
	o := Open{Address: address, Connections: 2, Rate: 20_000, Deadline: 10 * time.Millisecond, Patience: 2 * time.Millisecond, Bodies: [][]byte{{}}, Last: 100 * time.Millisecond}
	r, err := o.H2()
	if err != nil {
		t.Fatal(err)
	}
	// 200 may wait for a stream at the end.
	if got := r.Answered + r.Refused + r.Late + r.Unsent + r.Expired; got > r.Offered || r.Offered-got > 250 || r.Answered == 0 || r.Refused == 0 {
		t.Errorf("offered %d, answered %d, refused %d, late %d, unsent %d, expired %d", r.Offered, r.Answered, r.Refused, r.Late, r.Unsent, r.Expired)
	}
}

func TestClosedH1(t *testing.T) {
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte("answer"))
	}))
	defer s.Close()
	r, err := ClosedH1(s.Listener.Addr().String(), 2, [][]byte{Post("/", []byte("{}"))}, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Answered + r.Refused; got == 0 || got != calls.Load() {
		t.Errorf("%d answered, %d refused, %d calls seen", r.Answered, r.Refused, calls.Load())
	}
}

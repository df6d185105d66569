package rls

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// TestShut: a listener that is shut refuses calls at once with UNAVAILABLE, which
// charges nothing, and tells its health all the same.
func TestShut(t *testing.T) {
	gate, refused := new(overload.Gate), make(chan string, 1)
	_, conn := open(t, newLimiter(t), Options{Gate: gate, Refused: func(reason string) { refused <- reason }})
	client := rls.NewRateLimitServiceClient(conn)
	gate.SetShut(true)
	if _, err := client.ShouldRateLimit(t.Context(), request()); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	if reason := <-refused; reason != ReasonWait {
		t.Error(reason)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
		t.Error(err)
	}
	gate.SetShut(false)
	r, err := client.ShouldRateLimit(t.Context(), request())
	if err != nil || r.Statuses[0].LimitRemaining != 999 {
		t.Error(r, err)
	}
}

// TestLimited: a stock client that is told to have fewer calls in flight has all
// of them answered.
func TestLimited(t *testing.T) {
	gate := new(overload.Gate)
	_, conn := open(t, newLimiter(t), Options{Gate: gate})
	client := rls.NewRateLimitServiceClient(conn)
	for i := range 100 {
		gate.SetLimit([]int{1, 0, 3, 64}[i%4])
		done := make(chan error)
		for range 5 {
			go func() {
				_, err := client.ShouldRateLimit(t.Context(), request())
				done <- err
			}()
		}
		for range 5 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// stalled sends all of a message but its last byte, and then nothing.
type stalled struct {
	io.Reader

	ctx context.Context
}

func stall(ctx context.Context, size int) *stalled {
	head := []byte{0, byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size)}
	return &stalled{io.MultiReader(bytes.NewReader(head), io.LimitReader(zeros{}, int64(size-1))), ctx}
}

func (s *stalled) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if n == 0 && errors.Is(err, io.EOF) {
		<-s.ctx.Done()
		return 0, s.ctx.Err()
	}
	return n, nil
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestStalledCalls: calls that never come to their end hold no more together than the
// budget, and who asks as usual is answered.
func TestStalledCalls(t *testing.T) {
	var cut atomic.Int64
	budget := &overload.Budget{Most: 4 << 20, Cut: func() { cut.Add(1) }}
	door, conn := open(t, newLimiter(t), Options{Budget: budget})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address := conn.Target()
	began := make(chan struct{}, 1000)
	for range 4 {
		transport := &http.Transport{Protocols: new(http.Protocols)}
		transport.Protocols.SetUnencryptedHTTP2(true)
		defer transport.CloseIdleConnections()
		for range 20 {
			go func() {
				defer func() { began <- struct{}{} }()
				q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+rls.RateLimitService_ShouldRateLimit_FullMethodName, stall(ctx, 1<<20))
				if err != nil {
					t.Error(err)
					return
				}
				q.Header.Set("Content-Type", "application/grpc")
				if r, err := transport.RoundTrip(q); err == nil {
					_ = r.Body.Close() // nobody answers it
				}
			}()
		}
	}
	most := int64(0)
	client := rls.NewRateLimitServiceClient(conn)
	for end := time.Now().Add(5 * time.Second); cut.Load() < 4 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if r, err := client.ShouldRateLimit(t.Context(), request()); err != nil || r.OverallCode != rls.RateLimitResponse_OK {
			t.Fatal(r, err)
		}
		most = max(most, budget.Held())
	}
	if cut.Load() < 4 || most > budget.Most {
		t.Errorf("%d were cut off, %d bytes were held at most", cut.Load(), most)
	}
	cancel()
	for range 80 {
		<-began
	}
	if err := door.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if n := budget.Held(); n != 0 {
		t.Errorf("%d bytes are held by nobody", n)
	}
}

// TestPatienceIsOver: a call whose time is over when its turn comes is not decided, and charges nothing; one whose
// time can't be read is the client's fault.
func TestPatienceIsOver(t *testing.T) {
	for _, here := range []bool{true, false} {
		refused := make(chan string, 1)
		_, conn := open(t, newLimiter(t), Options{Here: here, Refused: func(reason string) { refused <- reason }})
		ask := func(timeout string) (*http.Response, error) {
			transport := &http.Transport{Protocols: new(http.Protocols)}
			transport.Protocols.SetUnencryptedHTTP2(true)
			defer transport.CloseIdleConnections()
			q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+conn.Target()+rls.RateLimitService_ShouldRateLimit_FullMethodName, bytes.NewReader(make([]byte, 5)))
			if err != nil {
				t.Fatal(err)
			}
			q.Header.Set("Content-Type", "application/grpc")
			q.Header.Set("Grpc-Timeout", timeout)
			return transport.RoundTrip(q)
		}
		for timeout, want := range map[string]string{"1n": "4", "5": "3", "123456789S": "3", "5x": "3", "-5S": "3"} {
			r, err := ask(timeout)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Header.Get("Grpc-Status"); got != want {
				t.Errorf("%s: status %s %s, want %s", timeout, got, r.Header.Get("Grpc-Message"), want)
			}
			_ = r.Body.Close() // there is none
		}
		if reason := <-refused; reason != ReasonLate {
			t.Error(reason)
		}
	}
}

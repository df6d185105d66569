package rls

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"

	"github.com/weir-limit/weir/internal/here"
	"github.com/weir-limit/weir/rules"
)

// waits is a limiter that answers each second call only to those who can wait.
type waits struct {
	*rules.Limiter

	here, later atomic.Int64
}

func (w *waits) CheckInto(ctx context.Context, r *rules.Request, a *rules.Answer) error {
	if !here.Only(ctx) {
		w.later.Add(1)
		if _, ok := ctx.Deadline(); !ok {
			return context.DeadlineExceeded // which it must have
		}
	} else if w.here.Add(1)%2 == 0 {
		return here.ErrWaits
	}
	return w.Limiter.CheckInto(ctx, r, a)
}

// TestTries: a call is answered on the goroutine of its connection, or else where it may wait, and is counted once.
func TestTries(t *testing.T) {
	const calls = 200
	var observed atomic.Int64
	w := &waits{Limiter: newLimiter(t)}
	_, conn := open(t, w, Options{Tries: true, Observe: func(code codes.Code, _ time.Duration) {
		if code == codes.OK {
			observed.Add(1)
		}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for i := range calls {
		answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, request())
		if err != nil || answer.GetStatuses()[0].GetLimitRemaining() != uint32(1000-i-1) {
			t.Fatalf("%v, %v", answer, err)
		}
	}
	if here, later := w.here.Load(), w.later.Load(); here != calls || later != calls/2 || observed.Load() != calls {
		t.Errorf("of %d calls %d were tried, %d waited, and %d are counted", calls, here, later, observed.Load())
	}
}

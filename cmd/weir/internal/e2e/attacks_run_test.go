package e2e

import (
	"math"
	"strings"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// TestAttacks: a client that attacks is sent away, or pays for each call as others do. The daemon lives, answers
// all others, and keeps little.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for i := range attacks {
		k := &attacks[i]
		t.Run(k.number+" "+k.name, func(t *testing.T) {
			t.Parallel()
			attacked(t, k)
		})
	}
}

const (
	// mostBytes is how much an attacker sends.
	mostBytes = 6 << 20
	// mostMemory is how much larger the daemon may become meanwhile.
	mostMemory = 64 << 20
	// mostWaste is how many frames a connection may waste a second, and at once: h2.wasteMost.
	mostWaste = 1000
)

func attacked(t *testing.T, k *attack) {
	d := edge(t)
	conn, err := grpc.NewClient(d.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers(t, conn, 1)
	const memory = "go_memstats_sys_bytes" // it never sinks
	before, goroutines := d.metric(t, memory), d.metric(t, "go_goroutines")
	begun := time.Now()
	a := attackAt(t, d.grpc, k.deaf)
	sent := make(chan int)
	most := mostBytes
	if k.deaf {
		most = math.MaxInt                             // until nothing more is taken, and the server hangs up
		_ = a.SetWriteDeadline(begun.Add(time.Minute)) // if it fails, the test may last
	}
	go func() { sent <- a.flood(k, func(sent int) bool { return sent < most }) }()
	answers(t, conn, 100)
	n := <-sent
	if k.ends == "" {
		a.pays(t)
	} else {
		select {
		case <-a.over:
		case <-time.After(time.Minute):
			t.Error("it is not sent away")
		}
	}
	took := time.Since(begun)
	a.closes()
	if k.ends != "" && !k.deaf {
		a.sentAway(t, k, took)
	}
	if a.err != nil {
		t.Errorf("what came is not HTTP/2: %v", a.err)
	}
	if k.reason != "" {
		eventually(t, "nobody is counted as sent away", func() bool {
			return d.metric(t, `weir_refused_total{listener="grpc",reason="`+k.reason+`"}`) == 1
		})
	}
	answers(t, conn, 10)
	more := d.metric(t, memory) - before
	if more > mostMemory {
		t.Errorf("the daemon is %.0f bytes larger", more)
	}
	if n := d.metric(t, `weir_panics_total{listener="grpc"}`); n != 0 {
		t.Errorf("%v calls panicked", n)
	}
	eventually(t, "goroutines are left", func() bool { return d.metric(t, "go_goroutines") < goroutines+50 })
	t.Logf("%d bytes in %v, %.0f KiB more memory, %v", n, took.Round(time.Millisecond), more/1024, a.bye)
}

// pays waits until all is read that the attacker has sent. Each of its calls was answered, once.
func (a *attacker) pays(t *testing.T) {
	t.Helper()
	a.settles(t)
	if a.answered != a.asked || a.bye != "" {
		t.Errorf("%d calls were made, and %d answered: %s", a.asked, a.answered, a.bye)
	}
}

// sentAway is that the attacker was told so, and in time: what answers no call has a bound.
func (a *attacker) sentAway(t *testing.T, k *attack, took time.Duration) {
	t.Helper()
	if !strings.HasPrefix(a.bye, k.ends) {
		t.Errorf("the attacker was told %q, want %q", a.bye, k.ends)
	}
	waste := a.came[http2.FrameRSTStream] + a.came[http2.FramePing] + a.came[http2.FrameSettings]
	if waste > mostWaste*(2+int(took.Seconds())) {
		t.Errorf("%d frames were answered in %v", waste, took)
	}
}

// answers makes calls, each of which must be answered.
func answers(t *testing.T, conn *grpc.ClientConn, calls int) {
	t.Helper()
	stub := rls.NewRateLimitServiceClient(conn)
	for range calls {
		r, err := stub.ShouldRateLimit(t.Context(), unlimited())
		for status.Code(err) == codes.Unavailable && strings.HasPrefix(status.Convert(err).Message(), "more is asked") { // the machine is busy
			time.Sleep(time.Millisecond)
			r, err = stub.ShouldRateLimit(t.Context(), unlimited())
		}
		if err != nil || r.OverallCode != rls.RateLimitResponse_OK {
			t.Fatalf("another client: %v, %v", r, err)
		}
	}
}

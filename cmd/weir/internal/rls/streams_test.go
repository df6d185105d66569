package rls

import (
	"bytes"
	"net"
	"testing"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// TestFrames: whatever pieces a stream of frames is cut into, it is known when a
// frame of our own may follow, which is never in a header block.
func TestFrames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream bytes.Buffer
		framer := http2.NewFramer(&stream, nil)
		free := map[int]bool{0: true}
		for range rapid.IntRange(1, 10).Draw(t, "frames") {
			payload := make([]byte, rapid.IntRange(0, 30).Draw(t, "size"))
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				_ = framer.WriteData(1, true, payload)
			case 1:
				_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: payload, EndHeaders: true})
			case 2:
				_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: payload})
				_ = framer.WriteContinuation(1, true, payload)
			}
			free[stream.Len()] = true
		}
		var f frames
		for at, p := 0, stream.Bytes(); len(p) > 0; {
			n := rapid.IntRange(1, len(p)).Draw(t, "piece")
			for piece, ok := p[:n], true; ok; {
				piece, ok = f.next(piece)
			}
			at, p = at+n, p[n:]
			if f.between() != free[at] {
				t.Fatalf("at %d of %d: %v", at, stream.Len(), f.between())
			}
		}
	})
}

// sink keeps what is written.
type sink struct {
	net.Conn

	wrote bytes.Buffer
}

func (s *sink) Read([]byte) (int, error) { return 0, nil }

func (s *sink) RemoteAddr() net.Addr { return nil }

func (s *sink) Write(p []byte) (int, error) { return s.wrote.Write(p) }

// TestShares: connections that are in use get equal shares of the limit, told
// after a whole frame, and the old number when there is no limit any more.
func TestShares(t *testing.T) {
	gate := new(overload.Gate)
	var sinks [2]sink
	var conns [2]*conn
	for i := range conns {
		conns[i] = (&watching{gate: gate, budget: new(overload.Budget)}).watch(&sinks[i], &sinks[i])
		if _, err := conns[i].Read(nil); err != nil {
			t.Fatal(err)
		}
	}
	ping := []byte{0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}
	write := func(c *conn, p []byte) {
		t.Helper()
		if _, err := c.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	told := func(i int, want uint32) {
		t.Helper()
		framer := http2.NewFramer(nil, &sinks[i].wrote)
		last := uint32(0)
		for sinks[i].wrote.Len() > 0 {
			f, err := framer.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if s, ok := f.(*http2.SettingsFrame); ok {
				last, _ = s.Value(http2.SettingMaxConcurrentStreams)
			}
		}
		if last != want {
			t.Errorf("connection %d was told %d, want %d", i, last, want)
		}
	}
	write(conns[0], ping)
	write(conns[1], ping)
	told(0, 0)
	told(1, 0)
	gate.SetLimit(100)
	write(conns[0], ping[:5])
	if n := sinks[0].wrote.Len(); n != 5 {
		t.Errorf("%d bytes after half a frame", n)
	}
	write(conns[0], ping[5:])
	write(conns[1], ping)
	told(0, 50)
	told(1, 50)
	gate.SetLimit(0)
	write(conns[0], ping)
	told(0, maxStreams)
}

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

package rls

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// watched is a connection of a listener, and its client's side.
func watched(t *testing.T, budget *overload.Budget, refused func(string)) (*conn, *http2.Framer) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = errors.Join(here.Close(), there.Close()) }) // the test may have
	c := (&watching{gate: new(overload.Gate), budget: budget, refused: refused}).watch(here, here)
	go func() { _, _ = io.Copy(io.Discard, there) }() // it reads, and does not care
	return c, http2.NewFramer(there, there)
}

// TestTalk: frames that ask nothing close a connection when they are too many for the
// calls that were answered, and too fast; those of a client that is busy do not.
func TestTalk(t *testing.T) {
	ping := func(f *http2.Framer, _ uint32) error { return f.WritePing(false, [8]byte{}) }
	call := func(f *http2.Framer, id uint32) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: true})
	}
	reset := func(f *http2.Framer, id uint32) error { return f.WriteRSTStream(id, http2.ErrCodeCancel) }
	sleep := func(d time.Duration) func(*http2.Framer, uint32) error {
		return func(*http2.Framer, uint32) error { time.Sleep(d); return nil }
	}
	type step = func(*http2.Framer, uint32) error
	for name, c := range map[string]struct {
		each   []step
		answer bool
		closed bool
	}{
		"pings":                      {[]step{ping}, false, true},
		"settings":                   {[]step{func(f *http2.Framer, _ uint32) error { return f.WriteSettings() }}, false, true},
		"windows":                    {[]step{func(f *http2.Framer, _ uint32) error { return f.WriteWindowUpdate(0, 1) }}, false, true},
		"calls that are reset":       {[]step{call, reset}, false, true},
		"resets of no call":          {[]step{reset}, false, true},
		"empty data":                 {[]step{func(f *http2.Framer, id uint32) error { return f.WriteData(id, false, nil) }}, false, true},
		"empty continuations":        {[]step{func(f *http2.Framer, id uint32) error { return f.WriteContinuation(id, false, nil) }}, false, true},
		"pings in time":              {[]step{ping, sleep(time.Millisecond)}, false, false},
		"calls that are given up":    {[]step{call, sleep(young), reset}, false, false},
		"calls, windows, and a ping": {[]step{call, ping, ping, ping, ping}, true, false},
		"calls that are answered":    {[]step{call, reset}, true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			var why []string
			w, client := watched(t, new(overload.Budget), func(reason string) { why = append(why, reason) })
			w.reads.left = 0
			go func() {
				var err error
				for id := uint32(1); id < 6*talkMost && err == nil; id += 2 {
					for _, do := range c.each {
						if err = errors.Join(err, do(client, id)); c.answer && err == nil {
							trailers := []byte{0, 0, 0, frameHeaders, endStream | endHeaders, 0, 0, byte(id >> 8), byte(id)}
							_, err = w.Write(trailers)
						}
					}
				}
				_ = w.Close()
			}()
			var err error
			for b := make([]byte, 1000); err == nil; {
				_, err = w.Read(b)
			}
			if closed := cmp.Equal(why, []string{ReasonFlood}); closed != c.closed || len(why) > 1 {
				t.Errorf("%s: %v, refused for %v", name, err, why)
			}
		})
	}
}

// TestSlowCall: a call must arrive within inTime, however often its client says
// something; one that has may take as long as it takes.
func TestSlowCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why []string
		c, client := watched(t, new(overload.Budget), func(reason string) { why = append(why, reason) })
		start := time.Now()
		c.reads.left = 0 // no preface
		go func() {
			_ = client.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true})
			time.Sleep(time.Hour)
			err := client.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, EndHeaders: true})
			for err == nil {
				time.Sleep(time.Second)
				err = errors.Join(client.WriteData(3, false, []byte("x")), client.WritePing(false, [8]byte{}))
			}
		}()
		var err error
		for b := make([]byte, 100); err == nil; {
			_, err = c.Read(b)
		}
		if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != time.Hour+inTime || !cmp.Equal(why, []string{ReasonSlow}) {
			t.Errorf("%v after %v, refused for %v", err, took, why)
		}
		_ = c.Close() // or the client would wait
	})
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
	if cut.Load() < 4 || most > budget.Most || most < 1<<20 {
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

// TestUnreadAnswers: a client that asks and asks and reads no answer is sent away.
func TestUnreadAnswers(t *testing.T) {
	var why []string
	c, client := watched(t, new(overload.Budget), func(reason string) { why = append(why, reason) })
	c.reads.left = 0
	go func() {
		var err error
		for id := uint32(1); err == nil; id += 2 {
			err = client.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: true})
		}
	}()
	var err error
	for b := make([]byte, 9); err == nil; {
		_, err = c.Read(b)
	}
	if _ = c.Close(); !cmp.Equal(why, []string{ReasonUnread}) || len(c.calls.open) != 0 {
		t.Errorf("%v, refused for %v, %d calls known", err, why, len(c.calls.open))
	}
}

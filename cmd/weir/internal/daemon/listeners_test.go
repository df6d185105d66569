package daemon

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/porttest"
)

// TestListensWhenItAnswers: a node that begins refuses connections until it can answer. Callers that
// were taken before would hang.
func TestListensWhenItAnswers(t *testing.T) {
	const most = 350 * time.Millisecond // a node alone takes 400 ms or more to begin
	took := time.Hour
	for range 5 {
		if took = min(took, firstAnswer(t)); took < most {
			return
		}
	}
	t.Errorf("the first caller waits %v for an answer; want less than %v", took, most)
}

// firstAnswer is how long the first caller that gets a connection waits for an answer.
func firstAnswer(t *testing.T) time.Duration {
	t.Helper()
	at := porttest.Free(t)
	d, err := New(Config{
		Rules: rulesFile(t, "domain: d\n"), Store: "cluster:", Cluster: "127.0.0.1:0", HTTP: at, GRPC: "127.0.0.1:0", Admin: "127.0.0.1:0", LameDuck: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not listen")
		}
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", at)
		if err != nil {
			continue
		}
		began := time.Now()
		_ = c.Close()                                   // another will do
		r, err := http.Get("http://" + at + "/healthz") //nolint:noctx // a test
		took := time.Since(began)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		return took
	}
}

package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/listen"
	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// greedy is a body that notes how much was read of it at once.
type greedy struct{ left, most int }

func (g *greedy) Read(p []byte) (int, error) {
	n := min(len(p), g.left)
	if g.left -= n; n == 0 {
		return 0, io.EOF
	}
	g.most = max(g.most, n)
	return n, nil
}

func (g *greedy) Close() error { return nil }

// TestParts: a long body is read in parts after each of which its connection is known to have asked something, so that none
// is taken for a flood.
func TestParts(t *testing.T) {
	const long = 8 << 20
	body, parts, got := &greedy{left: long}, 0, 0
	h := Budgeted(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text := make([]byte, long)
		got, _ = io.ReadFull(r.Body, text)
	}), &overload.Budget{Most: overload.DefaultBudget}, func(context.Context) { parts++ })
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body))
	if got != long || body.most > listen.MaxTalk/2 || parts < long/listen.MaxTalk {
		t.Errorf("%d bytes in %d parts, %d at once; a connection may send %d", got, parts, body.most, listen.MaxTalk)
	}
}

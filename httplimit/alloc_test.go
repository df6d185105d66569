//go:build !race

package httplimit

import (
	"net/http"
	"testing"

	"github.com/weir-limit/weir"
)

// nowhere is a client that does not look.
type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(int)             {}

// TestAllocates: a request that passes costs at most two pieces of memory, of
// which one is the value of RateLimit, and the other the network of an IPv6 address.
func TestAllocates(t *testing.T) {
	h := middlewareOf(t, []Rule{{Name: "api", Limit: weir.MustParseLimit("1000000000/s"), Key: Peer}}, Options{})(
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for peer, most := range map[string]float64{"192.0.2.1:1234": 1, "[2001:db8::1]:1234": 2} {
		r := from(peer)
		w := &nowhere{http.Header{}}
		got := testing.AllocsPerRun(1000, func() {
			clear(w.header)
			h.ServeHTTP(w, r)
		})
		if got > most {
			t.Errorf("%s: %v allocations, at most %v are right", peer, got, most)
		}
		if len(w.header) != 2 {
			t.Error(w.header)
		}
	}
}

func BenchmarkMiddleware(b *testing.B) {
	one := []Rule{{Name: "api", Limit: weir.MustParseLimit("1000000000/s"), Key: Peer}}
	two := append(one, Rule{Name: "day", Limit: weir.MustParseLimit("1000000000/day fixed-window"), Key: Peer})
	for _, c := range []struct {
		name, peer string
		rules      []Rule
	}{
		{"IPv4", "192.0.2.1:1234", one},
		{"IPv6", "[2001:db8:1:2:3:4:5:6]:1234", one},
		{"two", "192.0.2.1:1234", two},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := middlewareOf(b, c.rules, Options{})(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			r := from(c.peer)
			w := &nowhere{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				h.ServeHTTP(w, r)
			}
		})
	}
}

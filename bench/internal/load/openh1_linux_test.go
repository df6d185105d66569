package load

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestOpenH1: every request that was due is accounted for, whether it is
// answered, refused with the end of its connection, or given up, and connections
// that have failed are opened again.
func TestOpenH1(t *testing.T) {
	var calls atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch calls.Add(1) % 4 {
		case 0:
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusServiceUnavailable)
		case 1:
			time.Sleep(50 * time.Millisecond) // longer than the client waits
		}
		_, _ = w.Write([]byte("answer")) // the client may be gone
	}))
	defer s.Close()
	for _, rest := range []time.Duration{0, 20 * time.Millisecond} {
		calls.Store(0)
		began := int64(-1)
		o := Open{
			Address: s.Listener.Addr().String(), Connections: 8, Rate: 5000, Deadline: 20 * time.Millisecond, Patience: 2 * time.Millisecond,
			Rest: rest, Bodies: [][]byte{Post("/", []byte("{}"))}, Last: 200 * time.Millisecond,
			Counting: func() { began = calls.Load() },
		}
		r, err := o.H1()
		if err != nil {
			t.Fatal(err)
		}
		if r.Answered == 0 || r.Refused == 0 || r.Expired == 0 || r.Unsent == 0 || r.Dialled == 0 || began < 0 {
			t.Errorf("rest %v: %+v, counting began after %d calls", rest, r, began)
		}
		// At the ends, calls may be on their way, or in their patience.
		const margin = 8 + 10
		if got := r.Answered + r.Refused + r.Late + r.Unsent + r.Expired; got-r.Offered > margin || r.Offered-got > margin {
			t.Errorf("rest %v: offered %d, answered %d, refused %d, late %d, unsent %d, expired %d", rest, r.Offered, r.Answered, r.Refused, r.Late, r.Unsent, r.Expired)
		}
	}
}

package client

import (
	"runtime"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
)

// TestSync: nearly all takes of a limit with sync are decided in the program, whether the
// daemon keeps its counts in memory or in Redis. The daemon hears of the rest when the
// store is closed, the next program knows of it, and nothing is left running.
func TestSync(t *testing.T) {
	for name, args := range map[string][]string{"memory": nil, "redis": {"--store", "redis://" + redistest.Start(t).Addr}} {
		t.Run(name, func(t *testing.T) {
			url := "grpc://" + serve(t, append(args, "--grpc-store")...).grpc
			before := runtime.NumGoroutine()
			s, err := Open(url, Options{})
			if err != nil {
				t.Fatal(err)
			}
			l, err := weir.NewLimiter(s, "r", weir.MustParseLimit("1000/h burst 100000")).With(weir.Policy{Sync: weir.MaxSync})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 { // as many as may be unreported: the first goes to the daemon
				if a, err := l.Take(t.Context(), "k", 1); err != nil || a.Outcome != weir.Allowed || a.Degraded != "" {
					t.Fatalf("%+v, %v", a, err)
				}
			}
			if st := s.Stats(); st.Local != 2 {
				t.Errorf("%+v: 2 takes are decided here", st)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			again := s.Stats().Takes > 2 // a report got no answer in time, and may count once more
			for end := time.Now().Add(slowest); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d goroutines were left to run", runtime.NumGoroutine()-before)
				}
			}
			next, peek := weir.NewLimiter(open(t, url), "r", weir.MustParseLimit("1000/h burst 100000")), weir.Request{Key: "k", Cost: 1, Peek: true}
			a, err := next.Ask(t.Context(), peek)
			for end := time.Now().Add(slowest); a.Degraded != "" && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				a, err = next.Ask(t.Context(), peek) // the daemon's Redis was slow
			}
			if err != nil || a.Degraded != "" || a.Remaining > 100000-3 || a.Remaining < 100000-3 && !again {
				t.Errorf("%+v, %v: three were told", a, err)
			}
		})
	}
}

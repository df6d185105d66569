package guardtest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/proxytest"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/redisstore"
)

// together is whether the store decides all of some takes at a time.
func together(t *testing.T, g *guard.Guard) bool {
	var all sync.WaitGroup
	var degraded atomic.Int64
	for range 6 {
		all.Go(func() {
			if take(t, g, ask("1000000/s", weir.FallbackOpen)).Degraded != "" {
				degraded.Add(1)
			}
		})
	}
	all.Wait()
	return degraded.Load() == 0
}

// TestRedisAfar: a real Redis behind 15 ms decides, and goes on when it is moved to 60.
func TestRedisAfar(t *testing.T) {
	server := redistest.Start(t, "timeout", "0")
	addr, away := proxytest.Delay(t, server.Addr)
	away(15 * time.Millisecond)
	store, err := redisstore.Dial("redis://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() }) // its server may be gone
	g := guard.New(store, guard.Options{})
	decided := func(what string) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; {
			inRow := 0
			for ; inRow < 10 && together(t, g); inRow++ {
			}
			if inRow == 10 {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: it never decides: %+v", what, g.Stats())
			}
			time.Sleep(time.Millisecond)
		}
	}
	decided("at 15 ms")
	away(60 * time.Millisecond)
	decided("at 60 ms")
	if s := g.Stats(); s.Distance < 60*time.Millisecond {
		t.Errorf("%+v of a store that is 60 ms away", s)
	}
	away(0)
	decided("at 0 ms")
}

package guardtest

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/guard"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/memcachestore"
	"github.com/weir-limit/weir/redisstore"
)

// TestBadCount: a count that can't be read is decided by its fallback, and all
// others by the store.
func TestBadCount(t *testing.T) {
	redis, cached := redistest.Start(t, "timeout", "0"), memcachedtest.Start(t, "-m", "8")
	inRedis, err := redisstore.Dial("redis://" + redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inRedis.Close() }) // its server is gone
	inMemcached, err := memcachestore.Dial("memcached://"+cached.Addr, memcachestore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inMemcached.Close() })
	redis.Ask(t, "RPUSH", "weir:{r:list}", "x")
	redis.Ask(t, "SET", "weir:{r:text}", strings.Repeat("x", 1<<14))
	if answer := cached.Ask(t, "set weir:r:text 0 60 4\r\ntext"); answer != "STORED\r\n" {
		t.Fatal(answer)
	}
	for name, store := range map[string]weir.Store{"redis": inRedis, "memcached": inMemcached} {
		g := guard.New(store, guard.Options{Changed: func(_ string, away error) { t.Errorf("%s: away: %v", name, away) }})
		for end := time.Now().Add(5 * time.Second); store.Take(t.Context(), ask("9/h", ""), make([]weir.Decision, 1)) != nil && time.Now().Before(end); {
			time.Sleep(time.Millisecond) // until it is connected
		}
		for _, key := range []string{"list", "text"} {
			for _, limit := range []string{"9/h", "9/h fixed-window"} {
				for range 2 * guard.Enough {
					bad := ask(limit, weir.FallbackOpen)
					bad[0].State.Key = key
					if d := take(t, g, bad); name == "redis" && d.Degraded != weir.FallbackOpen || key == "text" && d.Degraded == "" {
						t.Errorf("%s, %s of a key that holds a %s: %+v", name, limit, key, d)
					}
				}
			}
		}
		if d := take(t, g, ask("9/h", "")); d.Degraded != "" {
			t.Errorf("%s, another key: %+v", name, d)
		}
	}
}

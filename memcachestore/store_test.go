package memcachestore

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/proxytest"
	"github.com/weir-limit/weir/internal/record"
	"github.com/weir-limit/weir/storetest"
)

// timed is a store whose time is the test's. It is for one goroutine.
type timed struct {
	*Store
	now *atomic.Int64
}

func (s timed) at(now weir.Instant) {
	s.now.Store(int64(now))
	s.At(func() weir.Instant { return weir.Instant(s.now.Load()) }, time.Hour)
}

func (s timed) TakeAt(now weir.Instant, asks []weir.Ask, out []weir.Decision) error {
	s.at(now)
	return s.Take(context.Background(), asks, out)
}

func (s timed) SettleAt(now weir.Instant, settlements []weir.Settlement) error {
	s.at(now)
	return s.Settle(context.Background(), settlements)
}

func (s timed) ResetAt(now weir.Instant, keys []weir.StateKey) error {
	s.at(now)
	return s.Reset(context.Background(), keys)
}

// open opens a store. Those of one server, as it was started, and one name share
// their items; no others do.
func open(t testing.TB, server *memcachedtest.Server, name string) *Store {
	t.Helper()
	s, err := Dial("memcached://"+server.Addr, Options{Prefix: "t" + strconv.FormatUint(hash(fmt.Sprintf("%p", server)+name), 36) + ":"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// run makes names unlike those of other runs against the same server.
var run = strconv.FormatInt(time.Now().UnixNano(), 36)

func hash(name string) uint64 {
	h := uint64(14695981039346656037)
	for _, b := range []byte(run + name) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return record.Mix(h)
}

func TestStore(t *testing.T) {
	server := memcachedtest.Start(t)
	var prefixes []string
	timedOf := func(s *Store) storetest.Clocked {
		prefixes = append(prefixes, s.prefix)
		return timed{s, new(atomic.Int64)}
	}
	storetest.Run(t, "../testdata/vectors", func(t testing.TB, name string) storetest.Clocked {
		return timedOf(open(t, server, name))
	}, storetest.Options{
		Immortal: func(t testing.TB) []string { return server.Immortal(t, prefixes...) },
		Dying: func(t testing.TB, name string, steps int) storetest.Clocked {
			left := steps
			addr := proxytest.Start(t, server.Addr, func(_ bool, b []byte) (int, bool) {
				if left--; left < 0 {
					return 0, true
				}
				return len(b), false
			})
			s, err := Dial("memcached://"+addr, Options{Prefix: open(t, server, name).prefix})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return timedOf(s)
		},
	})
}

package redisstore

import (
	"context"
	"strconv"
	"testing"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/storetest"
)

// timed is a store whose time is the test's. It is for one goroutine.
type timed struct{ *Store }

func (s timed) at(now weir.Instant) { s.now = strconv.FormatInt(int64(now), 10) }

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

func connect(t testing.TB, addr string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableRetry: true, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestStore(t *testing.T) {
	client := connect(t, redistest.Start(t).Addr)
	storetest.Run(t, "../testdata/vectors", func(t testing.TB, name string) storetest.Clocked {
		s := New(client, Options{Prefix: "test:" + name + ":"})
		t.Cleanup(func() {
			if st := s.Stats(); st.Disagreed > 0 {
				t.Errorf("script and package disagreed: %+v", st)
			}
		})
		return timed{s}
	})
}

package natsstoretest

import (
	"context"
	"errors"
	"hash/fnv"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/internal/proxytest"
	"github.com/weir-limit/weir/natsstore"
	"github.com/weir-limit/weir/storetest"
)

// timed is a store whose time is the test's. It is for one goroutine.
type timed struct {
	*natsstore.Store
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

// dial makes a store, which ends with the test.
func dial(t testing.TB, url string) *natsstore.Store {
	t.Helper()
	s, err := natsstore.Dial(url, natsstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// bucketOf is a bucket for what a test has under a name.
func bucketOf(name string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash takes all
	return "t" + strconv.FormatUint(h.Sum64(), 36)
}

func TestStore(t *testing.T) {
	storetest.Fewer(t, 30) // each history has a bucket of its own, which servers take their time to make
	runSuite(t, natstest.Start(t).Addr, "")
}

// TestStoreOfThree is without a process that dies, for what it says is the same.
func TestStoreOfThree(t *testing.T) {
	storetest.Fewer(t, 10)
	runSuite(t, natstest.StartCluster(t, 3).Addrs(), "&replicas=3")
}

func runSuite(t *testing.T, addr, options string) {
	var unseen []string // buckets in which nothing was looked at yet
	open := func(t testing.TB, addr, name string) timed {
		t.Helper()
		bucket := bucketOf(name)
		unseen = append(unseen, bucket)
		return timed{dial(t, "nats://"+addr+"?bucket="+bucket+options), new(atomic.Int64)}
	}
	js := connect(t, addr)
	o := storetest.Options{Immortal: func(t testing.TB) (keys []string) {
		for _, bucket := range unseen {
			keys = append(keys, immortal(t, js, bucket)...)
		}
		unseen = nil
		return keys
	}}
	if !strings.Contains(addr, ",") {
		o.Dying = func(t testing.TB, name string, steps int) storetest.Clocked {
			var left atomic.Int64
			left.Store(math.MaxInt64) // what is said before the first take is no step of it
			s := open(t, proxytest.Start(t, addr, func(_ bool, b []byte) (int, bool) {
				if left.Add(-1) < 0 {
					return 0, true
				}
				return len(b), false
			}), name)
			if err := s.Ping(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			left.Store(int64(steps))
			return s
		}
	}
	storetest.Run(t, "../../../../testdata/vectors", func(t testing.TB, name string) storetest.Clocked {
		return open(t, addr, name)
	}, o)
}

// immortal are keys of a bucket that would stay for ever.
func immortal(t testing.TB, js jetstream.JetStream, bucket string) (keys []string) {
	s, err := js.Stream(t.Context(), "KV_"+bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil // nothing was done in it
	}
	if err != nil {
		t.Fatal(err)
	}
	state := s.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err == nil && m.Header.Get("Nats-TTL") == "" {
			keys = append(keys, m.Subject)
		}
	}
	return keys
}

func connect(t testing.TB, addr string) jetstream.JetStream {
	t.Helper()
	c, err := nats.Connect("nats://" + strings.ReplaceAll(addr, ",", ",nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	js, err := jetstream.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

package redisstore

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/proxytest"
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

// opener opens stores of a server for storetest, and finds the keys that would stay
// for ever.
type opener struct {
	client  rueidis.Client
	nodes   []rueidis.Client // of each server by itself
	prefix  string
	cluster bool
	general bool
}

func (o *opener) open(t testing.TB, name string) storetest.Clocked { return o.with(t, o.client, name) }

func (o *opener) with(t testing.TB, client rueidis.Client, name string) storetest.Clocked {
	s := New(client, Options{Prefix: o.prefix + name + ":", Cluster: o.cluster})
	s.general = o.general
	t.Cleanup(func() {
		if st := s.Stats(); st.Disagreed > 0 {
			t.Errorf("script and package disagreed: %+v", st)
		}
	})
	return timed{s}
}

func (o *opener) immortal(t testing.TB) (keys []string) {
	for _, node := range o.nodes {
		for key, ms := range ttls(t, node, o.prefix) {
			if ms == -1 {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// dying is a store on whose connection so many pieces go either way.
func (o *opener) dying(t testing.TB, addr, name string, steps int) storetest.Clocked {
	var left atomic.Int64
	left.Store(math.MaxInt64)
	client := connect(t, proxytest.Start(t, addr, func(_ bool, b []byte) (int, bool) {
		if left.Add(-1) < 0 {
			return 0, true
		}
		return len(b), false
	}))
	left.Store(int64(steps))
	return o.with(t, client, name)
}

// TestValkey holds a store in Valkey to the contract, and has the doctor name it. A process that
// crashes is left out: that takes most of the time, and looks the same to every server.
func TestValkey(t *testing.T) {
	t.Parallel()
	addr := redistest.StartValkey(t).Addr
	client := connect(t, addr)
	e, err := Examine(t.Context(), "redis://"+addr)
	if err != nil || !strings.HasPrefix(e.Nodes[0].Version, "Valkey ") {
		t.Errorf("%+v, %v", e, err)
	}
	o := &opener{client: client, nodes: []rueidis.Client{client}, prefix: "test:"}
	storetest.Run(t, "../testdata/vectors", o.open, storetest.Options{Immortal: o.immortal})
}

// runSuite holds stores of a server that is one to the contract.
func runSuite(t *testing.T, prefix string, general bool) {
	addr := redistest.Start(t).Addr
	client := connect(t, addr)
	o := &opener{client: client, nodes: []rueidis.Client{client}, prefix: prefix, general: general}
	storetest.Run(t, "../testdata/vectors", o.open, storetest.Options{Immortal: o.immortal, Dying: func(t testing.TB, name string, steps int) storetest.Clocked {
		return o.dying(t, addr, name, steps)
	}})
}

func TestStore(t *testing.T) {
	t.Parallel() // with the same suite on other servers: each waits for its own
	runSuite(t, "test:", false)
}

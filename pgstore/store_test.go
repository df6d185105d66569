package pgstore

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cas"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/proxytest"
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

// dial opens a store, and closes it with the test.
func dial(t testing.TB, of string) *Store {
	t.Helper()
	s, err := Dial(of, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// dialPatiently is dial for tests whose many connections begin at once: on a busy machine that takes
// the server longer than a host may take by default.
func dialPatiently(t testing.TB, of string) *Store {
	t.Helper()
	return dial(t, with(t, of, "connect_timeout", "30"))
}

// with is the URL of a database with an option more.
func with(t testing.TB, of, name, value string) string {
	t.Helper()
	u, err := url.Parse(of)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = q.Encode()
	return u.String()
}

// unclosed are cells that outlive the engines over them.
type unclosed struct{ *cells }

func (unclosed) Close() {}

// named is a store over cells that others have, too. Those of one name share their rows.
func named(c *cells, space string) storetest.Clocked {
	space = fmt.Sprintf("%x!", space)
	s := &Store{cells: c, decides: cas.New(engine(c, unclosed{c}, func(k weir.StateKey) string { return space + name(k) }))}
	return timed{s, new(atomic.Int64)}
}

func TestStore(t *testing.T) {
	server := postgrestest.Common(t)
	database := server.Database(t)
	processes := []*cells{dial(t, database).cells, dial(t, database).cells}
	opened, dead := 0, (*cells)(nil)
	storetest.Run(t, "../testdata/vectors", func(_ testing.TB, name string) storetest.Clocked {
		opened++
		return named(processes[opened%len(processes)], name)
	}, storetest.Options{
		Immortal: func(t testing.TB) []string {
			return strings.Fields(server.Query(t, database, "select k from weir where until > now() + interval '1000 years'"))
		},
		Dying: func(t testing.TB, name string, steps int) storetest.Clocked {
			left := steps
			addr := proxytest.Start(t, server.Addr, func(_ bool, b []byte) (int, bool) {
				if left--; left < 0 {
					return 0, true
				}
				return len(b), false
			})
			if dead != nil {
				dead.Close()
			}
			dead = dial(t, with(t, strings.Replace(database, server.Addr, addr, 1), "connections", "1")).cells
			return named(dead, name)
		},
	})
}

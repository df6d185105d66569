// Command lendtest lends a store whose clock is its client's, as weir serve --grpc-store
// lends one that has its own. The tests of package client build it and ask it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/rls"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/redisstore"
)

func main() {
	redis := flag.String("redis", "", "the `ADDRESS` of a Redis that keeps the counts (default this process)")
	flag.Parse()
	if err := lendStore(*redis); err != nil {
		fmt.Fprintln(os.Stderr, "lendtest:", err)
		os.Exit(1)
	}
}

// lendStore serves gRPC, and says where.
func lendStore(redis string) error {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go endWithParent()
	fmt.Println(l.Addr())
	return rls.New(nil, rls.Options{Store: &rls.Lending{Store: &switched{redis: redis, stores: map[string]lent{}}, Rules: func(int, bool) {}}}).Serve(l)
}

// endWithParent ends this process when its parent ends, in whatever way: the parent holds the
// other end of standard input.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// lent is a store whose time is the test's, once set is called with one.
type lent interface {
	weir.Store
	set(now weir.Instant)
}

// newLent is a store of this name.
func newLent(redis, name string) (lent, error) {
	if redis == "" {
		return &timed{Store: memstore.New(memstore.Options{})}, nil
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis}, ForceSingleClient: true, DisableRetry: true, DisableCache: true})
	if err != nil {
		return nil, err
	}
	return inRedis{redisstore.New(client, redisstore.Options{Prefix: name + ":"})}, nil
}

// inRedis is a store in Redis.
type inRedis struct{ *redisstore.Store }

// set sets a field that only tests set, and that only those of its own package could
// without this.
func (s inRedis) set(now weir.Instant) {
	field := reflect.ValueOf(s.Store).Elem().FieldByName("now")
	*(*string)(field.Addr().UnsafePointer()) = strconv.FormatInt(int64(now), 10)
}

// timed is a store in memory at a time of the test's; before there is any, by the
// wall clock.
type timed struct {
	*memstore.Store

	mu  sync.Mutex
	is  bool
	now weir.Instant
}

func (s *timed) set(now weir.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.is = now, true
}

// at is the time, and whether the test has set it.
func (s *timed) at() (weir.Instant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.is
}

func (s *timed) Look(ctx context.Context, asks []weir.Ask) (weir.Instant, []weir.State, error) {
	now, set := s.at()
	if !set {
		return s.Store.Look(ctx, asks)
	}
	states, err := s.LookAt(now, asks)
	return now, states, err
}

func (s *timed) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	if now, set := s.at(); set {
		return s.TakeAt(now, asks, out)
	}
	return s.Store.Take(ctx, asks, out)
}

func (s *timed) Settle(ctx context.Context, settlements []weir.Settlement) error {
	if now, set := s.at(); set {
		return s.SettleAt(now, settlements)
	}
	return s.Store.Settle(ctx, settlements)
}

func (s *timed) Reset(ctx context.Context, keys []weir.StateKey) error {
	if now, set := s.at(); set {
		return s.ResetAt(now, keys)
	}
	return s.Store.Reset(ctx, keys)
}

// switched is several stores; a Reset of switchRule says which is meant from then on,
// and what time it is there.
type switched struct {
	redis string // its address; empty: counts are kept in memory

	mu      sync.Mutex
	stores  map[string]lent
	current lent
}

const switchRule = "client\x00switch"

func (s *switched) Traits() weir.Traits {
	if s.redis != "" {
		return redisstore.TraitsOf(false)
	}
	return memstore.New(memstore.Options{}).Traits()
}

func (s *switched) is() lent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func (s *switched) Take(ctx context.Context, asks []weir.Ask, out []weir.Decision) error {
	return s.is().Take(ctx, asks, out)
}

func (s *switched) Settle(ctx context.Context, settlements []weir.Settlement) error {
	return s.is().Settle(ctx, settlements)
}

func (s *switched) Reset(ctx context.Context, keys []weir.StateKey) error {
	if keys[0].Rule != switchRule {
		return s.is().Reset(ctx, keys)
	}
	name, text, _ := strings.Cut(keys[0].Key, "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stores[name] == nil {
		own, err := newLent(s.redis, name)
		if err != nil {
			return err
		}
		s.stores[name] = own
	}
	s.current = s.stores[name]
	if text == "" {
		return nil
	}
	at, err := strconv.ParseInt(text, 10, 64)
	s.current.set(weir.Instant(at))
	return err
}

// Package xdstest is a control plane for tests, made of the library that real ones are made of.
package xdstest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/prototext"
)

// Node is the node that it knows.
const Node = "envoy-ratelimit"

// Control is a control plane made of the library of those that there are, as Envoy Gateway's is. It keeps its address when it is started
// again. It is made by Start.
type Control struct {
	t       testing.TB
	Address string
	TLS     *tls.Config // nil: it speaks without

	mu        sync.Mutex
	cache     cache.SnapshotCache
	server    *grpc.Server
	requests  []*discoveryv3.DiscoveryRequest // of all streams
	streams   int
	responses int
	version   int
}

// Start starts a control plane that shows what config says, until the test ends. It knows nothing yet.
func Start(t testing.TB, config *tls.Config) *Control {
	t.Helper()
	c := &Control{t: t, TLS: config}
	c.Start()
	t.Cleanup(c.Stop)
	return c
}

// Start starts it again; it knows nothing yet.
func (c *Control) Start() {
	c.t.Helper()
	address := c.Address
	if address == "" {
		address = "127.0.0.1:0"
	}
	var l net.Listener
	Soon(c.t, func() string {
		var err error
		if l, err = new(net.ListenConfig).Listen(context.Background(), "tcp", address); err != nil {
			return err.Error()
		}
		return ""
	})
	shows := insecure.NewCredentials()
	if c.TLS != nil {
		shows = credentials.NewTLS(c.TLS)
	}
	s := grpc.NewServer(grpc.Creds(shows), grpc.MaxSendMsgSize(1<<30))
	c.mu.Lock()
	c.Address, c.server, c.cache, c.version = l.Addr().String(), s, cache.NewSnapshotCache(false, cache.IDHash{}, nil), 0
	ads := server.NewServer(context.Background(), c.cache, server.CallbackFuncs{
		StreamOpenFunc: func(context.Context, int64, string) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.streams++
			return nil
		},
		StreamResponseFunc: func(context.Context, int64, *discoveryv3.DiscoveryRequest, *discoveryv3.DiscoveryResponse) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.responses++
		},
		StreamRequestFunc: func(_ int64, q *discoveryv3.DiscoveryRequest) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.requests = append(c.requests, q)
			return nil
		},
	})
	c.mu.Unlock()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, ads)
	go func() { _ = s.Serve(l) }()
}

// Stop ends it at once, with all streams.
func (c *Control) Stop() {
	c.mu.Lock()
	s := c.server
	c.mu.Unlock()
	s.Stop()
}

// Set gives all nodes other resources, as messages in text.
func (c *Control) Set(configs ...string) {
	c.t.Helper()
	var all []types.Resource
	for _, text := range configs {
		all = append(all, Config(c.t, text))
	}
	c.Put(all...)
}

// Put is Set of messages.
func (c *Control) Put(all ...types.Resource) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	s, err := cache.NewSnapshot(fmt.Sprint(c.version), map[resource.Type][]types.Resource{resource.RateLimitConfigType: all})
	if err == nil {
		err = c.cache.SetSnapshot(context.Background(), Node, s)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// Last is the last request that answers an answer.
func (c *Control) Last() *discoveryv3.DiscoveryRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range slices.Backward(c.requests) {
		if q.GetResponseNonce() != "" {
			return q
		}
	}
	return &discoveryv3.DiscoveryRequest{}
}

// Config is a resource from its text. Its name is its domain, unless it says another.
func Config(t testing.TB, text string) *rlsv3.RateLimitConfig {
	t.Helper()
	c := new(rlsv3.RateLimitConfig)
	if err := prototext.Unmarshal([]byte(text), c); err != nil {
		t.Fatal(err)
	}
	if c.GetName() == "" {
		c.Name = c.GetDomain()
	}
	return c
}

// Scan is the form of what Limit makes.
const Scan = `domain: %q descriptors { key: "user" rate_limit { unit: MINUTE requests_per_unit: %d } }`

// Limit is a domain with one rule.
func Limit(domain string, perMinute int) string {
	return fmt.Sprintf(Scan, domain, perMinute)
}

// Soon waits until there is nothing to say.
func Soon(t testing.TB, missing func() string) {
	t.Helper()
	var last string
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if last = missing(); last == "" {
			return
		}
	}
	t.Fatal(last)
}

// Responses is how many answers it has sent, on all streams.
func (c *Control) Responses() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.responses
}

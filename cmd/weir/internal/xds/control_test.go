package xds

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
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

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

const node = "envoy-ratelimit"

// control is a control plane made of the library of those that there are, as Envoy Gateway's is. It keeps its address when it is started
// again.
type control struct {
	t       testing.TB
	address string
	tls     *tls.Config // nil: it speaks without

	mu        sync.Mutex
	cache     cache.SnapshotCache
	server    *grpc.Server
	requests  []*discoveryv3.DiscoveryRequest // of all streams
	streams   int
	responses int
	version   int
}

func startControl(t testing.TB, config *tls.Config) *control {
	t.Helper()
	c := &control{t: t, tls: config}
	c.start()
	t.Cleanup(c.stop)
	return c
}

// start starts it; it knows nothing yet.
func (c *control) start() {
	c.t.Helper()
	address := c.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	var l net.Listener
	soon(c.t, func() string {
		var err error
		if l, err = net.Listen("tcp", address); err != nil {
			return err.Error()
		}
		return ""
	})
	shows := insecure.NewCredentials()
	if c.tls != nil {
		shows = credentials.NewTLS(c.tls)
	}
	s := grpc.NewServer(grpc.Creds(shows), grpc.MaxSendMsgSize(1<<30))
	c.mu.Lock()
	c.address, c.server, c.cache, c.version = l.Addr().String(), s, cache.NewSnapshotCache(false, cache.IDHash{}, nil), 0
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

// stop ends it at once, with all streams.
func (c *control) stop() {
	c.mu.Lock()
	s := c.server
	c.mu.Unlock()
	s.Stop()
}

// set gives all nodes other resources, as messages in text.
func (c *control) set(configs ...string) {
	c.t.Helper()
	var all []types.Resource
	for _, text := range configs {
		all = append(all, config(c.t, text))
	}
	c.put(all...)
}

func (c *control) put(all ...types.Resource) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	s, err := cache.NewSnapshot(fmt.Sprint(c.version), map[resource.Type][]types.Resource{resource.RateLimitConfigType: all})
	if err == nil {
		err = c.cache.SetSnapshot(context.Background(), node, s)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// last is the last request that answers an answer.
func (c *control) last() *discoveryv3.DiscoveryRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range slices.Backward(c.requests) {
		if q.GetResponseNonce() != "" {
			return q
		}
	}
	return &discoveryv3.DiscoveryRequest{}
}

func config(t testing.TB, text string) *rlsv3.RateLimitConfig {
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

// limit is a domain with one rule.
func limit(domain string, perMinute int) string {
	return fmt.Sprintf(`domain: %q descriptors { key: "user" rate_limit { unit: MINUTE requests_per_unit: %d } }`, domain, perMinute)
}

// soon waits until there is nothing to say.
func soon(t testing.TB, missing func() string) {
	t.Helper()
	var last string
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if last = missing(); last == "" {
			return
		}
	}
	t.Fatal(last)
}

// impatient is a pace for tests.
func impatient() pace {
	p := usualPace()
	p.again = weir.Backoff{First: 10 * time.Millisecond, Most: 50 * time.Millisecond}
	p.refuse = weir.Backoff{First: 10 * time.Millisecond, Most: 50 * time.Millisecond}
	p.between = 10 * time.Millisecond
	return p
}

// node's rules, as a daemon has them.
type follower struct {
	t    testing.TB
	s    *Source
	mu   sync.Mutex
	set  *rules.Set
	err  error
	told int // how often anything was
}

// follow loads the rules of a URL and watches them. more is options of the URL, or hold, silence and refuse: what tests
// have less patience with.
func follow(t testing.TB, c *control, more ...string) *follower {
	t.Helper()
	f, err := tryFollow(t, c, more...)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func tryFollow(t testing.TB, c *control, more ...string) (*follower, error) {
	t.Helper()
	url := "xds://" + c.address + "?node=" + node
	quick, hold := impatient(), 500*time.Millisecond
	more = slices.DeleteFunc(slices.Clone(more), func(o string) bool {
		name, text, _ := strings.Cut(o, "=")
		d, _ := time.ParseDuration(text)
		switch name {
		case "hold":
			hold = d
		case "silence":
			quick.silence = d
		case "refuse":
			quick.refuse = weir.Backoff{First: d, Most: d}
		default:
			return false
		}
		return true
	})
	if !slices.ContainsFunc(more, func(o string) bool { return strings.HasPrefix(o, "last=") }) {
		more = append(more, "last="+filepath.Join(t.TempDir(), "last"))
	}
	s, err := Open(url+"&"+strings.Join(more, "&"), Options{NotKept: func(err error) { t.Log(err) }})
	if err != nil {
		return nil, err
	}
	s.pace, s.book.hold = quick, hold
	f := &follower{t: t, s: s}
	if f.set, f.err = s.Load(t.Context()); f.set == nil && f.err != nil {
		return nil, f.err
	}
	ctx, stop := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		s.Watch(ctx, func(set *rules.Set, err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.told++
			if f.err = err; set != nil {
				f.set = set
			}
		})
	})
	t.Cleanup(func() {
		stop()
		watching.Wait()
	})
	return f, nil
}

func (f *follower) now() (*rules.Set, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.set, f.err
}

// rules is the rules that are active, as NAME LIMIT, …
func (f *follower) rules() string {
	set, _ := f.now()
	return told(set)
}

func told(set *rules.Set) string {
	var all []string
	for _, r := range set.Rules() {
		all = append(all, r.Name+" "+r.Limit.String())
	}
	return strings.Join(all, ", ")
}

// want waits until these rules are active, and nothing is wrong, or what is has this in its text.
func (f *follower) want(rules, wrong string) {
	f.t.Helper()
	soon(f.t, func() string {
		_, err := f.now()
		switch is := f.rules(); {
		case is != rules:
			return fmt.Sprintf("active: %q, want %q; error %v", is, rules, err)
		case wrong == "" && err != nil, wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			return fmt.Sprintf("wrong: %v, want %q", err, wrong)
		}
		return ""
	})
}

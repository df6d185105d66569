package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"gopkg.in/yaml.v3"
)

// The nodes that the control plane of the golden files has.
const (
	nodeWeir = "weir"
	nodePeer = "ratelimit"
)

// config is a configuration as Envoy Gateway's tests write it.
type config struct {
	Name, Domain string
	Descriptors  []descriptor
}

type descriptor struct {
	Key, Value string
	RateLimit  *struct {
		RequestsPerUnit uint32 `yaml:"requests_per_unit"`
		Unit, Name      string
		Unlimited       bool
	} `yaml:"rate_limit"`
	Descriptors    []descriptor
	ShadowMode     bool `yaml:"shadow_mode"`
	QuotaMode      bool `yaml:"quota_mode"`
	DetailedMetric bool `yaml:"detailed_metric"`
}

// messages are what Envoy Gateway sends of a golden file. Its domains get a name of this file, so that counts of
// files don't mix; and seconds and minutes become hours, so that both servers see one window.
func messages(file string) (all []*rlsv3.RateLimitConfig, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var c config
		if err := d.Decode(&c); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if c.Domain == "" {
			continue // of a listener without limits
		}
		name := c.Domain + "/" + strings.TrimSuffix(filepath.Base(file), ".yaml")
		all = append(all, &rlsv3.RateLimitConfig{Name: name, Domain: name, Descriptors: descriptors(c.Descriptors)})
	}
}

func descriptors(list []descriptor) (all []*rlsv3.RateLimitDescriptor) {
	for _, d := range list {
		m := &rlsv3.RateLimitDescriptor{
			Key: d.Key, Value: d.Value, Descriptors: descriptors(d.Descriptors),
			ShadowMode: d.ShadowMode, QuotaMode: d.QuotaMode, DetailedMetric: d.DetailedMetric,
		}
		if l := d.RateLimit; l != nil {
			unit := rlsv3.RateLimitUnit(rlsv3.RateLimitUnit_value[l.Unit])
			if unit == rlsv3.RateLimitUnit_SECOND || unit == rlsv3.RateLimitUnit_MINUTE {
				unit = rlsv3.RateLimitUnit_HOUR
			}
			m.RateLimit = &rlsv3.RateLimitPolicy{Unit: unit, RequestsPerUnit: l.RequestsPerUnit, Unlimited: l.Unlimited, Name: l.Name}
		}
		all = append(all, m)
	}
	return all
}

// question is a request, and how often it is asked.
type question struct {
	domain  string
	entries []entry
	times   int
}

// questions are about each limit until it is spent, and about what is beside it: another value, and a part of the way.
func questions(domain string, list []*rlsv3.RateLimitDescriptor, way []entry) (all []question) {
	const most = 20
	for _, d := range list {
		for _, value := range []string{"ann", "bob"} {
			if d.GetValue() != "" {
				if value == "bob" {
					break
				}
				value = d.GetValue()
			}
			here := append(way[:len(way):len(way)], entry{d.GetKey(), value})
			times := 1
			if n := d.GetRateLimit().GetRequestsPerUnit(); n < most {
				times = int(n) + 2
			}
			beside := append(way[:len(way):len(way)], entry{d.GetKey(), "other" + value}, entry{"more", "more"})
			all = append(all, question{domain, here, times}, question{domain, beside[:len(beside)-1], 1}, question{domain, beside, 1})
			all = append(all, questions(domain, d.GetDescriptors(), here)...)
		}
	}
	return all
}

// plane is a control plane of the golden files.
type plane struct {
	cache   cache.SnapshotCache
	address string

	mu    sync.Mutex
	heard map[string]*discoveryv3.DiscoveryRequest // by node
}

func startPlane(ctx context.Context) (*plane, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &plane{cache: cache.NewSnapshotCache(false, cache.IDHash{}, nil), address: l.Addr().String(), heard: map[string]*discoveryv3.DiscoveryRequest{}}
	s := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, serverv3.NewServer(ctx, p.cache, serverv3.CallbackFuncs{
		StreamRequestFunc: func(_ int64, q *discoveryv3.DiscoveryRequest) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.heard[q.GetNode().GetId()] = q
			return nil
		},
	}))
	go func() { _ = s.Serve(l) }()
	context.AfterFunc(ctx, s.Stop)
	return p, nil
}

// set gives both nodes a version, and waits until each has taken or refused it. refused is what each says that does not take it.
func (p *plane) set(ctx context.Context, version string, all []*rlsv3.RateLimitConfig, servers ...*server) (refused map[string]string, err error) {
	var list []types.Resource
	for _, m := range all {
		list = append(list, m)
	}
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: list})
	if err != nil {
		return nil, err
	}
	refused = map[string]string{}
	for _, s := range servers {
		if err := p.cache.SetSnapshot(ctx, s.name, snapshot); err != nil {
			return nil, err
		}
	}
	for _, s := range servers {
		err := await(ctx, s.process, func() string {
			p.mu.Lock()
			defer p.mu.Unlock()
			q := p.heard[s.name]
			if detail := q.GetErrorDetail(); detail != nil {
				refused[s.name] = detail.GetMessage()
				return ""
			}
			if q.GetVersionInfo() != version {
				return s.name + " has not taken version " + version
			}
			return ""
		})
		if err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// tryGolden asks Weir and envoyproxy/ratelimit the same, under each golden file.
func tryGolden(ctx context.Context, b *built) (faults int, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	module, err := command(ctx, ".", "off", "go", "list", "-m", "-f", "{{.Dir}}", gatewayModule)
	if err != nil {
		return 0, err
	}
	files, err := filepath.Glob(filepath.Join(module, "internal/xds/translator/testdata/out/ratelimit-config/*.yaml"))
	if err != nil {
		return 0, err
	}
	p, err := startPlane(ctx)
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "envoygateway-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if _, err := p.set(ctx, "0", nil); err != nil {
		return 0, err
	}
	weir, err := startWeir(ctx, b, "xds://"+p.address+"?node="+nodeWeir+"&force-start=true&wait=1ms&last="+filepath.Join(dir, "last"))
	if err != nil {
		return 0, err
	}
	defer weir.stop()
	peer, stopPeer, err := startPeer(ctx, b, p.address, dir)
	if err != nil {
		return 0, err
	}
	defer stopPeer()
	tried, asked := 0, 0
	for _, file := range files {
		if strings.HasSuffix(file, ".routes.yaml") {
			continue
		}
		name := filepath.Base(file)
		all, err := messages(file)
		if err != nil {
			return 0, err
		}
		tried++
		refused, err := p.set(ctx, fmt.Sprint(tried), all, weir, peer)
		if err != nil {
			return 0, err
		}
		if len(refused) > 0 {
			faults++
			fmt.Printf("golden   %s: FAULT: refused: %v\n", name, refused)
			continue
		}
		n, different, err := compare(ctx, weir, peer, all)
		if err != nil {
			return 0, err
		}
		asked += n
		for _, d := range different {
			faults++
			fmt.Printf("golden   %s: FAULT: %s\n", name, d)
		}
	}
	fmt.Printf("golden   %d configurations loaded by both, %d requests answered, %d differences\n", tried, asked, faults)
	if tried == 0 {
		return 0, errors.New("there are no golden files")
	}
	return faults, nil
}

// compare asks both servers all questions about configurations.
func compare(ctx context.Context, weir, peer *server, all []*rlsv3.RateLimitConfig) (asked int, different []string, err error) {
	for _, m := range all {
		for _, q := range questions(m.GetDomain(), m.GetDescriptors(), nil) {
			for i := range q.times {
				w, err := weir.ask(ctx, q.domain, q.entries)
				if err != nil {
					return asked, nil, err
				}
				p, err := peer.ask(ctx, q.domain, q.entries)
				if err != nil {
					return asked, nil, err
				}
				asked++
				if a, b := said(w), said(p); a != b {
					different = append(different, fmt.Sprintf("%s %s, request %d: weir %s, ratelimit %s", q.domain, text(q.entries), i+1, a, b))
				}
			}
		}
	}
	return asked, different, nil
}

// said is what is compared of an answer: not when the window ends, nor what is left of a limit that refuses (D4, D5 of docs/envoy.md).
func said(a *rls.RateLimitResponse) string {
	text := a.GetOverallCode().String()
	for _, s := range a.GetStatuses() {
		text += fmt.Sprintf(" %s %v/%v", s.GetCode(), s.GetCurrentLimit().GetRequestsPerUnit(), s.GetCurrentLimit().GetUnit())
		if s.GetCode() == rls.RateLimitResponse_OK {
			text += fmt.Sprintf(" remaining %d", s.GetLimitRemaining())
		}
	}
	return text
}

// startPeer starts envoyproxy/ratelimit with a Redis of its own.
func startPeer(ctx context.Context, b *built, control, dir string) (_ *server, stop func(), err error) {
	var ports [4]string
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return nil, nil, err
		}
	}
	redis, err := start(ctx, nil, "redis-server", "--port", ports[0], "--bind", "127.0.0.1", "--save", "", "--dir", dir)
	if err != nil {
		return nil, nil, fmt.Errorf("envoyproxy/ratelimit needs a Redis: %w; install redis-server", err)
	}
	err = await(ctx, redis, func() string {
		conn, err := net.DialTimeout("tcp", "127.0.0.1:"+ports[0], time.Second)
		if err != nil {
			return err.Error()
		}
		_ = conn.Close()
		return ""
	})
	if err != nil {
		redis.stop()
		return nil, nil, err
	}
	p, err := start(ctx, []string{
		"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL=" + control, "CONFIG_GRPC_XDS_NODE_ID=" + nodePeer, "FORCE_START_WITHOUT_INITIAL_CONFIG=true",
		"REDIS_SOCKET_TYPE=tcp", "REDIS_URL=127.0.0.1:" + ports[0], "USE_STATSD=false", "LOG_LEVEL=warn",
		"HOST=127.0.0.1", "PORT=" + ports[1], "GRPC_HOST=127.0.0.1", "GRPC_PORT=" + ports[2], "DEBUG_HOST=127.0.0.1", "DEBUG_PORT=" + ports[3],
		"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=none",
	}, b.ratelimit)
	if err != nil {
		redis.stop()
		return nil, nil, err
	}
	calls, err := dial("127.0.0.1:" + ports[2])
	return &server{process: p, name: nodePeer, calls: calls}, func() { p.stop(); redis.stop() }, err
}

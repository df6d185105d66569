package e2e

import (
	"encoding/json"
	"path/filepath"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // it is in the file
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreams "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// TestEnvoyConfig reads deploy/envoy.yaml by Envoy's own types, with their
// checks, and asks weir what Envoy would ask. There is no Envoy where tests run.
func TestEnvoyConfig(t *testing.T) {
	t.Parallel()
	config := readEnvoy(t)
	manager := new(hcm.HttpConnectionManager)
	resources := config.GetStaticResources()
	unpack(t, resources.GetListeners()[0].GetFilterChains()[0].GetFilters()[0].GetTypedConfig(), manager)
	limits := new(filter.RateLimit)
	unpack(t, manager.GetHttpFilters()[0].GetTypedConfig(), limits)
	cluster := limits.GetRateLimitService().GetGrpcService().GetEnvoyGrpc().GetClusterName()
	found := false
	for _, c := range resources.GetClusters() {
		if c.GetName() == cluster {
			found = true
			options := new(upstreams.HttpProtocolOptions)
			unpack(t, c.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"], options)
			if options.GetExplicitHttpConfig().GetHttp2ProtocolOptions() == nil {
				t.Error("weir is not asked by HTTP/2")
			}
		}
	}
	if !found {
		t.Errorf("there is no cluster %s", cluster)
	}

	conn, err := grpc.NewClient(edge(t).grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	asked := 0
	for _, r := range manager.GetRouteConfig().GetVirtualHosts()[0].GetRoutes() {
		q := &rls.RateLimitRequest{Domain: limits.GetDomain()}
		for _, l := range r.GetRoute().GetRateLimits() {
			q.Descriptors = append(q.Descriptors, descriptor(t, l))
		}
		answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range answer.GetStatuses() {
			asked++
			if s.GetCurrentLimit() == nil {
				t.Errorf("no rule is for %v", q.GetDescriptors()[i])
			}
		}
	}
	if asked != 3 {
		t.Errorf("%d descriptors were asked", asked)
	}
}

func readEnvoy(t *testing.T) *bootstrap.Bootstrap {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal([]byte(recipe(t, filepath.Join(deploy, "envoy.yaml"))), &tree); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	config := new(bootstrap.Bootstrap)
	if err := protojson.Unmarshal(text, config); err != nil {
		t.Fatal(err)
	}
	if err := config.ValidateAll(); err != nil {
		t.Fatal(err)
	}
	return config
}

func unpack(t *testing.T, from *anypb.Any, to interface {
	proto.Message
	ValidateAll() error
},
) {
	t.Helper()
	if err := from.UnmarshalTo(to); err != nil {
		t.Fatal(err)
	}
	if err := to.ValidateAll(); err != nil {
		t.Fatal(err)
	}
}

// descriptor is what Envoy makes of a request, by its actions.
func descriptor(t *testing.T, l *route.RateLimit) *ratelimit.RateLimitDescriptor {
	t.Helper()
	d := new(ratelimit.RateLimitDescriptor)
	add := func(key, value string) {
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: key, Value: value})
	}
	for _, a := range l.GetActions() {
		switch {
		case a.GetGenericKey() != nil:
			add(a.GetGenericKey().GetDescriptorKey(), a.GetGenericKey().GetDescriptorValue())
		case a.GetRequestHeaders() != nil:
			add(a.GetRequestHeaders().GetDescriptorKey(), "ann")
		case a.GetRemoteAddress() != nil:
			add("remote_address", "192.0.2.1")
		default:
			t.Fatalf("what does Envoy make of %v?", a)
		}
	}
	return d
}

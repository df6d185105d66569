package envoy

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	ratelimitfilter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// TestPage: Envoy would take the configuration that docs/envoy.md shows.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	var chain manager.HttpConnectionManager
	var clusters bootstrap.Bootstrap_StaticResources
	for _, m := range regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$").FindAllSubmatch(page, -1) {
		switch {
		case strings.HasPrefix(string(m[1]), "http_filters:"):
			decode(t, m[1], &chain)
		case strings.HasPrefix(string(m[1]), "clusters:"):
			decode(t, m[1], &clusters)
		}
	}
	if len(clusters.Clusters) != 1 || len(chain.HttpFilters) != 3 {
		t.Fatalf("%v\n%v", &chain, &clusters)
	}
	for i, domain := range []string{"shop", "shop"} {
		var filter ratelimitfilter.RateLimit
		if err := chain.HttpFilters[i].GetTypedConfig().UnmarshalTo(&filter); err != nil {
			t.Fatal(err)
		}
		if err := filter.ValidateAll(); err != nil || filter.Domain != domain {
			t.Errorf("%v in %v", err, &filter)
		}
		if i == 0 && (filter.GetRateLimitService().GetGrpcService().GetEnvoyGrpc().GetClusterName() != clusters.Clusters[0].Name ||
			filter.GetFilterEnforced().GetDefaultValue().GetNumerator() != 0) {
			t.Errorf("the first filter is not Weir's in shadow: %v", &filter)
		}
	}
	if err := clusters.Clusters[0].ValidateAll(); err != nil {
		t.Error(err)
	}
}

func decode(t *testing.T, text []byte, into proto.Message) {
	t.Helper()
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	object, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(object, into); err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
}

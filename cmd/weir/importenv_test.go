package main

import (
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/importenv"
)

// TestImportedFlags: weir serve has all flags that import-env can name.
func TestImportedFlags(t *testing.T) {
	plan, err := importenv.Translate(map[string]string{
		"RESPONSE_DYNAMIC_METADATA": "true", "SHADOW_MODE": "true", "LIMIT_RESPONSE_HEADERS_ENABLED": "true", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED": "true",
		"USE_PROMETHEUS": "true", "USE_STATSD": "true", "EXTRA_TAGS": "a:b", "NEAR_LIMIT_RATIO": "0.5", "LOG_LEVEL": "debug", "LOG_FORMAT": "json",
		"GRPC_MAX_CONNECTION_AGE": "1h", "GRPC_CLIENT_TLS_SAN": "envoy",
		"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": "c", "GRPC_SERVER_TLS_KEY": "k", "GRPC_CLIENT_TLS_CACERT": "a",
	})
	if err != nil {
		t.Fatal(err)
	}
	flags := serveCommand().Flags()
	for _, a := range plan.Args {
		if flags.Lookup(a.Flag[2:]) == nil {
			t.Errorf("weir serve has no %s", a.Flag)
		}
	}
	if len(plan.Args) < 20 {
		t.Errorf("%d flags", len(plan.Args))
	}
}

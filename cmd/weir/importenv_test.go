package main

import (
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/importenv"
)

// TestImportedFlags: weir serve has all flags that import-env can name.
func TestImportedFlags(t *testing.T) {
	plan, err := importenv.Translate(map[string]string{
		"DEBUG_HOST": "0.0.0.0", "RESPONSE_DYNAMIC_METADATA": "true",
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
	if len(plan.Args) < 10 {
		t.Errorf("%d flags", len(plan.Args))
	}
}

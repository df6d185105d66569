package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/httplimit"
	"github.com/weir-limit/weir/memstore"
)

// The client waits for its own limit, and for the server's as its answers tell
// it: here the first is refused.
func ExampleTransport() {
	tries := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if tries++; tries == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()

	store := memstore.New(memstore.Options{})
	transport, err := httplimit.NewTransport(httplimit.TransportOptions{
		Limiter: weir.NewLimiter(store, "api", weir.MustParseLimit("10/s burst 20")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}

	resp, err := client.Post(server.URL, "text/plain", strings.NewReader("hello")) //nolint:noctx // Timeout bounds it
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode, "after", tries, "tries")
	// Output: 200 after 2 tries
}

// What users wait for goes before what runs at night, and each part of an API
// that has a limit of its own is a key of its own.
func ExampleTransportOptions() {
	transport, err := httplimit.NewTransport(httplimit.TransportOptions{
		Key: func(req *http.Request) string {
			first, _, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/"), "/")
			return req.URL.Host + "/" + first
		},
		Priority: func(req *http.Request) int {
			if req.Header.Get("X-Job") == "" {
				return 1
			}
			return 0
		},
		MaxWait: 10 * time.Second,
		Backoff: weir.Backoff{First: time.Second, Most: time.Minute},
	})
	fmt.Println(transport != nil, err)
	// Output: true <nil>
}

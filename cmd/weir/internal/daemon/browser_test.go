package daemon

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestPagesSpendNothing: a page that somebody has open spends none of the limits of a
// daemon on the same machine, by whichever way a browser can be made to ask; programs,
// and what proxies hand on of browsers, are answered.
func TestPagesSpendNothing(t *testing.T) {
	r := start(t, Config{})
	_, port, err := net.SplitHostPort(r.http)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, host string
		fields     []string
		status     int // of a page
	}{
		{"curl", "", nil, 200},
		{"a page elsewhere", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "empty", "Origin", "https://evil.example"}, 403},
		{"an older browser's", "", []string{"Origin", "https://evil.example"}, 403},
		{"a sandboxed page", "", []string{"Origin", "null"}, 403},
		{"a page of another port", "localhost:" + port, []string{"Sec-Fetch-Site", "same-site", "Origin", "http://localhost:3000"}, 403},
		{"an image elsewhere", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "image"}, 403},
		{"a link elsewhere", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Dest", "document"}, 403},
		{"a name turned to this machine", "evil.example:" + port, []string{"Origin", "http://evil.example:" + port}, 421},
		{"the same, and older", "evil.example:" + port, []string{"User-Agent", "Mozilla/5.0"}, 421},
		{"typed by hand", "localhost:" + port, []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Dest", "document"}, 200},
		{"a proxy", "shop.example", nil, 200},
		{"a proxy that hands on all", "shop.example", []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://app.example", "X-Forwarded-For", "192.0.2.1"}, 200},
		{"nginx by the name of its upstream", "weir", []string{"Sec-Fetch-Site", "same-site", "Origin", "https://app.example", "X-Client", "192.0.2.1"}, 200},
		{"Caddy", "shop.example:" + port, []string{"Origin", "https://app.example", "X-Forwarded-Host", "shop.example"}, 200},
	} {
		for method, path := range map[string]string{http.MethodPost: "/v1/check", http.MethodGet: "/auth?domain=demo&e=client_id=" + strings.ReplaceAll(c.name, " ", "-")} {
			q, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.http+path, strings.NewReader(strings.Replace(demoCheck, "bob", c.name, 1)))
			if err != nil {
				t.Fatal(err)
			}
			q.Host = c.host
			for i := 0; i < len(c.fields); i += 2 {
				q.Header.Set(c.fields[i], c.fields[i+1])
			}
			if status, body := answered(t, q); status != c.status {
				t.Errorf("%s, %s: %d %s, want %d", c.name, method, status, body, c.status)
			}
		}
	}
	for _, reason := range []string{"host", "origin"} {
		if n := metric(t, r, `weir_refused_total{listener="http",reason="`+reason+`"} `); n == "0" || n == "" {
			t.Errorf("no refusal for its %s is told", reason)
		}
	}
}

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestTraefik asks as Traefik does with docs/integrations/traefik.yaml: there is
// no package of the real one. What it sends is from the description of
// forwardAuth: a GET, its own X-Forwarded headers, and those that are listed.
func TestTraefik(t *testing.T) {
	t.Parallel()
	d := edge(t)
	var config struct {
		HTTP struct {
			Middlewares map[string]struct {
				ForwardAuth struct {
					Address            string   `yaml:"address"`
					TrustForwardHeader bool     `yaml:"trustForwardHeader"`
					AuthRequestHeaders []string `yaml:"authRequestHeaders"`
				} `yaml:"forwardAuth"`
			} `yaml:"middlewares"`
			Routers map[string]struct {
				Middlewares []string `yaml:"middlewares"`
			} `yaml:"routers"`
		} `yaml:"http"`
	}
	text, err := os.ReadFile(filepath.Join(recipes, "traefik.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	c := newClient(t)
	forward := func(router, address string, fields ...string) answer {
		t.Helper()
		name := config.HTTP.Routers[router].Middlewares[0]
		m := config.HTTP.Middlewares[name].ForwardAuth
		if !strings.HasPrefix(m.Address, "http://127.0.0.1:8080/auth?") || m.TrustForwardHeader {
			t.Fatalf("%s: %+v", name, m)
		}
		sent := []string{
			"X-Forwarded-Method", "POST", "X-Forwarded-Proto", "http", "X-Forwarded-Host", "example.org",
			"X-Forwarded-Uri", "/export/all?a=b&cost=0", "X-Forwarded-For", address,
		}
		for i := 0; i < len(fields); i += 2 {
			if slices.Contains(m.AuthRequestHeaders, fields[i]) {
				sent = append(sent, fields[i], fields[i+1])
			}
		}
		return c.ask(http.MethodGet, strings.Replace(m.Address, "127.0.0.1:8080", d.http, 1), "", sent...)
	}

	for i, address := range []string{"192.0.2.1", "192.0.2.1", "2001:db8::1"} {
		want := []string{`"per-address";r=39`, `"per-address";r=3`, `"per-address";r=39`}[i]
		if a := forward("all", address); a.status != http.StatusOK || !strings.HasPrefix(a.field("RateLimit"), want) {
			t.Errorf("%s: %v", address, a)
		}
	}
	for _, key := range []string{"ann", "bob"} {
		for i := range 6 {
			a := forward("export", "192.0.2.1", "X-Api-Key", key)
			if i < 5 && a.status != http.StatusOK || i == 5 && (a.status != http.StatusTooManyRequests || a.field("Retry-After") != "720") {
				t.Errorf("export %d by %s: %v", i, key, a)
			}
		}
	}
}

package importenv_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/importenv"
)

// nobody is an environment without variables.
func nobody(string) (string, bool) { return "", false }

func translate(t *testing.T, lines ...string) *importenv.Plan {
	t.Helper()
	env, err := importenv.Read("env", strings.NewReader(strings.Join(lines, "\n")), nobody, "")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := importenv.Translate(env.Variables)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// TestStores: the URL of each way to say where ratelimit counts.
func TestStores(t *testing.T) {
	for env, want := range map[string]string{
		"":                                    "redis+unix:///var/run/nutcracker/ratelimit.sock",
		"REDIS_URL=/tmp/r.sock":               "redis+unix:///tmp/r.sock",
		"REDIS_SOCKET_TYPE=tcp REDIS_URL=r:1": "redis://r:1",
		"REDIS_TYPE=CLUSTER REDIS_URL=a:1,b:2 REDIS_TLS=true":               "redis+cluster://a:1,b:2?tls=1",
		"REDIS_TYPE=SENTINEL REDIS_URL=m,a:1 REDIS_TLS=true":                "redis+sentinel://a:1/m?tls=1",
		"REDIS_SOCKET_TYPE=tcp REDIS_URL=r:1 REDIS_TLS=true REDIS_AUTH=u:p": "rediss://${REDIS_AUTH}@r:1",
		"REDIS_SOCKET_TYPE=tcp REDIS_URL=redis://r:1/2 REDIS_AUTH=p":        "redis://:${REDIS_AUTH}@r:1/2",
		"REDIS_SOCKET_TYPE=tcp REDIS_URL=redis://u:p@r:1":                   "redis://${REDIS_URL#redis://}",
		"REDIS_SOCKET_TYPE=tcp REDIS_URL=u:p@r:1":                           "redis://${REDIS_URL}",
		"REDIS_TYPE=CLUSTER REDIS_URL=a:1,b:2":                              "redis+cluster://a:1,b:2",
		"REDIS_TYPE=cluster REDIS_URL=redis://u:p@a:1,redis://u:p@b:2":      "redis+cluster://a:1,b:2",
		"REDIS_TYPE=SENTINEL REDIS_URL=m,a:1,b:2":                           "redis+sentinel://a:1,b:2/m",
		"BACKEND_TYPE=memcache MEMCACHE_HOST_PORT=a:1,b:2":                  "memcached://a:1,b:2",
		"BACKEND_TYPE=memcache MEMCACHE_SRV=_m._tcp.x":                      "memcached://HOST:PORT",
	} {
		if got := translate(t, strings.Fields(env)...).Store(); got != want {
			t.Errorf("%s: %s, want %s", env, got, want)
		}
	}
}

// TestFates: what becomes of variables that are more than one flag.
func TestFates(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"DEBUG_HOST=0.0.0.0 DEBUG_PORT=7000", "--admin 0.0.0.0:7000 \\\n  --admin-token-file admin-token"},
		{"DEBUG_HOST=0.0.0.0", "DEBUG_HOST: differs: off loopback the admin listener wants a token"},
		{"DEBUG_HOST=::1", "--admin '[::1]:6070'"},
		{"DEBUG_HOST=localhost", "DEBUG_HOST: flag: --admin localhost:6070"},
		{"HOST=10.0.0.1 PORT=80", "--http 10.0.0.1:80 "},
		{"GRPC_UDS=/tmp/x GRPC_PORT=1", "--grpc 127.0.0.1:8081 "},
		{"GRPC_MAX_CONNECTION_AGE=24h", "--grpc-max-connection-age 24h "},
		{"GRPC_UDS=/tmp/x GRPC_PORT=1", "GRPC_PORT: not needed: ratelimit listens on GRPC_UDS instead"},
		{"GRPC_SERVER_USE_TLS=1 GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k GRPC_CLIENT_TLS_CACERT=a", "--tls-cert c \\\n  --tls-key k \\\n  --tls-client-ca a "},
		{"GRPC_SERVER_TLS_CERT=c", "GRPC_SERVER_TLS_CERT: not needed: GRPC_SERVER_USE_TLS is false"},
		{"CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_NODE_ID=x", "CONFIG_TYPE: differs: weir asks no xDS server"},
		{"CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_NODE_ID=x", "CONFIG_GRPC_XDS_NODE_ID: not needed: see CONFIG_TYPE"},
		{"RUNTIME_SUBDIRECTORY=s RUNTIME_ROOT=/a%20b!", "--rules '/a%20b!/s/config'"},
		{"RUNTIME_WATCH_ROOT=0", "RUNTIME_ROOT: flag: --rules /srv/runtime_data/current/config (not set"},
		{"REDIS_AUTH=a/b", "REDIS_AUTH: differs: ${REDIS_AUTH} in --store"},
		{"REDIS_PERSECOND=1 REDIS_PERSECOND_URL=x", "REDIS_PERSECOND: differs: all counts are in one store"},
		{"REDIS_PERSECOND=1 REDIS_PERSECOND_URL=x", "REDIS_PERSECOND_URL: not needed: see REDIS_PERSECOND"},
		{"BACKEND_TYPE=memcache REDIS_URL=x", "REDIS_URL: not needed: BACKEND_TYPE is memcache"},
		{"RESPONSE_DYNAMIC_METADATA=TRUE", "--dynamic-metadata\n"},
		{"TRACING_ENABLED=f", "TRACING_ENABLED: not needed: weir does so anyway"},
		{"QUOTA_MODE=1", "QUOTA_MODE: differs: write quota_mode: true"},
		{"MEMCACHED_HOST=x", "MEMCACHED_HOST: unknown: envoyproxy/ratelimit has no such variable\n"},
	} {
		plan := translate(t, strings.Fields(c.env)...)
		var said strings.Builder
		said.WriteString(plan.String())
		for _, n := range plan.Notes {
			said.WriteString(n.String() + "\n")
		}
		if !strings.Contains(said.String(), c.want) {
			t.Errorf("%s: there is no %q in\n%s", c.env, c.want, said.String())
		}
	}
}

// TestAllTold: each variable that is set is told once, and none that is not,
// but for the defaults that make flags.
func TestAllTold(t *testing.T) {
	env := map[string]string{}
	for _, n := range importenv.Names() {
		env[n] = "1"
	}
	if len(env) < 114 {
		t.Errorf("%d variables are known", len(env))
	}
	env["CONFIG_TYPE"], env["BACKEND_TYPE"], env["REDIS_TYPE"] = "FILE", "redis", "SINGLE"
	for _, n := range importenv.Names() {
		if strings.HasSuffix(n, "_INTERVAL") || strings.HasSuffix(n, "_TIMEOUT") || strings.HasSuffix(n, "_WINDOW") || strings.HasSuffix(n, "_TIME") ||
			strings.Contains(n, "_AGE") || strings.HasSuffix(n, "_REFRESH") {
			env[n] = "1s"
		}
	}
	plan, err := importenv.Translate(env)
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(env)
	for _, n := range plan.Notes {
		if _, ok := left[n.Name]; !ok {
			t.Errorf("%s: twice, or not set", n)
		}
		if n.Text == "see the flags" {
			t.Errorf("%s", n)
		}
		delete(left, n.Name)
	}
	for name := range left {
		t.Errorf("%s is told nowhere", name)
	}
}

func TestBadInput(t *testing.T) {
	for env, want := range map[string]string{
		"BACKEND_TYPE=etcd":              "BACKEND_TYPE is etcd; it must be redis or memcache",
		"CONFIG_TYPE=x":                  "CONFIG_TYPE is x; it must be FILE or GRPC_XDS_SOTW",
		"REDIS_TYPE=x":                   "REDIS_TYPE is x; it must be SINGLE, SENTINEL or CLUSTER",
		"REDIS_TIMEOUT=10":               "REDIS_TIMEOUT is \"10\"; it must be a time such as 10s",
		"NEAR_LIMIT_RATIO=most":          "it must be a number",
		"GRPC_SERVER_USE_TLS=true":       "GRPC_SERVER_USE_TLS is set without GRPC_SERVER_TLS_CERT",
		"REDIS_TYPE=sentinel REDIS_URL=": "REDIS_URL must be MASTER,HOST:PORT",
	} {
		vars, err := importenv.Read("env", strings.NewReader(strings.ReplaceAll(env, " ", "\n")), nobody, "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := importenv.Translate(vars.Variables); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", env, err, want)
		}
	}
	for _, text := range []string{"A", "=1", "A B=1", "A: b=1", "- A", "A=${B", "A=${B:}", "A=${}", "A=${B:?no}", strings.Repeat("x", 2<<20)} {
		if _, err := importenv.Read("env", strings.NewReader(text), nobody, ""); err == nil {
			t.Errorf("%.20q was read", text)
		}
	}
}

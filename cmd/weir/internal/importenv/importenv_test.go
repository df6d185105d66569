package importenv_test

import (
	"maps"
	"slices"
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
		"REDIS_SOCKET_TYPE=tcp REDIS_URL=r:1 REDIS_TLS=1 REDIS_TLS_CACERT=/c/a.crt REDIS_TLS_CLIENT_CERT=/c/t.crt REDIS_TLS_CLIENT_KEY=/c/t&.key REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=1": "rediss://r:1?ca=/c/a.crt&cert=/c/t.crt&key=/c/t%26.key&server-name=any",
		"REDIS_SOCKET_TYPE=tcp REDIS_URL=r:1 REDIS_TLS_CACERT=/c/a.crt":            "redis://r:1",
		"REDIS_TYPE=CLUSTER REDIS_URL=a:1 REDIS_TLS=true REDIS_TLS_CACERT=/a":      "redis+cluster://a:1?tls=1&ca=/a",
		"REDIS_TYPE=SENTINEL REDIS_URL=m,a:1 REDIS_AUTH=p":                         "redis+sentinel://:${REDIS_AUTH}@a:1/m?sentinel-auth=none",
		"REDIS_TYPE=SENTINEL REDIS_URL=m,a:1 REDIS_TLS=true REDIS_SENTINEL_AUTH=s": "redis+sentinel://a:1/m?tls=1&sentinel-auth=${REDIS_SENTINEL_AUTH}",
	} {
		if got := translate(t, strings.Fields(env)...).Store(); got != want {
			t.Errorf("%s: %s, want %s", env, got, want)
		}
	}
}

// TestFates: what becomes of variables that are more than one flag.
func TestFates(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"DEBUG_PORT=7000", "--debug 0.0.0.0:7000 "},
		{"DEBUG_HOST=::1", "--debug '[::1]:6070'"},
		{"DEBUG_HOST=localhost", "DEBUG_HOST: flag: --debug localhost:6070"},
		{"HOST=10.0.0.1 PORT=80", "--http 10.0.0.1:80 "},
		{"GRPC_UDS=/tmp/x GRPC_PORT=1", "--grpc unix:///tmp/x "},
		{"GRPC_MAX_CONNECTION_AGE=24h", "--grpc-max-connection-age 24h "},
		{"GRPC_UDS=/tmp/x GRPC_PORT=1", "GRPC_PORT: not needed: ratelimit listens on GRPC_UDS instead"},
		{"GRPC_SERVER_USE_TLS=1 GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k GRPC_CLIENT_TLS_CACERT=a", "--tls-listeners grpc \\\n  --tls-cert c \\\n  --tls-key k \\\n  --tls-client-ca a "},
		{"GRPC_SERVER_USE_TLS=1 GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k GRPC_CLIENT_TLS_CACERT=a GRPC_CLIENT_TLS_SAN=envoy", "--tls-client-san envoy "},
		{"GRPC_SERVER_USE_TLS=1 GRPC_SERVER_TLS_CERT=c GRPC_SERVER_TLS_KEY=k GRPC_CLIENT_TLS_SAN=envoy", "GRPC_CLIENT_TLS_SAN: not needed: without GRPC_CLIENT_TLS_CACERT"},
		{"GRPC_SERVER_TLS_CERT=c", "GRPC_SERVER_TLS_CERT: not needed: GRPC_SERVER_USE_TLS is false"},
		{"CONFIG_TYPE=GRPC_XDS_SOTW", "--rules 'xds://localhost:18000?node=default' "},
		{"CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/a", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT: not needed: CONFIG_GRPC_XDS_SERVER_USE_TLS is false"},
		{"CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=authorization:hush", `--rules "xds://localhost:18000?node=default&metadata=${CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS}" `},
		{"CONFIG_TYPE=GRPC_XDS_SOTW RUNTIME_ROOT=/data XDS_CLIENT_BACKOFF_JITTER=false", "RUNTIME_ROOT: not needed: CONFIG_TYPE is GRPC_XDS_SOTW"},
		{
			"CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=envoy-gateway:18001 CONFIG_GRPC_XDS_NODE_ID=envoy-ratelimit CONFIG_GRPC_XDS_NODE_METADATA=a=b,c=d " +
				"CONFIG_GRPC_XDS_SERVER_USE_TLS=true CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/certs/tls.crt CONFIG_GRPC_XDS_CLIENT_TLS_KEY=/certs/tls.key " +
				"CONFIG_GRPC_XDS_SERVER_TLS_CACERT=/certs/ca.crt CONFIG_GRPC_XDS_SERVER_TLS_SAN=gw FORCE_START_WITHOUT_INITIAL_CONFIG=true",
			"--rules 'xds://envoy-gateway:18001?node=envoy-ratelimit&node-metadata=a%3Db%2Cc%3Dd&tls=true&ca=/certs/ca.crt&cert=/certs/tls.crt&key=/certs/tls.key&server-name=gw&force-start=true'",
		},
		{"CONFIG_TYPE=FILE CONFIG_GRPC_XDS_NODE_ID=x", "CONFIG_GRPC_XDS_NODE_ID: not needed: CONFIG_TYPE is FILE"},
		{"RUNTIME_SUBDIRECTORY=s RUNTIME_ROOT=/a%20b!", "--rules '/a%20b!/s/config'"},
		{"RUNTIME_WATCH_ROOT=0", "RUNTIME_ROOT: flag: --rules /srv/runtime_data/current/config (not set"},
		{"REDIS_AUTH=a/b", "REDIS_AUTH: flag: ${REDIS_AUTH} in --store, which must be set where weir serve is started; it is part of a URL then"},
		{"REDIS_PERSECOND=1 REDIS_PERSECOND_URL=x", "REDIS_PERSECOND: differs: all counts are in one store"},
		{"REDIS_PERSECOND=1 REDIS_PERSECOND_URL=x", "REDIS_PERSECOND_URL: not needed: see REDIS_PERSECOND"},
		{"BACKEND_TYPE=memcache REDIS_URL=x", "REDIS_URL: not needed: BACKEND_TYPE is memcache"},
		{"RESPONSE_DYNAMIC_METADATA=TRUE", "--dynamic-metadata\n"},
		{"TRACING_ENABLED=f", "TRACING_ENABLED: not needed: "},
		{"TRACING_ENABLED=0 OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317", "OTEL_TRACES_EXPORTER=none \\\n  weir serve "},
		{"TRACING_ENABLED=1", "OTEL_EXPORTER_OTLP_ENDPOINT=https://localhost:4318 \\\n  OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf \\\n  OTEL_SERVICE_NAME=RateLimit \\\n  weir serve "},
		{
			"TRACING_ENABLED=1 TRACING_EXPORTER_PROTOCOL=grpc TRACING_SERVICE_NAMESPACE=n TRACING_SERVICE_INSTANCE_ID=i TRACING_SAMPLING_RATE=0.25 OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4317",
			"OTEL_EXPORTER_OTLP_PROTOCOL=grpc \\\n  OTEL_RESOURCE_ATTRIBUTES=service.namespace=n,service.instance.id=i \\\n  OTEL_SERVICE_NAME=RateLimit \\\n  OTEL_TRACES_SAMPLER=parentbased_traceidratio \\\n  OTEL_TRACES_SAMPLER_ARG=0.25 \\\n  weir serve ",
		},
		{"TRACING_ENABLED=1 OTEL_SERVICE_NAME=mine TRACING_SERVICE_NAME=other", "TRACING_SERVICE_NAME: not needed: OTEL_SERVICE_NAME is set"},
		{"QUOTA_MODE=1", "QUOTA_MODE: differs: it makes all limits quota limits"},
		{"SHADOW_MODE=true", "--shadow-mode"},
		{"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED=true", "--healthcheck-needs-rules"},
		{"LIMIT_RESPONSE_HEADERS_ENABLED=true LIMIT_RESET_HEADER=X-Reset", "--response-headers RateLimit-Limit,RateLimit-Remaining,X-Reset"},
		{"LIMIT_RESET_HEADER=X-Reset", "LIMIT_RESET_HEADER: not needed: LIMIT_RESPONSE_HEADERS_ENABLED is false"},
		{"LOG_LEVEL=WARNING LOG_FORMAT=JSON", "--log-level warn \\\n  --log-format json"},
		{"", "--metric-names ratelimit \\\n  --statsd tcp://localhost:8125"},
		{"USE_PROMETHEUS=true", "--metrics :9090/metrics \\\n  --metric-names ratelimit\n"},
		{"USE_PROMETHEUS=true USE_STATSD=true PROMETHEUS_ADDR=:19001 PROMETHEUS_PATH=/m", "--metrics :19001/m \\\n  --metric-names ratelimit \\\n  --statsd tcp://localhost:8125\n"},
		{"USE_STATSD=true STATSD_HOST=s STATSD_PORT=9125 STATSD_PROTOCOL=udp4 STATS_FLUSH_INTERVAL=5s", "--statsd 'udp://s:9125?every=5s'"},
		{"USE_STATSD=false USE_DOG_STATSD=true STATSD_HOST=s", "--statsd 'udp://s:8125?tags=dogstatsd'"},
		{"USE_STATSD=false STATSD_HOST=s", "STATSD_HOST: not needed: USE_STATSD is false"},
		{"DISABLE_STATS=true USE_PROMETHEUS=true", "USE_PROMETHEUS: not needed: DISABLE_STATS is true"},
		{"EXTRA_TAGS=build:42,my-zone:a:b NEAR_LIMIT_RATIO=0.5", "--metric-labels build=42,my_zone=a:b \\\n  --near-limit-ratio 0.5"},
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
	env["GRPC_UDS"], env["STATSD_PROTOCOL"], env["EXTRA_TAGS"], env["LOG_LEVEL"], env["TRACING_EXPORTER_PROTOCOL"] = "/run/s", "tcp", "a:b", "info", "http"
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

// TestGiven: what is given otherwise is not translated, and what stands for it may be wrong.
func TestGiven(t *testing.T) {
	plan, err := importenv.Translate(map[string]string{
		"REDIS_URL": "r:1", "REDIS_TYPE": "x", "MEMCACHE_TLS": "1", "RUNTIME_ROOT": "/data", "PORT": "9", "GRPC_UDS": "x",
		"GRPC_SERVER_USE_TLS": "1", "USE_STATSD": "false",
	}, "--store", "--rules", "--http", "--grpc", "--tls-cert", "--debug", "--metric-names")
	if err != nil || len(plan.Args) > 0 {
		t.Fatalf("%v, %v", plan, err)
	}
	for _, n := range plan.Notes {
		if n.Fate != importenv.NotNeeded || n.Wrong {
			t.Errorf("%s", n)
		}
	}
}

// TestExpanded: secrets stand in URLs as they have to, and nowhere else.
func TestExpanded(t *testing.T) {
	for _, c := range []struct{ env, want string }{
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=r:1 REDIS_AUTH=a/b@c:d", "redis://a%2Fb%40c:d@r:1"},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=r:1 REDIS_AUTH=a/b@c", "redis://:a%2Fb%40c@r:1"},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=redis://u:p@r:1/2", "redis://u:p@r:1/2"},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=u:p@r:1 REDIS_TLS=1", "rediss://u:p@r:1"},
		{"REDIS_TYPE=SENTINEL REDIS_URL=m,a:1 REDIS_AUTH=p REDIS_SENTINEL_AUTH=s&t", "redis+sentinel://:p@a:1/m?sentinel-auth=s%26t"},
	} {
		env, err := importenv.Read("env", strings.NewReader(strings.ReplaceAll(c.env, " ", "\n")), nobody, "")
		if err != nil {
			t.Fatal(err)
		}
		plan, err := importenv.Translate(env.Variables)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(plan.Args, func(a importenv.Arg) bool { return a.Flag == "--store" })
		if got := plan.Args[i].Expanded(env.Variables); got != c.want {
			t.Errorf("%s: %s, want %s", c.env, got, c.want)
		}
		if said := plan.Line(); strings.Contains(said, "a/b") || strings.Contains(said, "u:p") || strings.Contains(said, "s&t") {
			t.Errorf("%s is told", said)
		}
	}
	header := importenv.Arg{Value: "xds://h:1?node=n&metadata=${CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS}"}
	if got := header.Expanded(map[string]string{"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "authorization:a b"}); got != "xds://h:1?node=n&metadata=authorization%3Aa+b" {
		t.Error(got)
	}
}

// TestWrong: by these weir would decide otherwise.
func TestWrong(t *testing.T) {
	for env, want := range map[string][]string{
		"": nil, "SHADOW_MODE=1 QUOTA_MODE=false": nil,
		"QUOTA_MODE=1": {"QUOTA_MODE"}, "BACKEND_TYPE=memcache MEMCACHE_SRV=x MEMCACHE_TLS=1": {"MEMCACHE_SRV", "MEMCACHE_TLS"},
		"BACKEND_TYPE=memcache MEMCACHE_SRV=x MEMCACHE_HOST_PORT=a:1": nil,
		"REDIS_TYPE=CLUSTER REDIS_URL=redis://:p@a:1":                 {"REDIS_URL"},
	} {
		var wrong []string
		for _, n := range translate(t, strings.Fields(env)...).Notes {
			if n.Wrong {
				wrong = append(wrong, n.Name)
			}
		}
		if !slices.Equal(wrong, want) {
			t.Errorf("%s: %v, want %v", env, wrong, want)
		}
	}
}

func TestBadInput(t *testing.T) {
	for env, want := range map[string]string{
		"BACKEND_TYPE=etcd":    "BACKEND_TYPE is \"etcd\"; it must be redis or memcache",
		"CONFIG_TYPE=x":        "CONFIG_TYPE is \"x\"; it must be FILE or GRPC_XDS_SOTW",
		"REDIS_TYPE=x":         "REDIS_TYPE is \"x\"; it must be SINGLE, SENTINEL or CLUSTER",
		"PORT=65536":           "PORT is \"65536\"; it must be a port from 0 to 65535",
		"GRPC_UDS=run/s":       "GRPC_UDS is \"run/s\"; it must be a whole path",
		"LOG_LEVEL=loud":       "LOG_LEVEL is \"loud\"; it must be panic, fatal",
		"EXTRA_TAGS=a":         "EXTRA_TAGS is \"a\"; it must be NAME:VALUE",
		"STATSD_PROTOCOL=sctp": "STATSD_PROTOCOL is \"sctp\"; it must be tcp or udp",
		"CONFIG_TYPE=GRPC_XDS_SOTW CONFIG_GRPC_XDS_SERVER_URL=http://x": "CONFIG_GRPC_XDS_SERVER_URL is \"http://x\"; it must be HOST:PORT",
		"TRACING_ENABLED=1 TRACING_EXPORTER_PROTOCOL=x":                 "TRACING_EXPORTER_PROTOCOL is \"x\"; it must be http or grpc",

		"NEAR_LIMIT_RATIO=NaN":           "it must be a number from 0 to 1",
		"REDIS_TIMEOUT=10":               "REDIS_TIMEOUT is \"10\"; it must be a time such as 10s",
		"NEAR_LIMIT_RATIO=most":          "it must be a number",
		"GRPC_SERVER_USE_TLS=true":       "GRPC_SERVER_USE_TLS is true; GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY must name",
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
	_, err := importenv.Translate(map[string]string{"PORT": "x", "BACKEND_TYPE": "etcd", "LOG_LEVEL": "loud", "GRPC_SERVER_USE_TLS": "1", "REDIS_TIMEOUT": "1"})
	for _, name := range []string{"PORT is", "BACKEND_TYPE is", "LOG_LEVEL is", "GRPC_SERVER_USE_TLS is", "REDIS_TIMEOUT is"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("not all is told at once: %v", err)
		}
	}
	for _, text := range []string{"A", "=1", "A B=1", "A: b=1", "- A", "A=${B", "A=${B:}", "A=${}", "A=${B:?no}", strings.Repeat("x", 2<<20)} {
		if _, err := importenv.Read("env", strings.NewReader(text), nobody, ""); err == nil {
			t.Errorf("%.20q was read", text)
		}
	}
}

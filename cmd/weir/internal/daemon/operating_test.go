package daemon

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/tracing/collectortest"
	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/internal/memcachedtest"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/redistest"
	"github.com/weir-limit/weir/rules"
)

// TestMetricsAreDocumented: the table of docs/operating.md has each metric that a
// daemon with everything on tells, with each kind of store, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(page), "| metric | what | alert on |\n")
	if !ok {
		t.Fatal("docs/operating.md has no table of metrics")
	}
	var documented []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			break
		}
		for _, m := range regexp.MustCompile("`(weir_[a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			documented = append(documented, m[1])
		}
	}

	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collectortest.Start(t, false).GRPC)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	ca := certtest.NewCA(t)
	c := withToken(t, safely(t, ca))
	c.Rules = rulesFile(t, "domain: d\ndescriptors:\n  - {key: k, value: \"*\", limits: [1/s], value_to_metric: true}\n")
	c.Candidate = rulesFile(t, "domain: d\ndescriptors: [{key: k, limits: [1/s]}]\n")
	c.Data = t.TempDir()
	c.Statsd = "udp://127.0.0.1:1"
	r := start(t, c)
	safe := caller(t, &tls.Config{RootCAs: ca.Pool()})
	if _, err := send(t, safe, http.MethodPost, "https://"+r.http+"/v1/check", `{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}`); err != nil {
		t.Fatal(err)
	}
	overridden(t, r.daemon)
	_, _ = send(t, safe, http.MethodGet, "https://"+r.admin+"/v1/export", "") // so that the listener has something to count
	got, err := send(t, safe, http.MethodGet, "https://"+r.admin+"/metrics", "")
	if err != nil || got.status != http.StatusOK {
		t.Fatal(got.status, err)
	}
	var told []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (weir_\S+)`).FindAllStringSubmatch(got.body, -1) {
		told = append(told, m[1])
	}
	for _, c := range []Config{
		{Store: "redis://" + redistest.Start(t).Addr},
		{Store: "memcached://" + memcachedtest.Start(t).Addr},
		{Store: postgrestest.Start(t).Database(t)},
		{Store: "nats://" + natstest.Start(t).Addr},
		{Store: "kafka://127.0.0.1:1/weir?node=a"},
		{Store: "cluster:", Cluster: "127.0.0.1:0", Rules: rulesFile(t, "domain: d\ndescriptors: [{key: k, limits: [1/s], sharing: leader}]\n")},
		{Rules: "xds://127.0.0.1:1?node=a&force-start=true&wait=1ms&last=" + filepath.Join(t.TempDir(), "last")},
		{Store: "memory:?snapshot=" + filepath.Join(t.TempDir(), "counts"), UsageLog: "file:" + t.TempDir()},
	} {
		_, body := get(t, "http://"+start(t, c).admin+"/metrics")
		for _, m := range regexp.MustCompile(`(?m)^# TYPE (weir_\S+)`).FindAllStringSubmatch(body, -1) {
			told = append(told, m[1])
		}
	}
	slices.Sort(documented)
	slices.Sort(told)
	told = slices.Compact(told)
	if d := cmp.Diff(told, documented); d != "" {
		t.Errorf("the table of metrics in docs/operating.md differs from what a daemon tells (-daemon +table):\n%s", d)
	}
}

// overridden makes rules of the rule database active, of which one is open and one is tightened.
func overridden(t *testing.T, d *Daemon) {
	t.Helper()
	store := d.feed.Store()
	enforceRules(t, store, "domain: held\ndescriptors: [{key: a, limits: [10/s]}, {key: b, limits: [10/s]}]\n")
	for _, o := range []rulestore.Override{{Domain: "held", Percent: 50}, {Domain: "held", Rule: "b"}} {
		o.Until, o.Reason = time.Now().Add(time.Hour), "a test"
		if err := store.Override(t.Context(), root(), o); err != nil {
			t.Fatal(err)
		}
	}
	open := func(r *rules.Rule) bool { return r.Temporary.Percent == 0 }
	for end := time.Now().Add(patience); !slices.ContainsFunc(d.limiter.Set().Temporary(), open); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the daemon does not hear of overrides")
		}
	}
}

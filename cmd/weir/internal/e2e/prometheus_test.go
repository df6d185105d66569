package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/natstest"
	"github.com/weir-limit/weir/internal/porttest"
	"github.com/weir-limit/weir/internal/redistest"
)

const shadowed = `domain: edge
descriptors:
  - {key: user, limits: [3/h]}
  - {key: page, shadow_mode: true, limits: [3/h]}
`

// board is as much of deploy/grafana.json as the tests look at.
type board struct {
	Annotations struct {
		List []struct{ Expr string }
	}
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

// expressions are those of the Grafana board, as Grafana sends them.
func expressions(t *testing.T) []string {
	t.Helper()
	var b board
	if err := json.Unmarshal([]byte(recipe(t, filepath.Join(deploy, "grafana.json"))), &b); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range b.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	for _, a := range b.Annotations.List {
		all = append(all, a.Expr)
	}
	for i, e := range all {
		all[i] = strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*").Replace(e)
	}
	if len(all) < 20 {
		t.Fatalf("%d expressions", len(all))
	}
	return all
}

// TestMetricNames: boards and alerts speak of metrics that weir tells.
func TestMetricNames(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t)
	var told strings.Builder
	told.WriteString("\n")
	for _, args := range [][]string{
		{"--tls-cert", cert, "--tls-key", key},
		{"--store", "redis://" + redistest.Start(t).Addr},
		{"--store", "memory:?snapshot=" + filepath.Join(t.TempDir(), "counts"), "--usage-log", "file:" + t.TempDir()},
		{"--store", "cluster:", "--cluster", porttest.Free(t)},
		{"--store", "nats://" + natstest.Start(t).Addr + "?log=weir"},
	} {
		told.WriteString(edge(t, args...).metrics(t))
	}
	d, token := serveData(t, t.TempDir())
	told.WriteString(newClient(t).ask(http.MethodGet, "http://"+d.admin+"/metrics", "", "Authorization", "Bearer "+token).body)
	texts := append(expressions(t), recipe(t, filepath.Join(deploy, "prometheus/alerts.yaml")))
	for _, text := range texts {
		for _, name := range regexp.MustCompile(`\b(weir|process|go)_[a-z_]+`).FindAllString(text, -1) {
			family := strings.TrimSuffix(name, "_bucket")
			if !strings.Contains(told.String(), "\n# TYPE "+family+" ") {
				t.Errorf("weir tells no %s", name)
			}
		}
	}
}

// TestAlerts: promtool reads the alerts and tries them.
func TestAlerts(t *testing.T) {
	t.Parallel()
	tool := program(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}, {"check", "config", "prometheus.yaml"}} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = filepath.Join(deploy, "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

// TestBoard: a real Prometheus that scrapes a real daemon has an answer to each
// question of the Grafana board, and can evaluate each alert.
func TestBoard(t *testing.T) {
	t.Parallel()
	path := program(t, "prometheus")
	d, admin := serveData(t, t.TempDir(), "--rules", write(t, filepath.Join(t.TempDir(), "rules.yaml"), shadowed), "--resp", "127.0.0.1:0")
	at, dir := porttest.Free(t), t.TempDir()
	config := recipe(t, filepath.Join(deploy, "prometheus/prometheus.yaml"), append([]string{"15s", "100ms", "127.0.0.1:8082", d.admin}, showing(write(t, filepath.Join(dir, "weir.token"), admin))...)...)
	write(t, filepath.Join(dir, "alerts.yaml"), recipe(t, filepath.Join(deploy, "prometheus/alerts.yaml")))
	p := start(t, command(t, path, "--config.file="+write(t, filepath.Join(dir, "prometheus.yaml"), config), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at))
	p.listening(t, at)

	c := newClient(t)
	asked := expressions(t)
	defer func() {
		if t.Failed() {
			t.Logf("no answer to %q", asked)
		}
	}()
	eventually(t, "a question has no answer", func() bool {
		for _, e := range []string{"user=ann", "page=/"} {
			c.ask(http.MethodGet, "http://"+d.http+"/auth?domain=edge&e="+e, "")
		}
		asked = slices.DeleteFunc(asked, func(expr string) bool { return answered(t, c, at, expr) })
		return t.Failed() || len(asked) == 0
	})

	a := c.ask(http.MethodGet, "http://"+at+"/api/v1/rules", "")
	if healthy, all := strings.Count(a.body, `"health":"ok"`), strings.Count(recipe(t, filepath.Join(deploy, "prometheus/alerts.yaml")), "- alert: "); healthy != all {
		t.Errorf("%d of %d alerts can be evaluated: %s", healthy, all, a.body)
	}
}

// TestPrometheusWithToken: a daemon with a rule database is scraped with a token of the role read of any team, as
// deploy/prometheus/prometheus.yaml says, and not without.
func TestPrometheusWithToken(t *testing.T) {
	t.Parallel()
	path := program(t, "prometheus")
	d, admin := serveData(t, t.TempDir())
	c := newClient(t)
	a := c.ask(http.MethodPost, "http://"+d.admin+"/v1/tokens", `{"actor":"prometheus","role":"read","teams":["ops"],"reason":"metrics"}`, "Authorization", "Bearer "+admin)
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(a.body), &made); err != nil || made.Token == "" {
		t.Fatal(a, err)
	}
	up := func(at string) string {
		var answer struct {
			Data struct{ Result []struct{ Value [2]any } }
		}
		a := c.ask(http.MethodGet, "http://"+at+"/api/v1/query?query=up", "")
		if json.Unmarshal([]byte(a.body), &answer) != nil || len(answer.Data.Result) != 1 {
			return ""
		}
		return fmt.Sprint(answer.Data.Result[0].Value[1])
	}
	for _, shown := range []bool{true, false} {
		at, dir, want := porttest.Free(t), t.TempDir(), "0"
		changes := []string{"15s", "100ms", "127.0.0.1:8082", d.admin, "rule_files: [alerts.yaml]\n", ""}
		if shown {
			want = "1"
			changes = append(changes, showing(write(t, filepath.Join(dir, "weir.token"), made.Token))...)
		}
		config := recipe(t, filepath.Join(deploy, "prometheus/prometheus.yaml"), changes...)
		p := start(t, command(t, path, "--config.file="+write(t, filepath.Join(dir, "prometheus.yaml"), config), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at))
		p.listening(t, at)
		eventually(t, "up is not "+want, func() bool { return up(at) == want })
	}
}

// showing is how Prometheus is told to show the token in a file.
func showing(file string) (change []string) {
	return []string{"# authorization: {credentials_file: /etc/prometheus/weir.token}", "authorization: {credentials_file: " + file + "}"}
}

// mayBeEmpty is what is there only when something went wrong, or changed.
var mayBeEmpty = regexp.MustCompile(`weir_resp_bounds_reached_total|weir_tls_|^changes\(`)

// answered is whether Prometheus has a number for an expression.
func answered(t *testing.T, c *client, at, expr string) bool {
	t.Helper()
	a := c.ask(http.MethodGet, "http://"+at+"/api/v1/query?query="+url.QueryEscape(expr), "")
	var answer struct {
		Status string
		Data   struct{ Result []struct{ Value [2]any } }
	}
	if err := json.Unmarshal([]byte(a.body), &answer); a.status == http.StatusServiceUnavailable || err != nil {
		return false // it is not ready yet
	}
	if answer.Status != "success" {
		t.Errorf("%s: %s", expr, a.body)
	}
	for _, r := range answer.Data.Result {
		if fmt.Sprint(r.Value[1]) != "NaN" {
			return true
		}
	}
	return mayBeEmpty.MatchString(expr)
}

// selfSigned is a certificate and its key, in files.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file := func(kind string, b []byte) string {
		return write(t, filepath.Join(t.TempDir(), "pem"), string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b})))
	}
	return file("CERTIFICATE", signed), file("PRIVATE KEY", secret)
}

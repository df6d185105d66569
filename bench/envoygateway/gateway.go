package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// settings are Envoy Gateway's: resources of a folder, no Kubernetes, and no Envoy that it could start.
const settings = `apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
provider:
  type: Custom
  custom:
    resource: {type: File, file: {paths: [%q]}}
    infrastructure: {type: Host, host: {configHome: %q, dataHome: %q, stateHome: %q, runtimeDir: %q}}
rateLimit: {backend: {type: Redis, redis: {url: "redis://127.0.0.1:6379"}}}
extensionApis: {enableBackend: true}
`

// routes are a Gateway with one route for any host, and one for a host of its own.
const routes = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: eg}
spec: {controllerName: gateway.envoyproxy.io/gatewayclass-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: eg, namespace: default}
spec: {gatewayClassName: eg, listeners: [{name: http, protocol: HTTP, port: 8888}]}
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: Backend
metadata: {name: backend, namespace: default}
spec: {endpoints: [{ip: {address: 127.0.0.1, port: 3000}}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: backend, namespace: default}
spec: {parentRefs: [{name: eg}], rules: [{backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: backend}], matches: [{path: {type: PathPrefix, value: /}}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: default}
spec: {parentRefs: [{name: eg}], hostnames: [www.example.com], rules: [{backendRefs: [{group: gateway.envoyproxy.io, kind: Backend, name: backend}], matches: [{path: {type: PathPrefix, value: /}}]}]}
---
`

// policy limits a route: each user to so many an hour, and the users of one organisation together to two.
func policy(route string, requests int, unit string) string {
	return fmt.Sprintf(`apiVersion: gateway.envoyproxy.io/v1alpha1
kind: BackendTrafficPolicy
metadata: {name: limits-%s, namespace: default}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: %[1]s}]
  rateLimit:
    type: Global
    global:
      rules:
      - clientSelectors: [{headers: [{name: x-user-id, type: Distinct}]}]
        limit: {requests: %d, unit: %s}
      - clientSelectors: [{headers: [{name: x-org, type: Exact, value: one}]}]
        limit: {requests: 2, unit: Hour}
---
`, route, requests, unit)
}

const (
	domain   = "default/eg/http"
	anyRoute = "httproute/default/backend/rule/0/match/0/*"
	ownRoute = "httproute/default/shop/rule/0/match/0/www_example_com"
)

// trial is Envoy Gateway with Weir behind it.
type trial struct {
	ctx            context.Context //nolint:containedctx // of the whole trial
	b              *built
	dir, resources string
	gateway        *process
	weir           *server
	faults         int
}

// tryGateway has Envoy Gateway tell Weir of policies.
func tryGateway(ctx context.Context, b *built) (faults int, err error) {
	dir, err := os.MkdirTemp("", "envoygateway-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	t := &trial{ctx: ctx, b: b, dir: dir, resources: filepath.Join(dir, "resources")}
	defer func() {
		t.gateway.stop()
		if t.weir != nil {
			t.weir.stop()
		}
	}()
	return t.run()
}

func (t *trial) run() (int, error) {
	if err := t.begin(); err != nil {
		return 0, err
	}
	for _, step := range []func() error{t.policies, t.change, t.bad, t.restart, t.remove} {
		if err := step(); err != nil {
			return 0, err
		}
	}
	return t.faults, nil
}

// begin starts both, without a policy: Weir is ready and limits nothing.
func (t *trial) begin() error {
	sub := func(name string) string { return filepath.Join(t.dir, name) }
	if err := os.Mkdir(t.resources, 0o700); err != nil {
		return err
	}
	conf := fmt.Sprintf(settings, t.resources, sub("config"), sub("data"), sub("state"), sub("run"))
	if err := os.WriteFile(sub("settings.yaml"), []byte(conf), 0o600); err != nil {
		return err
	}
	if _, err := command(t.ctx, ".", "", t.b.gateway, "certgen", "--local", "--config-home", sub("config")); err != nil {
		return err
	}
	if err := t.write(routes); err != nil {
		return err
	}
	if err := t.startGateway(); err != nil {
		return err
	}
	certs := sub("config/certs/envoy-rate-limit/")
	url := "xds://127.0.0.1:18001?node=envoy-ratelimit&server-name=envoy-gateway&force-start=true&wait=30s" +
		"&ca=" + certs + "/ca.crt&cert=" + certs + "/tls.crt&key=" + certs + "/tls.key&last=" + sub("last")
	var err error
	if t.weir, err = startWeir(t.ctx, t.b, url); err != nil {
		return err
	}
	return t.until("an answer without policies", func() string {
		if readyz := t.weir.page(t.ctx, "/metrics"); !strings.Contains(readyz, "\nweir_rules_reload_success 1") {
			return "no rules yet"
		}
		return t.answers(domain, anyRoute, "ann", 3, 0)
	})
}

func (t *trial) startGateway() (err error) {
	t.gateway, err = start(t.ctx, nil, t.b.gateway, "server", "--config-path", filepath.Join(t.dir, "settings.yaml"))
	return err
}

// write has Envoy Gateway know these resources from now on.
func (t *trial) write(text string) error {
	name := filepath.Join(t.resources, "all.yaml")
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// until waits until missing says nothing, and tells how long that took.
func (t *trial) until(what string, missing func() string) error {
	began := time.Now()
	if err := await(t.ctx, t.weir.process, missing); err != nil {
		return fmt.Errorf("%s: %w\nEnvoy Gateway:\n%s", what, err, tail(t.gateway.out.String()))
	}
	fmt.Printf("gateway  %-70s %8v\n", what, time.Since(began).Round(time.Millisecond))
	return nil
}

// answers is what is wrong with n answers about a user: the first pass of them are OK, and the others over the limit; with pass 0 all are OK.
func (t *trial) answers(domain, route, user string, n, pass int) string {
	for i := range n {
		answer, err := t.weir.ask(t.ctx, domain, []entry{{route, route}, {"rule-0-match-0", user}})
		want := rls.RateLimitResponse_OK
		if pass > 0 && i >= pass {
			want = rls.RateLimitResponse_OVER_LIMIT
		}
		if err != nil || answer.GetOverallCode() != want {
			return fmt.Sprintf("request %d of %s on %s: %v, %v; want %v", i+1, user, route, answer.GetOverallCode(), err, want)
		}
	}
	return ""
}

// check counts a fault.
func (t *trial) check(what, fault string) {
	if fault == "" {
		fmt.Printf("gateway  %-70s       ok\n", what)
		return
	}
	t.faults++
	fmt.Printf("gateway  %s: FAULT: %s\n", what, fault)
}

// active waits until Weir's rules have these words.
func (t *trial) active(what string, words ...string) error {
	return t.until(what, func() string {
		export := t.weir.page(t.ctx, "/v1/export")
		for _, word := range words {
			if !strings.Contains(export, word) {
				return word + " is not in\n" + export
			}
		}
		return ""
	})
}

// policies are answered as they are meant.
func (t *trial) policies() error {
	if err := t.write(routes + policy("backend", 3, "Hour") + policy("shop", 4, "Hour")); err != nil {
		return err
	}
	if err := t.active("two policies are active", `key: "`+anyRoute+`"`, `key: "`+ownRoute+`"`, "requests_per_unit: 3", "requests_per_unit: 4"); err != nil {
		return err
	}
	t.check("three of ann pass, a fourth does not", t.answers(domain, anyRoute, "ann", 5, 3))
	t.check("bob has a count of his own", t.answers(domain, anyRoute, "bob", 4, 3))
	t.check("the route with a host of its own has four", t.answers(domain, ownRoute, "ann", 6, 4))
	t.check("another host than the * has no limit", t.answers(domain, strings.Replace(anyRoute, "*", "other_example_com", 1), "ann", 6, 0))
	org := []entry{{anyRoute, anyRoute}, {"rule-1-match-0", "rule-1-match-0"}}
	var codes []string
	for range 3 {
		answer, err := t.weir.ask(t.ctx, domain, org)
		if err != nil {
			return err
		}
		codes = append(codes, answer.GetOverallCode().String())
	}
	fault := ""
	if got := strings.Join(codes, " "); got != "OK OK OVER_LIMIT" {
		fault = got
	}
	t.check("two of an organisation pass, a third does not", fault)
	return nil
}

// change puts another limit in force, and what was used stays used.
func (t *trial) change() error {
	if err := t.write(routes + policy("backend", 5, "Hour") + policy("shop", 4, "Hour")); err != nil {
		return err
	}
	if err := t.active("a changed policy is active", "requests_per_unit: 5"); err != nil {
		return err
	}
	t.check("ann has two more, of five", t.answers(domain, anyRoute, "ann", 3, 2))
	return nil
}

// bad has Envoy Gateway send a unit that it does not know itself: its rules of before stay, and it hears why.
func (t *trial) bad() error {
	if err := t.write(routes + policy("backend", 6, "Fortnight") + policy("shop", 4, "Hour")); err != nil {
		return err
	}
	err := t.until("a policy with an unknown unit is refused", func() string {
		refused := strings.Contains(t.weir.page(t.ctx, "/metrics"), `weir_xds_answers_total{result="refused"}`) &&
			!strings.Contains(t.weir.page(t.ctx, "/metrics"), `weir_xds_answers_total{result="refused"} 0`)
		if log := t.gateway.out.String(); !refused && !strings.Contains(log, "Fortnight") && !strings.Contains(log, "nsupported value") {
			return "neither refused by Weir nor by Envoy Gateway"
		}
		if refused {
			fmt.Println("gateway    (by Weir: " + strings.TrimSpace(t.weir.page(t.ctx, "/v1/findings")) + ")")
		} else {
			fmt.Println("gateway    (by Envoy Gateway)")
		}
		return ""
	})
	if err != nil {
		return err
	}
	t.check("the rules before stay", t.over("ann"))
	if err := t.write(routes + policy("backend", 5, "Hour") + policy("shop", 4, "Hour")); err != nil {
		return err
	}
	return t.until("a good policy behind it is accepted", func() string {
		if m := t.weir.page(t.ctx, "/metrics"); !strings.Contains(m, "\nweir_rules_reload_success 1") {
			return "the old rules are active because a reload failed"
		}
		return t.over("ann")
	})
}

// over is what is wrong with a user who is over the limit.
func (t *trial) over(user string) string {
	answer, err := t.weir.ask(t.ctx, domain, []entry{{anyRoute, anyRoute}, {"rule-0-match-0", user}})
	if err != nil || answer.GetOverallCode() != rls.RateLimitResponse_OVER_LIMIT {
		return fmt.Sprintf("%s: %v, %v; want over the limit", user, answer.GetOverallCode(), err)
	}
	return ""
}

// restart stops Envoy Gateway for a while and starts it again: a limit that is spent stays spent all the time.
func (t *trial) restart() error {
	ctx, stop := context.WithCancel(t.ctx)
	defer stop()
	var asked, passed atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if t.over("ann") != "" {
				passed.Add(1)
			}
			asked.Add(1)
		}
	}()
	t.gateway.stop()
	if err := t.until("Weir tells that Envoy Gateway is away", func() string {
		if !strings.Contains(t.weir.page(t.ctx, "/metrics"), "\nweir_rules_reload_success 0") {
			return "it does not"
		}
		return ""
	}); err != nil {
		return err
	}
	if err := t.startGateway(); err != nil {
		return err
	}
	if err := t.until("Envoy Gateway is started anew, and followed", func() string {
		if !strings.Contains(t.weir.page(t.ctx, "/metrics"), "\nweir_rules_reload_success 1") {
			return "it is not"
		}
		return ""
	}); err != nil {
		return err
	}
	stop()
	<-done
	fault := ""
	if passed.Load() > 0 {
		fault = fmt.Sprintf("%d of %d requests were not", passed.Load(), asked.Load())
	}
	t.check(fmt.Sprintf("meanwhile ann was over the limit, %d times", asked.Load()), fault)
	return nil
}

// remove takes the policies away.
func (t *trial) remove() error {
	if err := t.write(routes); err != nil {
		return err
	}
	return t.until("without policies all pass", func() string { return t.answers(domain, anyRoute, "ann", 10, 0) })
}

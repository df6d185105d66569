// Package helm holds the chart of deploy/helm to Helm, to the types of Kubernetes, and to weir serve.
package helm

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	review "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	documents "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	deploy = "../../deploy"
	folder = deploy + "/helm/weir"
)

var update = flag.Bool("update", false, "write deploy/kubernetes.yaml and deploy/kubernetes-cluster.yaml; read the diff")

// values are what a user of the chart gives it.
type values = map[string]any

// kinds are where counts may be kept.
var kinds = map[string]values{
	"memory":  {},
	"file":    {"store": values{"url": "memory:?snapshot=/var/cache/weir/counts"}},
	"cluster": {"store": values{"url": "cluster:"}},
	"tcp":     {"store": values{"url": "cluster:?transport=tcp"}, "replicas": 5},
	"server":  {"store": values{"url": "redis://redis:6379"}},
	"secret":  {"store": values{"existingSecret": "weir-store"}, "grpc": values{"maxConnectionAge": "10m"}},
}

// choices are what a user may give or not, whatever else is given.
var choices = []values{
	{"rules": values{"files": values{"edge.yaml": "domain: edge\ndescriptors:\n  - {key: user, limits: [5/s]}\n", "shop.yml": "domain: shop\ndescriptors: []"}}},
	{"rules": values{"existingConfigMap": "limits"}},
	{"data": values{"existingSecret": "weir-data"}, "nameOverride": "limits"},
	{"resp": values{"enabled": true}, "service": values{"type": "LoadBalancer", "annotations": values{"a": "b"}}, "fullnameOverride": "throttle"},
	{"tls": values{"existingSecret": "weir-tls"}, "podLabels": values{"team": "edge"}, "podAnnotations": values{"a": "b"}},
	{"tls": values{"existingSecret": "weir-tls", "clientCAKey": "ca.crt"}, "service": values{"headless": true}, "admin": values{"existingSecret": "tokens", "existingSecretKey": "admin"}},
	{"metrics": values{
		"serviceMonitor": values{"enabled": true, "labels": values{"release": "prometheus"}, "existingSecret": "reader"},
		"prometheusRule": values{"enabled": true, "labels": values{"release": "prometheus"}},
		"dashboard":      values{"enabled": true},
	}},
	{"metrics": values{"serviceMonitor": values{"enabled": true}}},
	{
		"networkPolicy":  values{"from": []any{values{"podSelector": values{"matchLabels": values{"app": "envoy"}}}}, "adminFrom": []any{values{"ipBlock": values{"cidr": "10.0.0.0/8"}}}},
		"extraArgs":      []any{"--hash-keys"},
		"extraEnv":       []any{values{"name": "OTEL_SERVICE_NAME", "value": "weir"}},
		"serviceAccount": values{"name": "weir"}, "priorityClassName": "high", "nodeSelector": values{"a": "b"},
		"tolerations": []any{values{"key": "a", "operator": "Exists"}}, "imagePullSecrets": []any{values{"name": "registry"}},
		"affinity":     values{"podAntiAffinity": values{}},
		"extraVolumes": []any{values{"name": "oidc", "secret": values{"secretName": "oidc"}}}, "extraVolumeMounts": []any{values{"name": "oidc", "mountPath": "/etc/weir/oidc"}},
	},
	{"admission": values{"enabled": true, "certManager": values{"enabled": true}}},
	{"admission": values{"enabled": true, "caBundle": "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n", "replicas": 1, "failurePolicy": "Fail", "namespaceSelector": values{"matchLabels": values{"team": "edge"}}}},
	{"networkPolicy": values{"enabled": false}, "podDisruptionBudget": values{"enabled": false}, "preStopSeconds": 30, "image": values{"repository": "registry.example:5000/weir", "tag": "v1"}},
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	slog.SetLogLoggerLevel(slog.LevelWarn) // Helm tells each time of the links in the folder files
	c, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render is what helm template makes of the chart, by file.
func render(c *chart.Chart, v values) (map[string]string, error) {
	all, err := util.ToRenderValues(c, v, common.ReleaseOptions{Name: "weir", Namespace: "limits", Revision: 1, IsInstall: true}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		delete(files, name)
		if text = strings.TrimSpace(text); text != "" {
			files[path.Base(name)] = text + "\n"
		}
	}
	return files, nil
}

// TestManifests: the files of deploy are what the chart makes of the values beside it. make deploy writes them.
func TestManifests(t *testing.T) {
	// In a file that kubectl takes, nothing is Helm's.
	helms := regexp.MustCompile(`(?m)^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n`)
	for _, name := range []string{"kubernetes.yaml", "kubernetes-cluster.yaml"} {
		text := read(t, filepath.Join(deploy, "helm/values", name))
		var v values
		if err := yaml.UnmarshalStrict([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		files, err := render(load(t), v)
		if err != nil {
			t.Fatal(err)
		}
		delete(files, "NOTES.txt")
		var all []string
		for _, file := range slices.Sorted(maps.Keys(files)) {
			all = append(all, helms.ReplaceAllString(files[file], ""))
		}
		head := regexp.MustCompile(`^(#.*\n)+`).FindString(text)
		got := head + "\n" + strings.Join(all, "---\n")
		file := filepath.Join(deploy, name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		} else if read(t, file) != got {
			t.Errorf("%s is not what the chart makes: run make deploy, and read the diff", file)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestChart has Helm lint and render the chart for each kind with each choice and each two, and with nearly all at
// once, and looks at the objects.
func TestChart(t *testing.T) {
	c, flags := load(t), map[string]map[string]bool{"serve": flagsOf(t, "serve"), "admission": flagsOf(t, "admission")}
	for kind, base := range kinds {
		try := func(chosen ...int) {
			t.Helper()
			v := util.CoalesceTables(values{}, base)
			for _, i := range chosen {
				v = util.CoalesceTables(v, choices[i])
			}
			name := fmt.Sprintf("%s, choices %v", kind, chosen)
			files, err := render(c, v)
			if err != nil {
				if !twoOfOne(v) {
					t.Fatalf("%s: %v", name, err)
				}
				return
			}
			decode(t, name, files).look(t, name, flags)
			if len(chosen) < 2 {
				for _, m := range lint.RunAll(folder, v, "limits").Messages {
					if m.Severity > support.InfoSev {
						t.Errorf("%s: helm lint: %v", name, m)
					}
				}
			}
			if t.Failed() {
				t.Fatalf("%s\n%v", name, v)
			}
		}
		try()
		var most []int
		for i := range choices {
			try(i)
			for j := range i {
				try(j, i)
			}
			if _, err := render(c, util.CoalesceTables(util.CoalesceTables(values{}, base), choices[i])); err == nil && i != 1 && i != 10 {
				most = append(most, i)
			}
		}
		try(most...)
	}
}

// twoOfOne is whether values name two places of one thing, which the chart refuses.
func twoOfOne(v values) bool {
	r, _ := v["rules"].(values)
	a, _ := v["admission"].(values)
	c, _ := a["certManager"].(values)
	return r["files"] != nil && r["existingConfigMap"] != nil || c != nil && a["caBundle"] != nil
}

// objects are what the chart made, in the types of Kubernetes.
type objects struct {
	pods      map[string]*core.PodTemplateSpec // by the name of what runs them
	selectors map[string]map[string]string
	services  []*core.Service
	maps      map[string]*core.ConfigMap
	monitors  []*monitoring.ServiceMonitor
	policies  []*networking.NetworkPolicy
	budgets   []*policy.PodDisruptionBudget
	scalers   []*autoscaling.HorizontalPodAutoscaler
	alerts    []*monitoring.PrometheusRule
	sets      []*apps.StatefulSet
	hooks     []*registration.ValidatingWebhookConfiguration
	certs     []*certmanager.Certificate
	issuers   []*certmanager.Issuer
}

// decode reads each object into its type. Nothing that the type does not have may be there, and nothing twice.
func decode(t *testing.T, name string, files map[string]string) *objects {
	t.Helper()
	o := &objects{pods: map[string]*core.PodTemplateSpec{}, selectors: map[string]map[string]string{}, maps: map[string]*core.ConfigMap{}}
	for file, text := range files {
		if file == "NOTES.txt" {
			continue
		}
		d := documents.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
		for {
			one, err := d.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			made, _, err := strict.Decode(one, nil, nil)
			if err != nil {
				t.Fatalf("%s: %s: %v\n%s", name, file, err, one)
			}
			o.add(t, made)
		}
	}
	return o
}

func (o *objects) add(t *testing.T, made runtime.Object) {
	t.Helper()
	switch made := made.(type) {
	case *apps.Deployment:
		o.pods[made.Name], o.selectors[made.Name] = &made.Spec.Template, made.Spec.Selector.MatchLabels
	case *apps.StatefulSet:
		o.pods[made.Name], o.selectors[made.Name] = &made.Spec.Template, made.Spec.Selector.MatchLabels
		o.sets = append(o.sets, made)
	case *core.Service:
		o.services = append(o.services, made)
	case *core.ConfigMap:
		o.maps[made.Name] = made
	case *monitoring.ServiceMonitor:
		o.monitors = append(o.monitors, made)
	case *monitoring.PrometheusRule:
		o.alerts = append(o.alerts, made)
	case *networking.NetworkPolicy:
		o.policies = append(o.policies, made)
	case *policy.PodDisruptionBudget:
		o.budgets = append(o.budgets, made)
	case *autoscaling.HorizontalPodAutoscaler:
		o.scalers = append(o.scalers, made)
	case *registration.ValidatingWebhookConfiguration:
		o.hooks = append(o.hooks, made)
	case *certmanager.Certificate:
		o.certs = append(o.certs, made)
	case *certmanager.Issuer:
		o.issuers = append(o.issuers, made)
	default:
		t.Errorf("a %T is looked at by nothing", made)
	}
}

// look follows the names by which objects know each other, and asks weir for each flag and variable.
func (o *objects) look(t *testing.T, name string, flags map[string]map[string]bool) {
	t.Helper()
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s: "+format, append([]any{name}, args...)...)
	}
	selected := func(by map[string]string) (some []*core.PodTemplateSpec) {
		for _, p := range o.pods {
			if len(by) > 0 && within(by, p.Labels) {
				some = append(some, p)
			}
		}
		return some
	}
	for of, p := range o.pods {
		if len(selected(o.selectors[of])) != 1 || selected(o.selectors[of])[0] != p {
			wrong("%s does not select its own pods alone: %v", of, o.selectors[of])
		}
		lookAtPod(wrong, p, flags[p.Spec.Containers[0].Args[0]], o.maps)
	}
	for _, s := range o.services {
		pods := selected(s.Spec.Selector)
		if len(pods) != 1 {
			wrong("the Service %s selects %d kinds of pods", s.Name, len(pods))
			continue
		}
		for _, port := range s.Spec.Ports {
			if p := portOf(pods[0], port.TargetPort); p == nil || p.ContainerPort != port.Port {
				wrong("the Service %s has port %d at %s, and its pods have %v", s.Name, port.Port, port.TargetPort.String(), p)
			}
		}
	}
	for _, s := range o.sets {
		if !slices.ContainsFunc(o.services, func(by *core.Service) bool {
			return by.Name == s.Spec.ServiceName && by.Spec.ClusterIP == core.ClusterIPNone && by.Spec.PublishNotReadyAddresses
		}) {
			wrong("no Service %s gives pods names before they are ready", s.Spec.ServiceName)
		}
	}
	for _, m := range o.monitors {
		for _, e := range m.Spec.Endpoints {
			found := 0
			for _, s := range o.services {
				if within(m.Spec.Selector.MatchLabels, s.Labels) && slices.ContainsFunc(s.Spec.Ports, func(p core.ServicePort) bool { return p.Name == e.Port }) {
					found++
				}
			}
			if found != 1 || e.HTTPConfigWithProxyAndTLSFiles.Authorization.Credentials == nil {
				wrong("Prometheus finds %d Services with port %s", found, e.Port)
			}
		}
	}
	for _, p := range o.policies {
		pods := selected(p.Spec.PodSelector.MatchLabels)
		if len(pods) != 1 {
			wrong("the NetworkPolicy %s selects %d kinds of pods", p.Name, len(pods))
			continue
		}
		open := map[string]bool{}
		for _, in := range p.Spec.Ingress {
			for _, port := range in.Ports {
				open[port.Port.String()] = true
			}
		}
		for _, port := range pods[0].Spec.Containers[0].Ports {
			if !open[port.Name] {
				wrong("the NetworkPolicy %s closes %s", p.Name, port.Name)
			}
			delete(open, port.Name)
		}
		if len(open) > 0 {
			wrong("the NetworkPolicy %s opens %v, which no pod has", p.Name, open)
		}
	}
	for _, h := range o.hooks {
		at := h.Webhooks[0].ClientConfig
		if !slices.ContainsFunc(o.services, func(s *core.Service) bool {
			return s.Name == at.Service.Name && at.Service.Namespace == "limits" && s.Spec.Ports[0].Port == *at.Service.Port
		}) || *at.Service.Path != "/review" {
			wrong("Kubernetes asks %v, which is not there", at.Service)
		}
		if by := h.Annotations["cert-manager.io/inject-ca-from"]; (by == "") == (len(at.CABundle) == 0) {
			wrong("Kubernetes knows the CA by %q and %q", by, at.CABundle)
		}
		if !within(h.Webhooks[0].ObjectSelector.MatchLabels, map[string]string{"weir/rules": "true"}) {
			wrong("Kubernetes asks about %v", h.Webhooks[0].ObjectSelector)
		}
	}
	for _, m := range o.maps {
		if m.Labels["weir/rules"] != "true" && !strings.HasSuffix(m.Name, "-dashboard") {
			wrong("the rules of %s are not reviewed", m.Name)
		}
	}
	for _, made := range o.certs {
		if !slices.ContainsFunc(o.issuers, func(i *certmanager.Issuer) bool { return i.Name == made.Spec.IssuerRef.Name }) ||
			!slices.Contains(made.Spec.DNSNames, o.hooks[0].Webhooks[0].ClientConfig.Service.Name+".limits.svc") {
			wrong("the certificate %s is of nobody, or not of the Service: %v", made.Name, made.Spec)
		}
	}
	for _, b := range o.budgets {
		if len(selected(b.Spec.Selector.MatchLabels)) != 1 {
			wrong("the PodDisruptionBudget %s selects no pods", b.Name)
		}
	}
	for _, s := range o.scalers {
		if o.pods[s.Spec.ScaleTargetRef.Name] == nil {
			wrong("there is no %s to scale", s.Spec.ScaleTargetRef.Name)
		}
	}
}

// lookAtPod holds a pod to least rights, to what weir serve takes, and to what it mounts.
func lookAtPod(wrong func(string, ...any), p *core.PodTemplateSpec, flags map[string]bool, configs map[string]*core.ConfigMap) {
	s, c := p.Spec, p.Spec.Containers[0]
	may := c.SecurityContext
	if *s.AutomountServiceAccountToken || !*s.SecurityContext.RunAsNonRoot || *may.AllowPrivilegeEscalation || !*may.ReadOnlyRootFilesystem ||
		!slices.Equal(may.Capabilities.Drop, []core.Capability{"ALL"}) || s.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		wrong("a pod may do more than it needs")
	}
	if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
		wrong("a pod may take all memory: its GOMEMLIMIT is made of its limit")
	}
	var given []string
	for _, a := range c.Args[1:] {
		flag, _, _ := strings.Cut(a, "=")
		given = append(given, flag)
		if !flags[flag] {
			wrong("weir %s has no flag %s", c.Args[0], flag)
		}
	}
	for _, e := range c.Env {
		if rest, ok := strings.CutPrefix(e.Name, "WEIR_"); ok {
			flag := "--" + strings.ReplaceAll(strings.ToLower(rest), "_", "-")
			given = append(given, flag)
			if !flags[flag] {
				wrong("%s is no flag", e.Name)
			}
		}
	}
	if slices.Sort(given); len(slices.Compact(given)) != len(given) {
		wrong("a flag is given twice: %q", given)
	}
	for _, port := range c.Ports {
		kind, _, _ := strings.Cut(port.Name, "-")
		if !slices.ContainsFunc(c.Args, func(a string) bool {
			return strings.HasPrefix(a, "--"+kind+"=") && strings.HasSuffix(a, fmt.Sprint(":", port.ContainerPort))
		}) {
			wrong("weir does not listen at port %s %d: %q", port.Name, port.ContainerPort, c.Args)
		}
	}
	for _, probe := range []*core.Probe{c.ReadinessProbe, c.LivenessProbe} {
		if portOf(p, probe.HTTPGet.Port) == nil {
			wrong("a probe asks %s, which is not there", probe.HTTPGet.Port.String())
		}
		if secure := slices.Contains(given, "--tls-cert"); (probe.HTTPGet.Scheme == core.URISchemeHTTPS) != secure {
			wrong("a probe asks by %s", probe.HTTPGet.Scheme)
		}
	}
	if sleep := c.Lifecycle; sleep != nil && *s.TerminationGracePeriodSeconds < sleep.PreStop.Sleep.Seconds+17 || *s.TerminationGracePeriodSeconds < 17 {
		wrong("%d s are too few to drain", *s.TerminationGracePeriodSeconds)
	}
	volumes := map[string]bool{}
	for _, v := range s.Volumes {
		volumes[v.Name] = true
		if m := v.ConfigMap; m != nil && configs[m.Name] == nil && m.Name != "limits" {
			wrong("there is no ConfigMap %s", m.Name)
		}
	}
	looks := strings.Join(c.Args, " ")
	for _, e := range c.Env {
		looks += " =" + e.Value
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			wrong("there is no volume %s", m.Name)
		}
		delete(volumes, m.Name)
		if m.Name != "oidc" && !strings.Contains(looks, "="+m.MountPath) {
			wrong("weir does not look at %s", m.MountPath)
		}
	}
	if len(volumes) > 0 {
		wrong("volumes are not mounted: %v", volumes)
	}
}

func within(some, all map[string]string) bool {
	for k, v := range some {
		if all[k] != v {
			return false
		}
	}
	return true
}

func portOf(p *core.PodTemplateSpec, name intstr.IntOrString) *core.ContainerPort {
	for _, port := range p.Spec.Containers[0].Ports {
		if port.Name == name.StrVal {
			return &port
		}
	}
	return nil
}

// weir is the program, built once as a fresh clone builds it.
var weir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "weir-helm")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "weir")
	build := exec.Command("go", "build", "-o", binary, "./cmd/weir")
	build.Dir, build.Env = "../..", append(os.Environ(), "GOWORK=")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if binary, err := weir(); err == nil {
		_ = os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(code)
}

func program(t *testing.T) string {
	t.Helper()
	binary, err := weir()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// flagsOf are those that weir COMMAND --help has.
func flagsOf(t *testing.T, command string) map[string]bool {
	t.Helper()
	text, err := exec.CommandContext(t.Context(), program(t), command, "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^ +(--[a-z0-9-]+)`).FindAllStringSubmatch(string(text), -1) {
		flags[m[1]] = true
	}
	if len(flags) < 4 {
		t.Fatalf("help of %s names %d flags", command, len(flags))
	}
	return flags
}

// TestFiles: alerts and dashboard are those of deploy, and the chart has no copies.
func TestFiles(t *testing.T) {
	files, err := render(load(t), values{"metrics": values{"prometheusRule": values{"enabled": true}, "dashboard": values{"enabled": true}}})
	if err != nil {
		t.Fatal(err)
	}
	o := decode(t, "metrics", files)
	var alerts monitoring.PrometheusRuleSpec
	if err := yaml.UnmarshalStrict([]byte(read(t, deploy+"/prometheus/alerts.yaml")), &alerts); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(alerts, o.alerts[0].Spec) || len(alerts.Groups[0].Rules) < 20 {
		t.Error("the alerts of the chart are not those of deploy/prometheus/alerts.yaml")
	}
	if board := o.maps["weir-dashboard"].Data["weir.json"]; board != read(t, deploy+"/grafana.json") {
		t.Error("the dashboard of the chart is not deploy/grafana.json")
	}
	for _, name := range []string{"alerts.yaml", "dashboard.json"} {
		if i, err := os.Lstat(filepath.Join(folder, "files", name)); err != nil || i.Mode()&os.ModeSymlink == 0 {
			t.Errorf("files/%s is a copy: %v", name, err)
		}
	}
}

// TestRefusals: values that make no sense are refused, and the answer says what to give.
func TestRefusals(t *testing.T) {
	c := load(t)
	for _, r := range []struct {
		values string
		says   []string
	}{
		{"{stor: {url: 'memory:'}}", []string{"stor"}},
		{"{store: {url: 'redis:6379'}}", []string{"/store/url", "pattern"}},
		{"{store: {url: 'redis://:secret@redis:6379'}}", []string{"store.existingSecret", "kubectl create secret"}},
		{"{store: {url: 'redis://redis:6379', existingSecret: weir-store}}", []string{"give one of them"}},
		{"{replicas: 2}", []string{"2 pods", "give replicas 1, or store.url"}},
		{"{replicas: 0}", []string{"/replicas", "minimum"}},
		{"{store: {url: 'cluster:'}, replicas: 2}", []string{"give 3 or more"}},
		{"{autoscaling: {enabled: true}}", []string{"autoscaling.enabled", "memory:"}},
		{"{store: {url: 'cluster:'}, autoscaling: {enabled: true}}", []string{"autoscaling.enabled", "cluster:"}},
		{"{store: {url: 'redis://redis'}, autoscaling: {enabled: true, minReplicas: 11}}", []string{"more than autoscaling.maxReplicas"}},
		{"{rules: {files: {edge.yaml: 'domain: edge'}, existingConfigMap: limits}}", []string{"give one of them"}},
		{"{rules: {files: {edge.json: '{}'}}}", []string{"/rules/files", "edge.json"}},
		{"{rules: {files: {edge.yaml: {domain: edge}}}}", []string{"/rules/files/edge.yaml", "string"}},
		{"{tls: {clientCAKey: ca.crt}}", []string{"tls.existingSecret"}},
		{"{terminationGracePeriodSeconds: 10}", []string{"give 17 or more"}},
		{"{preStopSeconds: 60, terminationGracePeriodSeconds: 60}", []string{"give 77 or more"}},
		{"{service: {type: LoadBalancer, headless: true}}", []string{"/service/type", "ClusterIP"}},
		{"{resp: {enabled: 'yes'}}", []string{"/resp/enabled", "boolean"}},
		{"{extraArgs: [serve]}", []string{"/extraArgs/0", "^--"}},
		{"{admission: {enabled: true}}", []string{"admission.caBundle", "certManager.enabled true"}},
		{"{admission: {enabled: true, caBundle: MII=}}", []string{"/admission/caBundle"}},
		{"{admission: {failurePolicy: fail}}", []string{"/admission/failurePolicy", "Ignore"}},
		{"{cluster: {name: 'a b'}}", []string{"/cluster/name"}},
	} {
		var v values
		if err := yaml.UnmarshalStrict([]byte(r.values), &v); err != nil {
			t.Fatal(err)
		}
		_, err := render(c, v)
		for _, says := range r.says {
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v; want %q", r.values, err, says)
			}
		}
	}
}

// TestNotes: the notes say what to do next, for what was installed.
func TestNotes(t *testing.T) {
	for kind, says := range map[string][]string{
		"memory":  {"kubectl -n limits create secret generic weir-admin", "rollout status deployment/weir", "demo rules"},
		"cluster": {"kubectl -n limits create secret generic weir-cluster", "rollout status statefulset/weir", "exec weir-0 -- /weir cluster status"},
		"secret":  {"counts on a server"},
	} {
		files, err := render(load(t), kinds[kind])
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range says {
			if !strings.Contains(files["NOTES.txt"], s) {
				t.Errorf("%s: the notes don't say %q:\n%s", kind, s, files["NOTES.txt"])
			}
		}
	}
}

var strict = func() runtime.Decoder {
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), monitoring.AddToScheme(s), certmanager.AddToScheme(s), review.AddToScheme(s)); err != nil {
		panic(err)
	}
	return serializer.NewCodecFactory(s, serializer.EnableStrict).UniversalDeserializer()
}()

package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/weir-limit/weir/rules"
)

// TestCompose starts weir as deploy/compose.yaml does, and looks for the files
// that it hands to the others. There is no Docker where tests run.
func TestCompose(t *testing.T) {
	t.Parallel()
	var compose struct {
		Services map[string]struct {
			Build   struct{ Context, Dockerfile string }
			Command []string
			Volumes []string
			Depends []string `yaml:"depends_on"`
		}
	}
	if err := yaml.Unmarshal([]byte(recipe(t, filepath.Join(deploy, "compose.yaml"))), &compose); err != nil {
		t.Fatal(err)
	}
	weir := compose.Services["weir"]
	if weir.Command[0] != "serve" {
		t.Fatalf("the command is %q", weir.Command)
	}
	serve(t, elsewhere(t, weir.Command[1:])...)
	exists := func(name string) {
		t.Helper()
		if _, err := os.Stat(filepath.Join(deploy, name)); err != nil {
			t.Error(err)
		}
	}
	exists(filepath.Join(weir.Build.Context, weir.Build.Dockerfile))
	for name, s := range compose.Services {
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			exists(from)
		}
		for _, other := range s.Depends {
			if _, ok := compose.Services[other]; !ok {
				t.Errorf("%s waits for %s, which there is not", name, other)
			}
		}
	}
}

// object is as much of a Kubernetes object as the tests look at.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Replicas    int
		MinReady    int    `yaml:"minReadySeconds"`
		ServiceName string `yaml:"serviceName"`
		ClusterIP   string `yaml:"clusterIP"`
		Unready     bool   `yaml:"publishNotReadyAddresses"`
		Most        int    `yaml:"maxUnavailable"`
		Selector    map[string]any
		Ports       []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]any }
			Spec     struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []container
				Volumes    []struct {
					Name      string
					ConfigMap struct{ Name string } `yaml:"configMap"`
				}
			}
		}
	}
}

type container struct {
	Args           []string
	Env            []struct{ Name, Value string }
	Ports          []struct{ Name string }
	ReadinessProbe probe `yaml:"readinessProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	Lifecycle      struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

func (c *container) has(port string) bool {
	return slices.ContainsFunc(c.Ports, func(p struct{ Name string }) bool { return p.Name == port })
}

// objects are those of a file, by kind and name. integrations/helm holds the file to the chart.
func objects(t *testing.T, file string) map[string]object {
	t.Helper()
	all := map[string]object{}
	documents := yaml.NewDecoder(bytes.NewReader([]byte(recipe(t, filepath.Join(deploy, file)))))
	for {
		var o object
		err := documents.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[o.Kind+" "+o.Metadata.Name] = o
	}
}

// TestKubernetes starts weir as deploy/kubernetes.yaml does, and follows the
// names by which its objects know each other. There is no cluster where tests
// run.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	all := objects(t, "kubernetes.yaml")
	pod := all["Deployment weir"].Spec.Template
	c := pod.Spec.Containers[0]
	d := serve(t, elsewhere(t, c.Args[1:])...)
	for _, p := range []probe{c.ReadinessProbe, c.LivenessProbe} {
		if a := newClient(t).ask("GET", "http://"+d.http+p.HTTPGet.Path, ""); a.status != 200 || !c.has(p.HTTPGet.Port) {
			t.Errorf("%+v: %v", p, a)
		}
	}
	door := "http://127.0.0.1" + d.admin[strings.LastIndexByte(d.admin, ':'):]
	if a := newClient(t).ask("GET", door+"/metrics", ""); a.status != 401 {
		t.Errorf("the admin listener, without a token: %v", a)
	}
	// Prometheus comes by the service's name.
	if a := newClient(t).ask("GET", door+"/metrics", "", "Authorization", "Bearer "+adminToken, "Host", "weir-admin:8082"); a.status != 200 {
		t.Errorf("the admin listener, with its token: %v", a)
	}
	rulesMap := all["ConfigMap weir-rules"]
	if v := pod.Spec.Volumes[0]; v.ConfigMap.Name != rulesMap.Metadata.Name {
		t.Errorf("the rules are not those of %s: %+v", rulesMap.Metadata.Name, v)
	}
	follow(t, &pod.Spec.Containers[0], pod.Metadata.Labels, all["Service weir"], all["Service weir-admin"])
	for i, v := range pod.Spec.Volumes {
		if m := c.VolumeMounts[i]; m.Name != v.Name {
			t.Errorf("%s is not mounted: %+v", v.Name, m)
		}
	}
	if len(rulesMap.Data) == 0 {
		t.Error("there are no rules")
	}
	for name, text := range rulesMap.Data {
		if set, err := rules.Parse(name, []byte(text)); err != nil || len(set.Rules()) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if pod.Spec.Grace < 17 { // draining and reporting take 17 s at most
		t.Errorf("%d s are too few to drain", pod.Spec.Grace)
	}
}

// follow looks for what Services select, and for what weir is to find where it looks.
func follow(t *testing.T, c *container, labels map[string]any, services ...object) {
	t.Helper()
	for _, service := range services {
		if len(service.Spec.Selector) == 0 || len(service.Spec.Ports) == 0 {
			t.Errorf("the Service %s selects nothing", service.Metadata.Name)
		}
		for key, value := range service.Spec.Selector {
			if labels[key] != value {
				t.Errorf("no pod is %s=%v", key, value)
			}
		}
		for _, p := range service.Spec.Ports {
			if !c.has(p.TargetPort) {
				t.Errorf("no port is called %s", p.TargetPort)
			}
		}
	}
	looks := strings.Join(c.Args, " ")
	for _, e := range c.Env {
		looks += " =" + e.Value
	}
	for _, m := range c.VolumeMounts {
		if !strings.Contains(looks, "="+m.MountPath) {
			t.Errorf("%s is not where weir looks: %+v", m.Name, m)
		}
	}
}

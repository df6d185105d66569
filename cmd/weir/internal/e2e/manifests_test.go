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

// object is as much of a Kubernetes object as the test looks at.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Selector map[string]any
		Ports    []struct {
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
	Ports          []struct{ Name string }
	ReadinessProbe probe `yaml:"readinessProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	VolumeMounts   []struct {
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

// TestKubernetes starts weir as deploy/kubernetes.yaml does, and follows the
// names by which its objects know each other. There is no cluster where tests
// run.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	objects := map[string]object{}
	documents := yaml.NewDecoder(bytes.NewReader([]byte(recipe(t, filepath.Join(deploy, "kubernetes.yaml")))))
	for {
		var o object
		err := documents.Decode(&o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		objects[o.Kind] = o
	}
	pod := objects["Deployment"].Spec.Template
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
	if a := newClient(t).ask("GET", door+"/metrics", "", "Authorization", "Bearer "+adminToken, "Host", "weir:8082"); a.status != 200 {
		t.Errorf("the admin listener, with its token: %v", a)
	}
	if v := pod.Spec.Volumes[0]; v.ConfigMap.Name != objects["ConfigMap"].Metadata.Name {
		t.Errorf("the rules are not those of %s: %+v", objects["ConfigMap"].Metadata.Name, v)
	}
	for i, v := range pod.Spec.Volumes {
		if m := c.VolumeMounts[i]; m.Name != v.Name || !strings.Contains(strings.Join(c.Args, " "), "="+m.MountPath) {
			t.Errorf("%s is not where weir looks: %+v", v.Name, m)
		}
	}
	for name, text := range objects["ConfigMap"].Data {
		if set, err := rules.Parse(name, []byte(text)); err != nil || len(set.Rules()) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	service := objects["Service"].Spec
	for key, value := range service.Selector {
		if pod.Metadata.Labels[key] != value {
			t.Errorf("no pod is %s=%v", key, value)
		}
	}
	for _, p := range service.Ports {
		if !c.has(p.TargetPort) {
			t.Errorf("no port is called %s", p.TargetPort)
		}
	}
	if pod.Spec.Grace < 12 { // draining takes 11 s at most
		t.Errorf("%d s are too few to drain", pod.Spec.Grace)
	}
}

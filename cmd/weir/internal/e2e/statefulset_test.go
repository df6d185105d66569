package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/weir-limit/weir/internal/porttest"
)

// set is as much of the objects of deploy/kubernetes-cluster.yaml as the test looks at.
type set struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Replicas    int
		ServiceName string `yaml:"serviceName"`
		ClusterIP   string `yaml:"clusterIP"`
		Unready     bool   `yaml:"publishNotReadyAddresses"`
		Selector    map[string]any
		Most        int `yaml:"maxUnavailable"`
		Ports       []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]any }
			Spec     struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []container
				Volumes    []struct{ Name string }
			}
		}
	}
}

// objects are those of a file, by kind and name.
func objects(t *testing.T, file string) map[string]set {
	t.Helper()
	all := map[string]set{}
	documents := yaml.NewDecoder(bytes.NewReader([]byte(recipe(t, filepath.Join(deploy, file)))))
	for {
		var o set
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

// node is weir started as the pod of a number, at an address of this machine in place of the pod's.
func (s *set) node(t *testing.T, number int, at []string, key string) *daemon {
	t.Helper()
	c := s.Spec.Template.Spec.Containers[0]
	pod := fmt.Sprintf("%s-%d", s.Metadata.Name, number)
	args := elsewhere(t, slices.DeleteFunc(slices.Clone(c.Args[1:]), func(a string) bool {
		return strings.HasPrefix(a, "--cluster=") || strings.HasPrefix(a, "--join=")
	}))
	for i, a := range args {
		args[i] = strings.Replace(a, "/etc/weir/cluster/cluster.key", key, 1)
	}
	for _, a := range c.Args[1:] {
		name := strings.NewReplacer("$(POD_NAME)", pod, "$(POD_NAMESPACE)", "default").Replace(a)
		switch name {
		case "--cluster=" + pod + "." + s.Spec.ServiceName + ".default.svc.cluster.local:8083":
			args = append(args, "--cluster="+at[number])
		case "--join=" + s.Spec.ServiceName + ".default.svc.cluster.local:8083":
			args = append(args, "--join="+strings.Join(at, ","))
		}
	}
	if n := len(args); n != len(c.Args)-1 {
		t.Fatalf("%d of %d arguments are left: pods don't find each other by %q", n, len(c.Args)-1, c.Args)
	}
	cmd := command(t, binary, serveArgs(args)...)
	cmd.Env = append(cmd.Environ(), "XDG_CACHE_HOME="+t.TempDir())
	return startDaemon(t, cmd)
}

// TestStatefulSet starts the nodes of deploy/kubernetes-cluster.yaml as its pods would, replaces each, and follows the
// names by which its objects know each other. There is no Kubernetes where tests run.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	all := objects(t, "kubernetes-cluster.yaml")
	s := all["StatefulSet weir"]
	pod := s.Spec.Template
	nodes := all["Service "+s.Spec.ServiceName]
	if nodes.Spec.ClusterIP != "None" || !nodes.Spec.Unready {
		t.Errorf("%s gives no names to pods that are not ready: %+v", s.Spec.ServiceName, nodes.Spec)
	}
	for _, service := range []set{nodes, all["Service weir"]} {
		for key, value := range service.Spec.Selector {
			if pod.Metadata.Labels[key] != value {
				t.Errorf("no pod is %s=%v", key, value)
			}
		}
		for _, p := range service.Spec.Ports {
			if !pod.Spec.Containers[0].has(p.TargetPort) {
				t.Errorf("no port is called %s", p.TargetPort)
			}
		}
	}
	if all["PodDisruptionBudget weir"].Spec.Most != 1 || s.Spec.Replicas < 3 || pod.Spec.Grace < 12 {
		t.Error("want one pod away at most, of three or more, and 12 s to hand over")
	}
	for i, v := range pod.Spec.Volumes {
		if m := pod.Spec.Containers[0].VolumeMounts[i]; m.Name != v.Name {
			t.Errorf("%s is not mounted", v.Name)
		}
	}
	key := write(t, filepath.Join(t.TempDir(), "cluster.key"), strings.Repeat("0123456789abcdef", 4)+"\n")
	at := make([]string, s.Spec.Replicas)
	for i := range at {
		at[i] = porttest.Free(t)
	}
	running := make([]*daemon, len(at))
	for i := range at {
		running[i] = s.node(t, i, at, key)
	}
	ready := func() {
		for i, d := range running {
			eventually(t, fmt.Sprintf("pod %d does not hear the others", i), func() bool {
				a := newClient(t).ask("GET", "http://127.0.0.1"+d.admin[strings.LastIndexByte(d.admin, ':'):]+"/metrics", "", "Authorization", "Bearer "+adminToken)
				return strings.Contains(a.body, fmt.Sprintf("weir_cluster_members{state=\"reachable\"} %d\n", len(at)))
			})
		}
	}
	ready()
	for i := len(running) - 1; i >= 0; i-- { // as a StatefulSet replaces them
		if err := running[i].Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-running[i].ended:
		case <-time.After(time.Duration(pod.Spec.Grace) * time.Second):
			t.Fatalf("pod %d is killed before it has left", i)
		}
		running[i] = s.node(t, i, at, key)
		ready()
		for j, d := range running { // keys whose owner is new pass nothing for up to a second
			body := fmt.Sprintf(`{"domain":"edge","descriptors":[{"entries":[{"key":"remote_address","value":"192.0.2.%d"}]}]}`, 10*i+j)
			eventually(t, fmt.Sprintf("pod %d lets nothing pass when pod %d was replaced", j, i), func() bool {
				return newClient(t).ask("POST", "http://127.0.0.1"+d.http[strings.LastIndexByte(d.http, ':'):]+"/v1/check", body).status == 200
			})
		}
	}
}

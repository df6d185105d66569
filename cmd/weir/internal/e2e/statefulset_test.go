package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weir-limit/weir/internal/porttest"
)

// kubernetesTells is how long it takes in this test until all callers have learnt that a pod ends. Within
// preStop they must.
const kubernetesTells = 2 * time.Second

// start is weir started as the pod of a number, at an address of this machine in place of the pod's.
func (o *object) start(t *testing.T, number int, at []string, key string) *daemon {
	t.Helper()
	c := o.Spec.Template.Spec.Containers[0]
	pod := fmt.Sprintf("%s-%d", o.Metadata.Name, number)
	args := elsewhere(t, slices.DeleteFunc(slices.Clone(c.Args[1:]), func(a string) bool {
		return strings.HasPrefix(a, "--cluster=") || strings.HasPrefix(a, "--join=")
	}))
	for i, a := range args {
		args[i] = strings.Replace(a, "/etc/weir/cluster/cluster.key", key, 1)
	}
	for _, a := range c.Args[1:] {
		name := strings.NewReplacer("$(POD_NAME)", pod, "$(POD_NAMESPACE)", "default").Replace(a)
		switch name {
		case "--cluster=" + pod + "." + o.Spec.ServiceName + ".default.svc.cluster.local:8083":
			args = append(args, "--cluster="+at[number])
		case "--join=" + o.Spec.ServiceName + ".default.svc.cluster.local:8083":
			args = append(args, "--join="+strings.Join(at, ","))
		}
	}
	if n := len(args); n != len(c.Args)-1 {
		t.Fatalf("%d of %d arguments are left: pods don't find each other by %q", n, len(c.Args)-1, c.Args)
	}
	cmd := command(t, binary, serveArgs(args)...)
	for _, e := range c.Env {
		if value := strings.Replace(e.Value, "/var/cache/weir", t.TempDir(), 1); value != "" {
			cmd.Env = append(cmd.Environ(), e.Name+"="+value)
		}
	}
	return startDaemon(t, cmd)
}

// TestStatefulSet starts the nodes of deploy/kubernetes-cluster.yaml as its pods would, and replaces each as a
// StatefulSet does, while callers ask the pods that their Service has. None of them may meet an error, and no
// more than the limit may pass. There is no Kubernetes where tests run.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	all := objects(t, "kubernetes-cluster.yaml")
	s := all["StatefulSet weir"]
	pod := s.Spec.Template
	c := pod.Spec.Containers[0]
	nodes := all["Service "+s.Spec.ServiceName]
	if nodes.Spec.ClusterIP != "None" || !nodes.Spec.Unready {
		t.Errorf("%s gives no names to pods that are not ready: %+v", s.Spec.ServiceName, nodes.Spec)
	}
	follow(t, &c, pod.Metadata.Labels, nodes, all["Service weir"], all["Service weir-admin"])
	preStop := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	grace := time.Duration(pod.Spec.Grace) * time.Second
	if all["PodDisruptionBudget weir"].Spec.Most != 1 || s.Spec.Replicas < 3 || grace < preStop+17*time.Second {
		t.Error("want one pod away at most, of three or more, and 17 s to drain, hand over and report")
	}
	for i, v := range pod.Spec.Volumes {
		if m := c.VolumeMounts[i]; m.Name != v.Name {
			t.Errorf("%s is not mounted", v.Name)
		}
	}
	key := write(t, filepath.Join(t.TempDir(), "cluster.key"), strings.Repeat("0123456789abcdef", 4)+"\n")
	at := make([]string, s.Spec.Replicas)
	for i := range at {
		at[i] = porttest.Free(t)
	}
	running := make([]*daemon, len(at))
	for i := range at { // each when the one before is ready, as OrderedReady says
		running[i] = s.start(t, i, at, key)
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
	asked := new(callers)
	asked.are(running)
	stop := asked.begin(t)
	for i := len(running) - 1; i >= 0; i-- { // as a StatefulSet replaces them
		ends := time.NewTimer(preStop)
		select { // until then, callers don't know that it ends
		case <-time.After(kubernetesTells):
			asked.are(slices.Delete(slices.Clone(running), i, i+1))
			<-ends.C
		case <-ends.C:
		}
		if err := running[i].Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select {
		case <-running[i].ended:
		case <-time.After(grace - preStop):
			t.Fatalf("pod %d is killed before it has left", i)
		}
		asked.are(slices.Delete(slices.Clone(running), i, i+1))
		running[i] = s.start(t, i, at, key)
		eventually(t, fmt.Sprintf("pod %d is not ready", i), func() bool {
			return newClient(t).ask("GET", "http://127.0.0.1"+running[i].http[strings.LastIndexByte(running[i].http, ':'):]+c.ReadinessProbe.HTTPGet.Path, "").status == 200
		})
		asked.are(running)
		time.Sleep(time.Duration(s.Spec.MinReady) * time.Second) // as the StatefulSet does before the next one
		ready()
	}
	stop()
	asked.audit(t, len(at))
}

// callers ask the pods that a Service has, at more than the limit.
type callers struct {
	pods   atomic.Pointer[[]string]
	mu     sync.Mutex
	passed map[string][]pass
	asked  int
}

// pass is when a request that passed was asked and answered.
type pass struct{ from, to time.Time }

// are says which pods the Service has from now on.
func (c *callers) are(pods []*daemon) {
	at := make([]string, len(pods))
	for i, d := range pods {
		at[i] = "http://127.0.0.1" + d.http[strings.LastIndexByte(d.http, ':'):] + "/v1/check"
	}
	c.pods.Store(&at)
}

// begin has callers ask, each about a key of its own, until stop.
func (c *callers) begin(t *testing.T) (stop func()) {
	t.Helper()
	c.passed = map[string][]pass{}
	done := make(chan struct{})
	var all sync.WaitGroup
	for n := range 3 {
		key := fmt.Sprintf("192.0.2.%d", n)
		all.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
			defer client.CloseIdleConnections()
			tick := time.NewTicker(5 * time.Millisecond) // 200/s, ten times the limit
			defer tick.Stop()
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				case <-tick.C:
				}
				pods := *c.pods.Load()
				at := pods[i%len(pods)]
				from := time.Now()
				answer, err := client.Post(at, "application/json", strings.NewReader(`{"domain":"edge","descriptors":[{"entries":[{"key":"remote_address","value":"`+key+`"}]}]}`)) //nolint:noctx // the client has a time
				if err != nil {
					t.Errorf("a caller met an error: %v", err)
					continue
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
				c.mu.Lock()
				c.asked++
				switch answer.StatusCode {
				case http.StatusOK:
					c.passed[key] = append(c.passed[key], pass{from, time.Now()})
				case http.StatusTooManyRequests:
				default:
					t.Errorf("a caller met status %d", answer.StatusCode)
				}
				c.mu.Unlock()
			}
		})
	}
	return func() { close(done); all.Wait() }
}

// audit looks for a stretch of time in which more passed than 20/s burst 40 lets pass, of docs/integrations/rules.yaml.
func (c *callers) audit(t *testing.T, pods int) {
	t.Helper()
	const rate, burst = 20, 40
	if len(c.passed) != 3 {
		t.Errorf("only %d keys passed", len(c.passed))
	}
	for key, passed := range c.passed {
		over := 0
		for _, first := range passed {
			var ends []time.Time
			for _, p := range passed {
				if !p.from.Before(first.from) {
					ends = append(ends, p.to)
				}
			}
			slices.SortFunc(ends, time.Time.Compare)
			for n, end := range ends {
				over = max(over, n+1-burst-1-int(end.Sub(first.from)*rate/time.Second))
			}
		}
		t.Logf("%s: %d of %d requests passed at %d pods, %d over the limit", key, len(passed), c.asked/len(c.passed), pods, over)
		if over > 0 {
			t.Errorf("%s: %d over the limit", key, over)
		}
	}
}

package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weir-limit/weir/cmd/weir/internal/usagelog"
)

const usageRules = `
domain: shop
descriptors:
  - {key: user, limits: [7/min, 90/h fixed-window]}
  - {key: path, value: /in, limits: [30/min]}
  - {key: tenant, shadow_mode: true, limits: [5/min]}
  - {key: remote_address, limits: [20/min]}
`

// usageCaller asks a daemon by all its listeners, and adds up what it is told.
type usageCaller struct {
	t    *testing.T
	r    *running
	grpc rls.RateLimitServiceClient
	resp net.Conn
	in   *bufio.Reader
	told map[string]usagelog.Counts
}

// add adds what a decision said.
func (c *usageCaller) add(rule, key, outcome string, cost int64, charged, degraded bool) {
	n := c.told[rule+"|"+key]
	switch outcome {
	case "allowed":
		n.Allowed, n.AllowedEvents = n.Allowed+1, n.AllowedEvents+cost
	case "denied":
		n.Denied, n.DeniedEvents = n.Denied+1, n.DeniedEvents+cost
	default:
		n.Impossible++
	}
	if charged {
		n.Charged += cost
	}
	if degraded {
		n.Degraded++
	}
	c.told[rule+"|"+key] = n
}

type toldAnswer struct {
	Decisions []struct {
		Descriptor    int
		Rule, Outcome string
		Cost          int64
		Charged       bool
		Degraded      string
		Shadow        bool
	}
	Receipt string
}

// check asks /v1/check about a user at a path, and may settle what it was charged.
func (c *usageCaller) check(key string, cost, used int64, receipt bool) {
	body := fmt.Sprintf(`{"domain":"shop","receipt":%v,"descriptors":[{"cost":%d,"entries":[{"key":"user","value":%q}]},`+
		`{"cost":%d,"entries":[{"key":"path","value":"/in"}]},{"cost":1,"entries":[{"key":"tenant","value":%q}]}]}`, receipt, cost, key, cost, key)
	_, text := do(c.t, http.MethodPost, "http://"+c.r.http+"/v1/check", body)
	var a toldAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		c.t.Fatal(err, text)
	}
	for _, d := range a.Decisions {
		c.add(d.Rule, []string{key, "", key}[d.Descriptor], d.Outcome, d.Cost, d.Charged, d.Degraded != "")
	}
	if a.Receipt == "" {
		return
	}
	status, text := do(c.t, http.MethodPost, "http://"+c.r.http+"/v1/settle", fmt.Sprintf(`{"receipt":%q,"used":[%d,%d,1]}`, a.Receipt, used, used))
	var settled struct{ Charged []int64 }
	if err := json.Unmarshal([]byte(text), &settled); err != nil || status != http.StatusOK {
		c.t.Fatal(status, text)
	}
	for _, d := range a.Decisions {
		if !d.Charged {
			continue
		}
		at := d.Rule + "|" + []string{key, "", key}[d.Descriptor]
		n := c.told[at]
		n.Settled++
		n.GivenBack += max(d.Cost-settled.Charged[d.Descriptor], 0)
		n.ChargedMore += max(settled.Charged[d.Descriptor]-d.Cost, 0)
		c.told[at] = n
	}
}

// envoy asks the gRPC listener about an address, which brings a limit of its own at times.
func (c *usageCaller) envoy(key string, cost uint32, override bool) {
	d := &ratelimit.RateLimitDescriptor{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "remote_address", Value: key}}}
	rule, at := "shop/remote_address", key
	if override {
		d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 4, Unit: 2}
		rule, at = "shop#override", "remote_address "+key
	}
	a, err := c.grpc.ShouldRateLimit(c.t.Context(), &rls.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{d}, HitsAddend: cost})
	if err != nil {
		c.t.Fatal(err)
	}
	outcome := "allowed"
	if a.OverallCode != rls.RateLimitResponse_OK {
		outcome = "denied"
	}
	most := uint32(20)
	if override {
		most = 4
	}
	if cost > most {
		outcome = "impossible"
	}
	c.add(rule, at, outcome, int64(cost), outcome == "allowed", c.degrades())
}

// redis asks the Redis listener.
func (c *usageCaller) redis(key string, cost int64, throttle bool) {
	command, rule, at := fmt.Sprintf("WEIR.CHECK shop %d remote_address %s\r\n", cost, key), "shop/remote_address", key
	if throttle {
		command, rule, at = fmt.Sprintf("CL.THROTTLE %s 9 10 60 %d\r\n", key, cost), "CL.THROTTLE", key
	}
	if _, err := c.resp.Write([]byte(command)); err != nil {
		c.t.Fatal(err)
	}
	lines := 6
	if !throttle {
		lines = 8
	}
	limited := ""
	for i := range lines {
		line, err := c.in.ReadString('\n')
		if err != nil {
			c.t.Fatal(err)
		}
		if i == 1 {
			limited = strings.TrimSpace(line)
		}
	}
	outcome := map[string]string{":0": "allowed", ":1": "denied"}[limited]
	c.add(rule, at, outcome, cost, outcome == "allowed", c.degrades())
}

// degrades is whether fallbacks decide.
func (c *usageCaller) degrades() bool { return strings.HasPrefix(c.r.daemon.config.Store, "redis:") }

// auth asks /auth about its address.
func (c *usageCaller) auth() {
	status, _ := get(c.t, "http://"+c.r.http+"/auth?domain=shop&e=remote_address=192.0.2.9")
	outcome := "allowed"
	if status != http.StatusOK {
		outcome = "denied"
	}
	c.add("shop/remote_address", "192.0.2.9", outcome, 1, outcome == "allowed", c.degrades())
}

// ask asks something at random.
func (c *usageCaller) ask(r *rand.Rand) {
	key := []string{"ann", "bob", "cy"}[r.IntN(3)]
	cost := 1 + r.Int64N(3)
	switch r.IntN(6) {
	case 0, 1:
		c.check(key, cost, r.Int64N(5), r.IntN(2) == 0)
	case 2:
		c.envoy(key, uint32(cost), r.IntN(2) == 0)
	case 3:
		c.redis(key, cost, true)
	case 4:
		c.redis(key, cost, false)
	default:
		c.auth()
	}
}

// usageSums is what the files of a usage log add up to, by rule and key. Each record's id is there
// once.
func usageSums(t *testing.T, dir string) map[string]usagelog.Counts {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	sums, seen := map[string]usagelog.Counts{}, map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			r, err := usagelog.ParseRecord([]byte(line))
			if err != nil || seen[r.ID] || r.Shadow != (r.Rule == "shop/tenant") {
				t.Fatalf("%s: %v, seen %v", line, err, seen[r.ID])
			}
			seen[r.ID] = true
			n, add := sums[r.Rule+"|"+r.Key], r.Counts()
			n.Add(&add)
			sums[r.Rule+"|"+r.Key] = n
		}
	}
	return sums
}

// TestUsageLog: the records of a usage log add up to what clients were told, by whichever listener
// they asked, over a reload of the rules, with the store and without, and to the last call before
// the end.
func TestUsageLog(t *testing.T) {
	for name, store := range map[string]string{"memory": "memory:", "away": "redis://127.0.0.1:1", "mesh": "cluster:"} {
		t.Run(name, func(t *testing.T) {
			usageRules := usageRules
			if name == "mesh" {
				usageRules = strings.ReplaceAll(usageRules, "limits:", "sharing: mesh, limits:")
			}
			dir, file := t.TempDir(), rulesFile(t, usageRules)
			r := start(t, Config{Rules: file, Store: store, Cluster: "127.0.0.1:0", RESP: "127.0.0.1:0", UsageLog: "file:" + dir + "?node=n"})
			told := map[string]usagelog.Counts{}
			var mu sync.Mutex
			var callers sync.WaitGroup
			for seed := range uint64(4) {
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.resp)
				if err != nil {
					t.Fatal(err)
				}
				c := &usageCaller{t, r, rls.NewRateLimitServiceClient(client(t, r.grpc)), conn, bufio.NewReader(conn), map[string]usagelog.Counts{}}
				callers.Go(func() {
					draw := rand.New(rand.NewPCG(seed, 0))
					for range 150 {
						c.ask(draw)
					}
					_ = conn.Close()
					mu.Lock()
					defer mu.Unlock()
					for at, n := range c.told {
						sum := told[at]
						sum.Add(&n)
						told[at] = sum
					}
				})
			}
			more := usageRules + "  - {key: other, limits: [1/s]}\n"
			if err := os.WriteFile(file, []byte(more), 0o600); err != nil {
				t.Fatal(err)
			}
			r.daemon.Reload()
			callers.Wait()
			if n := len(r.daemon.limiter.Set().Rules()); n != 6 {
				t.Errorf("%d rules: were they read again?", n)
			}
			r.stop()
			if err := <-r.done; err != nil {
				t.Fatal(err)
			}
			r.done <- nil
			if got := usageSums(t, dir); !maps.Equal(got, told) {
				t.Errorf("the log adds up to\n%+v, told was\n%+v", got, told)
			}
		})
	}
}

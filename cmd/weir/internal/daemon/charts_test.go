package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/postgrestest"
)

// TestChartsOfNodes: a chart is of what all nodes of the rule database have counted, whichever is asked, also of a node that has left.
func TestChartsOfNodes(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	url := postgrestest.Start(t).Database(t)
	nodes := []*running{start(t, withToken(t, Config{Data: url})), start(t, withToken(t, Config{Data: url}))}
	enforceRules(t, nodes[0].daemon.feed.Store(), "domain: shop\ndescriptors:\n  - key: user\n    limits: [10/day]\n  - {key: path, shadow_mode: true, limits: [10/day]}\n")
	for _, n := range nodes {
		for end := time.Now().Add(patience); len(n.daemon.limiter.Set().Rules()) != 2 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		for range 15 {
			for _, key := range []string{"user", "path"} {
				body := fmt.Sprintf(`{"domain":"shop","descriptors":[{"entries":[{"key":%q,"value":"ann"}]}]}`, key)
				if status, text := do(t, http.MethodPost, "http://"+n.http+"/v1/check", body); status != http.StatusOK && status != http.StatusTooManyRequests {
					t.Fatal(status, text)
				}
			}
		}
		n.daemon.tickTraffic(time.Now())
		if err := n.daemon.tellCharts(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sums := func(n *running, query string) (all []offenders.Total, nodes string) {
		t.Helper()
		status, body := peek(t, n, "/v1/series?domain=shop&"+query)
		var answer struct {
			Nodes  string
			Series []struct{ Points []offenders.Point }
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
			t.Fatal(status, body, err)
		}
		for _, s := range answer.Series {
			var sum offenders.Total
			for _, p := range s.Points {
				sum.Passed, sum.Denied = sum.Passed+p.Passed, sum.Denied+p.Denied
			}
			all = append(all, sum)
		}
		return all, answer.Nodes
	}
	for i, n := range nodes {
		for _, span := range []string{"15m", "24h", "30d"} {
			for query, want := range map[string][]offenders.Total{
				"rule=shop/user": {{Passed: 20, Denied: 10}},
				"rule=shop/path": {{}, {Passed: 20, Denied: 10}}, // the second in shadow
				"":               {{Passed: 50, Denied: 10}},
			} {
				if got, of := sums(n, query+"&span="+span); fmt.Sprint(got) != fmt.Sprint(want) || of != "all" {
					t.Errorf("node %d, %s, %s: %v of %q", i, span, query, got, of)
				}
			}
		}
	}
	nodes[1].stop()
	if err := <-nodes[1].done; err != nil {
		t.Fatal(err)
	}
	nodes[1].done <- nil
	if got, _ := sums(nodes[0], "rule=shop/user&span=1h"); fmt.Sprint(got) != "[{20 10}]" {
		t.Error("after a node has left:", got)
	}
	for query, want := range map[string]int{"span=2h": http.StatusBadRequest, "span=": http.StatusBadRequest} {
		if status, body := peek(t, nodes[0], "/v1/series?domain=shop&"+query); status != want {
			t.Error(query, status, body)
		}
	}
	if status, body := peek(t, nodes[0], "/v1/series?span=1h"); status != http.StatusBadRequest {
		t.Error(status, body)
	}
}

// TestChartsWait: counts wait for a database that is away, up to a bound, beyond which they are counted; those of the most used rules
// are told by themselves, and all are in the sum of their domain.
func TestChartsWait(t *testing.T) {
	var c charts
	now := time.Now().Truncate(offenders.Step)
	var counted []rulestore.Traffic
	for i := range chartRules + 10 {
		counted = append(counted, rulestore.Traffic{Domain: "shop", Rule: fmt.Sprint(i), At: now, Passed: int64(i), Denied: 1})
	}
	c.count(append([]rulestore.Traffic(nil), counted...))
	c.count(append([]rulestore.Traffic(nil), counted...))
	all := c.take()
	var sum rulestore.Traffic
	for _, x := range all {
		if x.Rule == "" {
			sum = x
		}
		if x.Rule == "3" {
			t.Error("a rule with little traffic is told in place of another")
		}
	}
	const n = chartRules + 10
	if len(all) != chartRules+1 || sum.Passed != n*(n-1) || sum.Denied != 2*n || len(c.take()) != 0 {
		t.Error(len(all), sum)
	}
	for step := range maxUntold / 2 {
		c.count([]rulestore.Traffic{{Domain: "shop", Rule: "a", At: now.Add(time.Duration(step) * offenders.Step), Passed: 3}})
	}
	c.count([]rulestore.Traffic{{Domain: "shop", Rule: "a", At: now.Add(-offenders.Step), Passed: 3}})
	if lost := c.lost.Load(); lost != 6 || len(c.take()) != maxUntold {
		t.Error(lost)
	}
}

package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/redistest"
)

// decidedOn is a decision about a client of shop, as /v1/check tells it.
type decidedOn struct {
	Limit     string
	Outcome   string
	Remaining int64
	Degraded  string
}

// costs asks what costs so much for a user.
func costs(t *testing.T, r *running, user string, cost int) decidedOn {
	t.Helper()
	body := fmt.Sprintf(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":%q}],"cost":%d}]}`, user, cost)
	_, text := do(t, http.MethodPost, "http://"+r.http+"/v1/check", body)
	var answer struct{ Decisions []decidedOn }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || len(answer.Decisions) != 1 {
		t.Fatal(err, text)
	}
	return answer.Decisions[0]
}

// untilLimit waits until a user has a limit at a node, and says how long that took.
func untilLimit(t *testing.T, r *running, user, limit string) time.Duration {
	t.Helper()
	began := time.Now()
	for time.Since(began) < patience {
		if costs(t, r, user, 0).Limit == limit {
			return time.Since(began)
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("%s does not get %s: %+v", user, limit, costs(t, r, user, 0))
	return 0
}

// TestExceptionKeepsUse: a client that used 8 of 10 has 92 of 100 once it is raised, and is held to 10 again afterwards, in each kind of store. Explanations say by
// whom and why.
func TestExceptionKeepsUse(t *testing.T) {
	for name, store := range map[string]func(t *testing.T) string{
		"memory":   func(*testing.T) string { return "memory:" },
		"redis":    func(t *testing.T) string { return "redis://" + redistest.Start(t).Addr },
		"postgres": func(t *testing.T) string { return postgrestest.Start(t).Database(t) },
		"cluster":  func(*testing.T) string { return "cluster:" },
	} {
		t.Run(name, func(t *testing.T) {
			c := Config{Data: t.TempDir(), Store: store(t)}
			if name == "cluster" {
				c.Cluster = "127.0.0.1:0"
			}
			r := start(t, withToken(t, c))
			s := r.daemon.feed.Store()
			enforceRules(t, s, domainText("shop", "10/day"))
			untilExport(t, r, "limits: [10/day]")
			user := ""
			for n, begun := 0, time.Now(); ; n++ { // on a busy machine a fallback may decide, and tell the store afterwards what that knows
				if time.Since(begun) > 2*time.Minute {
					t.Fatal("the store does not answer")
				}
				user = fmt.Sprint("471", n)
				if keepsUse(t, r, s, user) {
					break
				}
			}
			untilLimit(t, r, user, "10/day")
			if d := costs(t, r, user, 1); d.Outcome == "allowed" && d.Degraded == "" {
				t.Errorf("afterwards: %+v", d)
			}
		})
	}
}

// keepsUse raises a client that used 8 of 10 and lowers it again. It is false where a fallback has decided.
func keepsUse(t *testing.T, r *running, s *rulestore.Store, user string) bool {
	t.Helper()
	if d := costs(t, r, user, 8); d.Degraded != "" || d.Outcome != "allowed" {
		return false
	}
	made, err := s.SetException(t.Context(), root(), rulestore.Exception{
		Domain: "shop", Entries: []rulestore.Entry{{Key: "user", Value: user}}, Limit: "100/day", Until: time.Now().Add(time.Hour), Reason: "a launch",
	})
	if err != nil {
		t.Fatal(err)
	}
	untilLimit(t, r, user, "100/day")
	left, spent := costs(t, r, user, 0), costs(t, r, user, 50)
	if left.Degraded != "" || spent.Degraded != "" {
		return false
	}
	if left.Remaining != 92 || spent.Outcome != "allowed" || spent.Remaining != 42 {
		t.Errorf("%+v, then %+v", left, spent)
	}
	if d := costs(t, r, "other", 11); d.Limit != "10/day" || d.Outcome == "allowed" {
		t.Errorf("another client: %+v", d)
	}
	status, text := askAdmin(t, r, "/v1/explain", fmt.Sprintf(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":%q}],"cost":90}]}`, user))
	for _, want := range []string{`"exception":{"until":"`, `"author":"root","reason":"a launch","usual":"10/day"}`, "an exception of this key alone until "} {
		if status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%d, no %q in %s", status, want, text)
		}
	}
	if _, text := peek(t, r, "/metrics"); !strings.Contains(text, "\nweir_exceptions ") || strings.Contains(text, "\nweir_exceptions 0\n") {
		t.Error("no metric tells it")
	}
	if _, err := s.EndException(t.Context(), root(), made.ID, "it is over"); err != nil {
		t.Fatal(err)
	}
	return true
}

// askAdmin posts to the admin listener.
func askAdmin(t *testing.T, r *running, path, body string) (int, string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.admin+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	bearer(oneToken)(q)
	return answered(t, q)
}

// TestExceptionsOfNodes: with PostgreSQL, what is set at one node holds at the other, too, and ends by itself at both.
func TestExceptionsOfNodes(t *testing.T) {
	data := postgrestest.Start(t).Database(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	one, two := start(t, withToken(t, Config{Data: data})), start(t, withToken(t, Config{Data: data}))
	s := one.daemon.feed.Store()
	enforceRules(t, s, domainText("shop", "10/day"))
	untilExport(t, one, "limits: [10/day]")
	untilExport(t, two, "limits: [10/day]")
	_, err := s.SetException(t.Context(), root(), rulestore.Exception{
		Domain: "shop", Entries: []rulestore.Entry{{Key: "user", Value: "4711"}}, Limit: "100/day", Until: time.Now().Add(3 * time.Second), Reason: "a launch",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("it holds after %v and %v", untilLimit(t, one, "4711", "100/day"), untilLimit(t, two, "4711", "100/day"))
	untilLimit(t, one, "4711", "10/day")
	untilLimit(t, two, "4711", "10/day")
}

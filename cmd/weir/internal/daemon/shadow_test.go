package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/internal/redistest"
)

const shopUsers = "domain: shop\ndescriptors: [{key: user, limits: [%s]}]\n"

// reported is the report of the admin listener, once it is of so many requests.
func reported(t *testing.T, r *running, domain string) httpapi.ShadowReport {
	t.Helper()
	status, body := get(t, "http://"+r.admin+"/v1/shadow?domain="+domain)
	var answer struct{ Candidates []httpapi.ShadowReport }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || len(answer.Candidates) != 1 {
		t.Fatal(status, body, err)
	}
	return answer.Candidates[0]
}

func checkShop(t *testing.T, r *running, user string) int {
	t.Helper()
	status, _ := do(t, http.MethodPost, "http://"+r.http+"/v1/check", fmt.Sprintf(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":%q}]}]}`, user))
	return status
}

// TestCandidate: with each kind of store a candidate denies nobody, its report
// tells whom it would, and it begins anew when its file changes.
func TestCandidate(t *testing.T) {
	for _, store := range []string{"memory:", "redis://" + redistest.Start(t).Addr} {
		active, candidate := rulesFile(t, fmt.Sprintf(shopUsers, "5/day fixed-window")), rulesFile(t, fmt.Sprintf(shopUsers, "3/day fixed-window"))
		var log *logged
		var r *running
		var got httpapi.ShadowReport
		var user string
		for attempt := range 10 { // where the machine stands still, fallbacks decide, and nothing is known
			var logger *slog.Logger
			log, logger = newLog()
			r = start(t, Config{Rules: active, Candidate: candidate, Store: store, Log: logger, rulesPoll: 20 * time.Millisecond})
			user = fmt.Sprint("ann", attempt)
			passed := 0
			for range 7 {
				if checkShop(t, r, user) == http.StatusOK {
					passed++
				}
			}
			if got = reported(t, r, "shop"); got.Whole.Unknown > 0 {
				continue
			}
			if passed != 5 {
				t.Errorf("%s: %d of 7 pass", store, passed)
			}
			break
		}
		if d := cmp.Diff(shadow.Counts{BothPass: 3, BothDeny: 2, OnlyCandidate: 2}, got.Whole); d != "" {
			t.Error(store, d)
		}
		if d := cmp.Diff([]shadow.Client{{Rule: "shop/user", Key: user, Requests: 2}}, got.Denied); d != "" || len(got.Passed) != 0 {
			t.Error(store, d, got.Passed)
		}
		if !got.Verdict.Refused || !strings.Contains(got.Verdict.Why, "only 7 requests have met it") {
			t.Error(store, got.Verdict)
		}
		if _, body := get(t, "http://"+r.admin+"/metrics"); !strings.Contains(body, `weir_candidate_requests_total{denied_by="candidate",domain="shop",rule="user"} 2`) ||
			!strings.Contains(body, `weir_decisions_total{domain="shop",outcome="denied",rule="shop/user",shadow="false"} 2`) {
			t.Error(store, "metrics do not tell of the candidate, or count what it says as a decision")
		}

		if err := os.WriteFile(candidate, fmt.Appendf(nil, shopUsers, "9/day fixed-window"), 0o600); err != nil {
			t.Fatal(err)
		}
		log.until(t, `msg="candidates reloaded" domains=1 rules=1`)
		var anew shadow.Counts
		for range 20 { // where the machine stands still, a fallback decides, and nothing is known
			checkShop(t, r, user)
			if anew = reported(t, r, "shop").Whole; anew.OnlyActive > 0 {
				break
			}
		}
		if anew != (shadow.Counts{OnlyActive: 1, Unknown: anew.Unknown}) {
			t.Errorf("%s: %+v", store, anew)
		}
		if err := os.WriteFile(candidate, []byte("domain: shop\ndescriptors: [{key: user, limits: [9/dya]}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		log.until(t, "candidates could not be reloaded; the old ones go on")
		checkShop(t, r, user)
		if got := reported(t, r, "shop"); got.Whole.Unknown+got.Whole.BothDeny+got.Whole.OnlyActive != anew.Unknown+2 {
			t.Errorf("%s: %+v", store, got)
		}
	}
}

// TestCandidateIsRefused: a bad candidate is told at the start, as bad rules are.
func TestCandidateIsRefused(t *testing.T) {
	for _, c := range []Config{
		{Candidate: "none.yaml"}, {Candidate: "http://127.0.0.1:1/v1/export"}, {Candidate: rulesFile(t, "domain: shop\ndescriptors: [{key: user, limits: [9/dya]}]\n")},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s is taken", c.Candidate)
		}
	}
	r := start(t, Config{})
	if status, body := get(t, "http://"+r.admin+"/v1/shadow"); status != http.StatusOK || !strings.Contains(body, `"candidates":[],"omitted":0}`) {
		t.Error(status, body)
	}
	for _, q := range []string{"rule=a", "n=101", "domain=", "x=1"} {
		if status, body := get(t, "http://"+r.admin+"/v1/shadow?"+q); status != http.StatusBadRequest || !strings.Contains(body, `"detail":`) {
			t.Error(q, status, body)
		}
	}
}

// TestShadowOfNodes: a version in shadow is judged by the requests that met it, on all nodes of the rule database, whichever node is asked,
// and whatever else is in shadow.
func TestShadowOfNodes(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	url := postgrestest.Start(t).Database(t)
	nodes := []*running{start(t, withToken(t, Config{Data: url})), start(t, withToken(t, Config{Data: url}))}
	store := nodes[0].daemon.feed.Store()
	const active = "domain: shop\ndescriptors:\n  - key: user\n    limits: [1000/day]\n  - key: path\n    limits: [1000/day]\n"
	enforceRules(t, store, active)
	by := rulestore.Actor{Name: "ann", Role: rulestore.Publish, Teams: []string{rulestore.AllTeams}}
	versions := map[string]rulestore.Version{}
	for rule, text := range map[string]string{
		"user": "- key: user\n  limits: [1000/day, 900/day fixed-window]\n", "path": "- key: path\n  limits: [10/day]\n", "rare": "- key: rare\n  limits: [0/s]\n",
	} {
		p := rulestore.Proposal{Domain: "shop", Text: text, To: rulestore.Shadow, Reason: "a test"}
		if r, err := store.Rule(t.Context(), "shop", rule); err == nil {
			p.Match = r.Revision
		}
		v, err := store.Propose(t.Context(), by, p)
		if err != nil {
			t.Fatal(err)
		}
		versions[rule] = v
	}
	for _, n := range nodes {
		for end := time.Now().Add(patience); len(n.daemon.board.Reports("shop", 0, time.Now())) != 3 && time.Now().Before(end); {
			time.Sleep(5 * time.Millisecond)
		}
		for i := range 60 {
			for _, key := range []string{"user", "path"} {
				body := fmt.Sprintf(`{"domain":"shop","descriptors":[{"entries":[{"key":%q,"value":"ann"}]}]}`, key)
				if status, text := do(t, http.MethodPost, "http://"+n.http+"/v1/check", body); status != http.StatusOK {
					t.Fatal(i, status, text)
				}
			}
		}
	}
	// That of the other node comes within a second.
	reports := func(n *running) map[string]httpapi.ShadowReport {
		all := map[string]httpapi.ShadowReport{}
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			status, body := peek(t, n, "/v1/shadow?domain=shop")
			var answer struct{ Candidates []httpapi.ShadowReport }
			if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || len(answer.Candidates) != 3 {
				t.Fatal(status, body, err)
			}
			for _, r := range answer.Candidates {
				all[r.Rule] = r
			}
			if u, p := all["user"].Whole, all["path"].Whole; u.Compared()+u.Unknown == 120 && p.Compared()+p.Unknown == 120 {
				break
			}
		}
		return all
	}
	for i, n := range nodes {
		all := reports(n)
		user, path, rare := all["user"], all["path"], all["rare"]
		if user.Nodes != 2 || user.Whole.OnlyCandidate != 0 || user.Verdict.Refused || user.Verdict.Requests < 110 {
			t.Errorf("node %d: user %+v", i, user)
		}
		// Each node counts in its own memory: 10 pass on each.
		if path.Whole.OnlyCandidate < 90 || !path.Verdict.Refused || !strings.Contains(path.Verdict.Why, "on 2 nodes") ||
			len(path.Denied) != 1 || path.Denied[0].Key != "ann" || path.Denied[0].Requests != path.Whole.OnlyCandidate {
			t.Errorf("node %d: path %+v", i, path)
		}
		if rare.Whole != (shadow.Counts{}) || !rare.Verdict.Refused || !strings.Contains(rare.Verdict.Why, "no request has met it") {
			t.Errorf("node %d: rare %+v", i, rare)
		}
		for rule, held := range map[string]bool{"path": true, "rare": true, "user": false} {
			r, err := store.Rule(t.Context(), "shop", rule)
			if err != nil {
				t.Fatal(err)
			}
			if rule == "user" && i == 0 {
				continue // it is published on the last
			}
			_, err = n.daemon.changes.Move(t.Context(), n.daemon.feed.Store(), by, rulestore.Step{
				Domain: "shop", Rule: rule, Version: versions[rule].Number, To: rulestore.Enforced, Match: r.Revision, Reason: "a test",
			})
			if _, is := errors.AsType[*changes.Held](err); is != held || !held && err != nil {
				t.Errorf("node %d: %s: %v", i, rule, err)
			}
		}
	}
}

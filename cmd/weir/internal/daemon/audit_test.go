package daemon

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/certtest"
	"github.com/weir-limit/weir/internal/postgrestest"
)

// resetBob is the body of a reset of what bob has used in two domains' rules of users.
func resetBob(domain, more string) string {
	return `{"domain":"` + domain + `","descriptors":[{"entries":[{"key":"user","value":"bob"}]}]` + more + `}`
}

// asks sends a body with a token, and gives the status.
func asks(t *testing.T, r *running, path, token, kind, body string) int {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.admin+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", kind)
	if token != "" {
		bearer(token)(q)
	}
	response, err := http.DefaultTransport.RoundTrip(q) // which follows nothing
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode
}

// audited waits until the audit has so many lines that are no changes of rules or tokens, and gives them.
func audited(t *testing.T, s *rulestore.Store, n int) []rulestore.Event {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		list, err := s.Audit(t.Context(), rulestore.Audited{})
		list = slices.DeleteFunc(list, func(e rulestore.Event) bool {
			return e.Action == "import" || e.Action == "enforce" || e.Action == "domain.create" || e.Action == "token.create"
		})
		if err == nil && len(list) >= n {
			return list
		}
		if time.Now().After(end) {
			t.Fatalf("%d lines, want %d: %+v %v", len(list), n, list, err)
		}
	}
}

// TestAudited: resets, sign-ins and wrong tokens are in the audit with who it was and from where, by a role that may do no more to
// the audit than that; a reset works while the database is away, and is in the audit afterwards.
func TestAudited(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	server := postgrestest.Start(t)
	place := server.Database(t)
	log, logger := newLog()
	c := Config{Data: place, Rules: rulesFile(t, domainText("files", "7/h")), AdminTokenFile: certtest.File(t, "tokens", []byte(oneToken)), Log: logger}
	r := start(t, c)
	store := r.daemon.feed.Store()
	enforceRules(t, store, domainText("shop", "5/h"))
	for end := time.Now().Add(patience); !slices.Contains(r.daemon.limiter.Set().Domains(), "shop") && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	ops, opsText, err := store.CreateToken(t.Context(), root(), rulestore.Token{Actor: "ops", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	ann, annText, err := store.CreateToken(t.Context(), root(), rulestore.Token{Actor: "ann", Role: rulestore.Publish, Teams: []string{"shop"}}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	const form = "application/x-www-form-urlencoded"
	for _, q := range []struct {
		path, token, kind, body string
		status                  int
	}{
		{"/v1/reset", opsText, "", resetBob("shop", ""), 200},
		{"/v1/reset", oneToken, "", resetBob("files", ""), 200},
		{"/v1/reset", annText, "", resetBob("shop", ""), 403},
		// These reset nothing.
		{"/v1/reset", opsText, "", resetBob("shop", `,"peek":true`), 200},
		{"/v1/reset", opsText, "", resetBob("nowhere", ""), 200},
		{"/v1/reset", opsText, "", "{}", 400},
		{"/v1/explain", annText, "", resetBob("shop", ""), 200},
		{"/v1/reset", "wrong", "", resetBob("shop", ""), 401},
		{"/ui/sign-in", "", form, "token=wrong", 401},
		{"/ui/sign-in", "", form, url.Values{"token": {annText}}.Encode(), 303},
	} {
		if status := asks(t, r, q.path, q.token, q.kind, q.body); status != q.status {
			t.Errorf("%s %s: %d, want %d", q.path, q.body, status, q.status)
		}
	}
	want := []rulestore.Event{
		{Action: rulestore.Reset, Actor: "ops", Token: ops.ID, Domain: "shop", Rule: "user", Reason: "shop/user of bob"},
		{Action: rulestore.Reset, Actor: "admin-token-file", Domain: "files", Rule: "user", Reason: "files/user of bob"},
		{Action: rulestore.Reset, Actor: "ann", Token: ann.ID, Refused: "this takes a token of an administrator of all teams; ann has the role publish"},
		{Action: rulestore.SignIn, Actor: "ann", Token: ann.ID},
	}
	got := audited(t, store, len(want))
	for i := range want {
		w, g := want[i], got[i]
		if g.Action != w.Action || g.Actor != w.Actor || g.Token != w.Token || g.Domain != w.Domain || g.Rule != w.Rule || g.Reason != w.Reason || g.Refused != w.Refused || g.Address != "127.0.0.1" {
			t.Errorf("%+v, want %+v", g, w)
		}
	}
	if len(got) != len(want) {
		t.Error(got)
	}
	server.Kill()
	if status := asks(t, r, "/v1/reset", oneToken, "", resetBob("shop", "")); status != http.StatusOK {
		t.Error("no reset while the database is away:", status)
	}
	said := log.until(t, "head of the audit", "lines of the audit wait until the rule database takes them")
	server.Restart(t)
	if got := audited(t, store, len(want)+1); got[len(want)].Action != rulestore.Reset || got[len(want)].Actor != "admin-token-file" {
		t.Error(got)
	}
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
	again, err := rulestore.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	got = audited(t, again, len(want)+2)
	if last := got[len(got)-1]; last.Action != rulestore.SignInRefused || last.Address != "127.0.0.1" || !strings.HasSuffix(last.Reason, ": 2 from 127.0.0.1") {
		t.Errorf("%+v", last)
	}
	if v, err := again.Verify(t.Context(), nil); err != nil || len(v.Faults) > 0 {
		t.Error(v, err)
	}
	if said += log.until(t, "action=sign-in.refused"); strings.Contains(said, "bob") || strings.Contains(said, annText) {
		t.Error("the log tells of a client or a token:", said)
	}
}

// TestResetOfHashedKeys: with --hash-keys the audit has no client's name; without a rule database the log says who reset what.
func TestResetOfHashedKeys(t *testing.T) {
	r := start(t, withToken(t, Config{Data: t.TempDir(), HashKeys: true, Rules: rulesFile(t, domainText("files", "7/h"))}))
	if status := asks(t, r, "/v1/reset", oneToken, "", resetBob("files", "")); status != http.StatusOK {
		t.Fatal(status)
	}
	if got := audited(t, r.daemon.feed.Store(), 1); !strings.HasPrefix(got[0].Reason, "files/user of ~") || got[0].Actor != rulestore.FileAdmin || got[0].Address != "127.0.0.1" {
		t.Errorf("%+v", got)
	}
	log, logger := newLog()
	r = start(t, Config{Rules: rulesFile(t, domainText("files", "7/h")), Log: logger})
	if status := asks(t, r, "/v1/reset", "", "", resetBob("files", "")); status != http.StatusOK {
		t.Fatal(status)
	}
	if said := log.until(t, "action=reset"); !strings.Contains(said, "domain=files rule=user") || strings.Contains(said, "bob") {
		t.Error(said)
	}
}

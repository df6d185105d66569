package daemon

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// TestReadingIsBoundToTeams: which clients a domain denies is told to tokens of its team, to those of all
// teams, and when the domain is public to all; what is of a rule in a domain of others, to the rule's owner.
func TestReadingIsBoundToTeams(t *testing.T) {
	data := t.TempDir()
	r := start(t, Config{Data: data, Rules: rulesFile(t, domainText("files", "1/day"))})
	store := r.daemon.feed.Store()
	shop := "domain: shop\ndescriptors:\n  - {key: user, limits: [1/day]}\n  - {key: letter, owner: mail, limits: [1/day]}\n"
	enforceRules(t, store, shop)
	if _, err := store.Propose(t.Context(), root(), rulestore.Proposal{Domain: "shop", Text: "- {key: tried, owner: mail, limits: [0/s]}\n", To: rulestore.Shadow, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Propose(t.Context(), root(), rulestore.Proposal{Domain: "shop", Text: "- {key: shadowed, limits: [0/s]}\n", To: rulestore.Shadow, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	of := map[string]string{
		"shop": token(t, r, rulestore.Read, "shop"), "mail": token(t, r, rulestore.Admin, "mail", "web"),
		"all": token(t, r, rulestore.Read, rulestore.AllTeams), "root": token(t, r, rulestore.Admin, rulestore.AllTeams),
	}
	ask := func(team, method, path, body string) (int, string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.admin+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		bearer(of[team])(q)
		return answered(t, q)
	}
	for end := time.Now().Add(patience); len(r.daemon.board.Reports("shop", 0, time.Now())) != 2 && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	request := func(domain, key string) string {
		return fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[{"key":%q,"value":"secret-of-%s-%s"}]}]}`, domain, key, domain, key)
	}
	denials := map[string]string{}
	for _, at := range []string{"shop/user", "shop/letter", "shop/tried", "shop/shadowed", "files/user"} {
		domain, key, _ := strings.Cut(at, "/")
		for range 2 {
			_, body := do(t, http.MethodPost, "http://"+r.http+"/v1/check", request(domain, key))
			var said struct{ ID string }
			if err := json.Unmarshal([]byte(body), &said); err != nil {
				t.Fatal(err, body)
			}
			denials[at] = said.ID
		}
	}
	// For each place, which rules each team is told of.
	all := []string{"shop/user", "shop/letter", "shop/tried", "shop/shadowed", "files/user"}
	sees := func(team, rule string) bool {
		switch team {
		case "shop":
			return strings.HasPrefix(rule, "shop/")
		case "mail":
			return rule == "shop/letter" || rule == "shop/tried"
		}
		return true
	}
	lists := func(public bool) {
		t.Helper()
		for team := range of {
			top, series, shadow := "", "", ""
			for what, into := range map[string]*string{"top": &top, "series": &series, "shadow": &shadow} {
				status, body := ask(team, http.MethodGet, "/v1/"+what, "")
				if *into = body; status != http.StatusOK {
					t.Errorf("%s of %s: %d %s", what, team, status, body)
				}
			}
			for _, rule := range all {
				domain, key, _ := strings.Cut(rule, "/")
				told, secret := sees(team, rule) || public && domain == "shop", "secret-of-"+domain+"-"+key
				trial := key == "tried" || key == "shadowed"
				if trial && (strings.Contains(shadow, secret) != told || strings.Contains(shadow, `"rule":"`+key+`"`) != told) {
					t.Errorf("shadow of %s tells of %s: %v, want %v: %s", team, rule, !told, told, shadow)
				}
				if !trial && (strings.Contains(top, secret) != told || strings.Contains(top, `"`+rule+`"`) != told || strings.Contains(series, `"`+rule+`"`) != told) {
					t.Errorf("%s is told of %s: %v, want %v: %s %s", team, rule, !told, told, top, series)
				}
				if trial {
					continue
				}
				want := http.StatusOK
				if !told {
					want = http.StatusForbidden
				}
				named := "domain=" + domain + "&rule=" + url.QueryEscape(rule)
				for _, one := range []struct{ method, path, body string }{
					{http.MethodGet, "/v1/top?" + named, ""},
					{http.MethodGet, "/v1/series?" + named, ""},
					{http.MethodGet, "/v1/top?rule=" + rule, ""},
					{http.MethodGet, "/v1/explain?id=" + denials[rule], ""},
					{http.MethodPost, "/v1/explain", request(domain, key)},
				} {
					status, body := ask(team, one.method, one.path, one.body)
					if status != want || status == http.StatusForbidden && (strings.Contains(body, "secret") || !strings.Contains(body, `token of the domain's team`)) {
						t.Errorf("%s %s of %s: %d, want %d: %s", one.method, one.path, team, status, want, body)
					}
				}
			}
		}
	}
	lists(false)
	for path, want := range map[string]int{
		"/v1/top?domain=files": http.StatusForbidden, "/v1/series?domain=files": http.StatusForbidden, "/v1/shadow?domain=files": http.StatusForbidden,
		"/v1/top?domain=shop": http.StatusOK, "/v1/shadow?domain=shop": http.StatusOK, "/v1/top?domain=none": http.StatusNotFound,
		"/v1/export": http.StatusOK, "/metrics": http.StatusOK, "/v1/domains": http.StatusOK, "/v1/rules/shop/user": http.StatusOK,
	} {
		if status, body := ask("mail", http.MethodGet, path, ""); status != want || path != "/v1/export" && strings.Contains(body, "secret-of-shop-user") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	d, err := store.Domain(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "http://"+r.admin+"/v1/domains/shop", strings.NewReader(`{"public":true,"reason":"we are one house"}`))
	if err != nil {
		t.Fatal(err)
	}
	bearer(of["root"])(q)
	q.Header.Set("If-Match", fmt.Sprintf(`"%d"`, d.Revision))
	if status, body := answered(t, q); status != http.StatusOK || !strings.Contains(body, `"public":true`) {
		t.Fatal(status, body)
	}
	lists(true)

	// While files have a domain of the database, it belongs to no team, and is not public.
	r.stop()
	if err := <-r.done; err != nil {
		t.Error(err)
	}
	r.done <- nil
	r = start(t, Config{Data: data, Rules: rulesFile(t, domainText("shop", "1/day"))})
	for team, want := range map[string]int{"shop": http.StatusForbidden, "mail": http.StatusForbidden, "all": http.StatusOK} {
		if status, body := ask(team, http.MethodGet, "/v1/top?domain=shop", ""); status != want {
			t.Errorf("%s: %d %s", team, status, body)
		}
	}
}

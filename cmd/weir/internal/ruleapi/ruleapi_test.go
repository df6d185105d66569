package ruleapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/ruleapi"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/internal/postgrestest"
	"github.com/weir-limit/weir/rules"
)

// house is an API with a rule database of its own, and the demo rules as files.
type house struct {
	t     testing.TB
	url   string
	store *rulestore.Store
	log   bytes.Buffer
	admin string // a token

	report *shadow.Report // of any version in shadow; nil: this node has none

	document *document // that all answers are held to
}

func newHouse(t testing.TB) *house { return houseAt(t, t.TempDir()) }

// houseAt is a house with its database at a place.
func houseAt(t testing.TB, place string) *house {
	t.Helper()
	s, err := rulestore.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, store: s, document: readDocument(t)}
	if h.admin, err = s.FirstToken(t.Context()); err != nil {
		t.Fatal(err)
	}
	files := rules.Demo()
	gate, err := changes.New(changes.Options{
		InFiles: func(domain string) bool { return domain == "demo" }, Check: func(*rules.Set) error { return nil },
		Reports: h.reports,
	})
	if err != nil {
		t.Fatal(err)
	}
	api, err := ruleapi.New(ruleapi.Options{
		Store: func() *rulestore.Store { return s }, InForce: func() *rules.Set { return files },
		InFiles: func(domain string) bool { return domain == "demo" }, Check: func(*rules.Set) error { return nil },
		Changes: gate, Ping: func(_ context.Context, w *rulestore.Webhook, _ rulestore.Actor) (rulestore.Delivery, error) {
			return rulestore.Delivery{Message: "msg_" + w.ID, Kind: rulestore.Ping, At: time.Now(), Status: 204, Tries: 1}, nil
		},
		Decides: func(_ context.Context, domain string, entries []rules.Entry) ([]*rules.Rule, error) {
			met, _ := files.Match(domain, &rules.Descriptor{Entries: entries})
			return met, nil
		},
		Unblock: func(ctx context.Context, by rulestore.Actor, u rulestore.Unblock) (int, []string, error) {
			u.Files = u.Domain == "demo"
			_, err := s.Unblock(ctx, by, u)
			return 1, []string{"node-9:8083"}, err
		},
		Log: slog.New(slog.NewTextHandler(&h.log, nil)), Panicked: func() { t.Error("a call panicked") },
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by, err := s.Authenticate(r.Context(), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		if err == nil {
			r = ruleapi.As(r, by)
		}
		api.ServeHTTP(w, r)
	}))
	h.url = server.URL
	t.Cleanup(func() {
		server.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// reports gives each version in shadow of a domain the report of the house.
func (h *house) reports(ctx context.Context, domain string) (all []*shadow.Report) {
	d, err := h.store.Document(ctx, domain)
	if err != nil || h.report == nil {
		return nil
	}
	for _, t := range d.Trials {
		r := *h.report
		r.Key = shadow.Key{Domain: domain, Rule: t.Rule, Version: t.Version, Over: t.Beside}
		all = append(all, &r)
	}
	return all
}

// said is an answer.
type said struct {
	status int
	etag   string
	text   string
	json   map[string]any
}

// ask sends a request. fields are names and values of its header.
func (h *house) ask(token, method, path, body string, fields ...string) said {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	h.document.holds(h.t, r, body, response, text)
	s := said{status: response.StatusCode, etag: response.Header.Get("ETag"), text: string(text)}
	if kind := response.Header.Get("Content-Type"); strings.HasSuffix(kind, "json") {
		if err := json.Unmarshal(text, &s.json); err != nil && !strings.Contains(kind, "ndjson") {
			h.t.Fatal(err)
		}
	}
	return s
}

// must asks what has to succeed.
func (h *house) must(token, method, path, body string, fields ...string) said {
	h.t.Helper()
	s := h.ask(token, method, path, body, fields...)
	if s.status >= 300 {
		h.t.Fatalf("%s %s: %d %s", method, path, s.status, s.text)
	}
	return s
}

// token makes a token of the team shop.
func (h *house) token(actor, role string) string {
	h.t.Helper()
	return h.must(h.admin, "POST", "/v1/tokens", fmt.Sprintf(`{"actor":%q,"role":%q,"teams":["shop"],"seconds":3600,"reason":"a test"}`, actor, role)).json["token"].(string)
}

// shop makes the domain shop.
func (h *house) shop() {
	h.t.Helper()
	h.must(h.admin, "POST", "/v1/domains", `{"name":"shop","team":"shop","reason":"a test"}`)
}

const tenText, fiveText = `- key: user\n  limits: [10/s]\n`, `- key: user\n  limits: [5/s]\n`

// TestWalk: a team's rule from its first draft to its end, through every call.
func TestWalk(t *testing.T) {
	h := newHouse(t)
	h.shop()
	ann, bob := h.token("ann", "propose"), h.token("bob", "publish")
	if s := h.must(ann, "GET", "/v1/rules?domain=shop", ""); len(s.json["rules"].([]any)) != 0 {
		t.Error(s.text)
	}
	made := h.must(h.admin, "POST", "/v1/tokens", `{"actor":"cat","role":"read","teams":["shop"],"seconds":3600,"reason":"x"}`)
	if s := h.must(h.admin, "GET", "/v1/tokens", ""); !strings.Contains(s.text, fmt.Sprintf(`"made":%q,"expires":%q`, made.json["made"], made.json["expires"])) {
		t.Errorf("what was made, %s, is listed as %s", made.text, s.text)
	}
	if s := h.must(ann, "GET", "/v1/whoami", ""); s.json["actor"] != "ann" || s.json["role"] != "propose" {
		t.Error(s.text)
	}
	v := h.must(ann, "POST", "/v1/rules", `{"domain":"shop","text":"`+tenText+`","to":"shadow","reason":"to see"}`)
	if v.status != http.StatusCreated || v.json["state"] != "shadow" || v.json["rule"] != "user" {
		t.Error(v.text)
	}
	if s := h.must(ann, "GET", "/v1/domains/shop", ""); fmt.Sprint(s.json["trials"]) != "[map[rule:user version:1]]" {
		t.Error(s.text)
	}
	if s := h.ask(ann, "POST", "/v1/rules/shop/user/state", `{"version":1,"to":"enforced","reason":"good"}`, "If-Match", v.etag); s.status != http.StatusForbidden {
		t.Error(s.text)
	}
	if s := h.ask(bob, "POST", "/v1/rules/shop/user/state", `{"version":1,"to":"enforced","reason":"good"}`, "If-Match", v.etag); s.status != http.StatusConflict || s.json["field"] != "force" {
		t.Error("nobody knows what it would deny, and it is enforced:", s.text)
	}
	h.report = &shadow.Report{Counts: shadow.Counts{BothPass: 1000}}
	r := h.must(bob, "POST", "/v1/rules/shop/user/state", `{"version":1,"to":"enforced","reason":"good"}`, "If-Match", v.etag)
	if r.json["state"] != "enforced" || r.json["enforced"] != 1.0 {
		t.Error(r.text)
	}
	v = h.must(bob, "PUT", "/v1/rules/shop/user", `{"text":"`+fiveText+`","to":"enforced","reason":"less","force":true}`, "If-Match", r.etag)
	if s := h.must(ann, "GET", "/v1/rules/shop/user/diff?from=1&to=2", ""); !strings.Contains(s.text, "-  limits: [10/s]\n+  limits: [5/s]\n") {
		t.Error(s.text)
	}
	file := h.must(ann, "GET", "/v1/domains/shop/file", "")
	if file.text != "domain: shop\ndescriptors:\n  - key: user\n    limits: [5/s]\n" {
		t.Error(file.text)
	}
	r = h.must(bob, "POST", "/v1/rules/shop/user/rollback", `{"reason":"too few"}`, "If-Match", v.etag)
	if r.json["enforced"] != 1.0 {
		t.Error(r.text)
	}
	h.must(bob, "POST", "/v1/rules/shop/user/override", `{"mode":"tighten","percent":50,"seconds":60,"reason":"an incident"}`)
	if s := h.must(ann, "GET", "/v1/domains/shop/file?in_force=true", ""); !strings.Contains(s.text, "limits: [5/s]") {
		t.Error(s.text)
	}
	h.must(bob, "POST", "/v1/rules/shop/user/override", `{"mode":"end","reason":"over"}`)
	domain := h.must(ann, "GET", "/v1/domains/shop", "")
	if domain.json["overrides"] != nil {
		t.Error(domain.text)
	}
	whole := strings.Replace(file.text, "[5/s]", "[7/s]", 1) + "  - key: more\n    limits: [1/s]\n"
	plan := h.must(bob, "PUT", "/v1/domains/shop/file?dry_run=true&to=enforced&reason=all", whole, "If-Match", domain.etag)
	applied := h.must(bob, "PUT", "/v1/domains/shop/file?to=enforced&force=true&reason=all", whole, "If-Match", domain.etag)
	if diff := cmp.Diff(plan.json["changes"], applied.json["changes"]); diff != "" || strings.Count(applied.text, `"action"`) != 2 {
		t.Error(diff, applied.text)
	}
	r = h.must(ann, "GET", "/v1/rules/shop/more", "")
	h.must(bob, "DELETE", "/v1/rules/shop/more?to=enforced&reason=not+needed", "", "If-Match", r.etag)
	if s := h.must(ann, "GET", "/v1/domains/shop/file", ""); strings.Contains(s.text, "more") {
		t.Error(s.text)
	}
	past := h.must(ann, "GET", "/v1/rules/shop/user/history", "")
	if n := len(past.json["versions"].([]any)); n != 3 {
		t.Error(past.text)
	}
	if s := h.must(ann, "GET", "/v1/audit?format=jsonl", ""); strings.Count(s.text, "\n") < 10 || !strings.Contains(s.text, `"refused":"to enforce rule user takes the role publish`) {
		t.Error(s.text)
	}
	if s := h.must(ann, "GET", "/v1/domains", ""); !strings.Contains(s.text, `{"name":"demo","source":"files"`) || !strings.Contains(s.text, `{"name":"shop","source":"database","team":"shop"`) {
		t.Error(s.text)
	}
}

// TestRefused: bad input is answered with its status and the field that is at
// fault, and changes nothing.
func TestRefused(t *testing.T) {
	h := newHouse(t)
	h.shop()
	bob := h.token("bob", "publish")
	other := h.must(h.admin, "POST", "/v1/tokens", `{"actor":"eve","role":"admin","teams":["other"],"reason":"a test"}`).json["token"].(string)
	old := h.must(bob, "POST", "/v1/rules", `{"domain":"shop","text":"`+tenText+`","to":"enforced","reason":"a test","force":true}`).etag
	etag := h.must(bob, "PUT", "/v1/rules/shop/user", `{"text":"`+fiveText+`","to":"enforced","reason":"a test","force":true}`, "If-Match", old).etag
	domain := h.must(bob, "GET", "/v1/domains/shop", "").etag
	before := h.must(bob, "GET", "/v1/domains/shop/file", "").text
	rule := func(text string) string {
		b, err := json.Marshal(map[string]any{"domain": "shop", "text": text, "to": "enforced", "reason": "a test", "force": true})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	million := "domain: shop\ndescriptors:\n" + strings.Repeat("  - {key: a, limits: [1/s]}\n", 200_000)
	for name, c := range map[string]struct {
		token, method, path, body, match string
		status                           int
		field, says                      string
	}{
		"stale":                  {bob, "PUT", "/v1/rules/shop/user", `{"text":"` + tenText + `"}`, old, 412, "If-Match", "was changed since"},
		"no If-Match":            {bob, "PUT", "/v1/rules/shop/user", `{"text":"` + tenText + `"}`, "", 428, "If-Match", "send the ETag"},
		"If-Match of no kind":    {bob, "PUT", "/v1/rules/shop/user", `{"text":"` + tenText + `"}`, "*", 400, "If-Match", "is no ETag"},
		"another team":           {other, "PUT", "/v1/rules/shop/user", `{"text":"` + tenText + `"}`, etag, 403, "", "stand for team shop"},
		"a domain, by a slip":    {h.admin, "DELETE", "/v1/domains/shop?reason=x", "", domain, 400, "confirm", "is missing; domain shop goes away with its 1 rule: write its name, shop"},
		"a domain, misspelt":     {h.admin, "DELETE", "/v1/domains/shop?confirm=Shop&reason=x", "", domain, 400, "confirm", "write its name, shop"},
		"a domain that is there": {h.admin, "POST", "/v1/domains/shop/restore", `{"reason":"x"}`, "", 404, "", "no domain shop was taken away"},
		"a domain of files":      {h.admin, "POST", "/v1/domains/demo/restore", `{"reason":"x"}`, "", 409, "domain", "comes from the files"},
		"another team's domain":  {other, "DELETE", "/v1/domains/shop?reason=x", "", domain, 403, "", "stand for team shop"},
		"a token for all":        {other, "POST", "/v1/tokens", `{"actor":"x","role":"read","teams":["*"],"reason":"x"}`, "", 403, "", "all teams"},
		"the same twice":         {bob, "POST", "/v1/rules", `{"domain":"shop","reason":"x","domain":"stock"}`, "", 400, "domain", "stands twice"},
		"the same, larger":       {bob, "POST", "/v1/rules", `{"domain":"shop","Domain":"stock"}`, "", 400, "Domain", "leave it out"},
		"the same, alike":        {bob, "POST", "/v1/rules", `{"rea\u017fon":"x"}`, "", 400, "rea\u017fon", "leave it out"},
		"rules of no domain":     {bob, "GET", "/v1/rules?domain=nope", "", "", 404, "domain", "domain: there is no domain nope"},
		"of a look-alike":        {bob, "GET", "/v1/rules?domain=sh%D0%BEp", "", "", 404, "domain", "there is no domain"},
		"of a long name":         {bob, "GET", "/v1/rules?domain=" + strings.Repeat("x", 5000), "", "", 404, "domain", "there is no domain xxx"},
		"rules of files":         {bob, "GET", "/v1/rules?domain=demo", "", "", 404, "domain", "comes from the files"},
		"a parameter of none":    {bob, "GET", "/v1/whoami?who=me", "", "", 400, "who", "there are none"},
		"dry_run of a rule":      {bob, "POST", "/v1/rules?dry_run=true", rule("- {key: a, limits: [1/s]}"), "", 400, "dry_run", "there are none"},
		"a parameter twice":      {bob, "GET", "/v1/rules?team=a&team=b", "", "", 400, "team", "stands twice"},
		"a query of no kind":     {bob, "GET", "/v1/rules?%zz", "", "", 400, "query", "escape all"},
		"a long unknown field":   {bob, "POST", "/v1/rules", `{"` + strings.Repeat("x", 1<<19) + `":1}`, "", 400, strings.Repeat("x", 128) + "…", "leave it out"},
		"no role":                {h.admin, "POST", "/v1/tokens", `{"actor":"x","role":"god","teams":["*"],"reason":"x"}`, "", 400, "role", "read, propose"},
		"unknown field":          {bob, "POST", "/v1/rules", `{"domain":"shop","texts":"x"}`, "", 400, "texts", "leave it out"},
		"wrong type":             {bob, "POST", "/v1/rules", `{"domain":7}`, "", 400, "domain", "must be a string"},
		"no JSON":                {bob, "POST", "/v1/rules", `domain: shop`, "", 400, "body", "send a JSON object"},
		"a list":                 {bob, "POST", "/v1/rules", `[]`, "", 400, "body", "is a JSON array; send a JSON object"},
		"nothing":                {bob, "POST", "/v1/rules", ``, "", 400, "body", "is empty"},
		"two objects":            {bob, "POST", "/v1/rules", `{"domain":"shop"}{}`, "", 400, "body", "send one"},
		"too long":               {bob, "POST", "/v1/rules", rule("- key: " + strings.Repeat("a", 1<<20)), "", 413, "", "give less"},
		"a limit of 1 MiB":       {bob, "POST", "/v1/rules", rule("- key: a\n  limits: [" + strings.Repeat("1", 1<<18) + "/s]\n"), "", 400, "text", "a rule may have 65536"},
		"a million lines":        {bob, "PUT", "/v1/domains/shop/file?to=enforced&force=true&reason=x", million, domain, 400, "text", "begin another domain"},
		"a file too long":        {bob, "PUT", "/v1/domains/shop/file?to=enforced&force=true&reason=x", strings.Repeat("#", 9<<20), domain, 413, "", "give less"},
		"a file of another":      {bob, "PUT", "/v1/domains/shop/file?to=enforced&force=true&reason=x", "domain: other\ndescriptors: []\n", domain, 400, "domain", "is of domain"},
		"look-alikes":            {bob, "POST", "/v1/rules", rule("- key: us\u0435r\n  limits: [1/s]\n"), "", 400, "rule", "look alike"},
		"unseen":                 {bob, "POST", "/v1/rules", rule("- key: us\u200ber\n  limits: [1/s]\n"), "", 400, "rule", "is invisible"},
		"a domain that looks":    {h.admin, "POST", "/v1/domains", `{"name":"sh\u043ep","team":"shop","reason":"x"}`, "", 400, "domain", "letters and digits of ASCII"},
		"replaces itself":        {bob, "POST", "/v1/rules", rule("- key: a\n  rate_limit: {unit: day, requests_per_unit: 1, name: n, replaces: [{name: n}]}\n"), "", 400, "text", "refused"},
		"two rules":              {bob, "POST", "/v1/rules", rule("- key: a\n  limits: [1/s]\n- key: b\n  limits: [1/s]\n"), "", 400, "text", "is not one rule"},
		"no rule":                {bob, "POST", "/v1/rules", rule(""), "", 400, "text", "is empty"},
		"not tried":              {bob, "PUT", "/v1/rules/shop/user", `{"text":"- key: user\n  limits: [4/s]\n","to":"enforced","reason":"x"}`, etag, 409, "force", "run it in shadow first"},
		"a file not tried":       {bob, "PUT", "/v1/domains/shop/file?to=enforced&reason=x", "domain: shop\ndescriptors:\n  - {key: ip, limits: [1/s]}\n", domain, 409, "force", "run it in shadow first"},
		"no reason":              {bob, "POST", "/v1/rules", `{"domain":"shop","text":"- {key: a, limits: [1/s]}","to":"enforced","force":true}`, "", 400, "reason", "say why"},
		"there already":          {bob, "POST", "/v1/rules", rule("- key: user\n  limits: [1/s]\n"), "", 409, "rule", "there is a rule user in domain shop; change that one"},
		"a domain in capitals":   {h.admin, "POST", "/v1/domains", `{"name":"SHOP","team":"shop","reason":"x"}`, "", 400, "domain", `\"SHOP\" looks like the domain shop, which differs by case only; write shop, or take another name`},
		"a domain there already": {h.admin, "POST", "/v1/domains", `{"name":"shop","team":"shop","reason":"x"}`, "", 409, "domain", "there is a domain shop of team shop; change that one, or take another name"},
		"of files":               {h.admin, "POST", "/v1/domains", `{"name":"demo","team":"shop","reason":"x"}`, "", 409, "domain", "comes from the files"},
		"a rule of files":        {h.admin, "POST", "/v1/rules", strings.Replace(rule("- {key: a, limits: [1/s]}"), "shop", "demo", 1), "", 409, "domain", "comes from the files"},
		"no domain":              {bob, "POST", "/v1/rules", strings.Replace(rule("- {key: a, limits: [1/s]}"), "shop", "none", 1), "", 404, "", "no domain none"},
		"no rule there":          {bob, "GET", "/v1/rules/shop/none", "", "", 404, "", "no rule none"},
		"no version":             {bob, "POST", "/v1/rules/shop/user/state", `{"version":9,"to":"enforced","reason":"x"}`, etag, 404, "", "no version 9"},
		"no state":               {bob, "POST", "/v1/rules/shop/user/state", `{"version":1,"to":"live","reason":"x"}`, etag, 400, "to", "is no state"},
		"a dry run, perhaps":     {bob, "PUT", "/v1/domains/shop/file?to=enforced&force=true&reason=x&dry_run=1", "domain: shop\ndescriptors: []\n", domain, 400, "dry_run", "neither true nor false"},
		"audit of no format":     {bob, "GET", "/v1/audit?format=csv", "", "", 400, "format", "is no format"},
		"a domain no URL names":  {h.admin, "POST", "/v1/domains", `{"name":"..","team":"shop","reason":"x"}`, "", 400, "domain", "no URL can name"},
		"a rule no URL names":    {bob, "POST", "/v1/rules", rule("- key: ..\n  limits: [1/s]\n"), "", 400, "rule", "no URL can name"},
		"another key":            {bob, "PUT", "/v1/rules/shop/user", `{"text":"- {key: else, limits: [1/s]}"}`, etag, 400, "text", "is the rule else, not user"},
		"open for ever":          {bob, "POST", "/v1/domains/shop/override", `{"mode":"open","seconds":99999999,"reason":"x"}`, "", 400, "seconds", "1…604800"},
		"tightened by all":       {bob, "POST", "/v1/domains/shop/override", `{"mode":"tighten","percent":100,"seconds":9,"reason":"x"}`, "", 400, "percent", "1…99"},
		"parameter of no kind":   {bob, "GET", "/v1/rules?colour=red", "", "", 400, "colour", "is no parameter"},
		"limit too large":        {bob, "GET", "/v1/rules?limit=1000000", "", "", 400, "limit", "ask for pages"},
		"no such path":           {bob, "GET", "/v1/rules/shop/user/colour", "", "", 404, "", "there is no GET"},
		"an unknown token":       {"weir_aaaaaaaaaa_BBBB", "GET", "/v1/rules", "", "", 503, "", "tokens"},
		"a wrong method":         {bob, "DELETE", "/v1/rules", "", "", 405, "", "it takes GET, POST"},
		"rules of that state":    {bob, "GET", "/v1/rules?state=superseded", "", "", 400, "state", "write proposed"},
		"a quota for others":     {bob, "PUT", "/v1/teams/shop", `{"quota":5,"reason":"x"}`, "", 403, "", "role admin"},
		"a quota below nothing":  {h.admin, "PUT", "/v1/teams/shop", `{"quota":-5,"reason":"x"}`, "", 400, "quota", "0…"},
		"a reason too long":      {bob, "POST", "/v1/domains/shop/override", `{"mode":"end","reason":"` + strings.Repeat("x", 3000) + `"}`, "", 400, "reason", "2000"},
		"a reason with controls": {bob, "POST", "/v1/domains/shop/override", `{"mode":"end","reason":"\u202exx"}`, "", 400, "reason", "is invisible"},
	} {
		t.Run(name, func(t *testing.T) {
			var fields []string
			if c.match != "" {
				fields = []string{"If-Match", c.match}
			}
			s := h.ask(c.token, c.method, c.path, c.body, fields...)
			field, _ := s.json["field"].(string)
			if s.status != c.status || field != c.field || !strings.Contains(s.text, c.says) {
				t.Errorf("%d %s", s.status, s.text[:min(len(s.text), 500)])
			}
		})
	}
	if after := h.must(bob, "GET", "/v1/domains/shop/file", "").text; after != before {
		t.Error(cmp.Diff(before, after))
	}
}

// TestNotJSON: a body that says that it is no JSON is not taken for it; what curl
// says by itself is.
func TestNotJSON(t *testing.T) {
	h := newHouse(t)
	h.shop()
	for kind, status := range map[string]int{
		"text/plain": 415, "application/yaml": 415, "json": 415, ";": 415,
		"": 400, "application/json": 400, "Application/JSON; charset=utf-8": 400, "application/x-www-form-urlencoded": 400,
	} {
		if s := h.ask(h.admin, "POST", "/v1/rules", "{}", "Content-Type", kind); s.status != status {
			t.Errorf("%q: %d %s", kind, s.status, s.text)
		}
	}
	if s := h.ask(h.admin, "GET", "/v1/rules?state=proposed", ""); s.status != http.StatusOK {
		t.Error(s.text)
	}
}

// TestFuzz: whatever is sent to whichever call, it is answered, and never as a
// fault of the daemon.
func TestFuzz(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { fuzz(t, newHouse(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { fuzz(t, houseAt(t, postgrestest.Start(t).Database(t))) })
}

func fuzz(t *testing.T, h *house) {
	t.Helper()
	h.shop()
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"shop", "user", "- key: user\n  limits: [1/s]\n", "enforced", "draft", "\x00", "a\u202eb", "../..", "%2F", "1", "-1", "x"}))
	keys := []string{"name", "team", "shared", "review", "public", "reason", "domain", "text", "before", "to", "force", "version", "mode", "percent", "seconds", "quota", "actor", "role", "teams"}
	paths := []string{"/v1/domains", "/v1/domains/%s", "/v1/domains/%s/file", "/v1/domains/%s/override", "/v1/rules", "/v1/rules/shop/%s", "/v1/rules/shop/%s/state", "/v1/rules/shop/%s/rollback", "/v1/rules/shop/%s/history", "/v1/rules/shop/%s/versions/1", "/v1/rules/shop/%s/diff", "/v1/validate", "/v1/teams", "/v1/teams/%s", "/v1/tokens", "/v1/tokens/%s", "/v1/audit", "/v1/whoami"}
	rapid.Check(t, func(r *rapid.T) {
		path := rapid.SampledFrom(paths).Draw(r, "path")
		if strings.Contains(path, "%s") {
			path = fmt.Sprintf(path, strings.NewReplacer("%2F", "/", "+", "%20").Replace(urlEscape(text.Draw(r, "part"))))
		}
		if rapid.Bool().Draw(r, "queried") {
			path += "?" + rapid.SampledFrom([]string{"reason", "to", "limit", "after", "before", "team", "state", "search", "from", "domain"}).Draw(r, "key") + "=" + urlEscape(text.Draw(r, "value"))
		}
		body := text.Draw(r, "body")
		if rapid.Bool().Draw(r, "object") {
			object := map[string]any{}
			for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 0, 5, rapid.ID).Draw(r, "keys") {
				object[key] = rapid.OneOf(rapid.Map(text, asAny), rapid.Map(rapid.Int64(), asAny), rapid.Map(rapid.Bool(), asAny), rapid.Map(rapid.SliceOf(rapid.Map(text, asAny)), asAny)).Draw(r, "of")
			}
			b, err := json.Marshal(object)
			if err != nil {
				r.Fatal(err)
			}
			body = string(b)
		}
		method := rapid.SampledFrom([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}).Draw(r, "method")
		s := h.ask(h.admin, method, path, body, "If-Match", `"`+fmt.Sprint(rapid.IntRange(0, 9).Draw(r, "match"))+`"`)
		if s.status >= 500 {
			r.Fatalf("%s %s %s: %d %s\n%s", method, path, body, s.status, s.text, h.log.String())
		}
	})
}

func asAny[T any](v T) any { return v }

// TestPages: lists come whole by pages, nothing twice.
func TestPages(t *testing.T) {
	h := newHouse(t)
	h.shop()
	var text strings.Builder
	text.WriteString("domain: shop\ndescriptors:\n")
	for i := range 25 {
		fmt.Fprintf(&text, "  - {key: k%d, value: a/%d, limits: [1/s]}\n", i, i)
	}
	h.must(h.admin, "PUT", "/v1/domains/shop/file?to=enforced&force=true&reason=x", text.String(), "If-Match", h.must(h.admin, "GET", "/v1/domains/shop", "").etag)
	for path, noun := range map[string]string{"/v1/rules?limit=7": "rules", "/v1/audit?limit=7": "events", "/v1/domains?limit=1": "domains", "/v1/teams?limit=1": "teams", "/v1/tokens?limit=1": "tokens"} {
		want := h.must(h.admin, "GET", strings.Split(path, "?")[0], "").json[noun].([]any)
		var got []any
		for next, n := "", 0; n < 100; n++ {
			s := h.must(h.admin, "GET", path+"&after="+urlEscape(next), "")
			got = append(got, s.json[noun].([]any)...)
			if next, _ = s.json["next"].(string); next == "" {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

func urlEscape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// TestAway: a rule that was taken away and is proposed anew is proposed, not enforced.
func TestAway(t *testing.T) {
	h := newHouse(t)
	etag := ""
	for _, call := range []struct{ method, path, body string }{
		{"POST", "/v1/domains", `{"name": "shop", "team": "shop", "reason": "a test"}`},
		{"POST", "/v1/rules", `{"domain": "shop", "text": "- key: user\n  limits: [1/s]\n", "to": "enforced", "reason": "a test", "force": true}`},
		{"DELETE", "/v1/rules/shop/user?to=enforced&reason=away", ""},
		{"PUT", "/v1/rules/shop/user", `{"text": "- key: user\n  limits: [2/s]\n"}`},
	} {
		answer := h.ask(h.admin, call.method, call.path, call.body, "If-Match", etag)
		if answer.status > 201 {
			t.Fatal(call, answer.text)
		}
		etag = answer.etag
	}
	if rule := h.ask(h.admin, "GET", "/v1/rules/shop/user", ""); rule.json["state"] != "proposed" {
		t.Error(rule.text)
	}
}

// TestDomainsOfBoth: pages of a list go on where files have all domains of one.
func TestDomainsOfBoth(t *testing.T) {
	h := newHouse(t)
	for _, name := range []string{"demo", "shop"} { // the first is of files, too
		if _, err := h.store.CreateDomain(t.Context(), rulestore.Actor{Name: "root", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}, rulestore.NewDomain{Name: name, Team: "shop"}, "a test"); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"team=shop&limit=1": "shop", "limit=1": "demo shop", "team=shop": "shop", "": "demo shop"} {
		var names []string
		for next, more := "", true; more; {
			answer := h.ask(h.admin, "GET", "/v1/domains?"+path+next, "")
			if answer.status != 200 {
				t.Fatal(path, answer.text)
			}
			for _, d := range answer.json["domains"].([]any) {
				names = append(names, d.(map[string]any)["name"].(string))
			}
			var after string
			if after, more = answer.json["next"].(string); more {
				next = "&after=" + after
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

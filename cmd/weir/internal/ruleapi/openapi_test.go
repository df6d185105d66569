package ruleapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-limit/weir/cmd/weir/internal/ruleapi"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// document is the OpenAPI document, as the API serves it.
type document struct {
	root     map[string]any
	mux      *http.ServeMux // knows METHOD PATH of each operation
	compiler *jsonschema.Compiler
	answered map[string]bool // operations that succeeded
}

const documentURL = "mem:///openapi.json"

func readDocument(t testing.TB) *document {
	t.Helper()
	api, err := ruleapi.New(ruleapi.Options{Store: func() *rulestore.Store { return nil }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	served := httptest.NewRecorder()
	api.Document(served, httptest.NewRequestWithContext(t.Context(), http.MethodGet, ruleapi.DocumentPath, nil))
	text := served.Body.Bytes()
	d := &document{mux: http.NewServeMux(), compiler: jsonschema.NewCompiler(), answered: map[string]bool{}}
	if err := json.Unmarshal(text, &d.root); err != nil {
		t.Fatal(err)
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(documentURL, whole); err != nil {
		t.Fatal(err)
	}
	for _, name := range d.operations() {
		d.mux.HandleFunc(name, func(http.ResponseWriter, *http.Request) {})
	}
	return d
}

// operations is all that the document has, as METHOD PATH.
func (d *document) operations() (list []string) {
	for path, item := range d.root["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				list = append(list, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(list)
	return list
}

// at follows a path through the document, and the references on it. It gives
// where it ended as a JSON pointer, and whether there is something.
func (d *document) at(steps ...string) (pointer string, value any, ok bool) {
	value = d.root
	for i := 0; i < len(steps); i++ {
		object, _ := value.(map[string]any)
		if value, ok = object[steps[i]]; !ok {
			return pointer, nil, false
		}
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(steps[i])
		below, _ := value.(map[string]any)
		if target, is := below["$ref"].(string); is {
			rest := steps[i+1:]
			steps = append(strings.Split(strings.TrimPrefix(target, "#/"), "/"), rest...)
			value, pointer, i = d.root, "", -1
		}
	}
	return pointer, value, true
}

// holds holds an answer to the document, and a request that was answered well.
// What is at none of its paths, the document does not speak of.
func (d *document) holds(t testing.TB, r *http.Request, sent string, response *http.Response, text []byte) {
	t.Helper()
	_, name := d.mux.Handler(r)
	method, path, ok := strings.Cut(name, " ")
	if !ok {
		if response.StatusCode < 400 {
			t.Errorf("%s %s: answered %d, and is not in the document", r.Method, r.URL.Path, response.StatusCode)
		}
		return
	}
	operation := []string{"paths", path, strings.ToLower(method)}
	answers := append(slices.Clone(operation), "responses")
	status := fmt.Sprint(response.StatusCode)
	if _, _, ok := d.at(append(answers, status)...); !ok {
		if status = "default"; response.StatusCode < 400 {
			t.Errorf("%s: answers %d, which the document has not", name, response.StatusCode)
			return
		}
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	d.check(t, name+": the answer", text, append(answers, status, "content", kind, "schema")...)
	for _, field := range []string{"ETag", "Location"} {
		_, _, documented := d.at(append(answers, status, "headers", field)...)
		if value := response.Header.Get(field); value != "" && !documented {
			t.Errorf("%s: answers with %s: %s, which the document has not", name, field, value)
		}
	}
	if response.StatusCode < 300 {
		d.answered[name] = true
		d.holdsRequest(t, name, operation, r, sent)
	}
}

// holdsRequest holds a request that was answered well to the document.
func (d *document) holdsRequest(t testing.TB, name string, operation []string, r *http.Request, sent string) {
	t.Helper()
	known := append(d.parameters(operation[:2]), d.parameters(operation)...)
	for key := range r.URL.Query() {
		if !slices.Contains(known, "query "+key) {
			t.Errorf("%s: takes ?%s=, which the document has not", name, key)
		}
	}
	_, content, ok := d.at(append(slices.Clone(operation), "requestBody", "content")...)
	if !ok {
		return
	}
	for kind := range content.(map[string]any) {
		if kind == "application/json" {
			d.check(t, name+": a body that was taken", []byte(sent), append(slices.Clone(operation), "requestBody", "content", kind, "schema")...)
		}
	}
}

// parameters are those of an operation or a path, as "query after".
func (d *document) parameters(at []string) (list []string) {
	_, all, _ := d.at(append(slices.Clone(at), "parameters")...)
	some, _ := all.([]any)
	for _, p := range some {
		p := p.(map[string]any)
		if target, is := p["$ref"].(string); is {
			_, v, _ := d.at(strings.Split(strings.TrimPrefix(target, "#/"), "/")...)
			p = v.(map[string]any)
		}
		list = append(list, fmt.Sprintf("%s %s", p["in"], p["name"]))
	}
	return list
}

// check holds a text to a schema of the document.
func (d *document) check(t testing.TB, what string, text []byte, steps ...string) {
	t.Helper()
	pointer, schema, ok := d.at(steps...)
	if !ok {
		t.Errorf("%s: the document has no %s", what, strings.Join(steps, " "))
		return
	}
	kind := steps[len(steps)-2]
	if !strings.HasSuffix(kind, "json") || strings.HasSuffix(kind, "x-ndjson") {
		return // text
	}
	compiled, err := d.compiler.Compile(documentURL + "#" + pointer)
	if err != nil {
		t.Fatalf("%s: %v: %v", what, schema, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = compiled.Validate(value)
	}
	if err != nil {
		t.Errorf("%s %s is not as the document says: %v", what, text, err)
	}
}

// TestDocument: the document has all calls and no others, each with a name of its
// own, all that its path needs, the parameters that it knows, and references that
// lead somewhere.
func TestDocument(t *testing.T) {
	d := readDocument(t)
	want := ruleapi.Routes()
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), d.operations()); diff != "" {
		t.Error(diff)
	}
	names := map[string]bool{}
	for _, name := range d.operations() {
		method, path, _ := strings.Cut(name, " ")
		steps := []string{"paths", path, strings.ToLower(method)}
		_, id, _ := d.at(append(steps, "operationId")...)
		if id, _ := id.(string); id == "" || names[id] {
			t.Errorf("%s: operationId %q", name, id)
		} else {
			names[id] = true
		}
		has := append(d.parameters(steps[:2]), d.parameters(steps)...)
		var queried []string
		for _, p := range has {
			if key, ok := strings.CutPrefix(p, "query "); ok {
				queried = append(queried, key)
			}
		}
		slices.Sort(queried)
		if diff := cmp.Diff(slices.Sorted(slices.Values(want[name])), queried); diff != "" {
			t.Errorf("%s: parameters: %s", name, diff)
		}
		for part := range strings.SplitSeq(path, "/") {
			if in, ok := strings.CutPrefix(part, "{"); ok && !slices.Contains(has, "path "+strings.TrimSuffix(in, "}")) {
				t.Errorf("%s: %s is not described", name, part)
			}
		}
		if _, problem, ok := d.at(append(steps, "responses", "default", "content", "application/problem+json", "schema")...); !ok {
			t.Errorf("%s: problems are not described: %v", name, problem)
		}
	}
	d.follow(t, d.root)
	var actions []string
	_, list, _ := d.at("components", "schemas", "Action", "enum")
	for _, action := range list.([]any) {
		actions = append(actions, action.(string))
	}
	slices.Sort(actions)
	if diff := cmp.Diff(slices.Sorted(slices.Values(rulestore.Actions())), actions); diff != "" {
		t.Errorf("actions of the audit: %s", diff)
	}
}

// follow finds references that lead nowhere.
func (d *document) follow(t *testing.T, at any) {
	t.Helper()
	switch at := at.(type) {
	case map[string]any:
		if target, ok := at["$ref"].(string); ok {
			if _, _, ok := d.at(strings.Split(strings.TrimPrefix(target, "#/"), "/")...); !ok {
				t.Errorf("%s leads nowhere", target)
			}
		}
		for _, v := range at {
			d.follow(t, v)
		}
	case []any:
		for _, v := range at {
			d.follow(t, v)
		}
	}
}

// TestDocumentedCalls makes every call of the document and wants it to succeed,
// with every parameter that it describes; ask holds all of it to the document.
func TestDocumentedCalls(t *testing.T) {
	h := newHouse(t)
	get := func(path string) said { return h.must(h.admin, "GET", path, "") }
	match := func(path string) []string { return []string{"If-Match", get(path).etag} }
	h.shop()
	h.must(h.admin, "PATCH", "/v1/domains/shop", `{"team":"shop","shared":true,"review":false,"public":true,"reason":"x"}`, match("/v1/domains/shop")...)
	h.must(h.admin, "POST", "/v1/rules", `{"domain":"shop","text":"`+tenText+`","before":"","to":"enforced","reason":"x","force":true}`)
	h.must(h.admin, "PUT", "/v1/rules/shop/user", `{"domain":"shop","text":"`+fiveText+`","before":"","to":"shadow","reason":"x","force":false}`, match("/v1/rules/shop/user")...)
	h.must(h.admin, "POST", "/v1/rules/shop/user/state", `{"version":2,"to":"enforced","reason":"x","force":true}`, match("/v1/rules/shop/user")...)
	h.must(h.admin, "POST", "/v1/rules/shop/user/rollback", `{"version":1,"reason":"x"}`, match("/v1/rules/shop/user")...)
	h.must(h.admin, "POST", "/v1/rules/shop/user/override", `{"mode":"tighten","percent":50,"seconds":60,"reason":"x"}`)
	h.must(h.admin, "POST", "/v1/domains/shop/override", `{"mode":"open","seconds":60,"reason":"x"}`)
	h.must(h.admin, "POST", "/v1/rules/shop/user/versions/1/comments", `{"text":"why so few?"}`)
	exception := h.must(h.admin, "POST", "/v1/exceptions", `{"domain":"shop","entries":[{"key":"user","value":"4711"}],"of":"","limit":"100/s","seconds":60,"reason":"x"}`).json["id"].(string)
	h.must(h.admin, "POST", "/v1/exceptions/import?domain=shop&reason=x&dry_run=true", "user,limit,for\na,5/s,1day\n", "Content-Type", "text/csv")
	get("/v1/exceptions?domain=shop&rule=user&search=47&after=a/b&limit=5")
	get("/v1/exceptions/" + exception)
	h.must(h.admin, "DELETE", "/v1/exceptions/"+exception+"?reason=x", "")
	token := h.must(h.admin, "POST", "/v1/tokens", `{"actor":"ann","role":"propose","teams":["shop"],"seconds":60,"reason":"x"}`).json["id"].(string)
	h.must(h.admin, "POST", "/v1/tokens", `{"actor":"ci","role":"propose","teams":["shop"],"certificate":"spiffe://example.org/ci","reason":"x"}`)
	h.must(h.admin, "PUT", "/v1/teams/shop", `{"quota":10,"reason":"x"}`)
	hook := h.must(h.admin, "POST", "/v1/webhooks", `{"team":"shop","url":"https://hooks.example/T0/secret","form":"slack","kinds":["publish"],"disabled":false,"reason":"x"}`)
	at := "/v1/webhooks/" + hook.json["id"].(string)
	if s := h.ask(h.admin, "POST", at+"/retry", `{"reason":"x"}`); s.status != http.StatusPreconditionFailed || !strings.Contains(s.text, "nothing waits") {
		t.Error("a webhook that has not failed is retried:", s.text)
	}
	failed, err := h.store.WebhookToTell(t.Context(), hook.json["id"].(string))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.store.Undelivered(t.Context(), &failed, rulestore.Delivery{Message: "m", Kind: "publish", At: time.Now(), Error: "it answers 500", Tries: 1}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if s := h.must(h.admin, "POST", at+"/retry", `{"reason":"x"}`); s.json["next_try"] != nil || s.json["failed"] != 1.0 {
		t.Error(s.text)
	}
	h.must(h.admin, "PUT", at, `{"kinds":[],"disabled":true,"reason":"x"}`)
	if s := h.ask(h.admin, "POST", at+"/retry", `{"reason":"x"}`); s.status != http.StatusPreconditionFailed || !strings.Contains(s.text, "disabled") {
		t.Error("a webhook that is disabled is retried:", s.text)
	}
	h.must(h.admin, "POST", "/v1/limited/unblock", `{"domain":"demo","entries":[{"key":"client_id","value":"ann"}],"reason":"x"}`)
	h.must(h.admin, "POST", at+"/secret", `{"reason":"x"}`)
	h.must(h.admin, "POST", at+"/ping", "")
	get(at + "/deliveries")
	if s := get("/v1/webhooks"); strings.Contains(s.text, "whsec_") || strings.Contains(s.text, "T0/secret") || !strings.Contains(s.text, "https://hooks.example/…") {
		t.Error("a list tells secrets:", s.text)
	}
	h.must(h.admin, "DELETE", at+"?reason=x", "")
	for _, path := range []string{
		"/v1/whoami", "/v1/domains?team=shop&after=a&limit=5", "/v1/domains", "/v1/domains/shop", "/v1/domains/demo", "/v1/domains/shop/file?in_force=true",
		"/v1/rules?domain=shop&team=shop&state=enforced&search=us&gone=true&after=a/b&limit=5", "/v1/rules/shop/user", "/v1/rules/shop/user/history?before=9&limit=5",
		"/v1/rules/shop/user/versions/1", "/v1/rules/shop/user/versions/1/comments", "/v1/inbox", "/v1/rules/shop/user/diff?from=1&to=2", "/v1/teams?after=a&limit=5", "/v1/tokens?after=0&limit=5",
		"/v1/audit?after=0&before=99&domain=shop&rule=user&changes=true&limit=5", "/v1/audit?format=jsonl",
	} {
		get(path)
	}
	h.must(h.admin, "POST", "/v1/validate?domain=shop", "- key: user\n  limits: [10/s, 3 concurrent]\n- key: ip\n  unlimited: true\n")
	h.must(h.admin, "POST", "/v1/validate", "domain: shop\ndescriptors:\n  - key: user\n    limits: [1 a second]\n")
	h.must(h.admin, "PUT", "/v1/domains/new/file?to=draft&team=shop&dry_run=true&reason=x&force=true", "domain: new\ndescriptors:\n  - {key: a, limits: [1/s]}\n", "If-None-Match", "*")
	h.must(h.admin, "DELETE", "/v1/rules/shop/user?to=enforced&reason=x&force=true", "", match("/v1/rules/shop/user")...)
	get("/v1/rules?gone=true")
	h.must(h.admin, "DELETE", "/v1/tokens/"+token+"?reason=x", "")
	get("/v1/tokens")
	h.must(h.admin, "DELETE", "/v1/domains/shop?confirm=shop&reason=x", "", match("/v1/domains/shop")...)
	deleted := get("/v1/deletions?domain=shop&before=9999&limit=5").json["deletions"].([]any)[0].(map[string]any)["revision"]
	h.must(h.admin, "POST", "/v1/domains/shop/restore", fmt.Sprintf(`{"revision":%v,"reason":"x"}`, deleted))
	for _, name := range h.document.operations() {
		if !h.document.answered[name] {
			t.Errorf("%s was not called", name)
		}
	}
}

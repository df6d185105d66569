package ruleapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// TestExceptions: a client is given a limit, found, and put back; a list is set whole, and who may not read about clients reads none.
func TestExceptions(t *testing.T) {
	h := newHouse(t)
	h.must(h.admin, "PUT", "/v1/domains/shop/file?team=shop&to=enforced&force=true&reason=a+test", "domain: shop\ndescriptors:\n  - key: user\n    limits: [10/s]\n", "If-None-Match", "*", "Content-Type", "application/yaml")
	ann := h.token("ann", "publish")
	const set = `{"domain":"shop","entries":[{"key":"user","value":"4711"}],"limit":"100/s","seconds":3600,"reason":"a launch"}`
	made := h.must(ann, "POST", "/v1/exceptions", set)
	id, _ := made.json["id"].(string)
	if made.status != http.StatusCreated || made.json["rule"] != "user" || id == "" {
		t.Fatal(made.text)
	}
	for body, want := range map[string]string{
		strings.Replace(set, "100/s", "100/sec of", 1):                                   "limit",
		strings.Replace(set, `"key":"user"`, `"key":"usr"`, 1):                           "did you mean user",
		strings.Replace(set, "3600", "0", 1):                                             "1…7948800",
		strings.Replace(set, "3600", "-5", 1):                                            "1…7948800",
		strings.Replace(set, "3600", "31536000", 1):                                      "1…7948800",
		strings.Replace(set, `"seconds"`, `"until":"2999-01-01T00:00:00Z","seconds"`, 1): "give one of them",
		strings.Replace(set, `"a launch"`, `""`, 1):                                      "reason",
		strings.Replace(set, "4711", strings.Repeat("x", 5<<10), 1):                      "5120 bytes",
		strings.Replace(set, "4711", `a\u0000b`, 1):                                      "control character",
		strings.Replace(set, `"shop"`, `"demo"`, 1):                                      "comes from the files",
	} {
		if s := h.ask(ann, "POST", "/v1/exceptions", body); s.status < 400 || s.status >= 500 || !strings.Contains(s.text, want) {
			t.Errorf("%.200s\n%d %s; want %q", body, s.status, s.text, want)
		}
	}
	if s := h.must(ann, "GET", "/v1/exceptions/"+id, ""); s.json["limit"] != "100/s" || s.json["author"] != "ann" {
		t.Error(s.text)
	}
	const list = "user,limit,for\na,5/s,1day\nb,5/s,1day\n"
	path := "/v1/exceptions/import?domain=shop&reason=many"
	bad := h.ask(ann, "POST", path, list+"c,5/s,never\nd,5\n", "Content-Type", "text/csv")
	if bad.status != http.StatusBadRequest || !strings.Contains(bad.text, `"line":4,"column":1,"severity":"error","text":"for: `) || !strings.Contains(bad.text, `"line":5,"column":1,"severity":"error","text":"has 2 fields`) {
		t.Error(bad.text)
	}
	if s := h.must(ann, "POST", path+"&dry_run=true", list, "Content-Type", "text/csv"); s.json["set"] != 2.0 {
		t.Error(s.text)
	}
	all := func(token, query string) int {
		t.Helper()
		n, next := 0, ""
		for {
			s := h.must(token, "GET", "/v1/exceptions?"+query+next, "")
			n += len(s.json["exceptions"].([]any))
			after, more := s.json["next"].(string)
			if !more {
				return n
			}
			next = "&after=" + after
		}
	}
	if n := all(ann, "domain=shop"); n != 1 {
		t.Errorf("a dry run has set some: there are %d", n)
	}
	h.must(ann, "POST", path, list, "Content-Type", "text/csv")
	for query, want := range map[string]int{"domain=shop": 3, "domain=shop&limit=1": 3, "domain=shop&search=4711": 1, "domain=shop&rule=user": 3, "domain=shop&rule=none": 0} {
		if n := all(ann, query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
	if n := all(h.admin, "limit=2"); n != 3 {
		t.Errorf("a token of all teams reads %d", n)
	}
	if s := h.ask(ann, "GET", "/v1/exceptions", ""); s.status != http.StatusBadRequest {
		t.Error(s.text)
	}
	mal := h.must(h.admin, "POST", "/v1/tokens", `{"actor":"mal","role":"admin","teams":["mail"],"seconds":3600,"reason":"a test"}`).json["token"].(string)
	for _, c := range [][2]string{{"GET", "/v1/exceptions?domain=shop"}, {"GET", "/v1/exceptions/" + id}, {"DELETE", "/v1/exceptions/" + id + "?reason=mine"}} {
		if s := h.ask(mal, c[0], c[1], ""); s.status != http.StatusForbidden || strings.Contains(s.text, "4711") {
			t.Errorf("%v: %d %s", c, s.status, s.text)
		}
	}
	for _, token := range []string{h.admin, ann, mal} {
		if s := h.ask(token, "GET", "/v1/exceptions?domain=nosuch", ""); s.status != http.StatusNotFound {
			t.Error(s.status, s.text)
		}
	}
	for from, to := range map[string]string{`[{"key":"user","value":"4711"}]`: `"user=4711"`, `"100/s"`: "7", "3600": `"an hour"`} {
		if s := h.ask(ann, "POST", "/v1/exceptions", strings.Replace(set, from, to, 1)); s.status != http.StatusBadRequest || !strings.Contains(s.text, "it must be a") || strings.Contains(s.text, "rulestore") || strings.Contains(s.text, "int64") {
			t.Error(s.status, s.text)
		}
	}
	if s := h.ask(h.token("eve", "propose"), "POST", "/v1/exceptions", set); s.status != http.StatusForbidden {
		t.Error(s.text)
	}
	h.must(ann, "DELETE", "/v1/exceptions/"+id+"?reason=over", "")
	if s := h.ask(ann, "GET", "/v1/exceptions/"+id, ""); s.status != http.StatusNotFound {
		t.Error(s.text)
	}
	if s := h.ask(ann, "DELETE", "/v1/exceptions/"+id+"?reason=over", ""); s.status != http.StatusNotFound {
		t.Error(s.text)
	}
}

// TestTooLong: a client that sends more than may come sees why, also while it is still sending.
func TestTooLong(t *testing.T) {
	h := newHouse(t)
	h.shop()
	for path, kind := range map[string]string{"/v1/exceptions/import?domain=shop&reason=x": "text/csv", "/v1/exceptions": "application/json"} {
		if s := h.ask(h.admin, "POST", path, strings.Repeat("user,limit,for\n", 2<<20), "Content-Type", kind); s.status != http.StatusRequestEntityTooLarge || !strings.Contains(s.text, "give less at a time") {
			t.Errorf("%s: %d %s", path, s.status, s.text)
		}
	}
}

// TestNotUTF8: what JSON can't be is refused, and not stored as something else.
func TestNotUTF8(t *testing.T) {
	h := newHouse(t)
	h.shop()
	s := h.ask(h.admin, "POST", "/v1/exceptions", "{\"domain\":\"shop\",\"entries\":[{\"key\":\"user\",\"value\":\"47\xff\"}],\"limit\":\"1/s\",\"seconds\":60,\"reason\":\"x\"}")
	if s.status != http.StatusBadRequest || !strings.Contains(s.text, "is not UTF-8") {
		t.Error(s.status, s.text)
	}
}

// TestUnblock: by the requests of a client, whoever may; the answer has the limits, and which nodes are late.
func TestUnblock(t *testing.T) {
	h := newHouse(t)
	h.shop()
	const path, body = "/v1/limited/unblock", `{"domain":"demo","entries":[{"key":"client_id","value":"ann"}],"reason":"she called"}`
	s := h.must(h.admin, "POST", path, body)
	limits, _ := s.json["limits"].([]any)
	if s.json["nodes"] != 1.0 || len(limits) != 1 || limits[0].(map[string]any)["limit"] != "5/s burst 10" || !strings.Contains(s.json["text"].(string), "The counts of ann were reset on 1 node.") || !strings.Contains(s.text, "Not yet on node-9:8083") {
		t.Error(s.text)
	}
	asked, err := h.store.Asked(t.Context(), 0)
	if err != nil || len(asked.Resets) != 1 || string(asked.Resets[0].Client) != "ann" {
		t.Error(asked, err)
	}
	for _, c := range []struct {
		token, body, says string
		status            int
	}{
		{h.token("ann", "publish"), body, "unblock clients of domain demo", http.StatusForbidden},
		{h.admin, strings.Replace(body, "client_id", "nosuch", 1), "no active rule is for such a request", http.StatusNotFound},
		{h.admin, strings.Replace(body, "she called", "", 1), "say why", http.StatusBadRequest},
		{h.admin, `{"domain":"demo","entries":[],"reason":"x"}`, "no active rule", http.StatusNotFound},
	} {
		if s := h.ask(c.token, "POST", path, c.body); s.status != c.status || !strings.Contains(s.text, c.says) {
			t.Errorf("%s: %d %s", c.body, s.status, s.text)
		}
	}
	if s := h.ask(h.admin, "GET", path, ""); s.status != http.StatusMethodNotAllowed {
		t.Error(s.status, s.text)
	}
}

// TestAuditOfResets: the audit tells a token whose client it was only if it may read about the clients of the rule, and the lines are a chain all the same.
func TestAuditOfResets(t *testing.T) {
	h := newHouse(t)
	h.must(h.admin, "PUT", "/v1/domains/shop/file?team=shop&to=enforced&force=true&reason=a+test", "domain: shop\ndescriptors:\n  - key: user\n    limits: [10/s]\n", "If-None-Match", "*", "Content-Type", "application/yaml")
	mal := h.must(h.admin, "POST", "/v1/tokens", `{"actor":"mal","role":"admin","teams":["mail"],"seconds":3600,"reason":"a test"}`).json["token"].(string)
	ann := h.token("ann", "read")
	for _, domain := range []string{"shop", "demo"} { // demo comes from files
		e := rulestore.Event{At: time.Now(), Action: rulestore.Reset, Domain: domain, Rule: "user", Reason: "user of client-" + domain}
		if err := h.store.Record(t.Context(), []rulestore.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		token      string
		shop, demo bool
	}{{h.admin, true, true}, {ann, true, false}, {mal, false, false}} {
		text := h.must(c.token, "GET", "/v1/audit?format=jsonl", "").text
		if strings.Contains(text, "client-shop") != c.shop || strings.Contains(text, "client-demo") != c.demo {
			t.Errorf("want %v and %v told:\n%s", c.shop, c.demo, text)
		}
		var chain rulestore.Chain
		for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
			var e rulestore.Event
			if err := d.Decode(&e); err != nil {
				t.Fatal(err)
			}
			chain.Add(&e)
		}
		want := int64(0)
		for _, told := range []bool{c.shop, c.demo} {
			if !told {
				want++
			}
		}
		if v := chain.Verdict(rulestore.Unnumbered); len(v.Faults) > 0 || v.Withheld != want {
			t.Errorf("%+v", v)
		}
	}
}

package ruleapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestRestoreDomain: a domain with 900 rules is taken away in one call, and restored in one, with the file that it had.
func TestRestoreDomain(t *testing.T) {
	h := newHouse(t)
	h.must(h.admin, "POST", "/v1/domains", `{"name":"shop","team":"shop","shared":true,"review":true,"reason":"a test"}`)
	ann, bob := h.token("ann", "publish"), h.token("bob", "publish")
	etag := func(path string) string { return h.must(h.admin, "GET", path, "").etag }
	var file strings.Builder
	file.WriteString("# Nine hundred.\ndomain: shop\ndescriptors:\n")
	for i := range 900 {
		fmt.Fprintf(&file, "    # Rule %d.\n    - {key: k%03d, limits: [%d/s]}\n", i, i, i+1)
	}
	h.must(ann, "PUT", "/v1/domains/shop/file?to=shadow&reason=x", file.String(), "If-Match", etag("/v1/domains/shop"))
	h.must(bob, "PUT", "/v1/domains/shop/file?to=enforced&force=true&reason=x", file.String(), "If-Match", etag("/v1/domains/shop"))
	h.must(ann, "PUT", "/v1/rules/shop/k001", `{"text":"- {key: k001, limits: [9/s]}","to":"shadow","reason":"x"}`, "If-Match", etag("/v1/rules/shop/k001"))
	h.must(ann, "POST", "/v1/rules", `{"domain":"shop","text":"- {key: new, limits: [9/s]}","reason":"x"}`)
	before, list := h.must(h.admin, "GET", "/v1/domains/shop/file", "").text, h.must(h.admin, "GET", "/v1/rules?domain=shop", "").json["rules"].([]any)
	if before != file.String() || len(list) != 901 {
		t.Fatal(len(list), before)
	}

	s := h.ask(h.admin, "DELETE", "/v1/domains/shop?reason=x", "", "If-Match", etag("/v1/domains/shop"))
	if s.status != http.StatusBadRequest || s.json["field"] != "confirm" || !strings.Contains(s.text, "goes away with its 901 rules") {
		t.Error(s.text)
	}
	h.must(h.admin, "DELETE", "/v1/domains/shop?confirm=shop&reason=by+mistake", "", "If-Match", etag("/v1/domains/shop"))
	gone := h.must(h.admin, "GET", "/v1/rules/shop/k001", "")
	if s := h.ask(bob, "POST", "/v1/rules/shop/k001/rollback", `{"reason":"x"}`, "If-Match", gone.etag); s.status != http.StatusNotFound || !strings.Contains(s.text, "it was taken away, and can be restored") {
		t.Error("rolled back in a domain that is not there:", s.text)
	}
	if s := h.ask(bob, "POST", "/v1/domains/shop/restore", `{"reason":"x"}`); s.status != http.StatusForbidden {
		t.Error(s.text)
	}
	back := h.must(h.admin, "POST", "/v1/domains/shop/restore", `{"reason":"it was a mistake"}`)
	if back.json["review"] != true || back.json["shared"] != true || back.json["team"] != "shop" || back.json["rules"] != 901.0 || back.etag != etag("/v1/domains/shop") {
		t.Error(back.text)
	}
	if now := h.must(h.admin, "GET", "/v1/domains/shop/file", "").text; now != before {
		t.Errorf("the file has %d bytes, and had %d", len(now), len(before))
	}
	for i, r := range h.must(h.admin, "GET", "/v1/rules?domain=shop", "").json["rules"].([]any) {
		now, was := r.(map[string]any), list[i].(map[string]any)
		for _, member := range []string{"id", "state", "team", "text", "latest", "draft", "shadow", "enforced"} {
			if now[member] != was[member] {
				t.Fatalf("%s of %v is %v, and was %v", member, was["id"], now[member], was[member])
			}
		}
	}
	audit := h.must(h.admin, "GET", "/v1/audit?domain=shop&format=jsonl&before=1000000", "").text
	for _, want := range []string{`"action":"domain.delete","domain":"shop","reason":"by mistake"`, `"action":"domain.restore","domain":"shop","reason":"it was a mistake"`} {
		if !strings.Contains(audit, want) {
			t.Errorf("the audit lacks %s", want)
		}
	}
}

// TestRollBackGone: rolling a rule back without a version enforces the last that was active, also when the rule went away with its domain, and
// says so when there is none.
func TestRollBackGone(t *testing.T) {
	h := newHouse(t)
	h.shop()
	etag := func(path string) string { return h.must(h.admin, "GET", path, "").etag }
	back := func(rule string) said {
		return h.ask(h.admin, "POST", "/v1/rules/shop/"+rule+"/rollback", `{"reason":"x"}`, "If-Match", etag("/v1/rules/shop/"+rule))
	}
	propose := func(rule, to string) {
		h.must(h.admin, "POST", "/v1/rules", fmt.Sprintf(`{"domain":"shop","text":"- {key: %s, limits: [1/s]}","to":%q,"reason":"x","force":true}`, rule, to))
	}
	propose("user", "enforced")
	propose("never", "draft")
	if s := back("user"); s.status != http.StatusBadRequest || !strings.Contains(s.text, "no older version was active") {
		t.Error(s.text)
	}
	if s := back("never"); s.status != http.StatusBadRequest || !strings.Contains(s.text, "no version of the rule was active yet") {
		t.Error(s.text)
	}
	h.must(h.admin, "DELETE", "/v1/rules/shop/user?to=enforced&reason=x", "", "If-Match", etag("/v1/rules/shop/user"))
	if s := back("user"); s.status != http.StatusOK || s.json["enforced"] != 1.0 || s.json["state"] != "enforced" {
		t.Error("a rule that was removed:", s.text)
	}
	h.must(h.admin, "DELETE", "/v1/domains/shop?confirm=shop&reason=x", "", "If-Match", etag("/v1/domains/shop"))
	h.shop()
	if s := back("never"); s.status != http.StatusBadRequest || !strings.Contains(s.text, "no version of the rule was active yet") {
		t.Error(s.text)
	}
	if s := back("user"); s.status != http.StatusOK || s.json["enforced"] != 1.0 || s.json["state"] != "enforced" {
		t.Error("a rule of a domain that was made again:", s.text)
	}
}

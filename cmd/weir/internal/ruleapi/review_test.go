package ruleapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestReview: in a domain under review no single person stops a rule from being enforced, whichever call they make and whatever they force; two people do.
func TestReview(t *testing.T) {
	const file = "domain: shop\ndescriptors:\n  - {key: user, limits: [10/s]}\n"
	newShop := func(t *testing.T) (h *house, ann, bob string) {
		h = newHouse(t)
		h.shop()
		etag := h.must(h.admin, "GET", "/v1/domains/shop", "").etag
		h.must(h.admin, "PUT", "/v1/domains/shop/file?to=enforced&force=true&reason=x", file, "If-Match", etag)
		h.must(h.admin, "PATCH", "/v1/domains/shop", `{"review":true,"reason":"two see more"}`, "If-Match", h.must(h.admin, "GET", "/v1/domains/shop", "").etag)
		return h, h.token("ann", "publish"), h.token("bob", "publish")
	}
	inForce := func(h *house) string { return h.must(h.admin, "GET", "/v1/domains/shop/file?in_force=true", "").text }
	for name, call := range map[string]struct {
		method, path, body string
		status             int // for the second person
	}{
		"disable":         {"POST", "/v1/rules/shop/user/state", `{"version":1,"to":"disabled","reason":"x","force":true}`, 200},
		"remove":          {"DELETE", "/v1/rules/shop/user?to=enforced&reason=x&force=true", "", 403},
		"replace":         {"PUT", "/v1/rules/shop/user", `{"text":"- {key: user, limits: [1000000/s]}","to":"enforced","reason":"x","force":true}`, 403},
		"an empty file":   {"PUT", "/v1/domains/shop/file?to=enforced&reason=x&force=true", "domain: shop\ndescriptors: []\n", 403},
		"open the rule":   {"POST", "/v1/rules/shop/user/override", `{"mode":"open","seconds":604800,"reason":"x"}`, 403},
		"open the domain": {"POST", "/v1/domains/shop/override", `{"mode":"open","seconds":3601,"reason":"x"}`, 403},
		"tighten":         {"POST", "/v1/domains/shop/override", `{"mode":"tighten","percent":1,"seconds":7200,"reason":"x"}`, 403},
	} {
		t.Run(name, func(t *testing.T) {
			h, ann, bob := newShop(t)
			of := strings.TrimSuffix(strings.TrimSuffix(strings.Split(call.path, "?")[0], "/state"), "/file")
			ask := func(token string) said {
				var match []string
				if !strings.HasSuffix(of, "/override") {
					match = []string{"If-Match", h.must(h.admin, "GET", of, "").etag}
				}
				return h.ask(token, call.method, call.path, call.body, match...)
			}
			for range 2 {
				s := ask(ann)
				if s.status != http.StatusAccepted && (s.status != http.StatusForbidden || !strings.Contains(s.text, "wants a second person")) || inForce(h) != file {
					t.Errorf("%d %s\n%s", s.status, s.text, inForce(h))
				}
			}
			if s := ask(bob); s.status != call.status || (inForce(h) != file) != (call.status == 200) {
				t.Errorf("%d %s\n%s", s.status, s.text, inForce(h))
			}
		})
	}
	t.Run("two people", func(t *testing.T) {
		h, ann, bob := newShop(t)
		rule := func() []string { return []string{"If-Match", h.must(h.admin, "GET", "/v1/rules/shop/user", "").etag} }
		disable := func(token string) said {
			return h.ask(token, "POST", "/v1/rules/shop/user/state", `{"version":1,"to":"disabled","reason":"the flood"}`, rule()...)
		}
		s := disable(ann)
		if s.status != http.StatusAccepted || s.json["state"] != "enforced" || fmt.Sprint(s.json["disabling"]) != "map[actor:ann reason:the flood]" {
			t.Error(s.text)
		}
		if s := disable(bob); s.status != http.StatusOK || s.json["state"] != "disabled" || s.json["disabling"] != nil {
			t.Error(s.text)
		}
		h.must(ann, "POST", "/v1/rules/shop/user/state", `{"version":1,"to":"enforced","reason":"over"}`, rule()...)

		open := func(token string, seconds int) map[string]any {
			s := h.must(token, "POST", "/v1/domains/shop/override", fmt.Sprintf(`{"mode":"open","seconds":%d,"reason":"the flood"}`, seconds))
			return s.json["overrides"].([]any)[0].(map[string]any)
		}
		if o := open(ann, 3600); o["unreviewed"] != true || o["author"] != "ann" || o["second"] != nil || inForce(h) == file {
			t.Error(o)
		}
		if o := open(bob, 604800); o["unreviewed"] != nil || o["author"] != "ann" || o["second"] != "bob" || inForce(h) == file {
			t.Error(o)
		}
		h.must(bob, "POST", "/v1/domains/shop/override", `{"mode":"end","reason":"over"}`)
		if inForce(h) != file {
			t.Error(inForce(h))
		}
		h.must(ann, "DELETE", "/v1/rules/shop/user?reason=not+needed", "", rule()...)
		if s := h.must(bob, "POST", "/v1/rules/shop/user/state", `{"version":2,"to":"enforced","reason":"seen"}`, rule()...); s.json["state"] != "gone" {
			t.Error(s.text)
		}
		audit := h.must(h.admin, "GET", "/v1/audit?domain=shop&format=jsonl", "").text
		for _, want := range []string{
			`"action":"domain.update","domain":"shop","reason":"review on: two see more"`, `"action":"disable.asked"`, `"action":"open.unreviewed"`, "open, by ann and bob: the flood",
		} {
			if !strings.Contains(audit, want) {
				t.Errorf("the audit lacks %s:\n%s", want, audit)
			}
		}
	})
}

package ruleapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
)

// TestGuardFiles: a file is enforced when each rule that it changes ran in shadow and denied few, or is looser; a dry run tells.
func TestGuardFiles(t *testing.T) {
	const first, next, other = "domain: shop\ndescriptors:\n  - {key: user, limits: [10/s]}\n  - {key: ip, limits: [1/s]}\n",
		"domain: shop\ndescriptors:\n  - {key: user, limits: [5/s]}\n",
		"domain: shop\ndescriptors:\n  - {key: user, limits: [4/s]}\n"
	good := &shadow.Report{Counts: shadow.Counts{BothPass: 1000}}
	for name, c := range map[string]struct {
		shadowed, file string
		report         *shadow.Report
		why            string // that it is refused; empty: it is not
	}{
		"as it ran":       {next, next, good, ""},
		"nothing ran":     {"", next, nil, "run it in shadow first"},
		"looser":          {"", "domain: shop\ndescriptors:\n  - {key: user, limits: [12/s]}\n", nil, ""},
		"another ran":     {other, next, good, "run it in shadow first"},
		"too few":         {next, next, &shadow.Report{}, "no request has met it"},
		"denies too much": {next, next, &shadow.Report{Counts: shadow.Counts{BothPass: 900, OnlyCandidate: 100}}, "10 % of the requests"},
		"less is open":    {"", "domain: shop\ndescriptors:\n  - {key: user, limits: [10/s]}\n", nil, ""},
		"another order":   {"", "domain: shop\ndescriptors:\n  - {key: ip, limits: [1/s]}\n  - {key: user, limits: [10/s]}\n", nil, ""},
		"a comment":       {"", "# The shop.\n" + first, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.shop()
			put := func(query, file string) said {
				return h.ask(h.admin, "PUT", "/v1/domains/shop/file?reason=x&"+query, file, "If-Match", h.must(h.admin, "GET", "/v1/domains/shop", "").etag)
			}
			if s := put("to=enforced&force=true", first); s.status != http.StatusOK {
				t.Fatal(s.text)
			}
			if c.shadowed != "" && put("to=shadow", c.shadowed).status != http.StatusOK {
				t.Fatal("shadow")
			}
			h.report = c.report
			plan := put("to=enforced&dry_run=true", c.file)
			if why := fmt.Sprint(plan.json["refused"]); plan.status != http.StatusOK || (c.why == "") != (plan.json["refused"] == nil) || !strings.Contains(why, c.why) {
				t.Error("planned:", plan.text)
			}
			if s := put("to=enforced&dry_run=true&force=true", c.file); s.json["refused"] != nil {
				t.Error("forced:", s.text)
			}
			done := put("to=enforced", c.file)
			switch now := h.must(h.admin, "GET", "/v1/domains/shop/file", "").text; {
			case c.why == "" && (done.status != http.StatusOK || now != c.file):
				t.Error(done.text, now)
			case c.why != "" && (done.status != http.StatusConflict || done.json["field"] != "force" || !strings.Contains(done.text, c.why) || now != first):
				t.Error(done.text, now)
			}
			refused := strings.Count(h.must(h.admin, "GET", "/v1/audit?domain=shop&format=jsonl", "").text, `"refused"`)
			if want := map[bool]int{true: 0, false: 1}[c.why == ""]; refused != want {
				t.Errorf("%d refusals in the audit, want %d", refused, want)
			}
		})
	}
}

// TestPlanUnderReview: a dry run tells what a file would change, also to somebody that a second person has to publish it for; no
// force makes it active.
func TestPlanUnderReview(t *testing.T) {
	const file = "domain: shop\ndescriptors:\n  - {key: user, limits: [10/s]}\n"
	h := newHouse(t)
	h.must(h.admin, "POST", "/v1/domains", `{"name":"shop","team":"shop","review":true,"reason":"two see more"}`)
	h.report = &shadow.Report{Counts: shadow.Counts{BothPass: 1000}}
	ann, bob, cid := h.token("ann", "publish"), h.token("bob", "publish"), h.token("cid", "propose")
	put := func(token, query string) said {
		return h.ask(token, "PUT", "/v1/domains/shop/file?reason=x&"+query, file, "If-Match", h.must(h.admin, "GET", "/v1/domains/shop", "").etag)
	}
	for token, why := range map[string]string{ann: "wants a second person", cid: "takes the role publish"} {
		for _, force := range []string{"", "&force=true"} {
			s := put(token, "to=enforced&dry_run=true"+force)
			if s.status != http.StatusOK || len(s.json["changes"].([]any)) != 1 || !strings.Contains(fmt.Sprint(s.json["refused"]), why) || s.json["force"] != false {
				t.Error(why, s.text)
			}
			if s := put(token, "to=enforced"+force); s.status != http.StatusForbidden || !strings.Contains(s.text, why) {
				t.Error(why, s.status, s.text)
			}
		}
	}
	if s := put(ann, "to=shadow"); s.status != http.StatusOK {
		t.Fatal(s.text)
	}
	if s := put(bob, "to=enforced&dry_run=true"); s.json["refused"] != nil || len(s.json["changes"].([]any)) != 1 {
		t.Error(s.text)
	}
	if s := put(bob, "to=enforced"); s.status != http.StatusOK || h.must(h.admin, "GET", "/v1/domains/shop/file", "").text != file {
		t.Error(s.text)
	}
}

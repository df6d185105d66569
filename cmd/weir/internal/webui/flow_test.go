package webui_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
)

const userRule = "/ui/rule?domain=shop&rule=user"

// match is the revision that forms of a page bring along.
func match(t *testing.T, page string) string {
	t.Helper()
	found := regexp.MustCompile(`name="match" value="(\d+)"`).FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page has no form:\n", page)
	}
	return found[1]
}

// form is one of a rule's page, as it is now.
func (b *browser) form(t *testing.T, more ...string) url.Values {
	t.Helper()
	_, page := b.get(t, userRule)
	f := url.Values{"domain": {"shop"}, "rule": {"user"}, "match": {match(t, page)}}
	for i := 0; i < len(more); i += 2 {
		f.Set(more[i], more[i+1])
	}
	return f
}

// wants fails unless a page has all words and a status.
func wants(t *testing.T, r *reply, page string, status int, words ...string) {
	t.Helper()
	if r.StatusCode != status {
		t.Errorf("%s, not %d", r.Status, status)
	}
	for _, w := range words {
		if !strings.Contains(page, w) && !strings.Contains(html.UnescapeString(page), w) {
			t.Errorf("the page lacks %q:\n%s", w, page)
		}
	}
}

// TestPublish goes the way of a rule: shadow, a report, the guard, into force, and
// back.
func TestPublish(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")

	r, page := b.post(t, "/ui/rule", b.form(t, "text", "- key: user\r\n  limits: [2/s]\r\n", "reason", "bots <b>", "to", "shadow"))
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, userRule)
	wants(t, r, page, http.StatusOK, "Version 3 runs in shadow", "shadow v3", "bots &lt;b&gt;", "This node has yet to hear")

	now := time.Now()
	h.report = &shadow.Report{
		Since: now.Add(-time.Hour), At: now, RecentSince: now.Add(-time.Minute),
		Counts:      shadow.Counts{BothPass: 900, OnlyCandidate: 100},
		NewlyDenied: []shadow.Client{{Rule: "shop/user", Key: "\u202eeve<script>", Requests: 100}},
	}
	r, page = b.get(t, userRule)
	wants(t, r, page, http.StatusOK, "10 % of the requests", `\u{202E}eve&lt;script&gt;`)

	publish := b.form(t, "version", "3", "to", "enforced", "reason", "as planned")
	r, page = b.post(t, "/ui/step", publish)
	wants(t, r, page, http.StatusConflict, "10 % of the requests", `name="force"`, `value="as planned"`)
	refused, err := h.store.Audit(t.Context(), rulestore.Audited{Domain: "shop", Limit: 1, Before: 1 << 40})
	if err != nil || refused[0].Refused == "" || refused[0].Actor != "ann" {
		t.Error("the refusal is not in the audit:", refused, err)
	}
	publish.Set("force", "yes")
	r, page = b.post(t, "/ui/step", publish)
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, userRule)
	wants(t, r, page, http.StatusOK, "active v3", "Version 3 is active.", "At most 3 in any second, whenever it begins.")
	if _, page = b.get(t, userRule); strings.Contains(page, "Version 3 is active.") {
		t.Error("a notice is said twice")
	}

	r, page = b.get(t, "/ui/history?domain=shop&rule=user")
	wants(t, r, page, http.StatusOK, "Roll back to version 1", "-  limits: [10/s burst 20, 1000/h]", "&#43;  limits: [2/s]")
	r, page = b.post(t, "/ui/step", b.form(t, "version", "1", "to", "enforced", "reason", "it was too tight"))
	wants(t, r, page, http.StatusSeeOther)
	d, err := h.store.Document(t.Context(), "shop")
	if err != nil || !strings.Contains(d.File, "10/s burst 20") || strings.Contains(d.File, "2/s]") {
		t.Error(d.File, err)
	}
}

// TestNotice: what a form has done is said on the next page that somebody looks at,
// though an open page asks for its counts before.
func TestNotice(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	r, page := b.post(t, "/ui/step", b.form(t, "to", "disabled", "version", "1", "reason", "a test"))
	wants(t, r, page, http.StatusSeeOther)
	b.fields = http.Header{"Weir-Refresh": {"1"}}
	if _, page = b.get(t, userRule); strings.Contains(page, "Version 1 is left out") {
		t.Error("a notice is said to nobody")
	}
	b.fields = nil
	r, page = b.get(t, userRule)
	wants(t, r, page, http.StatusOK, "Version 1 is left out")
}

// TestAsked: what a form would open or tighten is shown before it is done, limit by limit, and nothing is chosen at first.
func TestAsked(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	for at, want := range map[string][2][]string{
		userRule: {
			{"Tighten to 50 %?", "shop/user#1: <code>10/s burst 20</code> becomes <code>5/s burst 10</code>", "shop/user#2: <code>1000/h</code> becomes <code>500/h</code>", "a &lt;flood&gt;"},
			{"Open it?", "<code>10/s burst 20</code> denies nobody", "a &lt;flood&gt;"},
		},
		shopRules: {
			{"Tighten to 50 %?", "shop/checkout: <code>100/min</code> becomes <code>50/min</code>", "shop/search=*"},
			{"Open all limits?", "shop/checkout: <code>100/min</code> denies nobody"},
		},
	} {
		r, page := b.get(t, at)
		wants(t, r, page, http.StatusOK, `<option value="" selected>choose`)
		for i, percent := range []string{"50", "0"} {
			form := b.form(t, "percent", percent, "minutes", "30", "reason", "a <flood>")
			if at == shopRules {
				form.Del("rule")
			}
			r, page = b.post(t, "/ui/override", form)
			wants(t, r, page, http.StatusOK, append(want[i], `name="sure" value="yes"`)...)
		}
	}
	if d, err := h.store.Document(t.Context(), "shop"); err != nil || len(d.Overrides) > 0 {
		t.Error("it is done before it was asked:", d.Overrides, err)
	}
	r, page := b.post(t, "/ui/override", b.form(t, "percent", "", "minutes", "30", "reason", "a slip"))
	wants(t, r, page, http.StatusBadRequest, "Choose whether to open")
}

// TestIncident opens a rule for a time, and ends that; disables it and takes it
// away.
func TestIncident(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	r, page := b.post(t, "/ui/override", b.form(t, "percent", "25", "minutes", "60", "sure", "yes", "reason", "a flood"))
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, userRule)
	wants(t, r, page, http.StatusOK, "user: tightened to 25 %", "a flood", "End it now")
	r, page = b.post(t, "/ui/override", b.form(t, "percent", "25", "minutes", "99999", "sure", "yes", "reason", "a flood"))
	wants(t, r, page, http.StatusBadRequest, "role=\"alert\"", "7 days")
	for _, bad := range [][]string{{"percent", "", "minutes", "60"}, {"percent", "5 %", "minutes", "60"}, {"percent", "50", "minutes", ""}, {"percent", "50", "minutes", "-5"}, {"percent", "-1", "minutes", "60"}, {"end", "no"}} {
		r, page = b.post(t, "/ui/override", b.form(t, append(bad, "sure", "yes", "reason", "a slip")...))
		wants(t, r, page, http.StatusBadRequest, "role=\"alert\"", "tightened to 25 %")
	}
	r, page = b.post(t, "/ui/override", b.form(t, "end", "yes", "reason", "it is over"))
	wants(t, r, page, http.StatusSeeOther)
	if _, page = b.get(t, userRule); strings.Contains(page, "tightened to 25 %</strong>") {
		t.Error("the override goes on")
	}
	for _, step := range []struct{ to, version, then string }{
		{"disabled", "1", "disabled v1"}, {"enforced", "1", "active v1"}, {"removed", "0", "taken away"},
	} {
		r, page = b.post(t, "/ui/step", b.form(t, "to", step.to, "version", step.version, "reason", "a test"))
		wants(t, r, page, http.StatusSeeOther)
		r, page = b.get(t, userRule)
		wants(t, r, page, http.StatusOK)
		if step.to != "removed" {
			wants(t, r, page, http.StatusOK, step.then)
		}
	}
}

// TestFirstRule makes a domain and its first rule.
func TestFirstRule(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	r, page := b.post(t, "/ui/domain", url.Values{"name": {"mаil"}, "team": {"mail"}, "reason": {"new"}}) // Cyrillic a
	wants(t, r, page, http.StatusBadRequest, "U+0430", `aria-describedby="name-fault"`, `value="mail"`)
	r, page = b.post(t, "/ui/domain", url.Values{"name": {"mail"}, "team": {"mail"}, "reason": {"new"}})
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, r.Header.Get("Location"))
	wants(t, r, page, http.StatusOK, "New rule", "There is no rule here yet")
	r, page = b.get(t, "/ui/new?domain=mail")
	wants(t, r, page, http.StatusOK, "At most 29 in any second, whenever it begins.", "That is 19 more than the count: the burst passes at once, and the pace goes on beside it.")
	first := url.Values{"domain": {"mail"}, "match": {"0"}, "text": {"- key: sender\n  limits: [100/h]\n"}, "reason": {"spam"}, "to": {"shadow"}}
	r, page = b.post(t, "/ui/rule", first)
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, r.Header.Get("Location"))
	wants(t, r, page, http.StatusOK, "shadow v1", "sender")
	if strings.Contains(page, ">Active<") {
		t.Error("a rule that was never enforced is shown as active")
	}
	r, page = b.post(t, "/ui/rule", first)
	wants(t, r, page, http.StatusConflict, "100/h")
}

// TestBadRules: what is wrong is told beside the field, and what was written is
// still there.
func TestBadRules(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	for _, c := range []struct{ text, reason, want string }{
		{"- key: user\n  limits: [10/fortnight]\n", "x", "Line 2, column 12:"},
		{"", "x", "Write the rule."},
		{"- key: other\n  limits: [1/s]\n", "x", "counts belong to a rule"},
		{"- key: user\n  limits: [1/s]\n- key: more\n  limits: [1/s]\n", "x", "not one rule"},
		{"- key: user\n  limits: [1/s]\n", " ", "say why"},
		{"- key: user\n  limits: [1/s]\n", strings.Repeat("x", 3000), "it may have 2000"},
		{"- key: user\n  name: </textarea><script>alert(1)</script>\n  limits: [1/s]\n", "", "say why"},
		{"\x00\xff", "x", "Line 1,"},
		{"- key: \"\u202eresu\"\n  limits: [1/s]\n", "x", "U+202E"},
		{"- key: user\n  limits: [1/s]\n" + strings.Repeat("#", rulestore.MaxText), "x", "bytes"},
	} {
		r, page := b.post(t, "/ui/rule", b.form(t, "text", c.text, "reason", c.reason, "to", "shadow"))
		if r.StatusCode != http.StatusBadRequest || !strings.Contains(html.UnescapeString(page), c.want) {
			t.Errorf("%.60q: %s without %q:\n%s", c.text, r.Status, c.want, page)
		}
		if strings.Contains(page, "<script>alert") {
			t.Errorf("%.60q: markup gets through", c.text)
		}
	}
	old := b.form(t, "text", "- key: user\n  limits: [7/s]\n", "reason", "mine", "to", "draft")
	if r, page := b.post(t, "/ui/rule", b.form(t, "text", "- key: user\n  limits: [8/s]\n", "reason", "theirs", "to", "draft")); r.StatusCode != http.StatusSeeOther {
		t.Fatal(page)
	}
	r, page := b.post(t, "/ui/rule", old)
	wants(t, r, page, http.StatusConflict, "has changed this rule in the meantime", "limits: [7/s]", `value="mine"`, "-  limits: [8/s]", "+  limits: [7/s]")
	_, form, _ := strings.Cut(page, "data-editor")
	old.Set("match", match(t, form)) // as it came back
	r, page = b.post(t, "/ui/rule", old)
	wants(t, r, page, http.StatusSeeOther)
}

// TestOtherTeam: a token may do what its role and teams may, however the forms were
// come by.
func TestOtherTeam(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	before, err := h.store.Document(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	r, err := h.store.Rule(t.Context(), "shop", "user")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*browser{
		"of another team": h.signedIn(t, "mallory", rulestore.Admin, "mail"),
		"that may read":   h.signedIn(t, "bob", rulestore.Read, "shop"),
	} {
		for path, f := range map[string]url.Values{
			"/ui/rule":     {"text": {"- key: user\n  limits: [1/s]\n"}, "to": {"shadow"}},
			"/ui/step":     {"version": {"2"}, "to": {"enforced"}, "force": {"yes"}},
			"/ui/override": {"percent": {"0"}, "minutes": {"15"}, "sure": {"yes"}},
			"/ui/domain":   {"name": {"mine"}, "team": {"shop"}},
		} {
			for k, value := range map[string]string{"domain": "shop", "rule": "user", "match": strconv.FormatInt(r.Revision, 10), "reason": "mine"} {
				f.Set(k, value)
			}
			if r, page := b.post(t, path, f); r.StatusCode != http.StatusForbidden {
				t.Errorf("%s %s: %s\n%s", path, name, r.Status, page)
			}
		}
	}
	after, err := h.store.Document(t.Context(), "shop")
	if err != nil || after.File != before.File || after.Candidate != before.Candidate || len(after.Overrides) > 0 {
		t.Error("something was changed:", after, err)
	}
}

// TestLook says what a text means while it is written.
func TestLook(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Propose, "shop")
	for _, c := range []struct{ text, want string }{
		{"- key: a\n  limits: [3/min]\n", "At most 5 in any minute, whenever it begins."},
		{"- key: a\n  limits: [3/mon]\n", "Line 2,"},
		{" \n", "Write a rule"},
		{"- key: a\n  limits: [5 concurrent ttl 30s]\n", "At most 5 at a time."},
		{"- key: a\n  unlimited: true\n", ""},
		{"\t\x01", "Line 1,"},
		{"- key: a\n  limits: [10/s warm-up 10s]\n", "tested with warm limits only"},
	} {
		r, page := b.post(t, "/ui/look", url.Values{"domain": {"shop"}, "text": {c.text}})
		wants(t, r, page, http.StatusOK, c.want)
	}
}

// TestPictures draws every kind of limit.
func TestPictures(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Propose, "shop")
	for _, limit := range []string{
		"10/s", "1/day", "5/s burst 1000", "10/min fixed-window", "100/h sliding-log", "100/min sliding-window", "10/s leaky-queue queue 5", "100/month fixed-window",
		"1000000/day", "1/us",
	} {
		r, page := b.post(t, "/ui/look", url.Values{"domain": {"shop"}, "text": {fmt.Sprintf("- key: a\n  limits: [%q]\n", limit)}})
		wants(t, r, page, http.StatusOK, "<svg")
	}
}

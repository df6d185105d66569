package webui_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/webui"
	"github.com/weir-limit/weir/rules"
)

// TestTry explains a request, and a denial by its id; neither is charged.
func TestTry(t *testing.T) {
	t.Parallel()
	h := build(t, false)
	b := h.browser(t)
	request := &rules.Request{Domain: "files", Descriptors: []rules.Descriptor{{Entries: []rules.Entry{{Key: "user", Value: "<b>ann"}}, Cost: 20}}}
	for _, want := range []bool{true, false} {
		a, err := h.limiter.Check(t.Context(), request)
		if err != nil || a.Allowed != want {
			t.Fatal(a, err)
		}
		if !want {
			r, page := b.get(t, "/ui/try?id="+a.ID())
			wants(t, r, page, http.StatusOK, "Denial "+a.ID(), "denied", "&lt;b&gt;ann", "as things stood then")
		}
	}
	for range 2 {
		r, page := b.post(t, "/ui/try", url.Values{"domain": {"files"}, "entries": {"user=<b>ann\r\n"}, "cost": {"20"}})
		wants(t, r, page, http.StatusOK, "denied", "It passes in", "files/user#1", "<dt>Used</dt><dd>20</dd>")
	}
	for _, c := range []struct {
		domain, entries, cost, want string
		status                      int
	}{
		{"files", "user=bob", "1", "allowed", http.StatusOK},
		{"files", "user=bob", "-1", `id="cost-fault"`, http.StatusBadRequest},
		{"files", "user=bob", "99999999999999999999", `id="cost-fault"`, http.StatusBadRequest},
		{"files", "", "1", `id="entries-fault"`, http.StatusBadRequest},
		{"", "user=bob", "1", `id="domain-fault"`, http.StatusBadRequest},
		{"files", "user=" + strings.Repeat("x", 1<<13), "1", `id="entries-fault"`, http.StatusBadRequest},
		{"none", "user=\x00\u202e", "1", `\u{202E}`, http.StatusOK},
	} {
		r, page := b.post(t, "/ui/try", url.Values{"domain": {c.domain}, "entries": {c.entries}, "cost": {c.cost}})
		wants(t, r, page, c.status, c.want)
	}
	r, page := b.get(t, "/ui/try?id=0123456789abcdef")
	wants(t, r, page, http.StatusNotFound, `id="id-fault"`)
	r, page = b.get(t, "/ui/try?id=%3Cscript%3E")
	wants(t, r, page, http.StatusBadRequest, `id="id-fault"`)
}

// TestTraffic shows whom a rule denied, by names that harm nobody.
func TestTraffic(t *testing.T) {
	t.Parallel()
	h := build(t, false)
	h.load(t)
	b := h.browser(t)
	r, page := b.get(t, "/ui/traffic")
	wants(t, r, page, http.StatusOK, "files/user#1", "files/path")
	r, page = b.get(t, "/ui/traffic?domain=files&rule="+url.QueryEscape("files/user#1"))
	wants(t, r, page, http.StatusOK, "<svg", "&lt;b&gt;bob&lt;/b&gt;", `\u{202E}eve`)
	r, page = b.get(t, "/ui/traffic?domain=none")
	wants(t, r, page, http.StatusOK, "No request has met a rule at this node.")
}

// TestChart: a chart of all nodes is drawn for each span, and marks what was done to the rule and to its domain, not to another rule.
func TestChart(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	for _, o := range []rulestore.Override{
		{Domain: "shop", Percent: 50, Until: time.Now().Add(time.Hour), Reason: "a flood <b>"},
		{Domain: "shop", Rule: "checkout", Until: time.Now().Add(time.Hour), Reason: "of another rule"},
	} {
		if err := h.store.Override(t.Context(), root(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range offenders.Spans() {
		r, page := b.get(t, "/ui/traffic?domain=shop&span="+s.Name)
		wants(t, r, page, http.StatusOK, "<svg", "All nodes, the last", `span=`+s.Name+`" aria-current="true"`, "Tightened limits", "a flood &lt;b&gt;", "of another rule", "Published")
	}
	r, page := b.get(t, "/ui/traffic?domain=shop&rule="+url.QueryEscape("shop/user#1"))
	wants(t, r, page, http.StatusOK, "<svg", "the last 60 minutes", "a flood")
	if strings.Contains(page, "of another rule") {
		t.Error("it marks what was done to another rule")
	}
	for _, bad := range []string{"2h", "", "30d<b>"} {
		r, page = b.get(t, "/ui/traffic?domain=shop&span="+url.QueryEscape(bad))
		if bad == "" {
			wants(t, r, page, http.StatusOK, "the last 60 minutes")
			continue
		}
		wants(t, r, page, http.StatusBadRequest, "15m, 1h, 6h, 24h, 7d or 30d")
	}
}

// TestFiles: what can be taken along is whole.
func TestFiles(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Read, "shop")
	r, text := b.get(t, "/ui/rules.yaml")
	if _, err := rules.ParseExport("backup", []byte(text)); err != nil || !strings.Contains(r.Header.Get("Content-Disposition"), "weir-rules.yaml") {
		t.Error(err, r.Header)
	}
	_, text = b.get(t, "/ui/audit.jsonl")
	list, err := h.store.Audit(t.Context(), rulestore.Audited{})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != len(list) || len(list) < 5 {
		t.Errorf("%d lines of %d", len(lines), len(list))
	}
	if !strings.HasPrefix(lines[0], `{"seq":1,`) || strings.Contains(text, `"refused":""`) {
		t.Error("the lines are not those of /v1/audit:", lines[0])
	}
	for _, line := range lines {
		var e rulestore.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq == 0 {
			t.Error(line, err)
		}
	}
	r, page := b.get(t, "/ui/audit?domain=shop")
	wants(t, r, page, http.StatusOK, "the first rules", "newsletter")
	r, page = build(t, false).browser(t).get(t, "/ui/audit")
	wants(t, r, page, http.StatusServiceUnavailable, "has no rule database")
}

// TestAudit: the page tells in words who did what, with which token and from where, also who signed in and out; and the head.
func TestAudit(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	ann, text := h.token(t, "ann", rulestore.Publish, "shop", "mail")
	if err := h.store.Record(t.Context(), []rulestore.Event{
		{Action: rulestore.Reset, At: time.Now(), Domain: "files", Rule: "user", Reason: "files/user#1 of sam"},
		{Action: rulestore.Reset, At: time.Now(), Domain: "shop", Rule: "user", Reason: "shop/user#1 of <b>bob</b>"},
		{Action: rulestore.SignInRefused, At: time.Now(), Reason: "12 from 192.0.2.9", Refused: "no such token"},
	}); err != nil {
		t.Fatal(err)
	}
	b := h.browser(t)
	b.post(t, "/ui/sign-in", url.Values{"token": {"weir_none_none"}})
	if r, page := b.post(t, "/ui/sign-in", url.Values{"token": {text}}); r.StatusCode != http.StatusSeeOther || h.wrong.Load() != 1 {
		t.Fatal(r.StatusCode, h.wrong.Load(), page)
	}
	r, page := b.get(t, "/ui/audit")
	wants(t, r, page, http.StatusOK, "Signed in", "token <code>"+ann.ID+"</code>", "of shop, mail", "from 2001:db8::7", "Sent wrong tokens", "not known", "not for your team", "shop/user#1 of &lt;b&gt;bob&lt;/b&gt;",
		`href="/ui/rule?domain=files&amp;rule=user"`, `href="/ui/history?domain=shop&amp;rule=newsletter"`, "Proposed", "Put in shadow", "Made a token", "of all teams")
	last, err := h.store.Audit(t.Context(), rulestore.Audited{Before: 1 << 40, Limit: 1})
	if err != nil || !strings.Contains(page, "weir audit verify --head "+last[0].Head().String()) {
		t.Error(err, page)
	}
	b.post(t, "/ui/sign-out", url.Values{})
	last, err = h.store.Audit(t.Context(), rulestore.Audited{Before: 1 << 40, Limit: 1})
	if err != nil || last[0].Action != rulestore.SignOut || last[0].Actor != "ann" || last[0].Token != ann.ID || last[0].Address != "2001:db8::7" {
		t.Error(last, err)
	}
}

// TestNodes tells of a cluster, by names that harm nobody.
func TestNodes(t *testing.T) {
	t.Parallel()
	h := build(t, false)
	b := h.browser(t)
	r, page := b.get(t, "/ui/nodes")
	wants(t, r, page, http.StatusOK, "It is in no cluster.", "Version")
	h.node.Faults = []string{"the store is away <b>"}
	h.node.Settled = true
	h.node.Members = []webui.Member{{Name: "a:1", State: "self"}}
	r, page = b.get(t, "/ui/nodes")
	wants(t, r, page, http.StatusOK, "This node alone.", "the store is away &lt;b&gt;", ">this node<", "not told")
	h.node.Members = append(h.node.Members,
		webui.Member{Name: "<i>b:2", State: "silent", Silent: 3 * time.Second, GivenUp: 27 * time.Second, Version: "\u202ev1", HTTP: `"><script>`, Keys: 1234},
		webui.Member{Name: "c:3", State: "heard", Started: time.Unix(1_700_000_000, 0)})
	r, page = b.get(t, "/ui/nodes")
	wants(t, r, page, http.StatusOK, "3 nodes, of which 1 is silent", "&lt;i&gt;b:2", "silent for 3 s, given up in 27 s", `\u{202E}v1`, "&#34;&gt;&lt;script&gt;", "1\u202f234", "2023-11-14 22:13:20 UTC")
	h.node.Settled = false
	h.node.Members = h.node.Members[:1]
	r, page = b.get(t, "/ui/nodes")
	wants(t, r, page, http.StatusOK, "not all counts are with their owners yet")
}

// TestBoth: of a domain that is in files and in the rule database, pages show the files'
// rules as those that are active, and call the database's what they are.
func TestBoth(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	const text = "domain: files\ndescriptors:\n  - key: user\n    limits: [77/s]\n  - key: other\n    limits: [88/s]\n"
	if _, _, err := h.store.Import(t.Context(), root(), rulestore.Import{Text: text, Team: "shop", To: rulestore.Enforced, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	r, page := b.get(t, "/ui/rules?domain=files")
	wants(t, r, page, http.StatusOK, "Its rules come from files", "The rule database has this domain, too", "10/s burst 20")
	if strings.Contains(page, "77/s") || strings.Contains(page, "88/s") {
		t.Error("what is not active is shown as if it were:\n", page)
	}
	r, page = b.get(t, "/ui/rules?search=other")
	wants(t, r, page, http.StatusOK, "88/s", "not active: its domain is in files")
	r, page = b.get(t, "/ui/rule?domain=files&rule=other")
	wants(t, r, page, http.StatusOK, "not active: its domain is in files")
}

// TestHistoryTells: a history says who published, forced, rolled back, opened and was refused, when and why, and of which version.
func TestHistoryTells(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	r, page := b.post(t, "/ui/step", b.form(t, "version", "2", "to", "enforced", "reason", "too <early>"))
	wants(t, r, page, http.StatusConflict)
	r, page = b.post(t, "/ui/step", b.form(t, "version", "2", "to", "enforced", "force", "yes", "reason", "a <flood>"))
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.post(t, "/ui/step", b.form(t, "version", "1", "to", "enforced", "reason", "it was wrong"))
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.post(t, "/ui/override", b.form(t, "percent", "50", "minutes", "15", "sure", "yes", "reason", "a slow database"))
	wants(t, r, page, http.StatusSeeOther)
	_, page = b.get(t, "/ui/history?domain=shop&rule=user")
	_, second, _ := strings.Cut(page, `id="v2"`)
	second, first, _ := strings.Cut(second, `id="v1"`)
	for where, want := range map[string][]string{
		first:  {"<strong>Rolled back to it</strong> by ann", "it was wrong", "<strong>Published</strong> by root", "the first rules"},
		second: {"<strong>Published, forced</strong> by ann", "a &lt;flood&gt;", "refused</span> <strong>Tried to publish</strong> by ann", "too &lt;early&gt;", "<strong>Put in shadow</strong> by root"},
		page:   {"Opened and tightened", "<strong>Tightened limits</strong> by ann", "a slow database"},
	} {
		for _, text := range want {
			if !strings.Contains(where, text) {
				t.Errorf("no %q in %s", text, where)
			}
		}
	}
}

// TestHistoryStays: the history of a rule can be read when its domain is taken away,
// as the audit refers to it, and offers no way back then.
func TestHistoryStays(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	d, err := h.store.Domain(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.store.DeleteDomain(t.Context(), root(), rulestore.Removal{Domain: "shop", Confirm: "shop", Match: d.Revision, Reason: "over"}); err != nil {
		t.Fatal(err)
	}
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	r, page := b.get(t, "/ui/history?domain=shop&rule=user")
	wants(t, r, page, http.StatusOK, "the first rules", "Version 1")
	if strings.Contains(page, "Roll back") {
		t.Error("it can be rolled back in a domain that is not there")
	}
}

// TestBadRollback: what is wrong with rolling back is told beside its form.
func TestBadRollback(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	r, page := b.post(t, "/ui/step", b.form(t, "version", "2", "to", "enforced", "force", "yes", "reason", "bots"))
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.post(t, "/ui/step", b.form(t, "version", "1", "to", "enforced", "page", "history", "reason", "back\u200b again"))
	wants(t, r, page, http.StatusBadRequest, "History", `id="reason-1-fault"`, "U+200B")
	if strings.Contains(page, `id="reason-2-fault"`) {
		t.Error("another form is blamed:", page)
	}
}

// TestCertificateShown: who holds a token by a certificate is told by which.
func TestCertificateShown(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	k := rulestore.Token{Actor: "ci", Role: rulestore.Propose, Teams: []string{"shop"}, Certificate: "spiffe://example.org/ci"}
	if _, _, err := h.store.CreateToken(t.Context(), root(), k, "a test"); err != nil {
		t.Fatal(err)
	}
	r, page := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams).get(t, "/ui/tokens")
	wants(t, r, page, http.StatusOK, "by the certificate spiffe://example.org/ci")
}

// TestSharers: the page of a node tells what those that share its rule database have in
// force, by names that harm nobody.
func TestSharers(t *testing.T) {
	t.Parallel()
	h := build(t, false)
	h.node.Sharers = []webui.Sharer{
		{Name: "a:1", Version: "v1", State: "self", Active: "revision 7"},
		{Name: "<b>b", Version: "v2", State: "silent", Silent: 20 * time.Second, Active: "revision 6", Behind: true},
		{Name: "c:1", State: "heard", Active: "a copy", Behind: true},
	}
	r, page := h.browser(t).get(t, "/ui/nodes")
	wants(t, r, page, http.StatusOK, "Nodes of its rule database", "this node", "revision 7", "&lt;b&gt;b", "silent for 20 s", "revision 6", "a copy")
	if n := strings.Count(page, ">behind<"); n != 2 || strings.Contains(page, "<b>b") {
		t.Error(n, "nodes are behind:\n", page)
	}
}

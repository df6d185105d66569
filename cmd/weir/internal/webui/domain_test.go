package webui_test

import (
	"bytes"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
)

const shopRules = "/ui/rules?domain=shop"

// TestDomainIncident: all rules of a domain are opened or tightened for a time, and
// fall back when that is ended.
func TestDomainIncident(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	r, page := b.get(t, shopRules)
	wants(t, r, page, http.StatusOK, "All rules of the domain, for a time")
	r, page = b.post(t, "/ui/override", url.Values{"domain": {"shop"}, "percent": {"50"}, "minutes": {"60"}, "sure": {"yes"}, "reason": {"a flood <b>"}})
	wants(t, r, page, http.StatusSeeOther)
	if at := r.Header.Get("Location"); at != shopRules {
		t.Error(at)
	}
	r, page = b.get(t, shopRules)
	wants(t, r, page, http.StatusOK, "All rules of the domain are tightened to 50 % until", "a flood &lt;b&gt;", "End it now",
		`<span class="mark held">50 % until 2`, "<code>5/s burst 10</code>")
	r, page = b.get(t, "/ui/")
	wants(t, r, page, http.StatusOK, `<span class="mark held">50 % until 2`)
	r, page = b.get(t, userRule)
	wants(t, r, page, http.StatusOK, "All rules of the domain: tightened to 50 %", "To the domain")
	if strings.Contains(page, "End it now") {
		t.Error("what holds for the domain could be ended for a rule, which would do nothing")
	}
	r, page = b.post(t, "/ui/override", url.Values{"domain": {"shop"}, "percent": {"50"}, "minutes": {"60"}, "sure": {"yes"}, "reason": {""}})
	// Its script asks for no page at the address of a form.
	wants(t, r, page, http.StatusBadRequest, "say why", `<option value="50" selected>`, ` data-sent>`)
	r, page = b.post(t, "/ui/override", url.Values{"domain": {"shop"}, "end": {"yes"}, "reason": {""}})
	wants(t, r, page, http.StatusBadRequest, "say why", `<details id="held" open><summary>End it now`)
	r, page = b.post(t, "/ui/override", url.Values{"domain": {"shop"}, "end": {"yes"}, "reason": {"it is over"}})
	wants(t, r, page, http.StatusSeeOther)
	if _, page = b.get(t, shopRules); strings.Contains(page, "tightened") {
		t.Error("it goes on:\n", page)
	}
	r, page = b.post(t, "/ui/override", url.Values{"domain": {"none"}, "percent": {"50"}, "minutes": {"60"}, "sure": {"yes"}, "reason": {"x"}})
	wants(t, r, page, http.StatusNotFound, "there is no domain none")
	if r, page := h.signedIn(t, "mal", rulestore.Admin, "mail").get(t, shopRules); strings.Contains(page, "/ui/override") || !strings.Contains(page, "another team") {
		t.Error(r.Status, page)
	}
}

// TestSettings: a domain gets another team, wants a second person, and is taken away.
func TestSettings(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	settings := func(more ...string) url.Values {
		_, page := b.get(t, shopRules)
		f := url.Values{"domain": {"shop"}, "match": {match(t, page)}, "reason": {"as agreed"}}
		for i := 0; i < len(more); i += 2 {
			f.Set(more[i], more[i+1])
		}
		return f
	}
	r, page := b.post(t, "/ui/settings", settings("team", "mаil")) // Cyrillic
	wants(t, r, page, http.StatusBadRequest, "U+0430", "<details open><summary>Change whose it is")
	old := settings("team", "shop")
	r, page = b.post(t, "/ui/settings", settings("team", "mail", "review", "yes"))
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, shopRules)
	wants(t, r, page, http.StatusOK, "Owned by mail.", "A second person has to publish.", `name="review" value="yes" checked`)
	r, page = b.post(t, "/ui/settings", old)
	wants(t, r, page, http.StatusConflict, "was changed since")
	before := h.file(t)
	r, page = b.post(t, "/ui/settings", settings("delete", "yes", "confirm", "shop", "reason", ""))
	wants(t, r, page, http.StatusBadRequest, "say why", "<details open><summary>Take the domain away")
	for _, typed := range []string{"", "Shop", "mail"} {
		r, page = b.post(t, "/ui/settings", settings("delete", "yes", "confirm", typed))
		wants(t, r, page, http.StatusBadRequest, `id="confirm-fault"`, "goes away with its 4 rules", "<details open><summary>Take the domain away", `value="as agreed"`)
	}
	r, page = b.post(t, "/ui/settings", settings("delete", "yes", "confirm", "shop"))
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, r.Header.Get("Location"))
	wants(t, r, page, http.StatusOK, "The domain shop is taken away", "4 rules, owned by mail, under review.", "Restore it")
	revision := regexp.MustCompile(`name="revision" value="(\d+)"`).FindStringSubmatch(page)[1]
	r, page = b.get(t, shopRules)
	wants(t, r, page, http.StatusNotFound, "There is no domain shop.")
	r, page = b.get(t, "/ui/")
	wants(t, r, page, http.StatusOK, `href="/ui/deletions"`)
	r, page = b.post(t, "/ui/domain", url.Values{"name": {"shop"}, "team": {"mail"}, "reason": {"anew"}})
	wants(t, r, page, http.StatusConflict, "There was a domain shop of team mail, with 4 rules.", `name="review" value="yes" checked`, `name="anew" value="shop"`)

	restore := url.Values{"domain": {"shop"}, "revision": {revision}, "reason": {"it was right"}}
	mail := h.signedIn(t, "mia", rulestore.Publish, "mail")
	r, page = mail.get(t, "/ui/deletions")
	if wants(t, r, page, http.StatusOK, "owned by mail"); strings.Contains(page, "Restore it") {
		t.Error("a publisher is offered to restore:", page)
	}
	r, page = mail.post(t, "/ui/deletions", maps.Clone(restore))
	wants(t, r, page, http.StatusForbidden, "takes the role admin")
	r, page = b.post(t, "/ui/deletions", url.Values{"domain": {"shop"}, "revision": {revision}, "reason": {""}})
	wants(t, r, page, http.StatusBadRequest, "say why", "<details open><summary>Restore it")
	r, page = b.post(t, "/ui/deletions", restore)
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, shopRules)
	if wants(t, r, page, http.StatusOK, "restored as it was, with 4 rules", "Owned by mail.", "A second person has to publish."); h.file(t) != before {
		t.Error(h.file(t))
	}

	r, page = b.post(t, "/ui/settings", settings("delete", "yes", "confirm", "shop"))
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.post(t, "/ui/domain", url.Values{"name": {"shop"}, "team": {"mail"}, "review": {"yes"}, "anew": {"shop"}, "reason": {"anew"}})
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, "/ui/deletions")
	wants(t, r, page, http.StatusOK, "a domain of this name</a> again", "It has to go before this one can be restored.")
}

// TestSecondPerson: who wrote a version does not publish it, by another token of
// theirs neither.
func TestSecondPerson(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	admin := h.signedIn(t, "root", rulestore.Admin, rulestore.AllTeams)
	r, page := admin.post(t, "/ui/domain", url.Values{"name": {"shop"}, "team": {"shop"}, "review": {"yes"}, "reason": {"two see more"}})
	wants(t, r, page, http.StatusSeeOther)
	h.report = &shadow.Report{Counts: shadow.Counts{BothPass: 1000}}
	author := h.signedIn(t, "ann", rulestore.Publish, "shop")
	r, page = author.post(t, "/ui/rule", url.Values{"domain": {"shop"}, "match": {"0"}, "text": {"- key: user\n  limits: [2/s]\n"}, "reason": {"bots"}, "to": {"shadow"}})
	wants(t, r, page, http.StatusSeeOther)
	for name, same := range map[string]*browser{"ann": author, "ann again": h.signedIn(t, "ann", rulestore.Publish, "shop"), "Ann": h.signedIn(t, "Ann", rulestore.Publish, "shop")} {
		r, page = same.post(t, "/ui/step", same.form(t, "version", "1", "to", "enforced", "reason", "mine", "force", "yes"))
		if r.StatusCode != http.StatusForbidden || !strings.Contains(page, "second person") {
			t.Error(name, r.Status, page)
		}
	}
	r, page = h.signedIn(t, "bob", rulestore.Publish, "shop").get(t, userRule)
	wants(t, r, page, http.StatusOK, "Publish version 1")
	bob := h.signedIn(t, "bob", rulestore.Publish, "shop")
	r, page = bob.post(t, "/ui/step", bob.form(t, "version", "1", "to", "enforced", "reason", "fine"))
	wants(t, r, page, http.StatusSeeOther)
}

// TestReviewOnPages: in a domain under review a page proposes what a second person has to do, and says so; what a person opens alone is marked.
func TestReviewOnPages(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	d, err := h.store.Domain(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	d.Review = true
	if _, err := h.store.UpdateDomain(t.Context(), root(), d, d.Revision, "two see more"); err != nil {
		t.Fatal(err)
	}
	before := h.file(t)
	ann, bob := h.signedIn(t, "ann", rulestore.Publish, "shop"), h.signedIn(t, "bob", rulestore.Publish, "shop")
	step := func(b *browser, to, version string) {
		t.Helper()
		r, page := b.post(t, "/ui/step", b.form(t, "to", to, "version", version, "reason", "a flood"))
		wants(t, r, page, http.StatusSeeOther)
	}
	step(ann, "disabled", "1")
	r, page := ann.get(t, userRule)
	wants(t, r, page, http.StatusOK, "You ask to disable version 1. Another person has to do it.", "ann asks to disable version 1</strong>: a flood", "Keep version 1", "active v1", "to be disabled")
	r, page = ann.post(t, "/ui/step", ann.form(t, "to", "disabled", "version", "1", "reason", "at once", "force", "yes"))
	wants(t, r, page, http.StatusForbidden, "wants a second person: ann asks to disable version 1")
	step(bob, "withdrawn", "1")
	r, page = bob.get(t, userRule)
	if wants(t, r, page, http.StatusOK, "Version 1 stays active."); strings.Contains(page, "asks to disable") || h.file(t) != before {
		t.Error(page)
	}
	step(ann, "disabled", "1")
	step(bob, "disabled", "1")
	r, page = bob.get(t, userRule)
	wants(t, r, page, http.StatusOK, "Version 1 is left out", "disabled v1")
	step(bob, "enforced", "1")

	step(ann, "removed", "0")
	r, page = ann.get(t, userRule)
	wants(t, r, page, http.StatusOK, "You propose to take the rule away. Another person has to publish that.", "It would take the rule away.", "active v1")
	if h.file(t) != before {
		t.Error("one person has taken the rule away")
	}

	r, page = ann.post(t, "/ui/override", ann.form(t, "percent", "0", "minutes", "240", "sure", "yes", "reason", "a flood"))
	wants(t, r, page, http.StatusForbidden, "one person alone may open or tighten limits there for 60 min in 24 h")
	for _, c := range []struct {
		by      *browser
		minutes string
		says    string
	}{{ann, "60", `by ann alone <span class="mark denied">unreviewed</span>: a flood`}, {bob, "240", "by ann and bob: a flood"}} {
		r, page = c.by.post(t, "/ui/override", c.by.form(t, "percent", "0", "minutes", c.minutes, "sure", "yes", "reason", "a flood"))
		wants(t, r, page, http.StatusSeeOther)
		r, page = c.by.get(t, userRule)
		wants(t, r, page, http.StatusOK, c.says, "alone you can do this for 1 hour")
	}
}

const shopFile = `# The shop.
domain: shop
descriptors:
  - key: user
    limits: [4/s]
  - key: basket
    limits: [1/s]
`

// upload sends a file as a browser does that chose one.
func (b *browser) upload(t *testing.T, file string, fields url.Values) (*reply, string) {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	fields.Set("csrf", b.token)
	for name, values := range fields {
		if err := form.WriteField(name, values[0]); err != nil {
			t.Fatal(err)
		}
	}
	part, err := form.CreateFormFile("file", "rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write([]byte(file)); err != nil {
		t.Fatal(err)
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	return b.send(t, http.MethodPost, "/ui/import", body.String(), form.FormDataContentType())
}

// TestImport shows first what a file changes, then does it, and only what was shown.
func TestImport(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	before := h.file(t)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	r, page := b.get(t, "/ui/import?domain=shop")
	wants(t, r, page, http.StatusOK, "Show what it would change")
	r, page = b.upload(t, shopFile, url.Values{"to": {"plan"}})
	wants(t, r, page, http.StatusOK, "What it would change", "basket <span class=\"mark new\">new", "checkout <span class=\"mark taken away\">taken away", "user <span class=\"mark changed\">changed",
		"&#43;  limits: [4/s]", "would be held up", "# The shop.")
	if h.file(t) != before {
		t.Error("a plan changes something")
	}
	apply := func(to string, more ...string) url.Values {
		f := url.Values{"to": {to}, "text": {strings.ReplaceAll(shopFile, "\n", "\r\n")}, "match": {match(t, page)}, "reason": {"from the repository"}}
		for i := 0; i < len(more); i += 2 {
			f.Set(more[i], more[i+1])
		}
		return f
	}
	old := apply("enforced", "force", "yes")
	r, page = b.post(t, "/ui/import", apply("enforced"))
	wants(t, r, page, http.StatusConflict, "it does not run in shadow", `name="force"`, "from the repository")
	if h.file(t) != before {
		t.Error("what is held up comes into force")
	}
	r, page = b.post(t, "/ui/import", apply("shadow", "reason", ""))
	wants(t, r, page, http.StatusBadRequest, "say why", `name="match"`)
	r, page = b.post(t, "/ui/import", apply("shadow"))
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, shopRules)
	wants(t, r, page, http.StatusOK, "of the file in shadow.", "shadow v3")
	r, page = b.post(t, "/ui/import", old)
	wants(t, r, page, http.StatusConflict, "was changed since", "What it would change", `name="match"`)
	h.report = &shadow.Report{Counts: shadow.Counts{BothPass: 1000}}
	r, page = b.post(t, "/ui/import", url.Values{"text": {shopFile}})
	wants(t, r, page, http.StatusOK)
	r, page = b.post(t, "/ui/import", apply("enforced"))
	wants(t, r, page, http.StatusSeeOther)
	if h.file(t) != shopFile {
		t.Error(h.file(t))
	}
	r, file := b.get(t, "/ui/domain.yaml?domain=shop")
	if file != shopFile || r.Header.Get("Content-Disposition") != `attachment; filename="shop.yaml"` {
		t.Error(file, r.Header)
	}
	r, page = b.upload(t, shopFile, url.Values{"to": {"plan"}})
	wants(t, r, page, http.StatusOK, "Nothing: the active rules are those of the file.")
}

// TestImportUnderReview: in a domain under review an author sees what a file changes, with what the author may do, and another
// person publishes the same file.
func TestImportUnderReview(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	h.report = &shadow.Report{Counts: shadow.Counts{BothPass: 1000}}
	admin := h.signedIn(t, "root", rulestore.Admin, rulestore.AllTeams)
	r, page := admin.post(t, "/ui/domain", url.Values{"name": {"shop"}, "team": {"shop"}, "review": {"yes"}, "reason": {"two see more"}})
	wants(t, r, page, http.StatusSeeOther)
	before := h.file(t)
	plan := func(b *browser) string {
		t.Helper()
		r, page := b.upload(t, shopFile, url.Values{"to": {"plan"}})
		wants(t, r, page, http.StatusOK, "What it would change")
		return page
	}
	apply := func(b *browser, page, to, reason string, status int) string {
		t.Helper()
		r, page := b.post(t, "/ui/import", url.Values{"to": {to}, "text": {shopFile}, "match": {match(t, page)}, "reason": {reason}, "force": {"yes"}})
		wants(t, r, page, status)
		return page
	}
	const publish = `name="to" value="enforced"`
	ann, bob := h.signedIn(t, "ann", rulestore.Publish, "shop"), h.signedIn(t, "bob", rulestore.Publish, "shop")
	for name, b := range map[string]*browser{"wants a second person": ann, "takes the role publish": h.signedIn(t, "cid", rulestore.Propose, "shop")} {
		page := plan(b)
		for _, want := range []string{name, "You can't publish it yourself", `basket <span class="mark new">new`, `value="shadow">Run in shadow`, `value="draft" formnovalidate>Save as drafts`} {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q:\n%s", want, page)
			}
		}
		if strings.Contains(page, publish) {
			t.Error(name, "is offered to publish:\n", page)
		}
	}
	apply(ann, plan(ann), "draft", "", http.StatusSeeOther)
	if page := apply(ann, plan(ann), "enforced", "mine", http.StatusForbidden); !strings.Contains(page, "second person") || h.file(t) != before {
		t.Error("one person publishes a file:\n", page)
	}
	apply(ann, plan(ann), "shadow", "from the repository", http.StatusSeeOther)
	if page := plan(ann); !strings.Contains(page, "runs in shadow already") || strings.Contains(page, publish) {
		t.Error(page)
	}
	if page := plan(bob); !strings.Contains(page, publish) || strings.Contains(page, "publish it yourself") {
		t.Error("a second person can't publish:\n", page)
	}
	apply(bob, plan(bob), "enforced", "seen", http.StatusSeeOther)
	if h.file(t) != shopFile {
		t.Error(h.file(t))
	}
}

// file is the file of the domain shop.
func (h *house) file(t *testing.T) string {
	t.Helper()
	d, err := h.store.Document(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	return d.File
}

// TestImportNew makes a domain by its file.
func TestImportNew(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	r, page := b.post(t, "/ui/import", url.Values{"text": {shopFile}})
	wants(t, r, page, http.StatusBadRequest, "There is no domain shop yet. Name the team", `id="team-fault"`, "basket")
	r, page = b.post(t, "/ui/import", url.Values{"text": {shopFile}, "team": {"shop"}})
	wants(t, r, page, http.StatusOK, "The domain shop would be made, for team shop.", "basket", `name="match" value="0"`)
	r, page = b.post(t, "/ui/import", url.Values{"text": {shopFile}, "team": {"shop"}, "match": {"0"}, "to": {"enforced"}, "force": {"yes"}, "reason": {"the first rules"}})
	wants(t, r, page, http.StatusSeeOther)
	if h.file(t) != shopFile {
		t.Error(h.file(t))
	}
}

// TestBadImports: what can't be used is told with its line, and changes nothing.
func TestBadImports(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	before := h.file(t)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	for _, c := range []struct {
		file   string
		status int
		want   string
	}{
		{"", http.StatusBadRequest, "Choose a file, or write it here."},
		{"domain: shop\ndescriptors:\n  - key: user\n    limits: [10/fortnight]\n", http.StatusBadRequest, "line 4"},
		{"domain: shop\ndescriptors:\n  - key: user\n    limits: [10/s warm-up 10s]\n", http.StatusBadRequest, "tested with warm limits only"},
		{"<script>alert(1)</script>", http.StatusBadRequest, "&lt;script&gt;"},
		{"\x00\xff\xfe", http.StatusBadRequest, "line 1"},
		{"domain: files\ndescriptors:\n  - key: user\n    limits: [1/s]\n", http.StatusBadRequest, "There is no domain files yet"},
		{"domain: shop\ndescriptors:\n  - key: \"usеr\"\n    limits: [1/s]\n", http.StatusBadRequest, "several scripts"}, // Cyrillic
		{"domain: shop\ndescriptors:\n  - key: user\n    name: </textarea><script>alert(1)</script>\n    limits: [1/s]\n", http.StatusOK, "&lt;/textarea&gt;"},
		{"domain: shop\ndescriptors:\n" + strings.Repeat("#", rulestore.MaxFile), http.StatusBadRequest, "8388608"},
		{strings.Repeat("#", rulestore.MaxFile+1<<20), http.StatusRequestEntityTooLarge, "8388608"},
		{"domain: shop\ndescriptors:\n" + strings.Repeat("  - {key: a, limits: [1/s]}\n", rulestore.MaxRules+1), http.StatusBadRequest, "a domain may have 10000"},
		{"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\ndomain: shop\n", http.StatusBadRequest, "line"},
	} {
		r, page := b.upload(t, c.file, url.Values{"to": {"plan"}})
		wants(t, r, page, c.status, c.want)
		if strings.Contains(page, "<script>alert") {
			t.Errorf("%.60q: markup gets through", c.file)
		}
		b.get(t, "/ui/") // the word of forms, which a fault's page lacks
	}
	for name, other := range map[string]*browser{"another team": h.signedIn(t, "mal", rulestore.Admin, "mail"), "a reader": h.signedIn(t, "bob", rulestore.Read, "shop")} {
		for _, to := range []string{"plan", "shadow", "enforced"} {
			r, page := other.post(t, "/ui/import", url.Values{"text": {shopFile}, "to": {to}, "match": {"2"}, "force": {"yes"}, "reason": {"mine"}})
			if r.StatusCode != http.StatusForbidden && r.StatusCode != http.StatusConflict {
				t.Error(name, to, r.Status, page)
			}
		}
	}
	if h.file(t) != before {
		t.Error(h.file(t))
	}
}

// TestLargeImport: of very many changes a page shows some, and says how many more.
func TestLargeImport(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	b := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	var file strings.Builder
	file.WriteString("domain: shop\ndescriptors:\n")
	for i := range 300 {
		fmt.Fprintf(&file, "  - key: path-%d\n    limits: [1/s]\n", i)
	}
	r, page := b.upload(t, file.String(), url.Values{"team": {"shop"}})
	wants(t, r, page, http.StatusOK, "And 200 more changes.", "path-98")
	if n := strings.Count(page, "<article"); n != 100 {
		t.Error(n, "changes are shown")
	}
}

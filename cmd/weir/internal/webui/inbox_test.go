package webui_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// underReview puts the domain shop under review.
func (h *house) underReview(t *testing.T) {
	t.Helper()
	d, err := h.store.Domain(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	d.Review = true
	if _, err := h.store.UpdateDomain(t.Context(), root(), d, d.Revision, "two see more"); err != nil {
		t.Fatal(err)
	}
}

// busy has things of each kind wait.
func (h *house) busy(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	h.underReview(t)
	cid := rulestore.Actor{Name: "cid", Role: rulestore.Publish, Teams: []string{"shop"}}
	r, err := h.store.Rule(ctx, "shop", "search=*")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.store.Move(ctx, cid, rulestore.Step{Domain: "shop", Rule: "search=*", Version: r.Enforced, To: rulestore.Disabled, Match: r.Revision, Reason: "the new search has limits of its own"}); err != nil {
		t.Fatal(err)
	}
	if err := h.store.Override(ctx, cid, rulestore.Override{Domain: "shop", Rule: "checkout", Percent: 50, Until: time.Now().Add(time.Hour), Reason: "the card provider is slow"}); err != nil {
		t.Fatal(err)
	}
	if err := h.store.Refused(ctx, cid, rulestore.Event{Action: rulestore.Held, Domain: "shop", Rule: "user", Version: 2, Reason: "at once", Refused: "only 12 requests have met it, and 100 are needed"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.store.CreateToken(ctx, root(), rulestore.Token{Actor: "ci", Role: rulestore.Propose, Teams: []string{"shop"}, Expires: time.Now().Add(72 * time.Hour)}, "a test"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"Is 5/s enough for the sale?\nLast year the peak was 4/s.", "<b>It</b> is, for each client \u00e4lone."} {
		if _, err := h.store.Comment(ctx, cid, "shop", "user", 2, text); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInbox: a person sees what waits for them and what of theirs waits, with its number on each page; comments from there and from the page of the rule; sends
// a version back; and publishes one.
func TestInbox(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	ann := h.signedIn(t, "ann", rulestore.Publish, "shop")
	r, page := ann.get(t, "/ui/inbox")
	wants(t, r, page, http.StatusOK, "Nothing waits for you.", "Nothing of yours waits")
	if strings.Contains(page, `class="count"`) {
		t.Error("nothing waits, and is counted")
	}
	h.busy(t)
	r, page = ann.get(t, "/ui/inbox")
	wants(t, r, page, http.StatusOK, "Publish version 2, in shadow", "Publish version 1, a draft", "Disable version 1", "Confirm that limits are tightened to 50 %",
		"held up", "Only 12 requests have met it", "+1 −1", "the new search has limits of its own", "2, the last:", "&lt;b&gt;It&lt;/b&gt; is", `<span class="count">4`, "Nothing of yours waits")
	if strings.Contains(page, "<b>It") || strings.Contains(page, "Make another token") {
		t.Error(page)
	}
	cid := h.signedIn(t, "cid", rulestore.Publish, "shop")
	r, page = cid.get(t, "/ui/inbox")
	mine, others, _ := strings.Cut(page, "Waiting for others")
	wants(t, r, mine, http.StatusOK, "Publish version 2")
	wants(t, r, others, http.StatusOK, "Disable version 1", "Confirm that limits")
	admin := h.signedIn(t, "ada", rulestore.Admin, "shop")
	r, page = admin.get(t, "/ui/inbox")
	wants(t, r, page, http.StatusOK, "Make another token for ci", `href="/ui/tokens"`, `<span class="count">5`)

	say := url.Values{"domain": {"shop"}, "rule": {"user"}, "version": {"2"}, "page": {"inbox"}, "text": {"then <i>wait</i>\r\na week"}}
	r, page = ann.post(t, "/ui/comment", say)
	wants(t, r, page, http.StatusSeeOther)
	if to := r.Header.Get("Location"); to != "/ui/inbox" {
		t.Error(to)
	}
	r, page = ann.get(t, "/ui/inbox")
	wants(t, r, page, http.StatusOK, "Your comment is there.", "then &lt;i&gt;wait&lt;/i&gt;\na week")
	for _, where := range []string{"inbox", "rule"} {
		say.Set("page", where)
		say.Set("text", "a\u202eb")
		r, page = ann.post(t, "/ui/comment", say)
		wants(t, r, page, http.StatusBadRequest, "U+202E", `role="alert"`, "a\u202eb</textarea>")
	}
	say.Set("text", "here, too")
	r, page = ann.post(t, "/ui/comment", say)
	wants(t, r, page, http.StatusSeeOther)
	r, page = ann.get(t, userRule)
	wants(t, r, page, http.StatusOK, "here, too", "Is 5/s enough for the sale?\nLast year", "Send it back", "root sees your reason")
	r, page = ann.get(t, "/ui/history?domain=shop&rule=user")
	wants(t, r, page, http.StatusOK, "<strong>Commented</strong> by ann", "<strong>Tried to publish</strong> by cid")
	for name, b := range map[string]*browser{"of another team": h.signedIn(t, "eve", rulestore.Admin, "mail"), "that may read": h.signedIn(t, "ro", rulestore.Read, "shop")} {
		if r, page := b.post(t, "/ui/comment", say); r.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %s\n%s", name, r.Status, page)
		}
		if _, page := b.get(t, userRule); strings.Contains(page, "/ui/comment") {
			t.Error(name, "is offered to comment")
		}
	}
	say.Set("csrf", "another")
	if r, _ := ann.post(t, "/ui/comment", say); r.StatusCode != http.StatusForbidden {
		t.Error("a form of elsewhere:", r.Status)
	}
	ann.get(t, "/ui/inbox")
	r, page = ann.post(t, "/ui/step", ann.form(t, "to", "withdrawn", "version", "2", "reason", "too few for the sale"))
	wants(t, r, page, http.StatusSeeOther)
	r, page = ann.get(t, "/ui/inbox")
	wants(t, r, page, http.StatusOK, `<span class="count">3`)
}

// follow opens the Undo of a line of a page, and sends the form that is filled in for it.
func (b *browser) follow(t *testing.T, page string, line int64) (*reply, string) {
	t.Helper()
	links := regexp.MustCompile(fmt.Sprintf(`href="([^"]*[?&]amp;undo=%d(?:#[^"]*)?|[^"]*\?undo=%d[^"]*)"`, line, line)).FindStringSubmatch(page)
	if links == nil {
		t.Fatalf("line %d has no Undo:\n%s", line, page)
	}
	_, page = b.get(t, strings.Split(html.UnescapeString(links[1]), "#")[0])
	reason := fmt.Sprintf(`value="undoes audit line %d"`, line)
	for form := range strings.SplitSeq(page, "<form") {
		form, _, _ = strings.Cut(form, "</form>")
		if !strings.Contains(form, reason) {
			continue
		}
		values := url.Values{}
		for _, field := range regexp.MustCompile(`<input [^>]*>`).FindAllString(form, -1) {
			name, value := regexp.MustCompile(`name="([^"]*)"`).FindStringSubmatch(field), regexp.MustCompile(`value="([^"]*)"`).FindStringSubmatch(field)
			if strings.Contains(field, "checkbox") && !strings.Contains(field, " checked") || name == nil || value == nil {
				continue
			}
			values.Set(name[1], html.UnescapeString(value[1]))
		}
		action := regexp.MustCompile(`action="([^"]*)"`).FindStringSubmatch(form)
		return b.post(t, action[1], values)
	}
	t.Fatalf("line %d has no form that is filled in:\n%s", line, page)
	return nil, ""
}

// TestUndo: each line of the audit that can be undone leads to the form that does it, filled in; sent, it passes what the same form passes by hand.
func TestUndo(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	ann := h.signedIn(t, "ann", rulestore.Admin, rulestore.AllTeams)
	last := func() int64 {
		t.Helper()
		list, err := h.store.Audit(t.Context(), rulestore.Audited{Before: 1 << 40, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		return list[0].Seq
	}
	file := func() string {
		t.Helper()
		d, err := h.store.Document(t.Context(), "shop")
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(d.File, d.Public, d.Shared, len(d.Overrides.Active(time.Now())))
	}
	domain := func() string {
		_, page := ann.get(t, shopRules)
		return match(t, page)
	}
	steps := []struct {
		name string
		do   func() (*reply, string)
	}{
		{"publish", func() (*reply, string) {
			return ann.post(t, "/ui/step", ann.form(t, "to", "enforced", "version", "2", "force", "yes", "reason", "bots"))
		}},
		{"disable", func() (*reply, string) {
			return ann.post(t, "/ui/step", ann.form(t, "to", "disabled", "version", "1", "reason", "bots"))
		}},
		{"remove", func() (*reply, string) {
			return ann.post(t, "/ui/step", ann.form(t, "to", "removed", "version", "0", "reason", "bots"))
		}},
		{"tighten", func() (*reply, string) {
			return ann.post(t, "/ui/override", ann.form(t, "percent", "50", "minutes", "30", "sure", "yes", "reason", "bots"))
		}},
		{"open all", func() (*reply, string) {
			return ann.post(t, "/ui/override", url.Values{"domain": {"shop"}, "percent": {"0"}, "minutes": {"30"}, "sure": {"yes"}, "reason": {"bots"}})
		}},
		{"settings", func() (*reply, string) {
			return ann.post(t, "/ui/settings", url.Values{"domain": {"shop"}, "match": {domain()}, "team": {"shop"}, "public": {"yes"}, "shared": {"yes"}, "reason": {"bots"}})
		}},
		{"delete", func() (*reply, string) {
			return ann.post(t, "/ui/settings", url.Values{"domain": {"shop"}, "match": {domain()}, "delete": {"yes"}, "confirm": {"shop"}, "reason": {"bots"}})
		}},
	}
	for _, from := range []string{"/ui/audit", "/ui/history?domain=shop&rule=user"} {
		for _, step := range steps {
			if from != "/ui/audit" && strings.Contains("open all settings delete", step.name) {
				continue // of the domain
			}
			was := file()
			r, page := step.do()
			if r.StatusCode != http.StatusSeeOther || file() == was {
				t.Fatal(step.name, r.Status, page)
			}
			line := last()
			_, page = ann.get(t, from)
			if r, page := ann.follow(t, page, line); r.StatusCode != http.StatusSeeOther || file() != was {
				t.Errorf("%s at %s: %s %s\n%s", step.name, from, r.Status, file(), page)
			}
			list, err := h.store.Audit(t.Context(), rulestore.Audited{Behind: line, Limit: 1})
			if err != nil || len(list) == 0 || list[0].Actor != "ann" || !strings.HasSuffix(list[0].Reason, fmt.Sprintf("undoes audit line %d", line)) {
				t.Error(step.name, list, err)
			}
			_, page = ann.get(t, from)
			if step.name != "delete" {
				wants(t, &reply{StatusCode: 200}, page, 200, fmt.Sprintf("newer change came after, line %d", line+1))
			}
			r, page = ann.get(t, fmt.Sprintf("/ui/rule?domain=shop&rule=user&undo=%d", line))
			if r.StatusCode != http.StatusConflict && r.StatusCode != http.StatusNotFound {
				t.Error("it is undone already:", r.Status, page)
			}
		}
	}
	for _, bad := range []string{"0", "-1", "x", "99999999", "1"} {
		if r, page := ann.get(t, userRule+"&undo="+bad); r.StatusCode != http.StatusNotFound {
			t.Error(bad, r.Status, page)
		}
	}
}

// TestUndoReviewed: undoing passes the same review as doing, and is offered to those who may do it.
func TestUndoReviewed(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	h.underReview(t)
	ann := h.signedIn(t, "ann", rulestore.Publish, "shop")
	r, page := ann.post(t, "/ui/step", ann.form(t, "to", "enforced", "version", "2", "force", "yes", "reason", "bots"))
	wants(t, r, page, http.StatusSeeOther)
	r, page = ann.post(t, "/ui/step", ann.form(t, "to", "enforced", "version", "1", "reason", "back"))
	wants(t, r, page, http.StatusSeeOther)
	for name, b := range map[string]*browser{"of another team": h.signedIn(t, "eve", rulestore.Publish, "mail"), "that may propose": h.signedIn(t, "cid", rulestore.Propose, "shop")} {
		for _, path := range []string{"/ui/audit", "/ui/history?domain=shop&rule=user"} {
			if _, page := b.get(t, path); strings.Contains(page, ">Undo<") || strings.Contains(page, "undone") {
				t.Error(name, "is offered to undo")
			}
		}
	}
}

package webui_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// TestExceptions: a client is raised by a form that its address has filled in, found, and put back; a list is set whole or not at all.
func TestExceptions(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")

	r, page := b.get(t, "/ui/exception?domain=shop&rule=checkout&key=%3Ci%3Eeve")
	wants(t, r, page, http.StatusOK, "checkout=&lt;i&gt;eve", "<code>100/min</code>", "The client has no exception.")
	form := url.Values{"domain": {"shop"}, "entries": {"checkout=<i>eve"}, "limit": {"500/min"}, "hold": {"7day"}, "reason": {"a sale"}}
	for _, c := range []struct{ field, value, want string }{
		{"limit", "500/sec of", `id="limit-fault"`},
		{"limit", "9 warm-up 1s", `id="limit-fault"`},
		{"limit", "unlimited", "nobody would see"},
		{"entries", "chekout=a", "did you mean checkout"},
		{"entries", "user=a", "name the one that is meant"},
		{"hold", "", `id="until-fault"`},
		{"hold", "until", `id="until-fault"`},
		{"reason", "", `id="reason-fault"`},
		{"domain", "files", "comes from the files"},
	} {
		bad := url.Values{}
		maps.Copy(bad, form)
		bad.Set(c.field, c.value)
		r, page = b.post(t, "/ui/exception", bad)
		if r.StatusCode < 400 {
			t.Errorf("%s=%s: %s", c.field, c.value, r.Status)
		}
		if c.field != "domain" {
			wants(t, r, page, r.StatusCode, c.want)
		}
	}
	r, page = b.post(t, "/ui/exception", form)
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, "/ui/exceptions?domain=shop&rule=checkout")
	wants(t, r, page, http.StatusOK, "checkout=&lt;i&gt;eve has 500/min", "<code>500/min</code>", "a sale", "by")
	r, page = b.get(t, "/ui/rule?domain=shop&rule=checkout")
	wants(t, r, page, http.StatusOK, "1 client has a limit of its own", "checkout=&lt;i&gt;eve", "500/min")
	r, page = b.get(t, "/ui/exception?domain=shop&entry=checkout%3D%3Ci%3Eeve")
	wants(t, r, page, http.StatusOK, "<strong>The client has <code>500/min</code></strong>", "a sale", `name="limit" value="500/min"`)
	r, page = b.get(t, "/ui/exceptions?domain=shop&search=nobody")
	wants(t, r, page, http.StatusOK, "No client with an exception has “nobody”")

	_, page = b.get(t, "/ui/exceptions?domain=shop&rule=checkout")
	if !strings.Contains(page, `href="/ui/exception?domain=shop&amp;entry=checkout%3D%3Ci%3Eeve">Change<`) {
		t.Error("no link leads to another limit:\n", page)
	}
	id := regexp.MustCompile(`name="exception" value="(\w+)"`).FindStringSubmatch(page)
	if id == nil {
		t.Fatal(page)
	}
	end := url.Values{"domain": {"shop"}, "exception": {id[1]}}
	r, page = b.post(t, "/ui/exception/end", end)
	wants(t, r, page, http.StatusBadRequest, "reason-"+id[1]+"-fault")
	end.Set("reason", "the sale is over")
	r, page = b.post(t, "/ui/exception/end", end)
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, "/ui/exceptions?domain=shop&rule=checkout")
	wants(t, r, page, http.StatusOK, "has the limit of its rule again", "No client has an exception.")

	list := url.Values{"domain": {"shop"}, "text": {"checkout,limit,for\na,5/min,1day\nb,5/mn,1day\n"}, "reason": {"a sale"}}
	r, page = b.post(t, "/ui/exceptions/import", list)
	wants(t, r, page, http.StatusBadRequest, "<strong>line 3</strong>", "1 line can&#39;t be used, and nothing was changed", "a,5/min,1day")
	list.Set("text", "checkout,limit,for\na,5/min,1day\nb,5/min,1day\n")
	r, page = b.post(t, "/ui/exceptions/import", list)
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, "/ui/exceptions?domain=shop&rule=checkout")
	wants(t, r, page, http.StatusOK, "2 exceptions are set.", "checkout=a", "checkout=b")

	// Others are told no client's name.
	mal := h.signedIn(t, "mal", rulestore.Admin, "mail")
	r, page = mal.get(t, "/ui/exceptions?domain=shop")
	wants(t, r, page, http.StatusForbidden)
	r, page = mal.get(t, "/ui/rule?domain=shop&rule=checkout")
	wants(t, r, page, http.StatusOK, "2 clients have a limit of their own", "is for the domain's team")
	r, more := mal.get(t, "/ui/exception?domain=shop&entry=checkout%3Da")
	wants(t, r, more, http.StatusOK, "Whether the client has an exception is for the domain's team")
	if strings.Contains(more, "has no exception") {
		t.Error("another team is told that there is no exception, and there is one:", more)
	}
	for _, text := range []string{page, strings.ReplaceAll(more, "checkout=a</textarea>", "")} { // which is what was sent
		if strings.Contains(text, "checkout=a") || strings.Contains(text, "5/min") || strings.Contains(text, "their launch") {
			t.Error(text)
		}
	}
	r, page = mal.get(t, "/ui/exceptions?domain=nosuch")
	wants(t, r, page, http.StatusNotFound, "there is no domain nosuch")

	// A rule that is not active has none, and none can be made.
	r, page = b.post(t, "/ui/rule", url.Values{"domain": {"shop"}, "text": {"- key: later\n  limits: [5/h]\n"}, "to": {"draft"}, "reason": {"a test"}})
	wants(t, r, page, http.StatusSeeOther)
	if _, page := b.get(t, "/ui/rule?domain=shop&rule=later"); strings.Contains(page, `id="excepted"`) || !strings.Contains(page, `id="drafted"`) {
		t.Error(page)
	}
	// Charts mark them.
	r, page = b.get(t, "/ui/traffic?domain=shop&span=6h")
	wants(t, r, page, http.StatusOK, "Set an exception", "Ended an exception", "Imported exceptions", ">6 h ago<", ">now<")
	form.Del("csrf") // which is of another session
	r, page = mal.post(t, "/ui/exception", form)
	wants(t, r, page, http.StatusForbidden, "team shop")
}

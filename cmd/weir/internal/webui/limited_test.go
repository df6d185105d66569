package webui_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/limited"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

const filesUser = "files/user#1"

// tells is a node that limits clients of a rule, the first one last.
func tells(node, domain, rule string, names ...string) limited.Node {
	now := time.Now()
	one := limited.Rule{Domain: domain, Name: rule, Least: 2}
	for i, name := range names {
		at := now.Add(-time.Duration(i%50) * time.Second)
		one.Clients = append(one.Clients, offenders.Client{Count: offenders.Count{Name: name, N: int64(1000 + i)}, Lately: 7, Since: at.Add(-time.Minute), Last: at, Until: at.Add(3 * time.Hour)})
	}
	return limited.Node{Name: node, Told: limited.Told{At: now, Rules: []limited.Rule{one}}}
}

// told is what nodes have told once.
func told(nodes ...limited.Node) func() []limited.Node { return func() []limited.Node { return nodes } }

// rowLink is the address of a link of a client's row; empty: it has none.
func rowLink(page, client, name string) string {
	row := regexp.MustCompile(`(?s)<tr><th scope="row">` + regexp.QuoteMeta(client) + `</th>.*?</tr>`).FindString(page)
	found := regexp.MustCompile(`href="([^"]*)">` + name + `<`).FindStringSubmatch(row)
	if found == nil {
		return ""
	}
	return strings.ReplaceAll(found[1], "&amp;", "&")
}

// TestLimited shows clients by names that harm nobody, with a link to why where a request can be made of the name, and says so where none
// can.
func TestLimited(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	b := h.signedIn(t, "ann", rulestore.Publish, rulestore.AllTeams)
	hostile := []string{"ann", "<script>x</script>", "\u202eeve", "a\nb", "\x00\x1b[2J", "\xff", "", "a=b&c", strings.Repeat("y", 127)}
	h.told = told(tells("node-1:8083", "files", filesUser, hostile...), tells("node-2:8083", "files", filesUser, "ann"), tells("node-3:8083", "files", filesUser, "ann"))
	cut := string(offenders.Shorten([]byte(strings.Repeat("x", 5000))))
	others := h.told
	h.told = func() []limited.Node {
		return append(others(), tells("node-4:8083", "files", filesUser, cut), tells("node-4:8083", "gone", "gone/rule", "zoe"), tells("node-4:8083", "files", "files#override", "user ann"))
	}
	r, page := b.get(t, "/ui/limited")
	wants(t, r, page, http.StatusOK, "Limited now", "&lt;script&gt;x&lt;/script&gt;", `\u{202E}eve`, `a\u{A}b`, `\u{0}\u{1B}[2J`, `\xff`, "no name", "node-1:8083, node-2:8083 and 1 more",
		"longer than 128 bytes, and cut", "its rule is not active at this node", "bring their limit along", "fewer at most", "in 3 h", "first 1 min")
	for client, want := range map[string]struct{ why, unblock bool }{
		"ann": {true, true}, "&lt;script&gt;x&lt;/script&gt;": {true, true}, `\u{202E}eve`: {true, true}, `a\u{A}b`: {false, true}, `\xff`: {false, true}, `\u{0}\u{1B}[2J`: {false, true},
		"a=b&amp;c": {true, true}, strings.Repeat("y", 127): {true, true}, cut: {}, "zoe": {}, "user ann": {},
	} {
		why, unblock := rowLink(page, client, "Why"), rowLink(page, client, "Unblock")
		if (why != "") != want.why || (unblock != "") != want.unblock {
			t.Errorf("%s has the links %q and %q", client, why, unblock)
		}
		if why != "" {
			r, page := b.get(t, why)
			wants(t, r, page, http.StatusOK, "The answer", "<code>user="+client+"</code>", "<code>10/s burst 20</code>")
		}
		if unblock != "" {
			r, page := b.get(t, unblock)
			wants(t, r, page, http.StatusOK, "Unblock "+client+"?", "files/user#1: 10/s burst 20", "files/user#2: 1000/h", `name="reason"`)
		}
	}
	for query, want := range map[string]string{"client=SCRIPT": ": 1 client.", "client=none": "No client that fits", "rule=override": ": 1 client.", "domain=one": ": 1 client.", "page=2": "No client", "page=x": ": 12 clients."} {
		r, page := b.get(t, "/ui/limited?"+query)
		wants(t, r, page, http.StatusOK, want)
	}
	var many []string
	for i := range 250 {
		many = append(many, fmt.Sprint("client-", i))
	}
	h.told = told(tells("node-1:8083", "files", filesUser, many...))
	seen := map[string]bool{}
	for at, pages := "/ui/limited?client=client", 0; at != ""; pages++ {
		r, page := b.get(t, at)
		wants(t, r, page, http.StatusOK, "250 clients")
		rows := regexp.MustCompile(`<th scope="row">(client-\d+)</th>`).FindAllStringSubmatch(page, -1)
		for _, row := range rows {
			seen[row[1]] = true
		}
		if at = ""; pages < 2 {
			next := regexp.MustCompile(`id="next" href="([^"]*)"`).FindStringSubmatch(page)
			if len(rows) != 100 || next == nil {
				t.Fatal(len(rows), page)
			}
			at = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	if len(seen) != len(many) {
		t.Error(len(seen), "clients are shown")
	}
}

// TestLimitedTeams: a visitor sees the clients of its teams alone, and unblocks those that its role is for; the store refuses what the page
// does not offer.
func TestLimitedTeams(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	h.told = told(tells("node-1:8083", "files", filesUser, "secret-files"), tells("node-1:8083", "shop", "shop/checkout", "secret-shop"))
	pat, mal, all := h.signedIn(t, "pat", rulestore.Publish, "shop"), h.signedIn(t, "mal", rulestore.Admin, "mail"), h.signedIn(t, "sam", rulestore.Read, rulestore.AllTeams)
	for b, want := range map[*browser][2]bool{pat: {false, true}, mal: {false, false}, all: {true, true}} {
		r, page := b.get(t, "/ui/limited")
		wants(t, r, page, http.StatusOK)
		for i, name := range []string{"secret-files", "secret-shop"} {
			if strings.Contains(page, name) != want[i] {
				t.Errorf("%s is told: %v", name, !want[i])
			}
		}
		if strings.Contains(page, "/ui/unblock") {
			t.Error("somebody may unblock a client of files, or of a rule that is not active")
		}
		form := url.Values{"domain": {"files"}, "rule": {filesUser}, "client": {base64.RawURLEncoding.EncodeToString([]byte("secret-files"))}, "reason": {"let me"}}
		r, page = b.get(t, "/ui/unblock?"+form.Encode())
		wants(t, r, page, http.StatusForbidden)
		b.get(t, "/ui/limited")
		r, page = b.post(t, "/ui/unblock", form)
		wants(t, r, page, http.StatusForbidden)
	}
}

// TestRaise: a client of a rule of the database can be given a limit of its own from the list; one of files can't.
func TestRaise(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	shop, err := h.store.ActiveRules(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	all, err := rules.Join(h.limiter.Set(), shop)
	if err != nil {
		t.Fatal(err)
	}
	h.limiter.Replace(all)
	h.told = told(tells("node-1:8083", "files", filesUser, "ann"), tells("node-1:8083", "shop", "shop/checkout", "eve"))
	b := h.signedIn(t, "pat", rulestore.Publish, rulestore.AllTeams)
	r, page := b.get(t, "/ui/limited")
	wants(t, r, page, http.StatusOK)
	raise := rowLink(page, "eve", "Raise")
	if raise == "" || rowLink(page, "ann", "Raise") != "" {
		t.Fatalf("%q, and %q of files\n%s", raise, rowLink(page, "ann", "Raise"), page)
	}
	r, page = b.get(t, raise)
	wants(t, r, page, http.StatusOK, "These requests meet the rule", ">checkout</a>", "checkout=eve</textarea>")
}

// TestUnblock: a client is unblocked with a reason, by a form of the session, and the next page says on how many nodes.
func TestUnblock(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	h.told, h.late = told(tells("node-1:8083", "files", filesUser, "\x00ann\xff")), []string{"node-9:8083"}
	b := h.signedIn(t, "ann", rulestore.Publish, rulestore.AllTeams)
	_, page := b.get(t, "/ui/limited")
	at := rowLink(page, `\u{0}ann\xff`, "Unblock")
	_, page = b.get(t, at)
	form := url.Values{"domain": {"files"}, "rule": {filesUser}, "client": {regexp.MustCompile(`name="client" value="([^"]*)"`).FindStringSubmatch(page)[1]}}
	r, page := b.post(t, "/ui/unblock", form)
	wants(t, r, page, http.StatusBadRequest, `id="reason-fault"`)
	form.Set("reason", "she called <b>")
	form.Set("csrf", "no")
	r, page = b.post(t, "/ui/unblock", form)
	wants(t, r, page, http.StatusForbidden, "not of your session")
	form.Del("csrf")
	b.get(t, at)
	r, page = b.post(t, "/ui/unblock", form)
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, r.Header.Get("Location"))
	wants(t, r, page, http.StatusOK, `The counts of \u{0}ann\xff were reset on 3 nodes.`, "Not yet on node-9:8083")
	a, err := h.store.Asked(t.Context(), 0)
	if err != nil || len(a.Resets) != 1 || string(a.Resets[0].Client) != "\x00ann\xff" {
		t.Errorf("%+v %v", a, err)
	}
	r, page = b.get(t, "/ui/audit")
	wants(t, r, page, http.StatusOK, "Reset counts", "files/user#1 of", "she called &lt;b&gt;")
	for query, why := range map[string]string{"domain=files&rule=none&client=YQ": "not active", "domain=files&rule=" + url.QueryEscape(filesUser) + "&client=!": "does not name one"} {
		r, page = b.get(t, "/ui/unblock?"+query)
		wants(t, r, page, http.StatusNotFound, why, "POST /v1/reset")
	}
}

// TestUnblockZero: the form and the answer say that unblocking does not help a client whose limit is 0, and what does.
func TestUnblockZero(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	h.told = told(tells("node-1:8083", "files", filesUser, "ann"))
	var except rules.Exceptions
	h.limiter.Except(&except, nil)
	for _, r := range h.limiter.Set().Rules() {
		if r.Name == filesUser {
			_, key := h.limiter.Set().Match("files", &rules.Descriptor{Entries: []rules.Entry{{Key: "user", Value: "ann"}}})
			except.Change([]rules.Exception{{State: r.State(key), Limit: weir.MustParseLimit("0/s"), Until: 1 << 60}}, false, 1)
		}
	}
	b := h.signedIn(t, "ann", rulestore.Publish, rulestore.AllTeams)
	_, page := b.get(t, "/ui/limited")
	r, page := b.get(t, rowLink(page, "ann", "Unblock"))
	const says = "is 0 for it (0/s), so that it goes on being denied: only another limit helps, by an exception or another rule."
	wants(t, r, page, http.StatusOK, "files/user#1: 0/s", "files/user#2: 1000/h", says)
	form := url.Values{"domain": {"files"}, "rule": {filesUser}, "client": {base64.RawURLEncoding.EncodeToString([]byte("ann"))}, "reason": {"she called"}}
	r, page = b.post(t, "/ui/unblock", form)
	wants(t, r, page, http.StatusSeeOther)
	r, page = b.get(t, r.Header.Get("Location"))
	wants(t, r, page, http.StatusOK, says)
	if strings.Contains(page, "Its next request passes") {
		t.Error("it promises that the next request passes")
	}
}

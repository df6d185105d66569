package webui_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/weir-limit/weir/cmd/weir/internal/browsertest"
	"github.com/weir-limit/weir/cmd/weir/internal/limited"
	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/cmd/weir/internal/webui"
)

// TestLooks looks at every page on every screen.
func TestLooks(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	h := build(t, true)
	fill(t, h)
	h.load(t)
	h.join()
	h.takeAway(t)
	h.busy(t)
	h.hooks(t)
	h.told = func() []limited.Node {
		names := []string{"ann", "<b>bob</b>", "\u202eeve", "a long name of a client that has many words in it", "2001:db8:85a3::/64", "a\nb", string(offenders.Shorten([]byte(strings.Repeat("agent-of-a-mirror/", 12))))}
		return []limited.Node{tells("weir-2.example:8083", "files", "files/user#1", names...), tells("weir-3.example:8083", "files", "files/user#1", names[0]), tells("weir-4.example:8083", "files", "files/user#1", names[0])}
	}
	_, token := h.token(t, "ann", rulestore.Admin, rulestore.AllTeams)
	for _, view := range browsertest.Views() {
		p := b.Open(t, view, h.url+"/ui/sign-in")
		p.Inspect(t, "sign-in")
		browsertest.Do(t, p, chromedp.SendKeys("#token", token+"\r"))
		browsertest.Do(t, p, chromedp.WaitVisible("nav[aria-label=Main]"))
		for _, path := range allPages() {
			browsertest.Do(t, p, chromedp.Navigate(h.url+path))
			p.Inspect(t, nameOf(path))
		}
	}
}

// nameOf is a page's path as the name of a picture.
func nameOf(path string) string {
	return strings.NewReplacer("&", "-", "/ui/", "page-", "?", "-", "=", "-", "*", "", "/", "", "%23", "-").Replace(path)
}

// fill puts rules of all states into a database.
func fill(t *testing.T, h *house) {
	t.Helper()
	const text = `# Rules of the shop.
domain: shop
descriptors:
  - key: user
    limits: [10/s burst 20, 1000/h]
  - key: checkout
    # The card provider takes no more.
    limits: [100/min]
  - key: search
    value: "*"
    limits: [5/s burst 10]
`
	if _, _, err := h.store.Import(t.Context(), root(), rulestore.Import{Text: text, Team: "shop", To: rulestore.Enforced, Reason: "the first rules"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []rulestore.Proposal{
		{Domain: "shop", Rule: "user", Text: "- key: user\n  limits: [5/s burst 10, 1000/h]\n", To: rulestore.Shadow, Reason: "bots"},
		{Domain: "shop", Rule: "newsletter", Text: "- key: newsletter\n  limits: [1/day]\n", To: rulestore.Draft},
	} {
		if r, err := h.store.Rule(t.Context(), p.Domain, p.Rule); err == nil {
			p.Match = r.Revision
		}
		if _, err := h.store.Propose(t.Context(), root(), p); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []rulestore.Exception{
		{Entries: []rulestore.Entry{{Key: "user", Value: "4711"}}, Of: "10/s burst 20", Limit: "100/s burst 200", Reason: "their launch is on Friday"},
		{Entries: []rulestore.Entry{{Key: "user", Value: "<b>a long name of a client, with many words in it</b>"}}, Of: "1000/h", Limit: "0/s", Reason: "it floods us"},
	} {
		e.Domain, e.Until = "shop", time.Now().Add(48*time.Hour)
		if _, err := h.store.SetException(t.Context(), root(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// takeAway makes a domain and takes it away.
func (h *house) takeAway(t *testing.T) {
	t.Helper()
	d, err := h.store.CreateDomain(t.Context(), root(), rulestore.NewDomain{Name: "stock", Team: "stock"}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.store.DeleteDomain(t.Context(), root(), rulestore.Removal{Domain: d.Name, Confirm: d.Name, Match: d.Revision, Reason: "the shop has it now"}); err != nil {
		t.Fatal(err)
	}
}

// join makes the node part of a cluster, in which not all is well.
func (h *house) join() {
	at := time.Date(2026, 11, 22, 3, 58, 59, 0, time.UTC)
	h.node = webui.Node{
		Facts: []webui.Fact{
			{Name: "Version", Value: "v0.1.0"},
			{Name: "Started", Value: "2026-11-22 03:58:59 UTC"},
			{Name: "Counts are kept in", Value: "cluster"},
			{Name: "Active rules", Value: "5 in 2 domains"},
			{Name: "Rule database", Value: "revision 17 is active here, the last there is"},
			{Name: "HTTP listener", Value: "10.0.0.5:8080"},
			{Name: "gRPC listener", Value: "10.0.0.5:8081"},
			{Name: "Admin listener", Value: "127.0.0.1:8082"},
		},
		Faults: []string{"1 of 3 nodes of the cluster are silent: 10.0.0.7:8083; rules go by their partition"},
		Members: []webui.Member{
			{Name: "10.0.0.5:8083", State: "self", HTTP: "10.0.0.5:8080", Version: "v0.1.0", Started: at, Keys: 1204},
			{Name: "10.0.0.6:8083", State: "heard", HTTP: "10.0.0.6:8080", Version: "v0.1.0", Started: at.Add(time.Second), Keys: 1187},
			{Name: "10.0.0.7:8083", State: "silent", Silent: 3 * time.Second, GivenUp: 27 * time.Second, HTTP: "10.0.0.7:8080", Version: "v0.1.0", Started: at.Add(2 * time.Second), Keys: 1230},
		},
		Settled: true,
		Cluster: []webui.Fact{
			{Name: "Keys that it is asked about", Value: "3621, and leases on 212"},
			{Name: "Keys whose counts it keeps", Value: "1199"},
			{Name: "Takes that owners decided", Value: "45120, and 12 were denied for want of an answer"},
			{Name: "Takes that wait for an owner", Value: "0"},
			{Name: "Messages received in a second", Value: "212"},
			{Name: "Messages sent in a second", Value: "198"},
		},
	}
}

// load is traffic, of clients with hostile names among them, and a report.
func (h *house) load(t *testing.T) {
	t.Helper()
	now := time.Now()
	for step := range 300 {
		for _, r := range h.limiter.Set().Rules() {
			one := h.book.Open(offenders.ID{Domain: r.Domain, Rule: r.Name, Shadow: r.Shadow}, r.Limit, now.Add(-time.Hour))
			for n := range 20 + step%37 + step%7*3 {
				one.Pass()
				if n%4 == 0 && step > 200 {
					one.Refuse([]byte([]string{"ann", "<b>bob</b>", "\u202eeve", "a long name of a client that has many words in it"}[(step+n)%4]), 3*time.Hour)
				}
			}
		}
		h.book.Tick(now.Add(time.Duration(step-300)*offenders.Step), nil)
	}
	h.report = &shadow.Report{
		Since: now.Add(-time.Hour), At: now, RecentSince: now.Add(-10 * time.Minute), Period: time.Hour,
		Counts:      shadow.Counts{BothPass: 120_345, OnlyCandidate: 1234, OnlyActive: 0, BothDeny: 431},
		Recent:      shadow.Counts{BothPass: 20_345, OnlyCandidate: 34, OnlyActive: 0, BothDeny: 31},
		NewlyDenied: []shadow.Client{{Rule: "shop/user#1", Key: "crawler-7", Requests: 1100, Error: 4}, {Rule: "shop/user#1", Key: "<i>eve</i>", Requests: 134}},
	}
}

// TestZones: a reader sees times of their own zone, and in the title those in UTC; also in what a page asks for later.
func TestZones(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	h := build(t, true)
	fill(t, h)
	_, token := h.token(t, "ann", rulestore.Admin, rulestore.AllTeams)
	p := b.Open(t, browsertest.Views()[0], h.url+"/ui/sign-in")
	p.Zone(t, "Asia/Kolkata")
	browsertest.Do(t, p, chromedp.SendKeys("#token", token+"\r"))
	browsertest.Do(t, p, chromedp.WaitVisible("nav[aria-label=Main]"))
	zone, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/ui/history?domain=shop&rule=user", "/ui/audit"} {
		browsertest.Do(t, p, chromedp.Navigate(h.url+path))
		var times [][3]string
		const all = `[...document.querySelectorAll("main time")].map((e) => [e.dateTime, e.textContent, e.title])`
		times = browsertest.Do(t, p, chromedp.Evaluate[[][3]string](all))
		if len(times) == 0 {
			t.Fatal(path, "has no times")
		}
		for _, x := range times {
			at, err := time.Parse(time.RFC3339, x[0])
			if want := at.In(zone).Format("2006-01-02 15:04:05"); err != nil || !strings.HasPrefix(x[1], want) || strings.Contains(x[1], "UTC") || x[2] != at.Format("2006-01-02 15:04:05 UTC") {
				t.Errorf("%s: %q, %v", path, x, err)
			}
		}
	}
}

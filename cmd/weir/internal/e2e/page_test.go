package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/weir-limit/weir/cmd/weir/internal/browsertest"
	"github.com/weir-limit/weir/internal/postgrestest"
)

// TestPage goes the way of a team's first rule in a browser, with weir as it is
// shipped: sign in, a rule in shadow, traffic, its report, publish, denials, why,
// and back.
func TestPage(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	axe := axeCore(t)
	t.Run("sqlite", func(t *testing.T) {
		p := firstRule(t, b, axe, browsertest.Views()[0], t.TempDir())
		p.tour(t, b)
	})
	t.Run("postgres", func(t *testing.T) {
		firstRule(t, b, axe, browsertest.Views()[3], postgrestest.Start(t).Database(t))
	})
}

// axeCore is the file of axe-core. Without it, which is said aloud, all else is
// still tested.
func axeCore(t *testing.T) (file string) {
	t.Helper()
	t.Run("axe-core", func(t *testing.T) { file = filepath.Join(nodeModules(t), "axe-core", "axe.min.js") })
	return file
}

// person is somebody with a browser and a daemon.
type person struct {
	*browsertest.Page

	daemon *daemon
	token  string // that opens its admin listener
	axe    string // the file of axe-core; empty: there is none
}

func firstRule(t *testing.T, b *browsertest.Browser, axe string, view browsertest.View, data string) *person {
	t.Helper()
	d, token := serveData(t, data)
	p := &person{b.Open(t, view, "http://"+d.admin+"/ui/"), d, token, axe}
	p.look(t, "1-sign-in")
	p.firstDomain(t)
	p.follow(t, "New rule")
	p.fill(t, "#text", "- key: user\n  limits: [5/h]\n")
	p.sees(t, "At most 9 in any hour, whenever it begins.") // the editor says so while it is written
	p.fill(t, "#reason", "one client took it all")
	p.look(t, "2-editor")
	p.press(t, "Run in shadow")
	p.sees(t, "Version 1 runs in shadow")

	eventually(t, "the candidate does not run", func() bool { return p.shadow(t) != "" })
	for i := range 300 { // each once, but one
		d.check(t, fmt.Sprintf("user-%d", i))
	}
	for range 6 { // of which the last would be denied
		d.check(t, "eve")
	}
	p.open(t, "/ui/rule?domain=shop&rule=user")
	p.sees(t, "eve")
	p.look(t, "3-report")
	p.fill(t, "#reason-enforced-1", "hardly anybody would notice")
	p.press(t, "Publish version 1")
	p.sees(t, "Version 1 is active.")
	denied := ""
	eventually(t, "nobody is denied", func() bool {
		id, allowed := d.check(t, "eve")
		denied = id
		return !allowed
	})
	p.open(t, "/ui/try?id="+denied)
	p.sees(t, "Denial "+denied)
	p.look(t, "4-explained")
	p.incident(t)
	p.people(t)
	p.files(t)
	p.rollBack(t)
	return p
}

// firstDomain signs in and makes the domain shop.
func (p *person) firstDomain(t *testing.T) {
	t.Helper()
	p.fill(t, "#token", p.token)
	p.press(t, "Sign in")
	p.follow(t, "New domain")
	p.fill(t, "#name", "shop")
	p.fill(t, "#team", "shop")
	p.fill(t, "#reason", "our first domain")
	p.press(t, "Make it")
}

// incident tightens all rules of the domain, and ends that.
func (p *person) incident(t *testing.T) {
	t.Helper()
	p.open(t, "/ui/rules?domain=shop")
	p.fill(t, "#percent", "50")
	p.fill(t, "#override-reason", "the database is slow")
	p.press(t, "Show what it does")
	p.sees(t, "5/h becomes 2/h")
	p.look(t, "asked")
	p.press(t, "Tighten to 50 %")
	p.sees(t, "All rules of the domain are tightened to 50 %")
	p.click(t, "main details:has(#end-reason) > summary")
	p.look(t, "incident")
	p.fill(t, "#end-reason", "it is not")
	p.press(t, "End it")
	p.sees(t, "It has ended.")
}

// files publishes a file, after what it would change was shown.
func (p *person) files(t *testing.T) {
	t.Helper()
	p.open(t, "/ui/import?domain=shop")
	p.fill(t, "#text", "domain: shop\ndescriptors:\n  - key: user\n    limits: [5/h]\n  - key: basket\n    limits: [100/min]\n")
	p.press(t, "Show what it would change")
	p.sees(t, "To publish it would be held up")
	p.look(t, "plan")
	p.fill(t, "#reason", "from the repository")
	p.press(t, "Publish")
	p.sees(t, "Publish it all the same.")
	p.click(t, "input[name=force]")
	p.press(t, "Publish")
	p.sees(t, "1 change of the file published.")
}

// people makes a token, revokes it, and gives a team more rules.
func (p *person) people(t *testing.T) {
	t.Helper()
	p.open(t, "/ui/tokens")
	p.fill(t, "#actor", "ann")
	p.fill(t, "#teams", "shop")
	p.fill(t, "#reason", "she is of the shop")
	p.press(t, "Make it")
	p.sees(t, "it is shown this once")
	const open = `(() => { [...document.querySelectorAll("main summary")].find((e) => e.textContent.includes("of ann")).click(); return true; })()`
	browsertest.Do(t, p.Page, chromedp.Evaluate[bool](open))
	p.look(t, "token")
	p.fill(t, `main details[open] input[name=reason]`, "only a test")
	p.click(t, "main details[open] button")
	p.sees(t, "is revoked. Its sessions have ended.")
	p.open(t, "/ui/teams")
	p.click(t, "main summary")
	p.look(t, "quota")
	p.fill(t, "#quota-shop", "2000")
	p.fill(t, "#reason-shop", "it grows")
	p.press(t, "Change it")
	p.sees(t, "Team shop may have 2000 rules.")
}

// rollBack publishes a second version, against the guard, and takes it back.
func (p *person) rollBack(t *testing.T) {
	t.Helper()
	p.open(t, "/ui/rule?domain=shop&rule=user")
	p.fill(t, "#text", "- key: user\n  limits: [2/h]\n")
	p.fill(t, "#reason", "tighter")
	p.press(t, "Save as draft")
	p.sees(t, "Version 2 is saved as a draft.")
	p.click(t, "main details:has(#reason-enforced-2) > summary")
	p.fill(t, "#reason-enforced-2", "in a hurry")
	p.press(t, "Publish version 2")
	p.sees(t, "It does not run in shadow, so it is not known what it would deny")
	p.click(t, "input[name=force]")
	p.press(t, "Publish version 2")
	p.sees(t, "Version 2 is active.")
	p.follow(t, "History")
	p.fill(t, "#reason-1", "too tight")
	p.press(t, "Roll back to version 1")
	p.sees(t, "Version 1 is active.")
}

// tour looks at the pages on all screens.
func (p *person) tour(t *testing.T, b *browsertest.Browser) {
	t.Helper()
	pages := map[string]string{
		"domains": "/ui/", "rules": "/ui/rules?domain=shop", "rule": "/ui/rule?domain=shop&rule=user", "5-history": "/ui/history?domain=shop&rule=user",
		"try": "/ui/try?domain=shop&rule=user", "traffic": "/ui/traffic", "top": "/ui/traffic?domain=shop&rule=" + url.QueryEscape("shop/user"),
		"nodes": "/ui/nodes", "audit": "/ui/audit", "backup": "/ui/backup", "domain": "/ui/domain", "tokens": "/ui/tokens", "teams": "/ui/teams", "import": "/ui/import?domain=shop",
	}
	for _, view := range browsertest.Views() {
		other := *p
		other.Page = b.Open(t, view, "http://"+p.daemon.admin+"/ui/") // it is signed in
		for name, path := range pages {
			other.open(t, path)
			other.look(t, name)
		}
		other.open(t, "/ui/nowhere") // the last, for the console tells of its status
		other.check(t, "nowhere")
	}
}

// serveData is weir serve with a rule database, and the token of its first start.
func serveData(t *testing.T, data string, args ...string) (*daemon, string) {
	t.Helper()
	cmd := command(t, binary, serveArgs(append([]string{"--data", data}, args...))...)
	d := &daemon{process: start(t, cmd)}
	ready := regexp.MustCompile(`(?s)weir ready http=(\S+) grpc=(\S+) admin=(\S+) resp=.*\ntoken: in (\S+), of an administrator`)
	eventually(t, "it does not print a token", func() bool { return ready.MatchString(d.output.String()) })
	m := ready.FindStringSubmatch(d.output.String())
	d.http, d.grpc, d.admin = m[1], m[2], m[3]
	token, err := os.ReadFile(m[4])
	if err != nil {
		t.Fatal(err)
	}
	return d, strings.TrimSpace(string(token))
}

// check asks for one request of a user.
func (d *daemon) check(t *testing.T, user string) (id string, allowed bool) {
	t.Helper()
	body := fmt.Sprintf(`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":%q}]}]}`, user)
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+d.http+"/v1/check", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var answer struct {
		ID      string
		Allowed bool
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	return answer.ID, answer.Allowed
}

// shadow is what the daemon tells of the candidate; empty: none runs.
func (p *person) shadow(t *testing.T) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.daemon.admin+"/v1/shadow?domain=shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+p.token)
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if r.StatusCode != http.StatusOK {
		return ""
	}
	return r.Status
}

func (p *person) look(t *testing.T, name string) {
	t.Helper()
	p.Inspect(t, "page-"+name)
	p.check(t, name)
}

// check looks for what axe-core finds.
func (p *person) check(t *testing.T, name string) {
	t.Helper()
	if p.axe != "" {
		p.Accessible(t, name, p.axe)
	}
}

func (p *person) open(t *testing.T, path string) {
	t.Helper()
	browsertest.Do(t, p.Page, chromedp.Navigate("http://"+p.daemon.admin+path))
}

// fill writes into a field, as typing does.
func (p *person) fill(t *testing.T, field, text string) {
	t.Helper()
	browsertest.Do(t, p.Page, chromedp.WaitVisible(field))
	script := fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event("input")); return e.value.length; })()`, field, text)
	if n := browsertest.Do(t, p.Page, chromedp.Evaluate[int](script)); n != len(text) {
		t.Fatalf("%s has %d characters, not %d", field, n, len(text))
	}
}

func (p *person) click(t *testing.T, selector string) {
	t.Helper()
	browsertest.Do(t, p.Page, chromedp.Click(selector))
}

// press presses a button, and follow a link, by its name.
func (p *person) press(t *testing.T, name string) {
	t.Helper()
	p.clickNamed(t, "button", name)
}

func (p *person) follow(t *testing.T, name string) {
	t.Helper()
	p.clickNamed(t, "a", name)
}

// clickNamed waits until the next page is there.
func (p *person) clickNamed(t *testing.T, element, name string) {
	t.Helper()
	script := fmt.Sprintf(`(() => { const e = [...document.querySelectorAll("main %s")].find((e) => e.textContent.trim() === %q); if (e) { window.old = true; e.click(); } return Boolean(e); })()`, element, name)
	eventually(t, "there is no "+element+" "+name, func() bool { return browsertest.Do(t, p.Page, chromedp.Evaluate[bool](script)) })
	eventually(t, "nothing comes of "+name, func() bool {
		there, err := chromedp.Run(p.Page.Context, chromedp.Evaluate[bool](`!window.old && document.readyState === "complete"`))
		return err == nil && there // the browser fails while it changes pages
	})
}

// sees waits until the page says something.
func (p *person) sees(t *testing.T, words string) {
	t.Helper()
	text := ""
	eventually(t, "the page does not say "+words, func() bool {
		text = browsertest.Do(t, p.Page, chromedp.Evaluate[string](`document.body?.innerText ?? ""`))
		return strings.Contains(text, words)
	})
}

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// desk is a daemon with a rule database and, from a file, the domain demo; and a
// folder of rule files.
type desk struct {
	t       *testing.T
	http    string // the listeners
	admin   string
	data    string
	files   string
	demo    string // the file of the domain demo
	close   func() // ends the daemon
	process *process
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	binary, err := exec.LookPath("weir") // this test, by TestMain
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, data: filepath.Join(t.TempDir(), "data"), files: t.TempDir()}
	demo := filepath.Join(t.TempDir(), "demo.yaml")
	write(t, demo, "domain: demo\ndescriptors:\n  - {key: client_id, limits: [1/s]}\n  - {key: ip, limits: [1/s]}\n")
	token := strings.TrimSpace(d.at("", "token", "create", "--data", d.data, "--actor", "ops", "--role", "admin", "--team", "*", "--reason", "the first"))
	t.Setenv("WEIR_TOKEN", token)
	p := serve(t, binary, "--rules", demo, "--data", d.data)
	d.close = func() {
		if err := errors.Join(p.Process.Signal(syscall.SIGTERM), p.Wait()); err != nil || strings.Contains(p.stderr.String(), token) {
			t.Errorf("%v\n%s", err, p.stderr)
		}
	}
	d.http, d.admin, d.demo, d.process = p.http, p.admin, demo, p
	return d
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// shop writes a rule file of the domain shop.
func (d *desk) shop(rules string) {
	d.t.Helper()
	write(d.t, filepath.Join(d.files, "shop.yaml"), "domain: shop\ndescriptors:\n"+rules)
}

// runs runs a command at the daemon.
func (d *desk) runs(args ...string) (code int, stdout, stderr string) {
	d.t.Helper()
	return d.runsAt(d.admin, args...)
}

// runsAt runs a command at a listener.
func (d *desk) runsAt(addr string, args ...string) (code int, stdout, stderr string) {
	d.t.Helper()
	var out, told bytes.Buffer
	code = run(d.t.Context(), append(slices.Clone(args), "--addr", addr), strings.NewReader(""), &out, &told)
	return code, out.String(), told.String()
}

// at runs a command elsewhere, or at the daemon, that has to succeed, and gives
// what it prints; times become TIME and the folder of files DIR.
func (d *desk) at(addr string, args ...string) string {
	d.t.Helper()
	if addr != "" {
		args = append(args, "--addr", addr)
	}
	var out, told bytes.Buffer
	if code := run(d.t.Context(), args, strings.NewReader(""), &out, &told); code != exitYes {
		d.t.Fatalf("%q: exit %d: %s%s", args, code, out.String(), told.String())
	}
	return d.plain(out.String())
}

// change makes a change by the API, of what a path has now.
func (d *desk) change(method, path, body string) {
	d.t.Helper()
	ask := func(method, path, body, match string) *http.Response {
		r, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+d.admin+path, strings.NewReader(body))
		if err != nil {
			d.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+os.Getenv("WEIR_TOKEN"))
		r.Header.Set("If-Match", match)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			d.t.Fatal(err)
		}
		_ = answer.Body.Close() // what counts is the status
		if answer.StatusCode >= 300 {
			d.t.Fatalf("%s %s: %s", method, path, answer.Status)
		}
		return answer
	}
	ask(method, path, body, ask(http.MethodGet, path, "", "").Header.Get("ETag")) //nolint:bodyclose // ask closes it
}

func (d *desk) plain(text string) string {
	text = strings.ReplaceAll(text, d.files+string(filepath.Separator), "DIR/")
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`).ReplaceAllString(text, "TIME")
}

const firstRules = `  # People.
  - key: user
    limits: [10/s burst 20]
  - key: path
    value: /export
    limits: [5/h fixed-window]
`

const nextRules = `  # People.
  - key: user
    limits: [8/s]
  - key: ip
    limits: [1/s]
`

// TestRulesWalk: a repository makes a domain, changes it, and what it did is
// published, rolled back, opened and tightened rule by rule.
func TestRulesWalk(t *testing.T) {
	d := newDesk(t)
	defer d.close()
	d.shop(firstRules)
	for _, step := range []struct {
		name  string
		files string // written before
		args  string // DIR is the folder of rule files; words are cut at spaces
		code  int
		want  string
	}{
		{"plan", "", "rules plan --team shop DIR", exitNo, `domain shop: to be made for team shop, 2 changes (DIR/shop.yaml)
  create user
    @@ -0,0 +1,3 @@
    +# People.
    +- key: user
    +  limits: [10/s burst 20]
  create path=/export
    @@ -0,0 +1,3 @@
    +- key: path
    +  value: /export
    +  limits: [5/h fixed-window]
`},
		{"apply", "", "rules apply --to enforced --force --team shop --reason first DIR", exitYes, "domain shop: 2 changes, active at revision 1 (DIR/shop.yaml)\n  create user: version 1\n  create path=/export: version 1\n"},
		{"plan of nothing", "", "rules plan DIR", exitYes, "domain shop: nothing to change (DIR/shop.yaml)\n"},
		{"apply of nothing", "", "rules apply --reason again DIR", exitYes, "domain shop: nothing to change (DIR/shop.yaml)\n"},
		{"plan of less", nextRules, "rules plan DIR", exitNo, `domain shop: 3 changes (DIR/shop.yaml)
  replace user
    @@ -1,3 +1,3 @@
     # People.
     - key: user
    -  limits: [10/s burst 20]
    +  limits: [8/s]
  create ip
    @@ -0,0 +1,2 @@
    +- key: ip
    +  limits: [1/s]
  delete path=/export
    @@ -1,3 +0,0 @@
    -- key: path
    -  value: /export
    -  limits: [5/h fixed-window]
`},
		{"shadow", "", "rules apply --reason try DIR", exitYes, `domain shop: 3 changes, in shadow beside the active rules at revision 2 (DIR/shop.yaml)
  replace user: version 2
  create ip: version 1
  delete path=/export: version 2
`},
		{"shadow again", "", "rules apply --reason try DIR", exitYes, "domain shop: nothing to change (DIR/shop.yaml)\n"},
		{"list", "", "rules list shop", exitYes, `DOMAIN  RULE          TEAM  STATE     VERSIONS
shop    ip            shop  proposed  shadow 1
shop    path=/export  shop  enforced  enforced 1, shadow 2
shop    user          shop  enforced  enforced 1, shadow 2
`},
		{"list for a script", "", "rules list --no-headers --state proposed shop", exitYes, "shop  ip  shop  proposed  shadow 1\n"},
		{"list of none", "", "rules list --state disabled", exitYes, ""},
		{"diff", "", "rules diff shop user", exitYes, "--- version 1\n+++ version 2\n@@ -1,3 +1,3 @@\n # People.\n - key: user\n-  limits: [10/s burst 20]\n+  limits: [8/s]\n"},
		{"publish", "", "rules publish --force --reason good shop user", exitYes, "rule user of domain shop: version 2 is active, before it was version 1; revision 3\n"},
		{"publish a removal", "", "rules publish --reason good shop path=/export", exitYes, "rule path=/export of domain shop: it is not there any more, before it was version 1; revision 4\n"},
		{"diff with nothing proposed", "", "rules diff shop user", exitYes, "--- version 1\n+++ version 2\n@@ -1,3 +1,3 @@\n # People.\n - key: user\n-  limits: [10/s burst 20]\n+  limits: [8/s]\n"},
		{"rollback", "", "rules rollback --reason oops shop user", exitYes, "rule user of domain shop: version 1 is active, before it was version 2; revision 5\n"},
		{"the same twice", "", "rules diff --from 1 --to 1 shop user", exitYes, "rule user of domain shop: versions 1 and 1 are the same\n"},
		{"history", "", "rules history shop user", exitYes, `version 2  superseded  TIME  ops  try
version 1  enforced    TIME  ops  first

TIME  ops  enforce version 1         oops
TIME  ops  enforce.forced version 2  good
TIME  ops  shadow version 2          try
TIME  ops  enforce.forced version 1  first
`},
		{"get a domain", "", "rules get shop", exitYes, "domain: shop\ndescriptors:\n  # People.\n  - key: user\n    limits: [10/s burst 20]\n"},
		{"get a rule", "", "rules get shop user", exitYes, "# People.\n- key: user\n  limits: [10/s burst 20]\n"},
		{"get a version", "", "rules get --version 2 shop user", exitYes, "# People.\n- key: user\n  limits: [8/s]\n"},
		{"tighten", "", "rules tighten --percent 50 --for 1h --reason slow shop", exitYes, "domain shop: tightened to 50 % until TIME\n"},
		{"get what is active", "", "rules get --in-force shop", exitYes, "domain: shop\ndescriptors:\n  # People.\n  - key: user\n    limits: [5/s burst 10]\n"},
		{"open", "", "rules open --for 1h --reason locked-out shop user", exitYes, "rule user of domain shop: open until TIME\n"},
		{"end of the domain's", "", "rules end --reason over shop", exitYes, "domain shop: limits as they are written, but for rule user, open until TIME\n"},
		{"all and one", "", "rules tighten --percent 50 --for 1h --reason slow shop", exitYes, "domain shop: tightened to 50 % until TIME, but for rule user, open until TIME\n"},
		{"end of the rule's", "", "rules end --reason over shop user", exitYes, "rule user of domain shop: tightened to 50 % until TIME, as the whole domain is; weir rules end of the domain ends that\n"},
		{"end", "", "rules end --reason over shop", exitYes, "domain shop: limits as they are written\n"},
		{"open again", "", "rules open --for 1h --reason locked-out shop user", exitYes, "rule user of domain shop: open until TIME\n"},
		{"withdraw", "", "rules withdraw --reason no shop ip", exitYes, "rule ip of domain shop: it is not there any more; revision 13\n"},
		{"whole again", "", "rules apply --to enforced --force --reason all DIR", exitYes, "domain shop: 2 changes, active at revision 14 (DIR/shop.yaml)\n  replace user: version 3\n  create ip: version 2\n"},
		{"as JSON", "", "rules apply --json --reason none DIR", exitYes, `{"file":"DIR/shop.yaml","domain":{"name":"shop","source":"database","team":"shop","shared":false,"review":false,"public":false,"rules":2,"revision":14},"changes":[]}` + "\n"},
		{"delete the domain", "", "rules delete-domain --confirm shop --reason closed shop", exitYes, "domain shop: taken away, with 2 rules; weir rules restore brings it back\n"},
		{"deletions", "", "rules deletions", exitYes, "15  shop  shop  2 rules  TIME  ops  closed\n"},
		{"restore", "", "rules restore --reason open-again shop", exitYes, "domain shop: as it was, with 2 rules; revision 16\n"},
		{"get what is restored", "", "rules get shop", exitYes, "domain: shop\ndescriptors:\n" + nextRules},
	} {
		if step.files != "" {
			d.shop(step.files)
		}
		code, out, told := d.runs(strings.Fields(strings.ReplaceAll(step.args, "DIR", d.files))...)
		if diff := cmp.Diff(step.want, d.plain(out)); code != step.code || diff != "" || told != "" {
			t.Fatalf("%s: exit %d, %s\n%s", step.name, code, told, diff)
		}
	}
}

// TestOverrideSeen: whoever looks at a rule that is tightened or open sees it: in lists, in explanations and metrics, at each listener.
func TestOverrideSeen(t *testing.T) {
	d := newDesk(t)
	defer d.close()
	d.shop(firstRules)
	d.at(d.admin, "rules", "apply", "--to", "enforced", "--force", "--team", "shop", "--reason", "first", d.files)
	d.at(d.admin, "rules", "tighten", "--percent", "50", "--for", "1h", "--reason", "the database is slow", "shop")
	d.at(d.admin, "rules", "open", "--for", "1h", "--reason", "a big export", "shop", "path=/export")
	soon(t, "the daemon does not hear of it", func() bool {
		return strings.Contains(d.at(d.http, "check", "shop", "user=ann"), "5/s burst 10") && strings.Contains(d.at(d.http, "check", "shop", "path=/export"), "shadow")
	})
	for _, look := range []struct {
		args []string
		says []string
	}{
		{[]string{"rules", "list"}, []string{"enforced, tightened to 50 % until TIME", "enforced, open until TIME"}},
		{[]string{"explain", "--cost", "11", "shop", "user=ann"}, []string{"tightened to 50 % of 10/s burst 20 until ", ", by ops: the database is slow; as written, it would "}},
		{[]string{"explain", "shop", "path=/export"}, []string{"(not enforced)", "open until ", ", by ops: a big export"}},
		{[]string{"top", "--once"}, []string{"5/s burst 10  (tightened to 50 % until ", "(shadow)  5/h fixed-window  (open until "}},
	} {
		code, out, told := d.runs(look.args...)
		for _, want := range look.says {
			if code > exitNo || !strings.Contains(d.plain(out), want) {
				t.Errorf("%s: exit %d, no %q in\n%s%s", look.args, code, want, out, told)
			}
		}
	}
	for path, says := range map[string][]string{
		"/v1/domains":                   {`"overrides":[{"percent":50,"until":"`, `{"rule":"path=/export","percent":0,"until":"`},
		"/v1/rules":                     {`"override":{"percent":50,"until":"`, `"override":{"rule":"path=/export","percent":0,"until":"`},
		"/v1/rules/shop/user":           {`"override":{"percent":50,"until":"`, `"author":"ops","reason":"the database is slow"}`},
		"/v1/top?rule=shop/user":        {`"override":{"percent":50,"until":"`, `"written":"10/s burst 20"}`},
		"/v1/series?domain=shop":        {`"override":{"percent":0,"until":"`},
		"/metrics":                      {`weir_rules_tightened{domain="shop"} 1`, `weir_rules_open{domain="shop"} 1`},
		"/v1/rules/shop/path=%2Fexport": {`"override":{"rule":"path=/export"`},
	} {
		body := d.get(path)
		for _, want := range says {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q in\n%.2000s", path, want, body)
			}
		}
	}
	d.at(d.admin, "rules", "end", "--reason", "over", "shop")
	d.at(d.admin, "rules", "end", "--reason", "over", "shop", "path=/export")
	soon(t, "it goes on", func() bool { return !strings.Contains(d.get("/metrics"), "weir_rules_tightened{") })
	for _, path := range []string{"/v1/domains", "/v1/rules", "/v1/rules/shop/user", "/v1/top"} {
		if body := d.get(path); strings.Contains(body, "override") {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// get is what the admin listener answers to the administrator.
func (d *desk) get(path string) string {
	d.t.Helper()
	q, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, "http://"+d.admin+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+os.Getenv("WEIR_TOKEN"))
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		d.t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err != nil || r.StatusCode != http.StatusOK {
		d.t.Fatal(path, r.Status, err, string(body))
	}
	return string(body)
}

// TestRulesRefused: what a daemon refuses is told with the file and the line, and
// of several files none is applied.
func TestRulesRefused(t *testing.T) {
	d := newDesk(t)
	defer d.close()
	d.shop(firstRules)
	d.at(d.admin, "rules", "apply", "--to", "enforced", "--force", "--team", "shop", "--reason", "first", d.files)
	d.shop(nextRules)
	before := d.at(d.admin, "rules", "get", "shop")
	for name, c := range map[string]struct {
		file, args string
		code       int
		says       string
	}{
		"a look-alike":            {"domain: stock\ndescriptors:\n  - {key: us\u0435r, limits: [1/s]}\n", "rules apply --team stock --reason x DIR", exitUsage, "stock.yaml: the daemon says: rule: "},
		"a domain of files":       {"domain: demo\ndescriptors:\n  - {key: user, limits: [1/s]}\n", "rules apply --reason x DIR", exitFail, `stock.yaml: the daemon says: domain: "demo" comes from the files of --rules`},
		"a domain of nobody":      {"domain: stock\ndescriptors:\n  - {key: user, limits: [1/s]}\n", "rules apply --reason x DIR", exitUsage, "stock.yaml: there is no domain stock yet; say which team it belongs to: --team TEAM"},
		"what was not tried":      {"", "rules apply --to enforced --reason x DIR", exitFail, "shop.yaml: refused: rule user: it does not run in shadow"},
		"no such rule":            {"", "rules get shop nobody", exitUsage, "the daemon says: there is no rule nobody in domain shop"},
		"no such domain":          {"", "rules get nobody", exitUsage, "the daemon says: there is no domain nobody"},
		"a rule that walks":       {"", "rules get .. ..", exitUsage, "the daemon says: there is no rule .. in domain .."},
		"no such version":         {"", "rules rollback --version 9 --reason x shop user", exitUsage, "has no version 9"},
		"nothing before":          {"", "rules rollback --reason x shop user", exitUsage, "no older version was active"},
		"nothing proposed":        {"", "rules publish --reason x shop user", exitUsage, "has nothing in shadow or draft"},
		"a domain, by a slip":     {"", "rules delete-domain --reason x shop", exitUsage, "confirm: is missing; domain shop goes away with its 2 rules: write its name, shop"},
		"a domain that is there":  {"", "rules restore --reason x shop", exitUsage, "no domain shop was taken away"},
		"no such state":           {"", "rules list --state live", exitUsage, `state: "live"`},
		"no such token":           {"", "token revoke --reason x nobody", exitUsage, "there is no token nobody"},
		"a token without a role":  {"", "token create --actor ann --role god --team shop --reason x", exitUsage, `role: "god" is no role`},
		"a reason without letter": {"", "rules open --for 1h --reason \u202e shop", exitUsage, "reason: has the character"},
	} {
		stock := filepath.Join(d.files, "stock.yaml")
		if c.file != "" {
			write(t, stock, c.file)
		}
		code, out, told := d.runs(strings.Fields(strings.ReplaceAll(c.args, "DIR", d.files))...)
		if code != c.code || out != "" || !strings.Contains(told, c.says) {
			t.Errorf("%s: exit %d, %s%s", name, code, out, told)
		}
		if err := os.Remove(stock); err != nil && c.file != "" {
			t.Fatal(err)
		}
	}
	if after := d.at(d.admin, "rules", "get", "shop"); after != before {
		t.Errorf("what was refused changed rules:\n%s", after)
	}
}

// TestRulesUnderReview: in a domain under review one person plans and tries a file, and a second one enforces it.
func TestRulesUnderReview(t *testing.T) {
	d := newDesk(t)
	defer d.close()
	d.shop(firstRules)
	d.at(d.admin, "rules", "apply", "--to", "enforced", "--force", "--team", "shop", "--reason", "first", d.files)
	d.change(http.MethodPatch, "/v1/domains/shop", `{"review": true, "reason": "two see more"}`)
	d.shop("  # People.\n  - key: user\n    limits: [20/s burst 40]\n")
	people := map[string]string{}
	for _, name := range []string{"ann", "bob"} {
		people[name] = strings.TrimSpace(d.at(d.admin, "token", "create", "--actor", name, "--role", "publish", "--team", "shop", "--reason", "x"))
	}
	for _, step := range []struct {
		by, args  string
		code      int
		out, told string
	}{
		{"ann", "rules plan --to enforced DIR", exitNo, "  delete path=/export\n", ""},
		{"ann", "rules plan --to enforced DIR", exitNo, "would be refused: rule user: domain shop wants a second person", ""},
		{"ann", "rules apply --to enforced --force --reason mine DIR", exitFail, "", "wants a second person: ann wrote version 2, so another person must enforce it; with --to shadow it runs"},
		{"ann", "rules apply --reason mine DIR", exitYes, "domain shop: 2 changes, in shadow", ""},
		{"ann", "rules inbox --no-headers", exitYes, "others  shop  user          publish version 2 (shadow)  ann  TIME  +1 -1  0\n", ""},
		{"bob", "rules comment shop user enough?", exitYes, "rule user of domain shop: your comment on version 2 is there\n", ""},
		{"bob", "rules inbox --no-headers", exitYes, "me  shop  path=/export  publish version 2 (shadow)  ann  TIME  +0 -3  0\nme  shop  user          publish version 2 (shadow)  ann  TIME  +1 -1  1\n", ""},
		{"ann", "rules comment shop user", exitYes, "  bob  enough?\n", ""},
		{"ann", "rules comment --version 1 shop user", exitYes, "", ""},
		{"ann", "rules comment --version 9 shop user", exitUsage, "", "has no version 9"},
		{"ann", "rules plan DIR", exitYes, "nothing to change", ""},
		{"ann", "rules plan --to enforced DIR", exitNo, "domain shop: in shadow already (DIR/shop.yaml)\n  would be refused: rule user: domain shop wants", ""},
		{"bob", "rules plan --to enforced DIR", exitNo, "domain shop: 2 changes", ""},
		{"bob", "rules apply --to enforced --reason seen DIR", exitYes, "domain shop: 2 changes, active", ""},
		{"ann", "rules disable --reason flood shop user", exitYes, "rule user of domain shop: version 2 is active until another person disables it, as ann asks; revision ", ""},
		{"ann", "rules disable --reason flood shop user", exitFail, "", "wants a second person: ann asks to disable version 2"},
		{"bob", "rules list shop", exitYes, "enforced 2, to be disabled, as ann asks\n", ""},
		{"ann", "rules withdraw --version 2 --reason mistake shop user", exitYes, "rule user of domain shop: version 2 is active; revision ", ""},
		{"ann", "rules disable --reason flood shop user", exitYes, "until another person disables it", ""},
		{"bob", "rules disable --reason flood shop user", exitYes, "rule user of domain shop: it is not active; revision ", ""},
		{"bob", "rules publish --version 2 --reason over shop user", exitYes, "version 2 is active", ""},
		{"ann", "rules open --for 2h --reason flood shop", exitFail, "", "may open or tighten limits there for 60 min in 24 h, and ann has 1h0m0s left"},
		{"ann", "rules open --for 1h --reason flood shop", exitYes, "domain shop: open until TIME, by ann alone; when another person does the same, it holds as long as that one says\n", ""},
		{"bob", "rules open --for 2h --reason flood shop", exitYes, "domain shop: open until TIME\n", ""},
	} {
		t.Setenv("WEIR_TOKEN", people[step.by])
		code, out, told := d.runs(strings.Fields(strings.ReplaceAll(step.args, "DIR", d.files))...)
		if code != step.code || !strings.Contains(d.plain(out), step.out) || !strings.Contains(told, step.told) {
			t.Errorf("%s: %s: exit %d\n%s%s", step.by, step.args, code, out, told)
		}
	}
}

// TestOneServes: of two daemons at one folder the second is refused and told what
// to do; commands may use it beside the first, and who comes after it was killed
// has all that it had.
func TestOneServes(t *testing.T) {
	d := newDesk(t)
	d.shop(firstRules)
	d.at(d.admin, "rules", "apply", "--team", "shop", "--reason", "first", d.files)
	binary, err := exec.LookPath("weir")
	if err != nil {
		t.Fatal(err)
	}
	patient, stop := context.WithTimeout(t.Context(), time.Minute) // if it serves, this ends it
	defer stop()
	second := exec.CommandContext(patient, binary, "serve", "--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--data", d.data)
	out, err := second.CombinedOutput()
	want := "weir: --data: another weir serve has it open in " + d.data + "; end that one, name another folder, or let nodes share PostgreSQL: --data postgres://USER@HOST/DATABASE\n"
	if second.ProcessState.ExitCode() != exitFail || string(out) != want {
		t.Errorf("%v %s", err, out)
	}
	d.at("", "token", "create", "--data", d.data, "--actor", "ann", "--role", "read", "--team", "shop", "--reason", "x")
	if got := d.at(d.admin, "token", "list"); !strings.Contains(got, "  ann    read ") {
		t.Error(got)
	}
	if err := d.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.process.Wait() // it was killed
	next := serve(t, binary, "--rules", d.demo, "--data", d.data)
	if got := d.at(next.admin, "rules", "list", "shop"); !strings.Contains(got, "user") {
		t.Error(got)
	}
	if err := errors.Join(next.Process.Signal(syscall.SIGTERM), next.Wait()); err != nil {
		t.Error(err, next.stderr)
	}
}

// TestTokens: what a token may not do is refused by the daemon, with what to do.
func TestTokens(t *testing.T) {
	d := newDesk(t)
	defer d.close()
	d.shop(firstRules)
	d.at(d.admin, "rules", "apply", "--to", "enforced", "--force", "--team", "shop", "--reason", "first", d.files)
	d.shop(nextRules)
	create := func(actor, role, team string) string {
		return strings.TrimSpace(d.at(d.admin, "token", "create", "--actor", actor, "--role", role, "--team", team, "--reason", "x"))
	}
	propose, other, gone := create("ann", "propose", "shop"), create("eve", "admin", "stock"), create("bob", "publish", "shop")
	id := strings.Split(gone, "_")[1]
	if out := d.at(d.admin, "token", "revoke", "--reason", "he has left", id); out != "token "+id+": revoked\n" {
		t.Error(out)
	}
	plan, apply := []string{"rules", "plan", d.files}, []string{"rules", "apply", "--to", "enforced", "--reason", "x", d.files}
	for name, c := range map[string]struct {
		token string
		args  []string
		code  int
		says  string
	}{
		"no token":                {"", plan, exitFail, "this listener needs a token"},
		"a wrong token":           {"weir_aaaaaaaaaa_BBBBBBBBBBBBBBBBBBBBBBBBBB", plan, exitFail, "no such token; ask an administrator"},
		"a revoked token":         {gone, plan, exitFail, "the token was revoked at "},
		"a role that is too low":  {propose, apply, exitFail, "takes the role publish; ann has propose"},
		"a plan with that role":   {propose, plan, exitNo, ""},
		"another team":            {other, apply, exitFail, "one must stand for team shop; eve stands for [stock]"},
		"tokens of another team":  {other, []string{"token", "create", "--actor", "x", "--role", "read", "--team", "shop", "--reason", "x"}, exitFail, "stand for team shop"},
		"a list that is too much": {propose, []string{"token", "list"}, exitFail, "to list tokens takes the role admin"},
		"traffic without a token": {"", []string{"top", "--once"}, exitFail, "this listener needs a token; send Authorization: Bearer TOKEN, as weir does with --token-file or with WEIR_TOKEN"},
		"traffic":                 {propose, []string{"top", "--once", "--domain", "shop"}, exitYes, ""},
		"traffic of another team": {other, []string{"top", "--once", "--domain", "shop"}, exitFail, "your token may not read which clients of domain"},
		"why":                     {propose, []string{"explain", "shop", "user=ann"}, exitYes, ""},
		"why without a token":     {"", []string{"explain", "shop", "user=ann"}, exitFail, "this listener needs a token"},
		"why of another team":     {other, []string{"explain", "shop", "user=ann"}, exitFail, "your token may not read"},
		"the cluster":             {propose, []string{"cluster", "status"}, exitFail, "this daemon is in no cluster"},
		"no cluster for anybody":  {"", []string{"cluster", "status"}, exitFail, "this listener needs a token"},
	} {
		t.Setenv("WEIR_TOKEN", c.token)
		if code, _, told := d.runs(c.args...); code != c.code || !strings.Contains(told, c.says) {
			t.Errorf("%s: exit %d, %s", name, code, told)
		}
	}
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.admin+"/v1/openapi.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set("Authorization", "Bearer "+other) // what the API is, every token may read
	described, err := http.DefaultClient.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer described.Body.Close()
	if text, err := io.ReadAll(described.Body); err != nil || described.StatusCode != http.StatusOK || !strings.Contains(string(text), `"openapi":"3.1`) {
		t.Errorf("%s %.200s %v", described.Status, text, err)
	}
	t.Setenv("WEIR_TOKEN", "weir_aaaaaaaaaa_BBBBBBBBBBBBBBBBBBBBBBBBBB") // the file goes before
	file := filepath.Join(t.TempDir(), "token")
	write(t, file, other+"\n")
	if code, out, told := d.runs("token", "list", "--token-file", file); code != exitYes || !strings.Contains(d.plain(out), "  eve    admin  stock  until TIME  TIME\n") || strings.Contains(out, "ann") {
		t.Errorf("exit %d, %s%s", code, out, told)
	}
}

// TestRulesPage runs the sessions of docs/rules-api.md, on the files that it shows:
// each prints what stands there, but for times and tokens.
func TestRulesPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/rules-api.md")
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	defer d.close()
	t.Chdir(t.TempDir())
	token := regexp.MustCompile(`weir_[a-z2-7]+_[A-Z2-7]+|token [a-z2-7]{10}`)
	sessions := 0
	for _, m := range regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
		kind, text := m[1], m[2]
		if file := regexp.MustCompile(`^# (rules/\S+)\n`).FindStringSubmatch(text); file != nil {
			if err := os.MkdirAll("rules", 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, file[1], text)
		}
		if kind != "console" {
			continue
		}
		more := []string{"--addr", d.admin}
		if strings.Contains(text, "--data") {
			more = nil
		}
		sessions++
		if diff := cmp.Diff(token.ReplaceAllString(d.plain(text), "TOKEN"), token.ReplaceAllString(d.plain(session(t, text, more...)), "TOKEN")); diff != "" {
			t.Error(diff)
		}
	}
	if sessions < 5 {
		t.Errorf("found %d sessions", sessions)
	}
}

// TestLostAnswer: when the answer to a change is lost, nobody says that it was not
// made; when it can't have been, nothing is said.
func TestLostAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"shadow":1}`)) // the client tells if it is lost
			return
		}
		panic(http.ErrAbortHandler)
	}))
	addr := server.URL
	args := []string{"rules", "publish", "--addr", addr, "--reason", "x", "shop", "user"}
	const lost = "whether the change was made is not known: look before you try again"
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != exitFail || !strings.Contains(stderr.String(), lost) {
		t.Errorf("exit %d, %s", code, stderr.String())
	}
	server.Close()
	stderr.Reset()
	if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != exitFail || strings.Contains(stderr.String(), lost) || stdout.Len() > 0 {
		t.Errorf("exit %d, %s", code, stderr.String())
	}
}

// TestNoRuleDatabase: a daemon without one, and a listener that is another, are told
// apart from a rule that is not there.
func TestNoRuleDatabase(t *testing.T) {
	binary, err := exec.LookPath("weir") // this test, by TestMain
	if err != nil {
		t.Fatal(err)
	}
	p := serve(t, binary)
	defer func() {
		if err := errors.Join(p.Process.Signal(syscall.SIGTERM), p.Wait()); err != nil {
			t.Errorf("%v\n%s", err, p.stderr)
		}
	}()
	for addr, says := range map[string]string{p.admin: "start it with weir serve --data DIR", p.http: "there is no \"/v1/rules\""} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"rules", "list", "--addr", addr}, strings.NewReader(""), &stdout, &stderr); code == exitYes || !strings.Contains(stderr.String(), says) {
			t.Errorf("exit %d, %s", code, stderr.String())
		}
	}
}

// TestRulesTried: a folder runs in shadow while requests come, and is enforced
// without force when they would have passed, not when many would be denied.
func TestRulesTried(t *testing.T) {
	d := newDesk(t)
	defer d.close()
	request := func(times string) {
		d.at(d.http, "check", "--times", times, "shop", "user=ann")
	}
	d.shop("  - {key: user, limits: [1000000/h]}\n")
	d.at(d.admin, "rules", "apply", "--team", "shop", "--reason", "try", d.files)
	plan := func(says string) (code int, out string) {
		for range 200 { // until the node has the change
			request("50")
			if code, out, _ = d.runs("rules", "plan", "--to", "enforced", d.files); strings.Contains(out, says) {
				return code, out
			}
		}
		t.Fatalf("exit %d, %s", code, out)
		return 0, ""
	}
	for n := 0; ; n++ {
		request("50")
		code, out, told := d.runs("rules", "apply", "--to", "enforced", "--reason", "it denies nobody", d.files)
		if code == exitYes && strings.Contains(out, "active at revision") {
			break
		}
		if n == 200 || code != exitFail || !strings.Contains(told, "refused: ") {
			t.Fatalf("exit %d, %s%s", code, out, told)
		}
	}
	d.shop("  - {key: user, limits: [1/h]}\n")
	d.at(d.admin, "rules", "apply", "--reason", "try", d.files)
	if code, _ := plan(" % of the requests that met it "); code != exitNo {
		t.Errorf("exit %d", code)
	}
	code, out, told := d.runs("rules", "publish", "--reason", "x", "shop", "user")
	if code != exitFail || out != "" || !strings.Contains(told, "would be denied that pass now, and 1 % may be") {
		t.Errorf("exit %d, %s%s", code, out, told)
	}
}

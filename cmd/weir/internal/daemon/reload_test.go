package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/rules"
)

// patience is how long a change may take to be seen on a machine that has much
// else to do.
const patience = 20 * time.Second

// logged is a log that tests read, and wait for.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newLog() (*logged, *slog.Logger) {
	l := &logged{more: make(chan struct{}, 1)}
	return l, slog.New(slog.NewTextHandler(l, nil))
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(b)
}

// until waits until the log says all of want since it was read last, and gives
// what it said.
func (l *logged) until(t *testing.T, want ...string) string {
	t.Helper()
	limit := time.After(patience)
	for {
		l.mu.Lock()
		said := l.text.String()
		missing := ""
		for _, w := range want {
			if !strings.Contains(said, w) {
				missing = w
			}
		}
		if missing == "" {
			l.text.Reset()
			l.mu.Unlock()
			return said
		}
		l.mu.Unlock()
		select {
		case <-l.more:
		case <-limit:
			t.Fatalf("the log does not say %q:\n%s", missing, said)
		}
	}
}

const reloadedLine = `msg="rules reloaded"`

// rewrite puts text in the place of a file at once.
func rewrite(t *testing.T, file, text string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(file), ".next")
	if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, file)); err != nil {
		t.Fatal(err)
	}
}

func limits(domain string, limits ...string) string {
	var text strings.Builder
	text.WriteString("domain: " + domain + "\ndescriptors:\n")
	for i, l := range limits {
		fmt.Fprintf(&text, "  - {key: k%d, limits: [%s]}\n", i, l)
	}
	return text.String()
}

// ask spends cost of a key of domain d at the HTTP listener, and gives the status.
func ask(t *testing.T, r *running, key string, cost int) int {
	t.Helper()
	status, _ := do(t, http.MethodPost, "http://"+r.http+"/v1/check",
		fmt.Sprintf(`{"domain":"d","descriptors":[{"entries":[{"key":%q,"value":"ann"}],"cost":%d}]}`, key, cost))
	return status
}

// metric is the line of a metric, or "".
func metric(t *testing.T, r *running, name string) string {
	t.Helper()
	_, body := get(t, "http://"+r.admin+"/metrics")
	for line := range strings.Lines(body) {
		if after, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(after)
		}
	}
	return ""
}

// TestReloadKeepsCounts: "Unchanged limits keep their counts; changed ones keep
// used events"; what is new starts fresh, what is gone limits nobody.
func TestReloadKeepsCounts(t *testing.T) {
	l, log := newLog()
	file := rulesFile(t, limits("d", "10/day", "10/day", "10/day fixed-window", "10/day"))
	r := start(t, Config{Rules: file, Log: log})
	for key := range 4 {
		if status := ask(t, r, fmt.Sprint("k", key), 8); status != 200 {
			t.Fatal(status)
		}
	}
	rewrite(t, file, limits("d", "10/day", "20/day", "9/day fixed-window")+"  - {key: new, limits: [1/day]}\n")
	l.until(t, reloadedLine)
	for _, c := range []struct {
		key          string
		cost, status int
	}{
		{"k0", 3, 429},
		{"k0", 2, 200}, // 10 of 10
		{"k1", 13, 429},
		{"k1", 12, 200}, // 20 of 20
		{"k2", 2, 429},
		{"k2", 1, 200}, // 9 of 9
		{"k3", 1000, 200},
		{"new", 1, 200},
		{"new", 1, 429},
	} {
		if status := ask(t, r, c.key, c.cost); status != c.status {
			t.Errorf("%s of %d: %d, want %d", c.key, c.cost, status, c.status)
		}
	}
	rewrite(t, file, "domain: d\ndescriptors: []\n") // "write `descriptors: []` to empty a domain"
	l.until(t, reloadedLine)
	if status := ask(t, r, "k0", 1000); status != 200 {
		t.Error(status)
	}
}

// TestBadReloads: whatever is wrong with the new rules, the old ones decide, and
// log, metrics and /readyz say so until they are good again.
func TestBadReloads(t *testing.T) {
	for _, c := range []struct{ name, text, result, says string }{
		{"YAML error", "domain: d\ndescriptors: [\n", "refused", "rules.yaml:3:1: error: YAML: "},
		{"unknown key", "domain: d\ndescriptors:\n  - {key: k0, limit: [1/s]}\n", "refused", `rules.yaml:3:15: error: unknown key`},
		{"duplicate", limits("d", "1/s") + "  - {key: k0}\n", "refused", "rules.yaml:4:5: error: duplicate descriptor"},
		{"bad unit", "domain: d\ndescriptors:\n  - {key: k0, rate_limit: {unit: x, requests_per_unit: 1}}\n", "refused", "rules.yaml:3:"},
		{"empty domain", "domain: \"\"\ndescriptors: []\n", "refused", "rules.yaml:1:9: error: empty domain"},
		{"empty file", "", "refused", "rules.yaml:1:1: error: the file is empty"},
		{"half written", "domain: d", "refused", "rules.yaml:1:1: error: there is no descriptors key, as in a file half written"},
		{"removed", "REMOVED", "missing", "rules.yaml: no such file or directory"},
		{"a folder of none", "FOLDER", "missing", "no *.yaml or *.yml in "},
		{"NUL bytes", limits("d", "1/s") + "\x00\x00", "refused", "rules.yaml:4:1: error: YAML: …"},
		{"no text", "\x7fELF\x02\x01\xff\xfe", "refused", "rules.yaml:1:"},
		{"too large", strings.Repeat("#", rules.MaxFileSize+1), "unreadable", "rule files have at most 67108864 bytes, all together"},
		{"too many rules", "domain: d\ndescriptors: [" + strings.Repeat("a,", 1<<21), "refused", "list items of the file are over 2000000"},
		{"a link to itself", "LOOP", "unreadable", "too many levels of symbolic links"},
		{"a link to nowhere", "NOWHERE", "missing", "no such file or directory"},
		{"a pipe", "PIPE", "unreadable", "is a pipe or a device; write the rules to a file"},
		{"a device", "DEVICE", "unreadable", "is a pipe or a device; write the rules to a file"},
		{"not for us", "FORBIDDEN", "unreadable", "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, log := newLog()
			good := limits("d", "1/day")
			file := rulesFile(t, good)
			r := start(t, Config{Rules: file, Log: log})
			if status := ask(t, r, "k0", 1); status != 200 {
				t.Fatal(status)
			}
			loadedAt := metric(t, r, "weir_rules_loaded_timestamp_seconds ")
			if got := metric(t, r, "weir_rules_reload_success "); got != "1" {
				t.Error("success is", got, "before anything was reloaded")
			}
			if _, body := get(t, "http://"+r.http+"/readyz"); body != "OK\n" {
				t.Error(body)
			}

			spoil(t, file, c.text)
			said := l.until(t, "level=ERROR", strings.ReplaceAll(c.says, `"`, `\"`))
			if strings.Contains(said, reloadedLine) {
				t.Error(said)
			}
			if status := ask(t, r, "k0", 1); status != 429 {
				t.Errorf("status %d: the old rule is not in force", status)
			}
			for name, want := range map[string]string{
				"weir_rules_reload_success ":                                                    "0",
				`weir_rules_reloads_total{result="` + c.result + `"} `:                          "1",
				`weir_rules_reloads_total{result="loaded"} `:                                    "0",
				"weir_rules_loaded_timestamp_seconds ":                                          loadedAt,
				`weir_decisions_total{domain="d",outcome="denied",rule="d/k0",shadow="false"} `: "1",
			} {
				if got := metric(t, r, name); got != want {
					t.Errorf("%s%s, want %s", name, got, want)
				}
			}
			status, body := get(t, "http://"+r.http+"/readyz")
			if status != 200 || !strings.HasPrefix(body, "OK\nthe active rules are old because a reload failed: ") || !strings.Contains(body, c.says) || strings.Count(body, "\n") != 2 {
				t.Errorf("readyz: %d %s", status, body)
			}
			if status, body := get(t, "http://"+r.http+"/healthz"); status != 200 || body != "OK\n" {
				t.Errorf("healthz: %d %s", status, body)
			}

			if c.text == "FOLDER" {
				if err := os.Remove(file); err != nil {
					t.Fatal(err)
				}
			}
			rewrite(t, file, limits("d", "3/day"))
			l.until(t, reloadedLine)
			if got := metric(t, r, "weir_rules_reload_success ") + metric(t, r, `weir_rules_reloads_total{result="loaded"} `); got != "11" {
				t.Error("success and loaded are", got)
			}
			if _, body := get(t, "http://"+r.http+"/readyz"); body != "OK\n" {
				t.Error(body)
			}
			if got := [2]int{ask(t, r, "k0", 2), ask(t, r, "k0", 1)}; got != [2]int{200, 429} {
				t.Error("one event of three was used before, but:", got)
			}
		})
	}
}

// spoil puts something else in the place of a file.
func spoil(t *testing.T, file, text string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(file), ".next")
	instead := func(err error) {
		t.Helper()
		if err := errors.Join(err, os.Rename(next, file)); err != nil {
			t.Fatal(err)
		}
	}
	switch text {
	case "REMOVED":
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	case "FOLDER":
		if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o755)); err != nil {
			t.Fatal(err)
		}
	case "LOOP":
		instead(os.Symlink(file, next))
	case "NOWHERE":
		instead(os.Symlink("nowhere.yaml", next))
	case "DEVICE":
		instead(os.Symlink(os.DevNull, next))
	case "PIPE":
		if _, err := exec.LookPath("mkfifo"); err != nil {
			t.Skip("SKIPPED ALOUD: there is no mkfifo here")
		}
		instead(exec.CommandContext(t.Context(), "mkfifo", next).Run())
	case "FORBIDDEN":
		if os.Geteuid() == 0 {
			t.Skip("SKIPPED ALOUD: root may read everything")
		}
		instead(os.WriteFile(next, []byte(limits("d", "9/s")), 0o000))
	default:
		rewrite(t, file, text)
	}
}

// TestOddFiles: what editors of other systems write is what it says.
func TestOddFiles(t *testing.T) {
	l, log := newLog()
	file := rulesFile(t, limits("d", "1/day"))
	r := start(t, Config{Rules: file, Log: log})
	if status := ask(t, r, "k0", 1); status != 200 {
		t.Fatal(status)
	}
	for _, text := range []string{
		"\uFEFF" + limits("d", "2/day"),
		strings.ReplaceAll(limits("d", "3/day"), "\n", "\r\n"),
		"\xFE\xFF\x00" + strings.Join(strings.Split(strings.TrimSuffix(limits("d", "4/day"), "\n"), ""), "\x00"),
	} {
		rewrite(t, file, text)
		l.until(t, reloadedLine)
		if got := [2]int{ask(t, r, "k0", 2), ask(t, r, "k0", 1)}; got != [2]int{429, 200} {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestHalfWrittenUnderLoad: a file that is written in place, bit by bit and again
// and again, never takes a rule away: the rules in force are whole, of one
// version, and count on.
func TestHalfWrittenUnderLoad(t *testing.T) {
	l, log := newLog()
	version := func(n int) string { // the last rule is always changed with the first
		return fmt.Sprintf("domain: d\ndescriptors:\n  - {key: used, limits: [1/day]}\n  - {key: k0, name: v%d, limits: [1000000/s]}\n%s  - {key: k1, name: v%d, limits: [1000000/s]}\n",
			n, strings.Repeat("  # nothing\n", 1000), n)
	}
	file := rulesFile(t, version(0))
	r := start(t, Config{Rules: file, Log: log})
	if status := ask(t, r, "used", 1); status != 200 {
		t.Fatal(status)
	}
	ctx, stop := context.WithCancel(t.Context())
	var g sync.WaitGroup
	for range 3 {
		g.Go(func() {
			for ctx.Err() == nil {
				status, body := do(t, http.MethodPost, "http://"+r.http+"/v1/check",
					`{"domain":"d","descriptors":[{"entries":[{"key":"k0","value":"a"}]},{"entries":[{"key":"k1","value":"a"}]}]}`)
				_, rule, _ := strings.Cut(body, `"rule":"`)
				rule, _, _ = strings.Cut(rule, `"`)
				if status != 200 || strings.Count(body, `"rule":"`+rule+`"`) != 2 {
					t.Errorf("%d %s", status, body)
					return
				}
				if status := ask(t, r, "used", 1); status != 429 {
					t.Error("what was used is forgotten:", status)
					return
				}
			}
		})
	}
	for n := 1; n < 6; n++ {
		f, err := os.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		for text := version(n); len(text) > 0; {
			k := min(len(text), 100)
			if _, err := f.WriteString(text[:k]); err != nil {
				t.Fatal(err)
			}
			text = text[k:]
			runtime.Gosched()
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		l.until(t, reloadedLine)
	}
	stop()
	g.Wait()
}

// TestAllFindingsAreLogged: all that is wrong, once.
func TestAllFindingsAreLogged(t *testing.T) {
	l, log := newLog()
	file := rulesFile(t, limits("d", "1/day"))
	r := start(t, Config{Rules: file, Log: log})
	rewrite(t, file, limits("d", "1/x", "1/day", "1/y"))
	said := l.until(t, "rules.yaml:3:", "rules.yaml:5:")
	rewrite(t, file, limits("d", "1/x", "1/day", "1/y")) // the same again
	rewrite(t, file, limits("d", "2/day"))
	said += l.until(t, reloadedLine)
	if n := strings.Count(said, "level=ERROR"); n != 2 {
		t.Errorf("%d errors:\n%s", n, said)
	}
	if got := metric(t, r, `weir_rules_reloads_total{result="refused"} `); got != "1" {
		t.Error(got)
	}
}

// TestReloadByHand: Reload is what SIGHUP does.
func TestReloadByHand(t *testing.T) {
	l, log := newLog()
	r := start(t, Config{Rules: rulesFile(t, limits("d", "1/day")), Log: log})
	for n := 1; n < 3; n++ {
		r.daemon.Reload()
		l.until(t, reloadedLine)
		if got := metric(t, r, `weir_rules_reloads_total{result="loaded"} `); got != fmt.Sprint(n) {
			t.Error(got)
		}
	}
	demo := start(t, Config{Log: log})
	demo.daemon.Reload()
	l.until(t, "no rules to reload")
}

// TestExport: "`GET /v1/export` (rules in force, YAML, ETag)".
func TestExport(t *testing.T) {
	l, log := newLog()
	text := "# ours\n" + limits("d", "1/day")
	file := rulesFile(t, text)
	r := start(t, Config{Rules: file, Log: log})
	fetch := func(method string, tags ...string) (int, http.Header, string) {
		q, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.admin+"/v1/export", nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header["If-None-Match"] = tags
		response, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, response.Header, string(body)
	}
	_, first, body := fetch(http.MethodGet)
	etag := first.Get("ETag")
	if d := cmp.Diff("--- # rules.yaml\n"+text, body); d != "" || first.Get("Content-Type") != "application/yaml" || len(etag) != 66 || etag[0] != '"' {
		t.Error(d, first)
	}
	for _, tags := range [][]string{{etag}, {`"x", W/` + etag}, {`"x"`, etag}, {"*"}} {
		if status, header, body := fetch(http.MethodGet, tags...); status != 304 || body != "" || header.Get("ETag") != etag {
			t.Error(tags, status, body)
		}
	}
	if status, header, body := fetch(http.MethodHead); status != 200 || body != "" || header.Get("ETag") != etag {
		t.Error(status, body)
	}
	if status, _, _ := fetch(http.MethodPost); status != 405 {
		t.Error(status)
	}
	rewrite(t, file, "domain: d\n")
	l.until(t, "half written")
	if status, _, _ := fetch(http.MethodGet, etag); status != 304 {
		t.Error("a bad reload changed the export:", status)
	}
	rewrite(t, file, limits("d", "2/day"))
	l.until(t, reloadedLine)
	if status, header, body := fetch(http.MethodGet, etag); status != 200 || !strings.Contains(body, "2/day") || header.Get("ETag") == etag {
		t.Error(status, body)
	}
	if status, _ := get(t, "http://"+r.http+"/v1/export"); status != 404 {
		t.Error("the HTTP listener exports rules:", status)
	}
}

// TestRulesOfAnotherDaemon: a daemon follows another, and starts without it.
func TestRulesOfAnotherDaemon(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { rewrite(t, filepath.Join(dir, name), text) }
	write("d.yaml", limits("d", "1/day", "2/day"))
	write("e.yaml", "---\n"+limits("e", "1/day"))
	first := start(t, Config{Rules: dir})
	l, log := newLog()
	c := Config{Rules: "http://" + first.admin + "/v1/export", RulesCache: filepath.Join(t.TempDir(), "copy.yaml"), rulesPoll: 20 * time.Millisecond, Log: log}
	second := start(t, c)
	export := func(r *running) string {
		_, body := get(t, "http://"+r.admin+"/v1/export")
		return body
	}
	if d := cmp.Diff(export(first), export(second)); d != "" || !strings.HasSuffix(second.line, "domains=2 rules=3") {
		t.Error(second.line, d)
	}
	if status := ask(t, second, "k1", 1); status != 200 {
		t.Error(status)
	}
	if err := os.Remove(filepath.Join(dir, "e.yaml")); err != nil {
		t.Fatal(err)
	}
	l.until(t, reloadedLine)
	write("d.yaml", limits("d", "1/day", "3/day"))
	l.until(t, reloadedLine)
	if got := [2]int{ask(t, second, "k1", 2), ask(t, second, "k1", 1)}; got != [2]int{200, 429} {
		t.Error(got)
	}

	first.stop()
	l.until(t, "rules could not be reloaded; the old rules stay active")
	third := start(t, c)
	if !strings.HasSuffix(third.line, "domains=1 rules=2") || metric(t, third, "weir_rules_reload_success ") != "0" {
		t.Error(third.line)
	}
	if status, body := get(t, "http://"+third.http+"/readyz"); status != 200 || !strings.Contains(body, "fetch rules: Get \"http://"+first.admin) {
		t.Error(status, body)
	}
	c.RulesCache = filepath.Join(t.TempDir(), "none.yaml")
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), "last good copy") {
		t.Error(err)
	}
}

// TestReloadUnderLoad: each answer is by the old rules or the new ones, none by
// half of each, and none fails.
func TestReloadUnderLoad(t *testing.T) {
	l, log := newLog()
	version := func(n int) string { // two rules that are always changed together
		return fmt.Sprintf("domain: d\ndescriptors:\n  - {key: k0, name: v%d, limits: [1000000/s]}\n  - {key: k1, name: v%d, limits: [1000000/s]}\n", n, n)
	}
	file := rulesFile(t, version(0))
	r := start(t, Config{Rules: file, Log: log})
	ctx, stop := context.WithCancel(t.Context())
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			for ctx.Err() == nil {
				status, body := do(t, http.MethodPost, "http://"+r.http+"/v1/check",
					`{"domain":"d","descriptors":[{"entries":[{"key":"k0","value":"a"}]},{"entries":[{"key":"k1","value":"a"}]}]}`)
				_, rule, _ := strings.Cut(body, `"rule":"`)
				rule, _, _ = strings.Cut(rule, `"`)
				if status != 200 || strings.Count(body, `"rule":"`+rule+`"`) != 2 {
					t.Errorf("%d %s", status, body)
					return
				}
			}
		})
	}
	for n := 1; n < 8; n++ {
		rewrite(t, file, version(n))
		l.until(t, reloadedLine)
	}
	stop()
	g.Wait()
	if got := metric(t, r, `weir_decisions_total{domain="d",outcome="allowed",rule="v0"`); got != "" {
		t.Error("there are metrics of rules that are gone:", got)
	}
}

// TestPrivateFile: a link in the folder of rules leads to a file that only the
// daemon and its owner may read. Nobody else is told its lines.
func TestPrivateFile(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-so-many-letters-that-nobody-guesses-it"
	private := filepath.Join(t.TempDir(), "private")
	const text = "hunter2:\n- \"swordfish\\e[31m\\n\"\ndomain: xyzzy\ndescriptors:\n- {key: [plugh], plover: 1, limits: [opensesame]}\n"
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := errors.Join(os.WriteFile(private, []byte(text), 0o600), os.WriteFile(tokens, []byte(token+"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(rulesFile(t, limits("d", "1/day")))
	l, log := newLog()
	r := start(t, Config{Rules: folder, Log: log, AdminTokenFile: tokens})
	if err := os.Symlink(private, filepath.Join(folder, "link.yaml")); err != nil {
		t.Fatal(err)
	}
	said := l.until(t, "level=ERROR", "link.yaml:1:1: error: unknown key … in …", "link.yaml:5:")
	_, ready := get(t, "http://"+r.http+"/readyz")
	if !strings.HasPrefix(ready, "OK\nthe active rules are old because a reload failed: ") || !strings.Contains(ready, "link.yaml:1:1: error: ") {
		t.Errorf("readyz: %s", ready)
	}
	for _, secret := range []string{"hunter2", "swordfish", "xyzzy", "plugh", "plover", "opensesame"} {
		if strings.Contains(ready, secret) || strings.Contains(said, secret) {
			t.Errorf("%s is told to anybody:\n%s\n%s", secret, ready, said)
		}
	}
	if status, _ := get(t, "http://"+r.admin+"/v1/findings"); status != http.StatusUnauthorized {
		t.Errorf("the admin listener tells without a token: %d", status)
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.admin+"/v1/findings", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+token)
	if status, body := answered(t, q); status != http.StatusOK || !strings.Contains(body, `unknown key "hunter2"`) || strings.Contains(body, "\x1b") {
		t.Errorf("the admin listener: %d %s", status, body)
	}
}

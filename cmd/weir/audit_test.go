package main

import (
	"bytes"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// weirSays runs a command, and gives what it printed and its exit code.
func weirSays(t *testing.T, stdin string, args ...string) (string, int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr)
	return stdout.String() + stderr.String(), code
}

// TestAudit: the audit of a database is listed and verified, by the database itself, a daemon and a file, and what was done to it is told.
func TestAudit(t *testing.T) {
	d := newDesk(t)
	weirSays(t, "", "token", "create", "--addr", d.admin, "--actor", "ann", "--role", "read", "--team", "shop", "--reason", "she is of the shop")
	api, data := []string{"--addr", "http://" + d.admin}, []string{"--data", d.data}
	says := func(want int, args ...string) string {
		t.Helper()
		out, code := weirSays(t, "", append([]string{"audit"}, args...)...)
		if code != want {
			t.Errorf("%v: exit %d, want %d: %s", args, code, want, out)
		}
		return out
	}
	var head string
	for _, place := range [][]string{data, api} {
		out := says(exitYes, append([]string{"verify"}, place...)...)
		if _, err := fmt.Sscanf(out, "audit: 2 lines, unchanged\nhead %s\n", &head); err != nil || !strings.HasPrefix(head, "2:") {
			t.Errorf("%s", out)
		}
		list := says(exitYes, append([]string{"list"}, place...)...)
		lines := strings.Split(strings.TrimSpace(list), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "  local  ") || !strings.Contains(lines[1], " of *  127.0.0.1  token.create  ") || !strings.Contains(lines[1], "she is of the shop") {
			t.Error(list)
		}
		if list := says(exitYes, append([]string{"list", "--limit", "1", "--json"}, place...)...); strings.Count(list, "\n") != 1 || !strings.HasPrefix(list, `{"seq":2,`) {
			t.Error(list)
		}
		if list := says(exitYes, append([]string{"list", "nowhere"}, place...)...); list != "" {
			t.Error(list)
		}
		says(exitYes, append([]string{"verify", "--head", head}, place...)...)
		out = says(exitNo, append([]string{"verify", "--head", "9:" + head[2:], "--json"}, place...)...)
		if !strings.Contains(out, `{"lines":2,"head":"2:`) || !strings.Contains(out, `"faults":[{"seq":9,"text":"the audit ends with line 2, and the head of line 9 was kept: its end was cut off"}]`) {
			t.Error(out)
		}
	}
	// A file that was kept elsewhere.
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+strings.TrimPrefix(d.admin, "http://")+"/v1/audit?format=jsonl", nil)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+os.Getenv("WEIR_TOKEN"))
	response, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var kept bytes.Buffer
	if _, err := kept.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	write(t, file, kept.String())
	says(exitYes, "verify", "--head", head, file)
	if out, code := weirSays(t, strings.Replace(kept.String(), "ann", "bob", 1), "audit", "verify", "-"); code != exitNo || !strings.Contains(out, "line 2 was changed") {
		t.Error(code, out)
	}
	for name, text := range map[string]string{"no JSON": "x", "a field more": strings.Replace(kept.String(), `{"seq"`, `{"more":1,"seq"`, 1), "an older Weir's": `{"seq":1}`, "too long": strings.Repeat("x", 2<<20)} {
		if out, code := weirSays(t, text, "audit", "verify", "-"); code != exitUsage || !strings.Contains(out, "-:1: ") {
			t.Error(name, code, out)
		}
	}
	// Somebody writes the database's file.
	d.close()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(d.data, rulestore.File))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `DROP TRIGGER audit_update; UPDATE audit SET actor = 'eve' WHERE seq = 1`); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if out := says(exitNo, append([]string{"verify"}, data...)...); out != "line 1 was changed: its hash is not of what it says\naudit: 2 lines, changed\nhead "+head+"\n" {
		t.Error(out)
	}
	for _, args := range [][]string{
		{"verify", "--head", "5"}, {"verify", "--data", t.TempDir()}, {"verify", "--data", d.data, "x.jsonl"}, {"verify", "nowhere.jsonl"}, {"list", "--limit", "0"}, {"list", "--limit", "1001"},
	} {
		says(exitUsage, args...)
	}
}

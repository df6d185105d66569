package usagelog

import (
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/weir-limit/weir"
)

// TestPage: the statements and the command of docs/usage-log.md make the same bill of a log in
// which records are twice.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/usage-log.md")
	if err != nil {
		t.Fatal(err)
	}
	rule, b := testSet(t).Rules()[0], &broker{}
	l := New(b, Options{Node: "n"})
	r := l.Open(ID{Domain: "d", Rule: rule.Name})
	for range 2 {
		for i, key := range []string{"ann", "bob", "ann"} {
			r.Decided(decision(rule, key, weir.Outcome(i%2+1)%2, 10), nil)
			r.Settled(&weir.Settlement{Receipt: &weir.Receipt{State: rule.State(key), Cost: 10}, Charged: int64(9 + 3*i)}, rule)
		}
		l.end(time.Now(), false)
	}
	l.Start()
	if err := l.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	lines := append(b.lines, b.lines...)
	want := rule.Name + "\tann\t48\n" + rule.Name + "\tbob\t4\n"
	if got := billedBySQL(t, string(page), lines); got != want {
		t.Errorf("the SQL of the page bills\n%s, want\n%s", got, want)
	}
	if got := billedByShell(t, string(page), lines); got != want {
		t.Errorf("the command of the page bills\n%s, want\n%s", got, want)
	}
}

// block is one of a page, by the word behind its fence and one in it.
func block(t *testing.T, page, kind, word string) string {
	t.Helper()
	for _, m := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		if strings.Contains(m[1], word) {
			return m[1]
		}
	}
	t.Fatalf("the page has no %s with %s", kind, word)
	return ""
}

func billedBySQL(t *testing.T, page string, lines []string) (bill string) {
	t.Helper()
	statements := strings.SplitAfter(block(t, page, "sql", "create table"), ";\n")
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "usage.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statements[0]); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		r, err := ParseRecord([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), statements[1], r.ID, r.Rows, r.From.Format(time.RFC3339Nano), r.Domain, r.Rule, r.Key,
			r.Allowed, r.Denied, r.Charged, r.GivenBack, r.ChargedMore); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := db.QueryContext(t.Context(), statements[2])
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var domain, rule, key string
		var events int64
		if err := rows.Scan(&domain, &rule, &key, &events); err != nil {
			t.Fatal(err)
		}
		bill += fmt.Sprintf("%s\t%s\t%d\n", rule, key, events)
	}
	return bill
}

func billedByShell(t *testing.T, page string, lines []string) string {
	t.Helper()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("jq is not installed")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "usage-n-1.jsonl"), []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", block(t, page, "sh", "jq"))
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

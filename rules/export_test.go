package rules_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/rules"
)

// meaning is all that rules say, without the files that they stand in.
func meaning(s *rules.Set) string {
	var b strings.Builder
	fmt.Fprintln(&b, s.Domains())
	for _, r := range s.Rules() {
		limit := "unlimited"
		if r.Limit != nil {
			limit = r.Limit.String()
		}
		c := *r
		c.Limit, c.File, c.Line, c.Column = nil, "", 0, 0
		fmt.Fprintf(&b, "%s %q %+v\n", limit, r.State("k"), c)
	}
	for _, w := range s.Warnings() {
		if strings.Contains(w.Text, "document") {
			continue // of what an export leaves out
		}
		fmt.Fprintln(&b, w.Text, w.Rule)
	}
	return b.String()
}

func again(t *testing.T, s *rules.Set) *rules.Set {
	t.Helper()
	text := s.Export()
	got, err := rules.ParseExport("export", text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if d := cmp.Diff(meaning(s), meaning(got)); d != "" {
		t.Fatalf("%s\nin\n%s", d, text)
	}
	if d := cmp.Diff(string(text), string(got.Export())); d != "" && !strings.HasPrefix(string(text), "...") {
		t.Fatal("the export of an export is another:\n" + d)
	}
	return got
}

// "`GET /v1/export` (rules in force, YAML, ETag)": who loads them again has the
// same rules, however the files are written.
func TestExport(t *testing.T) {
	const body = "domain: a\ndescriptors: [{key: k, value: '---', limits: [5/s burst 10]}]\n"
	units := utf16.Encode([]rune("\uFEFF" + body))
	var little []byte
	for _, u := range units {
		little = append(little, byte(u), byte(u>>8))
	}
	for _, text := range []string{
		body,
		strings.TrimSuffix(body, "\n"),
		"---\n" + body,
		"# head\n\n--- # of it\n" + body,
		"--- {domain: a, descriptors: [{key: k, limits: [1/s]}]}",
		"--- !!map\n" + body,
		body + "...\n# end",
		body + "---\n# nothing\n---\n",
		body + "---\n~\n",
		body + "---\ndomain: b\n",
		body + "...\n- [",
		"\uFEFF" + body,
		"%YAML 1.1\n---\n" + body,
		"%YAML 1.1\n# c\n--- # more\n" + body + "---\n",
		strings.ReplaceAll("---\n"+body, "\n", "\r\n"),
		strings.ReplaceAll("---\n"+body, "\n", "\r"),
		string(little),
		"domain: \"a\n  b\"\ndescriptors: &d\n- key: k\n  limits: &l [1/s]\n- {key: m, limits: *l}\n",
		"domain: a\n",
		"domain: a\ndescriptors: []",
		rules.DemoText,
	} {
		again(t, parse(t, text))
	}
	set, err := rules.Load(write(t, map[string]string{
		"a.yaml":   "# about a\n" + domainText("a"),
		"b #.yaml": "%YAML 1.1\n---\n" + domainText("b"),
		"c.yml":    "%YAML 1.1\n---\n" + domainText("c") + "...\n",
		"d.yaml":   "---\n" + domainText("d") + "---\n",
		"e.yaml":   "domain: e\ndescriptors: []",
	}))
	if err != nil {
		t.Fatal(err)
	}
	const want = `--- # a.yaml
# about a
domain: a
descriptors: [{key: a, limits: [1/s]}]
...
%YAML 1.1
---
domain: b
descriptors: [{key: a, limits: [1/s]}]
...
%YAML 1.1
---
domain: c
descriptors: [{key: a, limits: [1/s]}]
--- # d.yaml
# ---
domain: d
descriptors: [{key: a, limits: [1/s]}]
--- # e.yaml
domain: e
descriptors: []
`
	if d := cmp.Diff(want, string(set.Export())); d != "" {
		t.Error(d)
	}
	got := again(t, set)
	for i, r := range got.Rules() {
		if o := set.Rules()[i]; i != 1 && i != 2 && (r.File != "export#"+filepath.Base(o.File) || r.Line != o.Line || r.Column != o.Column) {
			t.Errorf("%s:%d:%d is %s:%d:%d", o.File, o.Line, o.Column, r.File, r.Line, r.Column)
		}
	}
}

// What an export begins to say wrong is told by file and line, all at once.
func TestParseExportErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":             "x:1:1: error: there are no rules",
		"# c\n---\n\n": "x:1:1: error: there are no rules",
		"--- # a.yaml\ndomain: a\n--- # b.yaml\n# c\ndomain: a\n--- # c.yaml\ndomian: c\n": "x#b.yaml:2:9: error: duplicate domain \"a\", also in x#a.yaml:1\n" +
			"x#c.yaml:1:1: error: unknown key \"domian\" in a rule file; did you mean domain?\nx#c.yaml:1:1: error: empty domain; write domain: NAME",
		"domain: a\n---\n{":                        "x#2:2:1: error: YAML: while parsing a flow node: did not find expected node content",
		strings.Repeat("---\ndomain: a\n", 10_001): "x:1:1: error: 10001 documents; there may be 10000",
		strings.Repeat("\n", rules.MaxFileSize+1):  "x:1:1: error: rules have at most 67108864 bytes, all together",
	} {
		_, err := rules.ParseExport("x", []byte(text))
		if _, ok := errors.AsType[*rules.Error](err); !ok || err.Error() != want {
			t.Errorf("%.50q:\n%v\nwant\n%s", text, err, want)
		}
	}
	// A document without a descriptors key is told as of a file.
	set, err := rules.ParseExport("x", []byte("--- # a.yaml\ndomain: a\n"))
	if err != nil || set.Complete() == nil {
		t.Error(err)
	}
}

// The text that a caller gave may change; the rules and their export do not.
func TestExportKeepsItsText(t *testing.T) {
	text := []byte(domainText("a"))
	set, err := rules.Parse("a.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	before := string(set.Export())
	clear(text)
	if d := cmp.Diff(before, string(set.Export())); d != "" {
		t.Error(d)
	}
}

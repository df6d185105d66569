package rules_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/rules"
)

var update = flag.Bool("update", false, "rewrite the findings in testdata")

// find parses text and gives all that is said of it.
func find(file string, text []byte) []rules.Finding {
	set, err := rules.Parse(file, text)
	if e, ok := errors.AsType[*rules.Error](err); ok {
		return e.Findings
	}
	if err != nil {
		panic(err) // Parse has no other errors
	}
	return set.Warnings()
}

// TestFindings holds each file of testdata/findings to the findings that stand
// below it.
func TestFindings(t *testing.T) {
	const mark = "-- findings --\n"
	files, err := filepath.Glob("testdata/findings/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			whole, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text, want, ok := strings.Cut(string(whole), mark)
			if !ok {
				t.Fatalf("no %q", mark)
			}
			var got strings.Builder
			for _, f := range find("rules.yaml", []byte(text)) {
				fmt.Fprintln(&got, f)
			}
			if *update {
				if err := os.WriteFile(name, []byte(text+mark+got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(want, got.String()); d != "" {
				t.Error("findings differ (-want +got), rewrite with -update:\n" + d)
			}
		})
	}
}

func TestFindingsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: shop\ndescriptors:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "- {key: k%d, limits: [0/s, x]}\n", i)
	}
	found := find("many.yaml", []byte(b.String()))
	count := map[rules.Severity]int{}
	for _, f := range found {
		count[f.Severity]++
	}
	want := map[rules.Severity]int{rules.SeverityError: rules.MaxFindings + 1, rules.SeverityWarning: rules.MaxFindings + 1}
	if d := cmp.Diff(want, count); d != "" {
		t.Error(d)
	}
	last := found[len(found)-1].String()
	if want := "many.yaml:1002:29: error: 900 more errors are not shown"; last != want {
		t.Errorf("last is %q, want %q", last, want)
	}
}

// A file that would take long, or much memory, is refused soon.
func TestBounds(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString("domain: shop\ndescriptors:\n- &d0 {key: a, metadata: {a: b}}\n")
	for i := 1; i < 15; i++ { // not too deep, but 7^15 descriptors
		fmt.Fprintf(&laughs, "- &d%d {key: k%d, descriptors: [*d%d, *d%d, *d%d, *d%d, *d%d, *d%d, *d%d]}\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	var merges strings.Builder
	merges.WriteString("domain: shop\ndescriptors:\n- &m0 {key: a, value: b}\n")
	for i := 1; i <= 65; i++ {
		fmt.Fprintf(&merges, "- &m%d {<<: *m%d, key: a, value: b%d}\n", i, i-1, i)
	}
	for _, c := range []struct{ name, text, want string }{
		{"billion laughs", laughs.String(), "there are over 2000000 keys and values"},
		{"cycle", "domain: a\ndescriptors: &d [{key: a, descriptors: *d}]", "or over 10000 levels"},
		{"cycle of one", "&a [*a]", "or over 10000 levels"},
		{"depth", strings.Repeat("[", 100_000), "exceeded max depth of 10000"},
		{"block depth", strings.Repeat("- ", 100_000), "exceeded max depth of 10000"},
		{"merges", merges.String(), "over 64 mappings take over keys from each other by <<"},
		{"nodes", "[" + strings.Repeat("a,", 3_000_000) + "]", "lines, keys and list items of the file are over 2000000"},
		{"lines", strings.Repeat("- a\n", 3_000_000), "lines, keys and list items of the file are over 2000000"},
		{"size", strings.Repeat("#", rules.MaxFileSize+1), "the file has 67108865 bytes; there may be 67108864"},
		{"long text", "domain: " + strings.Repeat("x", 5_000_000) + "\nx: y", "unknown key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			found := find("f", []byte(c.text))
			if len(found) != 1 || !strings.Contains(found[0].Text, c.want) {
				t.Errorf("found %.300v, want one that contains %q", found, c.want)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// Bytes that are no text have a position like any other fault.
func TestInvalidText(t *testing.T) {
	for text, want := range map[string]string{
		"domain: a\nx: \xff\n":      "f:2:4: error: YAML: invalid leading UTF-8 octet (value: 255)",
		"domain: é\x00\n":           "f:1:10: error: YAML: control characters are not allowed (value: 0)",
		"domain: 'a\n b'\nk\xe9y: ": "f:3:2: error: YAML: invalid trailing UTF-8 octet (value: 121)",
	} {
		found := find("f", []byte(text))
		if len(found) != 1 || found[0].String() != want {
			t.Errorf("%q: %v, want %s", text, found, want)
		}
	}
}

// Descriptors as deep as envoyproxy/ratelimit reads them are read. Those that no
// request can meet make no rules, however many there are.
func TestDeepFile(t *testing.T) {
	const levels = 4990
	text := "domain: shop\ndescriptors: " + strings.Repeat("[{key: k, limits: [1/s], descriptors: ", levels) +
		"[{key: same}, {key: same}]" + strings.Repeat("}]", levels)
	found := find("f", []byte(text))
	if len(found) != 2 || !strings.Contains(found[0].Text, "never matches: a request has at most 16 entries") ||
		!strings.Contains(found[1].Text, "duplicate descriptor") {
		t.Errorf("%v", found)
	}
	set, err := rules.Parse("f", []byte(strings.Replace(text, ", {key: same}", "", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(set.Rules()); n != rules.MaxEntries+1 {
		t.Errorf("%d rules, want %d", n, rules.MaxEntries+1)
	}
}

func TestFindingIsOneLine(t *testing.T) {
	found := find("f", []byte("domain: shop\ndescriptors:\n- key: a\n  ? |\n    b\n    c\n  : d\n"))
	if len(found) != 1 || strings.Contains(found[0].String(), "\n") {
		t.Errorf("%q", found)
	}
	err := &rules.Error{Findings: []rules.Finding{
		{File: "f", Line: 1, Column: 2, Text: "bad"},
		{File: "f", Line: 3, Column: 4, Severity: rules.SeverityWarning, Text: "odd"},
		{File: "f", Line: 5, Column: 6, Text: "worse", Rule: "a/b"},
	}}
	if want := "f:1:2: error: bad\nf:5:6: error: worse (rule a/b)"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

// Thousands of patterns that begin alike are not held against each other: that
// would take too long.
func TestCrowdIsNotCompared(t *testing.T) {
	text := func(n int) []byte {
		var b strings.Builder
		b.WriteString("domain: shop\ndescriptors:\n- {key: a, value: \"*\"}\n")
		for i := range n {
			fmt.Fprintf(&b, "- {key: a, value: \"*%d\"}\n", i)
		}
		return []byte(b.String())
	}
	if n := len(find("f", text(50))); n != 50 {
		t.Errorf("of a few patterns %d are hidden, want 50", n)
	}
	if n := len(find("f", text(2000))); n != 0 {
		t.Errorf("of many patterns %d were found hidden", n)
	}
}

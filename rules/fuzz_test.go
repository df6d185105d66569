package rules_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-limit/weir/rules"
)

// FuzzParse: whatever the text, Parse ends, each finding has a position, and
// each rule of a file that is accepted has a name, a limit and a place of its
// own, is met where it stands, and means the same after an export.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/findings/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		yaml, _, _ := strings.Cut(string(text), "-- findings --")
		f.Add([]byte(yaml))
	}
	f.Add([]byte(rules.DemoText))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > 1<<16 {
			return
		}
		set, err := rules.Parse("f", text)
		if err != nil {
			e, ok := errors.AsType[*rules.Error](err)
			if !ok || len(e.Findings) == 0 {
				t.Fatalf("%T: %v", err, err)
			}
			checkFindings(t, e.Findings)
			return
		}
		checkFindings(t, set.Warnings())
		if len(set.Domains()) != 1 {
			t.Fatalf("domains %q", set.Domains())
		}
		places := map[string]bool{}
		for _, r := range set.Rules() {
			if r.Name == "" || r.Limit == nil != r.Unlimited || r.Line < 1 || r.Column < 1 || len(r.Path) == 0 {
				t.Fatalf("%+v", r)
			}
			if place := r.State("").Rule; !r.Unlimited && places[place] {
				t.Fatalf("two rules at %q", place)
			} else {
				places[place] = true
			}
			d := rules.Descriptor{Entries: r.Path}
			if met, _ := set.Match(r.Domain, &d); len(r.Path) <= rules.MaxEntries && len(met) == 0 && !wild(r.Path) {
				t.Fatalf("%q meets nothing", r.Path)
			}
		}
		again(t, set)
	})
}

// wild is whether a path is no request to be sure of: a key alone stands behind
// patterns, and a pattern behind another.
func wild(path []rules.Entry) bool {
	for _, e := range path {
		if e.Value == "" || strings.Contains(e.Key+e.Value, "*") {
			return true
		}
	}
	return false
}

func checkFindings(t *testing.T, findings []rules.Finding) {
	t.Helper()
	line, column := 1, 1
	for _, f := range findings {
		if f.File != "f" || f.Line < line || f.Line == line && f.Column < column || f.Text == "" || strings.Contains(f.String(), "\n") {
			t.Fatalf("%+v after %d:%d", f, line, column)
		}
		line, column = f.Line, f.Column
	}
}

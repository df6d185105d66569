package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// project loads a project of such files.
func project(t *testing.T, files map[string]string) *program {
	t.Helper()
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "")
	dir := t.TempDir()
	files["go.mod"] = "module " + module + "\n\ngo 1.26.0\n"
	for name, text := range files {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p, err := load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestArrows: of four arrows the one runs against the order that goes back to a file that
// is not done.
func TestArrows(t *testing.T) {
	p := project(t, map[string]string{
		"a/first.go":  "package a\n\nfunc First() int { return second() + third() }\n\nconst limit = 3\n",
		"a/second.go": "package a\n\nfunc second() int { return third() + limit }\n",
		"a/third.go":  "package a\n\nfunc third() int { local := 1; return local }\n",
	})
	all, against := p.arrowsOf(p.of[module+"/a"]).count()
	if all != 4 || len(against) != 1 || !strings.HasSuffix(against[0][0], "second.go") || !strings.HasSuffix(against[0][1], "first.go") {
		t.Errorf("%d arrows, against the order %v", all, against)
	}
	var text strings.Builder
	if err := p.list(&text, "a"); err != nil || text.String() != "second.go → first.go: limit\n" {
		t.Errorf("%q %v", text.String(), err)
	}
	text.Reset()
	if p.printArrows(&text, 1); !strings.Contains(text.String(), "       1    25%      4      3  a\n") {
		t.Error(text.String())
	}
}

// TestWalk: a walk opens a file for each function that is given something of the request
// and calls others. Side exits, functions that get nothing of it and those that call nothing
// are not opened.
func TestWalk(t *testing.T) {
	p := project(t, map[string]string{
		"a/a.go": `package a

import "github.com/weir-limit/weir/b"

func Serve(request string) string {
	if request == "" {
		return exit(request)
	}
	setUp()
	text := b.Read(request)
	again(text)
	return b.Read(text)
}

func write(text string) string { return leaf(text) }

func leaf(text string) string { return text }
`,
		"a/side.go": `package a

func exit(text string) string { return write(text) }

func setUp() { write("") }

func again(text string) { write(text) }
`,
		"b/b.go":    "package b\n\nfunc Read(text string) string { return parse(text) }\n\nfunc leaf() {}\n",
		"b/leaf.go": "package b\n\nfunc parse(text string) string { leaf(); return text }\n",
	})
	var text strings.Builder
	if err := p.printWalks(&text, []route{{"it", []string{"a.Serve"}}}); err != nil {
		t.Fatal(err)
	}
	want := `
it: 4 files, 5 opens, 2 of one file at most, 1 returns upward
  a/a.go
  b/b.go
  b/leaf.go
  a/side.go
  a/a.go
  upward: a/side.go → a/a.go (write)
`
	if text.String() != want {
		t.Error(text.String())
	}
	if err := p.printWalks(&text, []route{{"it", []string{"a.None"}}}); err == nil {
		t.Error("a walk begins at a function that there is not")
	}
}

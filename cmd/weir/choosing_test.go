package main

import (
	"bytes"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/browsertest"
	"github.com/weir-limit/weir/cmd/weir/internal/lesson"
)

// The page for newcomers, the one of simulations, and their pictures.
const (
	choosingPage   = "../../docs/choosing.md"
	simulatePage   = "../../docs/simulate.md"
	choosingFolder = "../../docs/pictures"
)

// simulated are the pictures of the pages that a command draws: NAME-PICTURE.svg, or
// PICTURE.svg where there is no name.
var simulated = []struct{ name, command, pictures string }{
	{"usual", "weir simulate", "believed attacks"},
	{"closer", "weir simulate --limit '100/min sliding-window' --limit '100/min sliding-window 4' --limit '100/min sliding-window 12'", "errors"},
	{"edge", "weir simulate --limit '100/min fixed-window' --limit '100/min sliding-log' --workload edge", "within"},
	{"retry", "weir simulate --limit '100/min fixed-window' --limit 100/min --limit '100/min leaky-queue' --workload retrying", "decided"},
	{"all", "weir simulate --all", "memory periods"},
	{"modes", "weir simulate cluster --sharing mesh,gossip,divided", "cluster"},
	{"log", "weir simulate cluster --load 1,2,5,10,20,50 --log-rate 300 --nodes 2,5,20 --sharing log", "lag"},
	{"", "weir simulate --all", "lesson-bucket lesson-gcra lesson-sub-windows lesson-queue lesson-warm-up"},
}

// permitsCommand draws the lesson about permits, which can't be simulated.
const permitsCommand = "make docs-pictures"

// TestDocsPictures draws the pictures of docs/choosing.md and docs/simulate.md again and compares them
// byte for byte. With -update it writes them, and takes away those that are no
// longer shown. Each must stand on a page, above the command that draws it.
func TestDocsPictures(t *testing.T) {
	page, err := os.ReadFile(choosingPage)
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile(simulatePage)
	if err != nil {
		t.Fatal(err)
	}
	page = append(page, more...)
	drawn, by := drawPictures(t)
	for name, svg := range drawn {
		shown := regexp.MustCompile(`(?m)^!\[[^\]]{40,}\]\(pictures/` + regexp.QuoteMeta(name) + "\\)\n\n`" + regexp.QuoteMeta(by[name]) + "`$")
		if !shown.Match(page) {
			t.Errorf("no page shows %s with its words, and then `%s`", name, by[name])
		}
		if title := html.EscapeString(by[name]) + "</title>"; !bytes.Contains(svg, []byte(title)) {
			t.Errorf("the title of %s does not end with %s", name, title)
		}
		file := filepath.Join(choosingFolder, name)
		if *update {
			if err := os.WriteFile(file, svg, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if kept, err := os.ReadFile(file); err != nil || !bytes.Equal(kept, svg) {
			t.Errorf("%s is not what `%s` draws (%v); draw it again with make docs-pictures, and look at it", file, by[name], err)
		}
	}
	files, err := filepath.Glob(filepath.Join(choosingFolder, "*.svg")) // a browser takes the others
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if drawn[filepath.Base(file)] != nil {
			continue
		}
		if !*update {
			t.Errorf("%s is not drawn by anything", file)
		} else if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}

// drawPictures draws all pictures of the page, and says by which commands.
func drawPictures(t *testing.T) (drawn map[string][]byte, by map[string]string) {
	t.Helper()
	drawn, by = map[string][]byte{}, map[string]string{}
	for _, s := range simulated {
		folder := t.TempDir()
		words := append(shellWords(t, s.command)[1:], "--svg", folder)
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), words, strings.NewReader(""), &stdout, &stderr); code != exitYes {
			t.Fatalf("%s: exit %d, %s", s.command, code, stderr.String())
		}
		for picture := range strings.FieldsSeq(s.pictures) {
			svg, err := os.ReadFile(filepath.Join(folder, picture+".svg"))
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimPrefix(s.name+"-", "-") + picture + ".svg"
			drawn[name], by[name] = svg, s.command
		}
	}
	for _, p := range lesson.Pictures(weir.Concurrent) {
		p.Command = permitsCommand
		drawn[p.Name+".svg"], by[p.Name+".svg"] = p.SVG(), permitsCommand
	}
	return drawn, by
}

// TestDocsPicturesInBrowser looks at the pictures as they are in the repository.
func TestDocsPicturesInBrowser(t *testing.T) {
	t.Parallel()
	browser := browsertest.Start(t)
	files, err := filepath.Glob(filepath.Join(choosingFolder, "*.svg"))
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	page := []byte("<!doctype html><meta charset=utf-8><title>pictures</title><meta name=viewport content='width=device-width'><style>body{margin:16px}</style>")
	for _, file := range files {
		svg, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		page = append(page, svg...)
	}
	file := filepath.Join(t.TempDir(), "pictures.html")
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range browsertest.Views() {
		if !v.Dark { // colours change no sizes
			browser.OpenFile(t, v, file).Inspect(t, "docs-pictures")
		}
	}
}

// TestChoosingAdvice: what the page says to take can be taken.
func TestChoosingAdvice(t *testing.T) {
	page, err := os.ReadFile(choosingPage)
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| (`.*`) \\| [^|]+ \\|$").FindAllSubmatch(page, -1)
	if len(rows) < 8 {
		t.Errorf("found %d pieces of advice", len(rows))
	}
	for _, row := range rows {
		for _, text := range regexp.MustCompile("`([^`]+)`").FindAllSubmatch(row[1], -1) {
			if _, err := weir.ParseLimit(string(text[1])); err != nil {
				t.Errorf("%s: %v", text[1], err)
			}
		}
	}
}

// TestChoosingPage runs the console sessions of the page again.
func TestChoosingPage(t *testing.T) { testPage(t, choosingPage, 2) }

// shellWords are the words of a command, of which some may stand in single quotes.
func shellWords(t *testing.T, command string) []string {
	t.Helper()
	words := regexp.MustCompile(`'[^']*'|[^\s']+`).FindAllString(command, -1)
	for i, w := range words {
		words[i] = strings.Trim(w, "'")
	}
	return words
}

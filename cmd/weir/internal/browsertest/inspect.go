package browsertest

import (
	_ "embed"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// inspect.js finds what is wrong with how a page looks.
//
//go:embed inspect.js
var inspect string

// Inspect fails the test for each complaint in the console, for a page that is
// wider than its screen, for text that is smaller than 11 pixels, stands outside of
// its picture, on other text or where a line goes, and for lines that lead to names
// and cross. It saves what it saw, under this name,
// where [EnvScreenshots] says.
func (p *Page) Inspect(t testing.TB, name string) {
	t.Helper()
	for _, fault := range Do(t, p, chromedp.Evaluate[[]string](inspect)) {
		t.Errorf("%s at %s: %s", name, p.view, fault)
	}
	for _, complaint := range p.Complaints() {
		t.Errorf("%s at %s: the console has %s", name, p.view, complaint)
	}
	folder := os.Getenv(EnvScreenshots)
	if folder == "" {
		return
	}
	png := Do(t, p, chromedp.FullScreenshot(100))
	if err := os.WriteFile(filepath.Join(folder, name+"-"+p.view.String()+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

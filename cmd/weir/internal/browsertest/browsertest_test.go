package browsertest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/weir-limit/weir/cmd/weir/internal/browsertest"
)

// ears is a test that only listens to what is said of it.
type ears struct {
	testing.TB
	heard []string
}

func (e *ears) Helper() {}

func (e *ears) Errorf(format string, args ...any) {
	e.heard = append(e.heard, fmt.Sprintf(format, args...))
}

// TestInspect shows pages that are wrong in one way each, and one that is right.
func TestInspect(t *testing.T) {
	t.Parallel()
	browser := browsertest.Start(t)
	for _, c := range []struct{ name, body, want string }{
		{"right", `<p>fine</p><svg viewBox="0 0 100 40" width="300"><text x="10" y="20" font-size="10">a</text></svg>`, ""},
		{"wide", `<p style="width:2000px">wide</p>`, "the page is 2"},
		{"small", `<p style="font-size:10px">tiny</p>`, `"tiny" is 10.0 px small`},
		{"shrunken", `<svg viewBox="0 0 1000 400" width="300"><text x="10" y="200" font-size="20">shrunken</text></svg>`, `"shrunken" is 6.0 px small`},
		{"outside", `<svg viewBox="0 0 100 40" width="300"><text x="95" y="20" font-size="10">outside</text></svg>`, `"outside" stands outside of its picture`},
		{"onto", `<svg viewBox="0 0 100 40" width="300"><text x="10" y="20" font-size="10">one</text><text x="12" y="22" font-size="10">two</text></svg>`, `"one" and "two" stand on each other`},
		{"hidden", `<svg viewBox="0 0 100 40" width="300"><text x="10" y="20" font-size="10">one</text><g style="display:none"><text x="12" y="22" font-size="2">two</text></g></svg>`, ""},
		{"loud", `<script>console.error("a complaint")</script>`, "a complaint"},
		{"broken", `<script>nothing.here()</script>`, "nothing is not defined"},
		{"refused", `<meta http-equiv="Content-Security-Policy" content="default-src 'none'"><script>1</script>`, "Content Security Policy"},
	} {
		file := filepath.Join(t.TempDir(), c.name+".html")
		if err := os.WriteFile(file, []byte("<!doctype html><title>x</title>"+c.body), 0o600); err != nil {
			t.Fatal(err)
		}
		e := &ears{TB: t}
		browser.OpenFile(t, browsertest.Views()[2], file).Inspect(e, c.name)
		switch heard := strings.Join(e.heard, "\n"); {
		case c.want == "" && heard != "":
			t.Errorf("%s: nothing is wrong, but it said %s", c.name, heard)
		case !strings.Contains(heard, c.want):
			t.Errorf("%s: it said %q, without %q", c.name, heard, c.want)
		}
	}
}

func TestViews(t *testing.T) {
	t.Parallel()
	browser := browsertest.Start(t)
	for _, v := range browsertest.Views() {
		p := browser.Open(t, v, "data:text/html,<button onclick='this.textContent=innerWidth+(matchMedia(`(prefers-color-scheme:dark)`).matches?`-dark`:`-light`)'>?</button>")
		browsertest.Do(t, p, chromedp.Click("button"))
		if got := browsertest.Do(t, p, chromedp.Text("button")); got != v.String() {
			t.Errorf("a page in view %s believes to be in %s", v, got)
		}
	}
}

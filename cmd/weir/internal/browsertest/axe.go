package browsertest

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// axeFaults runs axe-core and makes a sentence of each of its findings.
const axeFaults = `axe.run(document).then((found) => found.violations.flatMap((v) =>
	v.nodes.map((n) => v.impact + " " + v.id + ": " + v.help + ": " + n.target.join(" ") + ": " + n.html.slice(0, 160))))`

// Accessible fails the test for all that axe-core finds wrong for people who don't
// see the page, or use it by keyboard. script is the file of axe-core.
func (p *Page) Accessible(t testing.TB, name, script string) {
	t.Helper()
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	Do(t, p, chromedp.Evaluate[any](string(text)+"; null"))
	for _, fault := range Do(t, p, chromedp.Evaluate[[]string](axeFaults, chromedp.EvalAwaitPromise)) {
		t.Errorf("%s at %s: %s", name, p.view, fault)
	}
}

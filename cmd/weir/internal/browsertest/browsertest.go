// Package browsertest opens pages in a headless Chromium for tests, as wide as a
// desk's screen and as a phone, light and dark, and looks for what is ugly there.
package browsertest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const (
	// Env names the browser to use, in place of a Chromium that is found by name.
	Env = "WEIR_TEST_BROWSER"
	// EnvScreenshots names a folder for a picture of each page that Inspect sees.
	EnvScreenshots = "WEIR_TEST_SCREENSHOTS"
	// Site is a name that browsers take for this machine. As with names of the Internet, what comes
	// from there without TLS is not trusted.
	Site = "limits.example.com"
)

// patience is how long a page may take for one thing. It is long because machines
// that test are busy, and may stand still for a while.
const patience = 3 * time.Minute

// Browser is a Chromium without a window, with an empty profile of its own.
type Browser struct{ ctx context.Context }

// View is what a page is looked at on.
type View struct {
	Width, Height int64 // CSS pixels
	Dark          bool  // the user prefers dark pages
}

// Views are a desk's screen and a phone, each light and dark.
func Views() []View {
	return []View{{1280, 900, false}, {1280, 900, true}, {390, 844, false}, {390, 844, true}}
}

// String is the view as "1280-light".
func (v View) String() string {
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	return strconv.FormatInt(v.Width, 10) + "-" + scheme
}

// Start starts a browser that ends with the test. It skips the test, and says so,
// when there is none.
func Start(t testing.TB) *Browser {
	t.Helper()
	options := append(
		slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(find(t)),
		chromedp.DisableGPU, chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP "+Site+" 127.0.0.1"), chromedp.Flag("ignore-certificate-errors", true), // of a certificate that a test made
	)
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root can't have
	}
	allocator, end := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(end)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal("start a browser: ", err)
	}
	return &Browser{ctx}
}

// find is the path of a browser.
func find(t testing.TB) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "chrome"}
	if name := os.Getenv(Env); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium: apt-get install chromium, or set " + Env + "=PATH")
	return ""
}

// Page is a page in a tab of its own.
type Page struct {
	// Context is the tab's, for actions of chromedp.
	Context context.Context
	view    View

	mu       sync.Mutex
	messages []string
}

// Open opens an address in a new tab, which is closed with the test.
func (b *Browser) Open(t testing.TB, v View, url string) *Page {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	p := &Page{Context: ctx, view: v}
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatal("open a tab: ", err)
	}
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media); err != nil {
		t.Fatal("set the colour scheme: ", err)
	}
	Do(t, p, chromedp.EmulateViewport(v.Width, v.Height))
	Do(t, p, chromedp.Navigate(url))
	return p
}

// OpenFile is Open for a file.
func (b *Browser) OpenFile(t testing.TB, v View, path string) *Page {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return b.Open(t, v, "file://"+filepath.ToSlash(path))
}

// Zone sets the time zone of the page's reader, as of its next load.
func (p *Page) Zone(t testing.TB, zone string) {
	t.Helper()
	if _, err := chromedp.Call(p.Context, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: zone}); err != nil {
		t.Fatal(err)
	}
}

// Do does one thing on the page, such as chromedp.Click("#save"), and gives what
// comes of it. The test ends when that fails or takes minutes.
func Do[T any](t testing.TB, p *Page, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.Context, patience)
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil && !errors.Is(err, chromedp.ErrJSUndefined) {
		t.Fatal(err)
	}
	return result
}

// hear remembers what a page complains about.
func (p *Page) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.messages = append(p.messages, string(e.Entry.Level)+": "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			var text strings.Builder
			text.WriteString(string(e.Type) + ":")
			for _, a := range e.Args {
				text.WriteString(" " + string(a.Value) + a.Description)
			}
			p.messages = append(p.messages, text.String())
		}
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		p.messages = append(p.messages, text)
	}
}

// Complaints are the errors and warnings that the page has put into the console
// until now, uncaught exceptions and refused resources among them.
func (p *Page) Complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.messages)
}

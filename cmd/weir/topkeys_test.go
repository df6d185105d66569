package main

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
)

func TestKeysOf(t *testing.T) {
	for sent, want := range map[string][]topKey{
		"":                        nil,
		"q":                       {"q"},
		"ab":                      {"a", "b"},
		"\x1b":                    {keyEscape},
		"\x1b[A\x1b[B\x1bOA":      {keyUp, keyDown, keyUp},
		"\x1b[5~\x1b[6~\x1b[H":    {keyPageUp, keyPageDown, keyHome},
		"\x1b[1;5C":               nil,
		"\x1b[":                   nil,
		"\r\x7f\x03\x15":          {keyEnter, keyBackspace, keyQuit, keyClear},
		"é東":                      {"é", "東"},
		"\xff\x00\u202e\ufffd":    nil,
		"\x1b[200~q":              {"q"},
		"/a\r":                    {"/", "a", keyEnter},
		"\x1bq":                   {keyEscape, "q"},
		"\x1b[Z" + "\x1b[F" + "s": {keyEnd, "s"},
	} {
		if got := keysOf([]byte(sent)); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", sent, got, want)
		}
	}
}

var control = regexp.MustCompile("\x1b\\[[0-9;]*m")

// screenOf is what people see of a view.
func screenOf(v *topView) string {
	return control.ReplaceAllString(strings.NewReplacer(homeCursor, "", clearLine, "", clearBelow, "", "\r", "").Replace(v.screen()), "")
}

// TestTopKeys: what keys make of a view.
func TestTopKeys(t *testing.T) {
	const user, export, address, fresh = "shop/user ", "shop/path=/export", "shop/remote_address", "shop/new"
	for name, c := range map[string]struct {
		keys       string
		order      []string // rules in their order
		has, hasnt []string
		quit, asks bool
	}{
		"nothing pressed":    {"", []string{user, export, address, fresh}, []string{"ann", "s sort: denied lately"}, []string{"paused"}, false, false},
		"quit":               {"q", nil, nil, nil, true, false},
		"^C while typing":    {"/ab\x03", nil, nil, nil, true, false},
		"q is text there":    {"/q", nil, []string{"filter: q", `no rule or client has "q" in its name`}, nil, false, false},
		"pause":              {" ", []string{user, export}, []string{"paused"}, nil, false, false},
		"go on":              {"  ", []string{user, export}, nil, []string{"paused"}, false, true},
		"sort by denied":     {"s", []string{user, export, address, fresh}, []string{"s sort: denied/s"}, nil, false, false},
		"sort by passed":     {"ss", []string{user, export, address, fresh}, []string{"s sort: passed/s"}, nil, false, false},
		"sort by name":       {"sss", []string{fresh, export, address, user}, []string{"s sort: name"}, nil, false, false},
		"sort as before":     {"ssss", []string{user, export, address, fresh}, []string{"s sort: denied lately"}, nil, false, false},
		"a rule":             {"/EXPORT\r", []string{export}, []string{"/ filter: EXPORT"}, []string{user, "ann"}, false, false},
		"a client":           {"/tower\r", []string{user}, []string{"東京 tower"}, []string{"ann", export}, false, false},
		"text corrected":     {"/anx\x7fn\r", []string{user}, []string{"ann"}, nil, false, false},
		"text dropped":       {"/ann\x1b", []string{user, export, address, fresh}, nil, []string{"/ filter:"}, false, false},
		"dropped afterwards": {"/ann\r\x1b", []string{user, export, address, fresh}, nil, []string{"/ filter:"}, false, false},
		"only one":           {"j\r", []string{user, export}, []string{"escape all rules"}, nil, false, true},
		"all again":          {"j\r\x1b", []string{user, export}, nil, []string{"escape all rules"}, false, true},
		"without clients":    {"c", []string{user, export}, nil, []string{"ann", "tower"}, false, false},
		"help":               {"?", nil, []string{"pause, and go on", "any key goes back"}, []string{user}, false, false},
		"help is left":       {"?s", []string{user, export}, []string{"denied lately"}, []string{"pause, and go on"}, false, false},
		"a key of nothing":   {"x\x1b[Z", []string{user, export}, nil, nil, false, false},
		"no further up":      {"kkk\x1b[5~", []string{user, export}, nil, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := testView()
			v.keys, v.width, v.height = true, 100, 24
			quit, asks := false, false
			for _, key := range keysOf([]byte(c.keys)) {
				quit, asks = v.press(key)
			}
			if quit != c.quit || asks != c.asks {
				t.Errorf("quit %t, asks %t", quit, asks)
			}
			screen := screenOf(&v)
			at := 0
			for _, rule := range c.order {
				i := strings.Index(screen[at:], rule)
				if i < 0 {
					t.Fatalf("%s is not there, or before:\n%s", rule, screen)
				}
				at += i
			}
			for _, text := range c.has {
				if !strings.Contains(screen, text) {
					t.Errorf("there is no %q:\n%s", text, screen)
				}
			}
			for _, text := range c.hasnt {
				if strings.Contains(screen, text) {
					t.Errorf("there is %q:\n%s", text, screen)
				}
			}
		})
	}
	v := testView()
	v.keys = true
	v.press("j")
	v.press(keyEnter)
	if v.only.domain != "shop" || !strings.HasPrefix(v.only.rule, export) {
		t.Errorf("chosen: %v", v.only)
	}
	for range 100 {
		v.press("/")
		v.press("語")
	}
	if len(v.filter) > maxFilter {
		t.Errorf("a filter of %d bytes", len(v.filter))
	}
}

// TestTopChosen: on a terminal of any size the chosen rule is on the screen, with the foot, no line is wrapped, and
// colours change nothing but the colour.
func TestTopChosen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := testView()
		v.keys = true
		v.width, v.height = rapid.IntRange(20, 200).Draw(t, "width"), rapid.IntRange(leastFoot, 16).Draw(t, "height")
		if rapid.Bool().Draw(t, "away") {
			v.away = "nobody is there"
		}
		for _, key := range rapid.SliceOf(rapid.SampledFrom([]topKey{keyUp, keyDown, keyPageUp, keyPageDown, keyHome, keyEnd, "s", "c", "?"})).Draw(t, "keys") {
			v.press(key)
		}
		plain := v.screen()
		v.colours = true
		if got := control.ReplaceAllString(v.screen(), ""); got != control.ReplaceAllString(plain, "") {
			t.Fatalf("colours change the text:\n%q\n%q", got, plain)
		}
		if regexp.MustCompile("\x1b\\[[34][0-9]m").MatchString(plain) {
			t.Fatalf("colours that nobody wants: %q", plain)
		}
		lines := strings.Split(screenOf(&v), "\n")
		if len(lines) != v.height {
			t.Fatalf("%d lines on %d", len(lines), v.height)
		}
		for _, line := range lines {
			if w := uniseg.StringWidth(line); w > v.width {
				t.Fatalf("%d columns on %d: %q", w, v.width, line)
			}
		}
		if v.helping {
			return
		}
		if !strings.Contains(v.screen(), "\x1b["+string(styleChosen)+"m") {
			t.Fatalf("the chosen rule is not on the screen:\n%s", screenOf(&v))
		}
	})
}

// TestTopWatchKeys: keys are heard at once, and one that asks for a rule asks the daemon.
func TestTopWatchKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		d := &daemonAt{target: "http://weir.example/v1/top", client: &http.Client{Transport: answering(func(r *http.Request) (*httpapi.Top, error) {
			asked = append(asked, r.URL.RawQuery)
			return &httpapi.Top{At: time.Now(), Rules: []httpapi.TopRule{{Passed: 1}}}, nil
		})}}
		o := &top{clients: 5}
		v := topView{daemon: d}
		var err error
		if v.now, _, _, err = o.ask(t.Context(), d, topRule{}); err != nil {
			t.Fatal(err)
		}
		keys := make(chan topKey)
		done := make(chan error, 1)
		var screen strings.Builder
		go func() {
			done <- o.watch(context.Background(), v, &screen, keys, func() (int, int, error) { return 80, 24, nil })
		}()
		keys <- " "
		time.Sleep(3 * topEvery)
		synctest.Wait()
		if len(asked) != 1 {
			t.Errorf("asked while it is paused: %q", asked)
		}
		keys <- " "
		keys <- keyEnter
		keys <- "q"
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := []string{"n=5", "n=5", "domain=shop&n=100&rule=shop%2Fuser"}; !slices.Equal(asked, want) {
			t.Errorf("asked %q, want %q", asked, want)
		}
		if !strings.HasSuffix(screen.String(), leaveScreen) || !strings.Contains(screen.String(), "paused") {
			t.Errorf("%q", screen.String())
		}
	})
}

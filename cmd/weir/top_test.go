package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"github.com/weir-limit/weir/cmd/weir/internal/httpapi"
)

// answers are two of a daemon, two seconds apart.
func answers() (before, now *httpapi.Top) {
	at := time.Date(2026, 11, 22, 3, 4, 5, 0, time.UTC)
	rule := func(name, limit string, passed, denied int64, clients httpapi.TopClients) httpapi.TopRule {
		return httpapi.TopRule{
			TrafficRule: httpapi.TrafficRule{Domain: "shop", Rule: name, Limit: limit}, Since: at.Add(-time.Hour),
			Passed: passed, Denied: denied, Clients: clients,
		}
	}
	rules := func(more int64) []httpapi.TopRule {
		shadow := rule("shop/remote_address", "100/min sliding-window 6", 0, 0, httpapi.TopClients{})
		shadow.Shadow = true
		began := rule("shop/new", "", 3, 0, httpapi.TopClients{})
		began.Since = at.Add(time.Duration(more))
		return []httpapi.TopRule{
			rule("shop/user", "10/s burst 20", 1000+more, 500+more/3, httpapi.TopClients{Denied: 480, Missed: 2, Others: 3, Top: []httpapi.TopClient{
				{Key: "ann", Denied: 400}, {Key: "東京 tower", Denied: 70, Error: 3}, {Key: "evil\x1b[2J\u202e\xff", Denied: 7, Error: 3}, {Key: "", Denied: 3, Error: 3},
			}}),
			rule("shop/path=/export/a/path/that/is/longer/than/a/terminal/*/user", "5/h fixed-window", 77, 0, httpapi.TopClients{}),
			shadow, began,
		}
	}
	return &httpapi.Top{At: at, Rules: rules(0)}, &httpapi.Top{At: at.Add(2 * time.Second), Rules: rules(25), Omitted: 12}
}

func testView() topView {
	before, now := answers()
	return topView{daemon: &daemonAt{target: "http://127.0.0.1:8082/v1/top"}, before: before, now: now}
}

// TestTopView holds what is drawn to testdata/top.golden; with -update it is
// written there, to be looked at.
func TestTopView(t *testing.T) {
	v := testView()
	var got bytes.Buffer
	fmt.Fprintf(&got, "# --once\n%s", v.text())
	v.away = "ask the daemon: connection refused"
	for _, c := range []struct{ width, height int }{{80, 24}, {50, 8}, {16, 3}} {
		v.width, v.height = c.width, c.height
		screen := strings.NewReplacer(homeCursor, "", clearLine, "|", clearBelow, "", "\r", "").Replace(control.ReplaceAllString(v.screen(), ""))
		fmt.Fprintf(&got, "\n# %d × %d\n%s\n", c.width, c.height, screen)
	}
	name := filepath.Join("testdata", "top.golden")
	if *update {
		if err := os.WriteFile(name, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got.String()); d != "" {
		t.Error(d)
	}
}

// TestTopFits: whatever names there are and however small the terminal, no line
// is wrapped, none is lost below, and nothing but weir speaks to the terminal.
func TestTopFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := testView()
		v.width, v.height = rapid.IntRange(1, 200).Draw(t, "width"), rapid.IntRange(1, 12).Draw(t, "height")
		v.away, v.note = rapid.String().Draw(t, "away"), rapid.String().Draw(t, "note")
		for i := range v.now.Rules {
			r := &v.now.Rules[i]
			r.Rule = rapid.String().Draw(t, "rule")
			r.Clients.Denied = rapid.Int64Min(0).Draw(t, "denied")
			r.Clients.Top = []httpapi.TopClient{{Key: rapid.String().Draw(t, "key"), Denied: rapid.Int64Min(0).Draw(t, "of it"), Error: rapid.Int64Min(0).Draw(t, "error")}}
		}
		screen, ok := strings.CutPrefix(control.ReplaceAllString(v.screen(), ""), homeCursor)
		if !ok || !strings.HasSuffix(screen, clearLine+clearBelow) {
			t.Fatalf("%q", screen)
		}
		lines := strings.Split(strings.TrimSuffix(screen, clearLine+clearBelow), clearLine+"\r\n")
		if len(lines) > v.height {
			t.Fatalf("%d lines on %d", len(lines), v.height)
		}
		for _, line := range lines {
			if w := uniseg.StringWidth(line); w > v.width {
				t.Fatalf("%d columns on %d: %q", w, v.width, line)
			}
			if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
				t.Fatalf("%q", line[i:])
			}
		}
	})
}

// answering answers as a daemon did.
type answering func(*http.Request) (*httpapi.Top, error)

func (f answering) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := f(r)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(`{"at":%q,"rules":[{"domain":"shop","rule":"shop/user","since":"2026-11-22T00:00:00Z","passed":%d,"denied":0,"clients":{"top":[]}}]}`,
		answer.At.Format(time.RFC3339Nano), answer.Rules[0].Passed)
	h := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: h, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// TestTopOfAll: with --all-nodes the clients of all nodes stand below their rules, those that were denied last first, with what nodes did
// not tell, and nothing is said of what passes.
func TestTopOfAll(t *testing.T) {
	line := []byte(`{"at":"2026-11-22T03:04:05Z","nodes":["a","b"],"silent":["c\u001b[2J"],"clients":[
		{"domain":"shop","rule":"shop/user","limit":"5/s","key":"ann","denied":9,"error":2},{"domain":"shopper","rule":"shop/user","key":"zoe","denied":1},
		{"domain":"shop","rule":"shop/path","key":"/a","denied":5},{"domain":"shop","rule":"shop/user","limit":"5/s","key":"bob","denied":4}]}`)
	o := top{all: true, clients: 1, domain: "shop"}
	answer, note, err := o.ofAll(line, topRule{domain: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	v := topView{daemon: &daemonAt{target: "http://127.0.0.1:8082/v1/limited"}, before: answer, now: answer, note: note, all: true}
	want := `weir top  127.0.0.1:8082  03:04:05 UTC  2 rules, 2 denied lately
not told by c\x1b[2J
RULE, ITS CLIENTS                                                 PASSED/s  DENIED/s   DENIED LATELY
shop/user  5/s                                                                                    13
  ann                                                                                           9 ±2
shop/path                                                                                          5
  /a                                                                                               5
`
	if d := cmp.Diff(want, v.text()); d != "" {
		t.Error(d)
	}
	if answer, _, err = o.ofAll(line, topRule{"shop", "shop/user"}); err != nil || len(answer.Rules) != 1 || len(answer.Rules[0].Clients.Top) != 2 {
		t.Errorf("%+v %v", answer, err)
	}
	if answer, _, err = o.ofAll([]byte(`{"at":"2026-11-22T03:04:05Z","clients":[]}`), topRule{}); err != nil {
		t.Fatal(err)
	}
	v.now = answer
	if text := v.text(); !strings.Contains(text, "no client was denied in the last minute") {
		t.Error(text)
	}
}

// TestTopWatch: the screen is taken and given back, follows the daemon and the
// size of the terminal, and bears that the daemon goes away.
func TestTopWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, away := int64(0), false
		d := &daemonAt{target: "http://weir.example/v1/top", client: &http.Client{Transport: answering(func(r *http.Request) (*httpapi.Top, error) {
			if r.URL.RawQuery != "domain=shop&n=7&rule=shop%2Fuser" {
				t.Error(r.URL.RawQuery)
			}
			if away {
				return nil, errors.New("nobody is there")
			}
			asked++
			return &httpapi.Top{At: time.Now(), Rules: []httpapi.TopRule{{Passed: asked * asked * 10}}}, nil
		})}}
		ctx, cancel := context.WithCancel(t.Context())
		width := 80
		var screen bytes.Buffer
		done := make(chan error, 1)
		o := &top{domain: "shop", rule: "shop/user", clients: 7}
		go func() {
			v := topView{daemon: d}
			var err error
			if v.now, _, _, err = o.ask(ctx, d, topRule{}); err != nil {
				done <- err
				return
			}
			done <- o.watch(ctx, v, &screen, nil, func() (int, int, error) { return width, 24, nil })
		}()
		frame := func(wait time.Duration) string {
			screen.Reset()
			time.Sleep(wait)
			synctest.Wait()
			return screen.String()
		}
		if got := frame(topLook / 2); !strings.HasPrefix(got, enterScreen+homeCursor) || !strings.Contains(got, "weir.example") {
			t.Errorf("at first: %q", got)
		}
		if got := frame(topEvery - topLook); got != "" {
			t.Errorf("drawn without news: %q", got)
		}
		if got := frame(topLook); !strings.Contains(got, " 15.0 ") { // from 10 to 40 in two seconds
			t.Errorf("after two seconds: %q", got)
		}
		width = 70
		if got := frame(topLook); strings.Count(got, homeCursor) != 1 || !strings.Contains(got, " 15.0 ") {
			t.Errorf("after a change of size: %q", got)
		}
		away = true
		if got := frame(topEvery); !strings.Contains(got, "nobody is there") || !strings.Contains(got, " 15.0 ") {
			t.Errorf("the daemon is away: %q", got)
		}
		away = false
		if got := frame(topEvery); strings.Contains(got, "nobody is there") || !strings.Contains(got, " 12.5 ") { // from 40 to 90 in four
			t.Errorf("the daemon is back: %q", got)
		}
		screen.Reset()
		cancel()
		if err := <-done; err != nil || screen.String() != leaveScreen {
			t.Errorf("in the end: %v, %q", err, screen.String())
		}
	})
}

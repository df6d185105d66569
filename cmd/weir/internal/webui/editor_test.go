package webui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/weir-limit/weir/cmd/weir/internal/browsertest"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// writer is somebody at an editor.
type writer struct {
	*browsertest.Page

	url string
}

// writer signs in and opens the editor of a new rule.
func (h *house) writer(t *testing.T, b *browsertest.Browser, view browsertest.View) writer {
	t.Helper()
	_, token := h.token(t, "ann", rulestore.Admin, rulestore.AllTeams)
	w := writer{b.Open(t, view, h.url+"/ui/sign-in"), h.url}
	browsertest.Do(t, w.Page, chromedp.SendKeys("#token", token+"\r"))
	browsertest.Do(t, w.Page, chromedp.WaitVisible("nav[aria-label=Main]"))
	w.open(t, "/ui/new?domain=shop")
	return w
}

func (w writer) open(t *testing.T, path string) {
	t.Helper()
	browsertest.Do(t, w.Page, chromedp.Navigate(w.url+path))
}

// says is what an expression of the page is.
func says[T any](t *testing.T, w writer, expression string) T {
	t.Helper()
	return browsertest.Do(t, w.Page, chromedp.Evaluate[T](expression))
}

// waits waits until an expression of the page is true.
func (w writer) waits(t *testing.T, expression string) {
	t.Helper()
	const wait = `new Promise((done) => { const end = Date.now() + 60000, look = () => { const is = Boolean(%s); is || Date.now() > end ? done(is) : setTimeout(look, 10); }; look(); })`
	if !browsertest.Do(t, w.Page, chromedp.Evaluate[bool](fmt.Sprintf(wait, expression), chromedp.EvalAwaitPromise)) {
		t.Fatalf("it never is so: %s\n%s", expression, says[string](t, w, `document.body.innerText`))
	}
}

// begin takes the place of all that is written, by text with the caret at |.
func (w writer) begin(t *testing.T, text string) {
	t.Helper()
	before, after, _ := strings.Cut(text, "|")
	w.waits(t, fmt.Sprintf(`(() => { text.focus(); text.value = %q; text.setSelectionRange(%[2]d, %[2]d); text.dispatchEvent(new Event("input")); return true; })()`, before+after, len(before)))
}

// types presses keys.
func (w writer) types(t *testing.T, keys string) {
	t.Helper()
	browsertest.Do(t, w.Page, chromedp.KeyEvent(keys))
}

func (w writer) has(t *testing.T, want string) {
	t.Helper()
	if got := says[string](t, w, `text.value`); got != want {
		t.Errorf("the field has\n%s\nnot\n%s", got, want)
	}
}

// quiet fails for all that the console has.
func (w writer) quiet(t *testing.T) {
	t.Helper()
	for _, c := range w.Complaints() {
		t.Error("the console has", c)
	}
}

// TestEditorErrors: what is wrong stands at its line while somebody writes, is tied to the field, and leads there.
func TestEditorErrors(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	h := build(t, true)
	fill(t, h)
	w := h.writer(t, b, browsertest.Views()[0])
	w.begin(t, "|")
	w.types(t, "- key: usér\rvalue: eve\rlimits: [10/s, 10/fortnight]")
	w.waits(t, `document.querySelector("#found a")`)
	for _, is := range []string{
		`document.querySelector(".gutter .error").textContent === "3"`,
		`document.querySelector(".marks .error .note").textContent.includes("fortnight")`,
		`document.querySelector("#found .error").textContent.includes("Line 3, column")`,
		`text.getAttribute("aria-describedby").split(" ").includes("found")`,
		`text.getAttribute("aria-invalid") === "true"`,
		`said.textContent.startsWith("1 error, the first in line 3")`,
	} {
		w.waits(t, is)
	}
	column := says[int](t, w, `Number(document.querySelector("#found a").dataset.column)`)
	for _, act := range []string{`document.querySelector("#found a").click()`, `document.querySelector("#found a").focus()`} {
		says[any](t, w, `text.setSelectionRange(0, 0); `+act+`; null`)
		if strings.Contains(act, "focus") { // one event, as a keyboard makes it: KeyEvent would make two, for two fields
			enter := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeKeyDown, Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13}
			if _, err := chromedp.Call(w.Context, input.DispatchKeyEvent, enter); err != nil {
				t.Fatal(err)
			}
		}
		w.waits(t, `document.activeElement === text`)
		before := says[string](t, w, `text.value.slice(0, text.selectionStart)`)
		line := before[strings.LastIndex(before, "\n")+1:]
		if strings.Count(before, "\n") != 2 || len([]rune(line)) != column-1 {
			t.Errorf("%s: the caret is behind %q, not in line 3, column %d", act, before, column)
		}
	}
	w.begin(t, "- key: user\n  limits: [10/s]\n|")
	w.waits(t, `document.querySelector("#found").children.length === 0 && text.getAttribute("aria-invalid") === "false" && !document.querySelector(".gutter .error")`)
	w.waits(t, `document.querySelector("#preview .place").textContent === "line 2"`)
	w.begin(t, "- key: user\n  limits: [10/s]\n  descriptors:\n    - key: \"*\"\n      limits: [5/s]\n    - key: x\n      limits: [5/s]\n|")
	w.waits(t, `document.querySelector(".gutter .warning")?.textContent === "6" && document.querySelector("#found .warning").textContent.includes("never matches")`)
	w.quiet(t)
}

// TestEditorAsksOnce: of looks at a text never more than one is under way, and the last is of what is written.
func TestEditorAsksOnce(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	h := build(t, true)
	fill(t, h)
	w := h.writer(t, b, browsertest.Views()[0])
	says[any](t, w, `window.now = window.most = window.looks = 0; const real = window.fetch; window.fetch = async (...a) => {
		if (!a[0].endsWith("look")) return real(...a);
		window.looks++; window.most = Math.max(window.most, ++window.now);
		try { await new Promise((done) => setTimeout(done, 700)); return await real(...a); } finally { window.now--; }
	}; null`)
	w.begin(t, "- key: user\n  limits: [1/|]\n")
	for n := range 9 {
		w.begin(t, fmt.Sprintf("- key: user\n  limits: [%d/h|]\n", n+1))
		browsertest.Do(t, w.Page, chromedp.Evaluate[bool](`new Promise((done) => setTimeout(() => done(true), 350))`, chromedp.EvalAwaitPromise))
	}
	w.waits(t, `document.querySelector("#preview code")?.textContent === "9/h" && window.now === 0`)
	if most, looks := says[int](t, w, `window.most`), says[int](t, w, `window.looks`); most != 1 || looks < 2 {
		t.Errorf("%d looks, %d at a time", looks, most)
	}
	w.quiet(t)
}

// TestEditorCompletes: words are chosen by keyboard, the browser can undo that, and Tab leaves the field.
func TestEditorCompletes(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	h := build(t, true)
	fill(t, h)
	w := h.writer(t, b, browsertest.Views()[0])
	w.begin(t, "|")
	const open, closed = `!words.hidden`, `words.hidden`
	w.waits(t, `(text.dispatchEvent(new KeyboardEvent("keydown", { key: " ", ctrlKey: true })), true)`)
	w.begin(t, "- key: user\n  f|")
	w.waits(t, `(text.dispatchEvent(new Event("input")), !words.hidden)`) // when the schema is there
	w.begin(t, "|")
	w.types(t, "- key: user\rfal")
	w.waits(t, open)
	w.waits(t, `text.getAttribute("aria-activedescendant") === "word-0" && document.querySelector("#word-0[aria-selected=true]").textContent.startsWith("fallback")`)
	w.types(t, kb.Enter)
	w.waits(t, `words.children.length === 3 && !text.hasAttribute("aria-activedescendant")`) // local, open, closed
	w.types(t, kb.ArrowDown+kb.ArrowDown+kb.Enter)
	w.has(t, "- key: user\n  fallback: open")
	w.types(t, kb.Enter+"li"+kb.Enter)
	w.has(t, "- key: user\n  fallback: open\n  limits: []")
	w.waits(t, open) // the examples
	w.types(t, "10/m")
	w.waits(t, `document.querySelector("#word-0 b").textContent === "min"`)
	w.types(t, kb.Tab)
	w.types(t, " bu"+kb.Enter+"20")
	const whole = "- key: user\n  fallback: open\n  limits: [10/min burst 20]"
	w.has(t, whole)
	w.waits(t, closed)
	w.types(t, " st")
	w.waits(t, open)
	w.types(t, kb.Escape)
	w.waits(t, closed+` && document.activeElement === text`)
	w.types(t, "r")
	w.waits(t, open)
	w.types(t, kb.Enter)
	w.has(t, strings.Replace(whole, "20", "20 strict", 1))
	for says[string](t, w, `text.value`) != whole {
		if !says[bool](t, w, `document.execCommand("undo")`) {
			t.Fatal("the browser can't undo to what was written:", says[string](t, w, `text.value`))
		}
	}
	w.waits(t, `document.querySelector("#preview code")?.textContent === "10/min burst 20"`)
	w.types(t, kb.Escape+kb.Tab)
	if at := says[string](t, w, `document.activeElement.tagName + document.activeElement.name`); at == "TEXTAREAtext" {
		t.Error("Tab does not leave the field")
	}
	w.quiet(t)
}

// fits is the words that the editor offers at |.
func (w writer) fits(t *testing.T, text string) []string {
	t.Helper()
	w.begin(t, text)
	return says[[]string](t, w, `(() => { text.dispatchEvent(new KeyboardEvent("keydown", { key: " ", ctrlKey: true })); return words.hidden ? [] : [...words.children].map((e) => e.querySelector("b").textContent); })()`)
}

// TestEditorFits: at each place the editor offers what the schema has there, with the schema's words.
func TestEditorFits(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	h := build(t, true)
	fill(t, h)
	w := h.writer(t, b, browsertest.Views()[0])
	w.begin(t, "- key: user\n  f|")
	w.waits(t, `(text.dispatchEvent(new Event("input")), !words.hidden)`)
	var schema struct {
		Definitions struct {
			Descriptor struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(rules.Schema()), &schema); err != nil {
		t.Fatal(err)
	}
	keys := len(schema.Definitions.Descriptor.Properties)
	for _, c := range []struct {
		text string
		want string // the words, or their number
	}{
		{"|", "0"},
		{"- |", strconv.Itoa(keys)},
		{"- key: a\n  |", strconv.Itoa(keys - 1)},
		{"- key: a\n  |\n  limits: [1/s]\n", strconv.Itoa(keys - 2)},
		{"- key: a\n  limits: [1/s]\n  descriptors:\n    - key: b\n      |", strconv.Itoa(keys - 1)},
		{"- key: a\n  descriptors:\n  - key: b\n    val|", "value, value_to_metric"},
		{"- key: a\n  # |", "0"},
		{"- key: |", "0"},
		{"- key: a\n  shadow_mode: |", "true, false"},
		{"- key: a\n  charge: |", "before, after"},
		{"- key: a\n  charge: a|", "after"},
		{"- key: a\n  partition: |", "proportional, closed, reserve, share, open"},
		{"- key: a\n  sharing: l|", "lease, leader"},
		{"- key: a\n  sync: |", "100ms, 1s"},
		{"- key: a\n  rate_limit:\n    |", "unit, requests_per_unit, unlimited, name, replaces"},
		{"- key: a\n  rate_limit:\n    unit: m|", "minute, month"},
		{"- key: a\n  rate_limit:\n    requests_per_unit: 5\n    un|", "unit, unlimited"},
		{"- key: a\n  rate_limit: {un|}", "unit, unlimited"},
		{"- key: a\n  rate_limit: {unit: h|}", "hour"},
		{"- {key: a, limits: [10/|]}", "s, min, h, day, week, month, year, ms, us"},
		{"- {key: a, fall|}", "fallback"},
		{"- {key: a, limits: [1/s], fallback: c|}", "closed"},
		{"- key: a\n  limits:\n    - 10/s str|", "strict"},
		{"- key: a\n  limits:\n  - 10/s str|", "strict"},
		{"- key: a\n  limits:\n    - name: x\n      l|", "limit"},
		{"- key: a\n  limits:\n    - name: x\n      limit: 100/15m|", "min, month, ms"},
		{"- key: a\n  limits: [5/s, 20 |]", "concurrent"},
		{"- key: a\n  limits: [5/s, 20 concurrent |]", "ttl 5min"},
		{"- key: a\n  limits: [5/s burst |]", "0"},
		{"- key: a\n  limits: [5/s sliding-window relaxed s|]", "strict"},
		{"- key: a\n  limits: [5/s s|]", "sliding-log, sliding-window 6, strict"},
		{"- key: a\n  limits: [\"5/s bur|\"]", "burst 20"},
		{"- key: a\n  metadata: {x: |}", "0"},
		{"key: |", "0"},
	} {
		got := w.fits(t, c.text)
		if n, err := strconv.Atoi(c.want); err == nil && len(got) == n || strings.Join(got, ", ") == c.want {
			continue
		}
		t.Errorf("%q: %q, not %s", c.text, got, c.want)
	}
	for _, text := range []string{"- |", "- key: a\n  sharing: |", "- key: a\n  limits: [1/s |]", "- key: a\n  limits: [1/|]"} {
		w.fits(t, text)
		for _, why := range says[[]string](t, w, `[...words.querySelectorAll("span")].map((e) => e.textContent)`) {
			quoted, err := json.Marshal(why)
			if err != nil || why == "" || !strings.Contains(strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(rules.Schema()), strings.Trim(string(quoted), `"`)) {
				t.Errorf("%q: the schema does not say %q", text, why)
			}
		}
	}
	w.quiet(t)
}

// longRule is a rule of many limits, of so many lines or more.
func longRule(lines int) string {
	var text strings.Builder
	text.WriteString("- key: user\n  limits: [100/s]\n  descriptors:\n")
	for i := 0; i*3+3 < lines; i++ {
		fmt.Fprintf(&text, "    - key: path\n      value: /a/rather/long/path/of/the/service/number/%d\n      limits: [%d/min burst 20, 1000/day sliding-window]\n", i, i+1)
	}
	return text.String()
}

// TestEditorLarge: in the largest rule, and beyond, a key is written as soon as it is pressed; and a rule with many limits says
// only some of them.
func TestEditorLarge(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	h := build(t, true)
	fill(t, h)
	w := h.writer(t, b, browsertest.Views()[0])
	text := longRule(1500)[:62<<10]
	text = text[:strings.LastIndex(text, "    - key")]
	for _, size := range []int{len(text), 70 << 10} {
		w.begin(t, text[:len(text)/2]+"|"+text[len(text)/2:]+strings.Repeat("#", size-len(text)))
		took := says[[]float64](t, w, `(() => {
			const took = [];
			for (let i = 0; i < 41; i++) {
				const began = performance.now();
				document.execCommand("insertText", false, i % 5 ? "x" : "\n");
				document.body.getBoundingClientRect();
				took.push(performance.now() - began);
			}
			return took.sort((a, b) => a - b);
		})()`)
		t.Logf("a key in a text of %d bytes takes %.1f ms, at most %.1f ms", size, took[len(took)/2], took[len(took)-1])
		if took[len(took)/2] > 400 { // tests share their machine
			t.Errorf("a key takes %.0f ms", took[len(took)/2])
		}
	}
	w.waits(t, `document.querySelector("#found").textContent.includes("a rule may have 65536")`)
	w.begin(t, text+"|")
	w.waits(t, `document.querySelectorAll("#preview section").length === 50 && document.querySelector("#preview").textContent.includes("more limits.")`)
	w.quiet(t)
}

// TestEditorKeeps: what was written and not sent is offered again in the tab, until it is sent.
func TestEditorKeeps(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	h := build(t, true)
	fill(t, h)
	w := h.writer(t, b, browsertest.Views()[0])
	w.begin(t, "|")
	w.types(t, "- key: basket\rlimits: [7/s]\r")
	w.waits(t, `document.querySelector("#preview code")?.textContent === "7/s" && sessionStorage.length === 1`)
	w.open(t, "/ui/audit")
	w.open(t, "/ui/new?domain=shop")
	w.waits(t, `!kept.hidden`)
	browsertest.Do(t, w.Page, chromedp.Click("#kept button"))
	w.has(t, "- key: basket\n  limits: [7/s]\n  ")
	w.waits(t, `kept.hidden`)
	browsertest.Do(t, w.Page, chromedp.SendKeys("#reason", "a test"))
	browsertest.Do(t, w.Page, chromedp.Click("button[value=draft]"))
	browsertest.Do(t, w.Page, chromedp.WaitVisible(".notice"))
	w.waits(t, `document.readyState === "complete" && sessionStorage.length === 0`)
	w.open(t, "/ui/new?domain=shop")
	w.waits(t, `kept.hidden && document.querySelector(".gutter").textContent !== ""`)
	w.quiet(t)
}

// TestExcerpt: without a script, the answer has the lines with numbers, and what is wrong beneath its line.
func TestExcerpt(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	text := "- key: user\n  # a\n  # b\n  # c\n  # d\n  # e <b>\n  limits: [10/s, 10/fortnight]\n  owner: shop\n  nam: x\n"
	r, page := b.post(t, "/ui/rule", b.form(t, "text", text, "reason", "x", "to", "check"))
	wants(t, r, page, http.StatusOK, `aria-invalid="true"`, `id="found"`, `href="#line-7" data-line="7" data-column="18"`, "\u2026",
		`<span class="soft">   6</span>   # e &lt;b&gt;</span>`)
	_, excerpt, _ := strings.Cut(page, `<pre class="excerpt"`)
	excerpt, _, _ = strings.Cut(excerpt, "</pre>")
	lines := slices.DeleteFunc(strings.Split(excerpt, "\n"), func(line string) bool { return !strings.Contains(line, "error: ") && !strings.Contains(line, "id=") })
	var order []string
	for _, line := range lines {
		switch {
		case strings.Contains(line, "error: "):
			order = append(order, "!")
		default:
			_, id, _ := strings.Cut(line, `id="line-`)
			id, _, _ = strings.Cut(id, `"`)
			order = append(order, id)
		}
	}
	if got := strings.Join(order, " "); got != "4 5 6 7 ! 8 9 !" {
		t.Errorf("lines and errors are %s in\n%s", got, excerpt)
	}
	if _, clean := b.post(t, "/ui/rule", b.form(t, "text", "- key: user\n  limits: [1/s]\n", "reason", "x", "to", "check")); strings.Contains(clean, `class="excerpt"`) {
		t.Error("there is an excerpt of a text with nothing wrong")
	}
}

// TestLimitsByLine: a list has a line for each limit of a rule, and counts those that are too many.
func TestLimitsByLine(t *testing.T) {
	t.Parallel()
	h := build(t, true)
	fill(t, h)
	b := h.signedIn(t, "ann", rulestore.Publish, "shop")
	made, err := h.store.Propose(t.Context(), root(), rulestore.Proposal{Domain: "shop", Text: strings.Replace(longRule(300), "key: user", "key: many", 1), To: rulestore.Enforced, Reason: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	_, page := b.get(t, "/ui/rules?domain=shop")
	for rule, want := range map[string]string{"user": "10/s burst 20 1000/h", "checkout": "100/min", "many": "100/s 1/min burst 20 1000/day sliding-window 2/min burst 20 1000/day sliding-window 3/min burst 20 1000/day sliding-window 4/min burst 20 more"} {
		_, body, found := strings.Cut(page, `rule=`+rule+`">`)
		body, _, _ = strings.Cut(body, "</tbody>")
		var got []string
		for _, line := range strings.Split(body, "<tr")[0:] {
			if _, limit, ok := strings.Cut(line, "<code>"); ok {
				limit, _, _ = strings.Cut(limit, "</code>")
				got = append(got, limit)
			} else if strings.Contains(line, "and 191 more") {
				got = append(got, "more")
			}
		}
		if strings.Join(got, " ") != want || !found {
			t.Errorf("%s: %q\n%s", rule, got, body)
		}
	}
	_, page = b.get(t, "/ui/rule?"+url.Values{"domain": {"shop"}, "rule": {made.Rule}}.Encode())
	if !strings.Contains(page, "And 149 more limits.") {
		t.Error("the page of a rule does not count the limits that it leaves out")
	}
}

// TestEditorLooks looks at the states of the editor on every screen.
func TestEditorLooks(t *testing.T) {
	t.Parallel()
	b := browsertest.Start(t)
	h := build(t, true)
	fill(t, h)
	for _, view := range browsertest.Views() {
		w := h.writer(t, b, view)
		w.begin(t, "- key: user\n  limits: [10/s burst 20]\n  f|")
		w.waits(t, `(text.dispatchEvent(new Event("input")), !words.hidden)`)
		w.begin(t, "- key: user\n  limits: [10/s burst 20, 100/day fixed-window zone Europe/Berlin]\n  fallback: |")
		w.waits(t, `document.querySelector("#preview .place") && !words.hidden`)
		w.types(t, kb.ArrowDown)
		w.Inspect(t, "editor-completion")
		w.begin(t, "- key: user\n  limits: [10/s burst 20, 1000/fortnight]\n  shadow-mode: true\n|")
		w.waits(t, `document.querySelectorAll("#found a").length > 1`)
		w.Inspect(t, "editor-errors")
		w.begin(t, longRule(300)+"|")
		w.waits(t, `document.querySelectorAll("#preview section").length === 50`)
		says[any](t, w, `text.scrollTop = 900; null`)
		w.Inspect(t, "editor-long")
		if _, err := chromedp.Call(w.Context, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
			t.Fatal(err)
		}
		w.open(t, "/ui/new?domain=shop")
		says[any](t, w, fmt.Sprintf(`text.value = %q; null`, "- key: user\n  limits: [10/s burst 20, 1000/fortnight]\n  shadow-mode: true\n"))
		browsertest.Do(t, w.Page, chromedp.Click("button[value=check]"))
		browsertest.Do(t, w.Page, chromedp.WaitVisible(".excerpt"))
		w.Inspect(t, "editor-plain")
	}
}

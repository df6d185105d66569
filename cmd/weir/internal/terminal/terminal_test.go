package terminal

import "testing"

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"Zoë, 東京, 🙂":                "Zoë, 東京, 🙂",
		"a\nallowed\r\t":            `a\nallowed\r\t`,
		"\x1b[31mred\a":             `\x1b[31mred\a`,
		"\u009b31m \u202eevil":      `\u009b31m \u202eevil`,
		"\xff\x9b":                  `\xff\x9b`,
		"\uFFFD":                    "\uFFFD",
		"zero\u200bwidth\u2028\x00": `zero\u200bwidth\u2028\x00`,
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestEscapeLines(t *testing.T) {
	if got, want := EscapeLines("one\r\n\n\ttwo\t\x1b\n"), "one\\r\n\n\ttwo\\t\\x1b\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEscapeAll(t *testing.T) {
	type inner struct{ Text string }
	type named string
	v := struct {
		inner
		Name  named
		List  []inner
		Deep  *inner
		Some  map[string]string
		Count int
		None  *inner
	}{inner{"\a"}, "\b", []inner{{"\x1b"}}, &inner{"\n"}, map[string]string{"k": "\r"}, 1, nil}
	EscapeAll(&v)
	if v.Text != `\a` || v.Name != `\b` || v.List[0].Text != `\x1b` || v.Deep.Text != `\n` || v.Some["k"] != `\r` {
		t.Errorf("%+v", v)
	}
}

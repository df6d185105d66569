package importenv

import (
	"cmp"
	"slices"
	"strings"
)

// translation is an environment on its way to a plan.
type translation struct {
	env   map[string]string
	args  []Arg
	told  map[string]Note
	given []string          // flags that are not to be translated
	otel  map[string]string // of Plan
}

// get is a variable, or ratelimit's default.
func (t *translation) get(name, missing string) string { return cmp.Or(t.env[name], missing) }

func (t *translation) yes(name string) bool { return truth(t.env[name]) }

func (t *translation) flag(flag, value string, names ...string) {
	t.args = append(t.args, Arg{flag, value, names})
}

// has is whether a flag is given otherwise. Then its variables are not needed.
func (t *translation) has(flag string, names ...string) bool {
	if !slices.Contains(t.given, flag) {
		return false
	}
	t.idle(flag+" is given otherwise", names...)
	return true
}

// wrong notes a variable by which weir serve would decide otherwise, unless a flag is given that makes it unneeded.
func (t *translation) wrong(name, text string) { t.told[name] = Note{name, Differs, text, true} }

// note tells what became of a variable, once.
func (t *translation) note(name string, fate Fate, text string) {
	if _, told := t.told[name]; !told {
		t.told[name] = Note{Name: name, Fate: fate, Text: text}
	}
}

// idle notes variables, where they are set, that nothing is lost without.
func (t *translation) idle(why string, names ...string) {
	for _, name := range names {
		if _, set := t.env[name]; set {
			t.note(name, NotNeeded, why)
		}
	}
}

// became notes the variables that make a flag together. When none of them is set, ratelimit's
// default makes the flag, and became notes the first.
func (t *translation) became(flag, value string, names ...string) {
	if t.has(flag, names...) {
		return
	}
	text := strings.TrimSpace(flag + " " + value)
	var set []string
	for _, name := range names {
		if _, is := t.env[name]; is {
			set = append(set, name)
			t.note(name, Flag, text)
		}
	}
	if set == nil {
		t.note(names[0], Flag, text+" (not set; this is its default)")
		set = names
	}
	t.flag(flag, value, set...)
}

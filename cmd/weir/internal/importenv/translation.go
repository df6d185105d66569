package importenv

import (
	"cmp"
	"strings"
)

// translation is an environment on its way to a plan.
type translation struct {
	env  map[string]string
	args []Arg
	told map[string]Note
}

// get is a variable, or ratelimit's default.
func (t *translation) get(name, missing string) string { return cmp.Or(t.env[name], missing) }

func (t *translation) yes(name string) bool { return truth(t.env[name]) }

func (t *translation) flag(flag, value string) { t.args = append(t.args, Arg{flag, value}) }

// note tells what became of a variable, once.
func (t *translation) note(name string, fate Fate, text string) {
	if _, told := t.told[name]; !told {
		t.told[name] = Note{name, fate, text}
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
	t.flag(flag, value)
	text := strings.TrimSpace(flag + " " + value)
	some := false
	for _, name := range names {
		if _, set := t.env[name]; set {
			some = true
			t.note(name, Flag, text)
		}
	}
	if !some {
		t.note(names[0], Flag, text+" (not set; this is its default)")
	}
}

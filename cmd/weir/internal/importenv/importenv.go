// Package importenv reads the environment of an envoyproxy/ratelimit, and tells
// by which flags weir serve does the same.
package importenv

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-limit/weir/internal/editdistance"
)

// Fate is what became of a variable.
type Fate string

// The fates.
const (
	Flag      Fate = "flag"       // it is a flag now
	NotNeeded Fate = "not needed" // nothing is lost without it
	Differs   Fate = "differs"    // somebody has to look at it
	Unknown   Fate = "unknown"    // it looks like one of ratelimit's, but is none
)

// Note tells what became of one variable.
type Note struct {
	Name string
	Fate Fate
	Text string
}

// String is NAME: fate: text.
func (n Note) String() string { return fmt.Sprintf("%s: %s: %s", n.Name, n.Fate, n.Text) }

// Plan is a command line for weir serve, and why it is so.
type Plan struct {
	Args  []Arg
	Notes []Note // of the variables that were set, and of defaults that make a flag

	beside bool // files beside the folder of the rules are read as rules, too
}

// Arg is a flag of weir serve.
type Arg struct {
	Flag, Value string // without a value the flag stands alone
}

// Rules is the folder of the rule files.
func (p *Plan) Rules() string { return p.value("--rules") }

// Store is the URL of the store. What is secret in it is ${NAME} of a variable.
func (p *Plan) Store() string { return p.value("--store") }

func (p *Plan) value(flag string) string {
	for _, a := range p.Args {
		if a.Flag == flag {
			return a.Value
		}
	}
	return ""
}

// String is the command for a shell.
func (p *Plan) String() string {
	var b strings.Builder
	b.WriteString("weir serve")
	for _, a := range p.Args {
		b.WriteString(" \\\n  " + a.Flag)
		if a.Value != "" {
			b.WriteString(" " + quote(a.Value))
		}
	}
	return b.String() + "\n"
}

// quote is a text as a word of a shell, that puts in variables as ${NAME}.
func quote(text string) string {
	plain := strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("/.:,_-+@=%", r)
	}) < 0
	switch {
	case plain && text != "":
		return text
	case strings.Contains(text, "${"):
		return `"` + text + `"`
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// InputError says that a variable can't be meant.
type InputError struct{ Text string }

func (e *InputError) Error() string { return e.Text }

// Translate makes a plan of an environment. Empty variables are as if they were
// not set. It fails with one or several *InputError.
func Translate(env map[string]string) (*Plan, error) {
	t := &translation{env: map[string]string{}, told: map[string]Note{}}
	for name, value := range env {
		if value != "" {
			t.env[name] = value
		}
	}
	table := variables()
	known := make(map[string]int, len(table))
	var errs []error
	for i, v := range table {
		known[v.name] = i
		if err := v.check(t.env[v.name]); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, step := range []func() error{t.rules, t.doors, t.tls, t.store, t.modes} {
		errs = append(errs, step())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, v := range table {
		if value, set := t.env[v.name]; set {
			t.note(v.name, v.fate(value), v.say(value))
		}
	}
	t.strangers(known)
	place := func(name string) int {
		if i, ok := known[name]; ok {
			return i
		}
		return len(known)
	}
	notes := slices.SortedFunc(maps.Values(t.told), func(a, b Note) int {
		return cmp.Or(cmp.Compare(place(a.Name), place(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return &Plan{t.args, notes, truth(t.get("RUNTIME_WATCH_ROOT", "true"))}, nil
}

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

// became tells of variables that make a flag together. Of those that were not
// set the first is told, when none was: ratelimit's default makes the flag.
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

// strangers tells of variables that look like ratelimit's.
func (t *translation) strangers(known map[string]int) {
	for name := range t.env {
		if _, ok := known[name]; ok || !looksAlike(name) {
			continue
		}
		text := "envoyproxy/ratelimit has no such variable"
		if near := nearest(name, known); near != "" {
			text += "; did you mean " + near + "?"
		}
		t.note(name, Unknown, text)
	}
}

// looksAlike is whether a name begins as ratelimit's do. Those that Kubernetes
// and Docker make of a service called redis do too, and are not meant.
func looksAlike(name string) bool {
	if strings.Contains(name, "_SERVICE_") || strings.Contains(name, "_PORT_") || strings.HasSuffix(name, "_PORT") {
		return false
	}
	for _, prefix := range []string{
		"REDIS_", "MEMCACHE_", "MEMCACHED_", "GRPC_SERVER_", "GRPC_CLIENT_", "GRPC_MAX_", "RUNTIME_", "CONFIG_GRPC_", "CONFIG_TYPE", "XDS_CLIENT_",
		"LIMIT_", "RATELIMIT_", "PROMETHEUS_", "USE_STATSD", "USE_DOG_STATSD", "USE_PROMETHEUS", "STATSD_", "STATS_", "TRACING_",
		"LOCAL_CACHE_", "CACHE_KEY_", "NEAR_LIMIT_", "EXPIRATION_JITTER_", "MERGE_DOMAIN_", "RESPONSE_DYNAMIC_",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// nearest is the known name that differs in the fewest letters, if they are few.
func nearest(name string, known map[string]int) string {
	best, least := "", 4
	for _, other := range slices.Sorted(maps.Keys(known)) {
		if d := editdistance.Between(name, other, least); d < least {
			best, least = other, d
		}
	}
	return best
}

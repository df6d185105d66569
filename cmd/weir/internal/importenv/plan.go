package importenv

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
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
	// Wrong is that weir serve would decide otherwise than ratelimit. So it is not started as ratelimit.
	Wrong bool
}

// String is NAME: fate: text.
func (n Note) String() string { return fmt.Sprintf("%s: %s: %s", n.Name, n.Fate, n.Text) }

// Plan is a command line for weir serve, and why it is so.
type Plan struct {
	Args  []Arg
	Notes []Note // of the variables that were set, and of defaults that make a flag
	// OTel is what OpenTelemetry is to be told in its own variables, where these are not set.
	OTel map[string]string

	beside bool // files beside the folder of the rules are read as rules, too
}

// Arg is a flag of weir serve.
type Arg struct {
	Flag, Value string   // without a value the flag stands alone
	Names       []string // of the variables that it came of; of a default it is those that would change it
}

// Expanded is the value with the variables of an environment in the place of ${NAME}. It is as a shell has it, but that
// a password is written as URLs have it.
func (a Arg) Expanded(env map[string]string) string {
	value := a.Value
	if auth := env["REDIS_AUTH"]; auth != "" {
		user, password, both := strings.Cut(auth, ":")
		if both {
			auth = url.UserPassword(user, password).String()
		} else {
			auth = strings.TrimPrefix(url.UserPassword("", auth).String(), ":")
		}
		value = strings.ReplaceAll(value, "${REDIS_AUTH}", auth)
	}
	for _, name := range []string{"REDIS_SENTINEL_AUTH", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"} {
		value = strings.ReplaceAll(value, "${"+name+"}", inQuery(env[name]))
	}
	const whole = "REDIS_URL"
	value = strings.ReplaceAll(value, "${"+whole+"}", env[whole])
	if before, after, found := strings.Cut(value, "${"+whole+"#"); found {
		scheme, rest, _ := strings.Cut(after, "}")
		value = before + strings.TrimPrefix(env[whole], scheme) + rest
	}
	return value
}

// Rules is the folder of the rule files.
func (p *Plan) Rules() string { return p.value("--rules") }

func (p *Plan) value(flag string) string {
	i := slices.IndexFunc(p.Args, func(a Arg) bool { return a.Flag == flag })
	if i < 0 {
		return ""
	}
	return p.Args[i].Value
}

// String is the command for a shell.
func (p *Plan) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.OTel)) {
		b.WriteString(name + "=" + quote(p.OTel[name]) + " \\\n  ")
	}
	b.WriteString("weir serve")
	for _, a := range p.Args {
		b.WriteString(" \\\n  " + a.Flag)
		if a.Value != "" {
			b.WriteString(" " + quote(a.Value))
		}
	}
	return b.String() + "\n"
}

// Line is the command in one line.
func (p *Plan) Line() string {
	return strings.TrimSuffix(strings.ReplaceAll(p.String(), " \\\n  ", " "), "\n")
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

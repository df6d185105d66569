package importenv

import (
	"errors"
	"fmt"
	"strings"
)

// maxNested is how deep defaults may stand in defaults, as in ${A:-${B:-c}}. Deeper ones are refused.
const maxNested = 16

// resolver puts values in place of variables, as docker compose does.
type resolver struct {
	environ func(string) (string, bool)
	beside  map[string]string // of a file .env
	unset   map[string]bool   // what has no value, and was asked for without a default
}

func (r *resolver) lookUp(name string) (string, bool) {
	if value, ok := r.environ(name); ok {
		return value, true
	}
	value, ok := r.beside[name]
	return value, ok
}

// resolve is text with the values of ${NAME}, ${NAME:-DEFAULT} and the like. In a compose file $NAME is a variable, too,
// and $$ is a dollar sign; in lines of NAME=VALUE, which other programs write as well, these are themselves.
func (r *resolver) resolve(text string, compose bool) (string, error) {
	return r.within(text, compose, 0)
}

func (r *resolver) within(text string, compose bool, depth int) (string, error) {
	if depth > maxNested {
		return "", fmt.Errorf("variables stand in variables more than %d times", maxNested)
	}
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		switch {
		case strings.HasPrefix(rest, "{"):
			inside := closed(rest[1:])
			if inside < 0 {
				return "", errors.New("${ is not closed; write ${NAME}, or $$ for a dollar sign")
			}
			value, err := r.braces(rest[1:1+inside], compose, depth)
			if err != nil {
				return "", err
			}
			b.WriteString(value)
			text = rest[inside+2:]
		case !compose:
			b.WriteByte('$')
			text = rest
		case strings.HasPrefix(rest, "$"):
			b.WriteByte('$')
			text = rest[1:]
		default:
			n := nameLength(rest)
			if n == 0 {
				return "", errors.New("$ stands before no name; write $$ for a dollar sign")
			}
			b.WriteString(r.value(rest[:n]))
			text = rest[n:]
		}
	}
}

// closed is where the brace is that closes one before text, or −1.
func closed(text string) int {
	open := 1
	for i := range len(text) {
		switch {
		case text[i] == '{' && i > 0 && text[i-1] == '$':
			open++
		case text[i] == '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

// nameLength is how many bytes of text are a name.
func nameLength(text string) int {
	for i, c := range []byte(text) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(text)
}

// value is that of a variable without a default.
func (r *resolver) value(name string) string {
	value, ok := r.lookUp(name)
	if !ok {
		r.unset[name] = true
	}
	return value
}

// braces is what NAME, NAME:-DEFAULT, NAME:?ERROR or NAME:+OTHER stands for. Without the colon an empty value counts as one.
func (r *resolver) braces(text string, compose bool, depth int) (string, error) {
	n := nameLength(text)
	name, rest := text[:n], text[n:]
	if name == "" {
		return "", fmt.Errorf("${%s} has no name", text)
	}
	if rest == "" {
		return r.value(name), nil
	}
	value, set := r.lookUp(name)
	if rest[0] == ':' {
		set, rest = set && value != "", rest[1:]
	}
	if rest == "" {
		return "", fmt.Errorf("${%s} is no variable; write ${NAME} or ${NAME:-DEFAULT}", text)
	}
	operator, word := rest[0], rest[1:]
	switch operator {
	case '-':
		if set {
			return value, nil
		}
		return r.within(word, compose, depth+1)
	case '+':
		if !set {
			return "", nil
		}
		return r.within(word, compose, depth+1)
	case '?':
		if set {
			return value, nil
		}
		return "", fmt.Errorf("%s has to be set: %s", name, word)
	}
	return "", fmt.Errorf("${%s} is no variable; write ${NAME} or ${NAME:-DEFAULT}", text)
}

package rulestore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weir-limit/weir/rules"
)

// Kind is what sort of answer an Error is.
type Kind uint8

// The kinds of errors.
const (
	// Invalid is a request that can't be meant, or is over a bound.
	Invalid Kind = iota
	// NotFound is a domain, rule, version or token that is not there.
	NotFound
	// Exists is something to be made that is there.
	Exists
	// Stale is a change of something that was changed since it was seen.
	Stale
	// Unknown is an actor whose token is none, or counts no more.
	Unknown
	// Forbidden is what this actor may not do.
	Forbidden
	// Quota is a rule more than a team may have.
	Quota
	// Unavailable is a database that can't be used now: away, full, read-only,
	// damaged, or of a newer schema. Whether a change was made is not known when
	// the connection was lost at its end.
	Unavailable
)

// Error says why something was refused, and what to do instead.
type Error struct {
	Kind  Kind
	Field string // what is at fault: text, reason, domain …; empty: nothing by itself
	Text  string
	// Findings are all that is wrong with a rule's text or a file, in the lines
	// of what was given.
	Findings []rules.Finding

	cause error // for the log, and errors.Is
}

// Error is Text, with the field before it and the findings behind.
func (e *Error) Error() string {
	text := e.Text
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	var lines []string
	for _, f := range e.Findings {
		if f.Severity == rules.SeverityError {
			lines = append(lines, f.String())
		}
	}
	if len(lines) > 0 {
		text += "\n" + strings.Join(lines, "\n")
	}
	return text
}

// Unwrap is the database's own error, or nil.
func (e *Error) Unwrap() error { return e.cause }

func invalid(field, format string, args ...any) *Error {
	return &Error{Kind: Invalid, Field: field, Text: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) *Error {
	return &Error{Kind: NotFound, Text: fmt.Sprintf(format, args...)}
}

func stale(what string, now int64) *Error {
	return &Error{Kind: Stale, Field: "match", Text: fmt.Sprintf("%s was changed since, at revision %d; read it again, and change it as it is now", what, now)}
}

// IsKind is whether err is an *Error of a kind.
func IsKind(err error, k Kind) bool {
	bad, ok := errors.AsType[*Error](err)
	return ok && bad.Kind == k
}

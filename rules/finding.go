package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"
)

// MaxFindings is how many errors, and how many warnings, are reported of one
// file. One more says how many were left out.
const MaxFindings = 100

// Severity is how bad a Finding is.
type Severity uint8

// The severities. A file with an error is refused whole; a warning is for
// people to read.
const (
	SeverityError Severity = iota
	SeverityWarning
)

// String is "error" or "warning".
func (s Severity) String() string {
	if s == SeverityWarning {
		return "warning"
	}
	return "error"
}

// Finding is one thing to say of a rule file. As a line it is
//
//	shop.yaml:4:5: error: unknown key "shadow-mode" in a descriptor; did you mean shadow_mode? (rule shop/user)
type Finding struct {
	File         string // as it was given to Parse or Load
	Line, Column int    // from 1; a column counts characters
	Severity     Severity
	// Text says what is wrong and what to write instead, on one line.
	Text string
	Rule string // Rule.Name of what it is about; empty when there is none
	// Kind is Text with … in place of the file's own words, for people that may not read the file.
	// Empty: it has nothing else to say.
	Kind string
}

// Place is FILE:LINE:COLUMN: severity: kind, with none of the file's words.
func (f Finding) Place() string {
	if f.Kind == "" {
		f.Kind = "refused"
	}
	return fmt.Sprintf("%s:%d:%d: %s: %s", f.File, f.Line, f.Column, f.Severity, f.Kind)
}

// String is FILE:LINE:COLUMN: severity: text (rule NAME).
func (f Finding) String() string {
	s := fmt.Sprintf("%s:%d:%d: %s: %s", f.File, f.Line, f.Column, f.Severity, f.Text)
	if f.Rule != "" {
		s += " (rule " + f.Rule + ")"
	}
	return s
}

// Error says why rule files were refused. It is returned by Parse, Load and
// Set.Complete. Files are refused as a whole: a domain of which half the rules are missing would limit
// in a way that nobody has written.
type Error struct {
	// Findings are all errors of all files, at most MaxFindings of each, and
	// the warnings among them, in the order of the files and their lines.
	Findings []Finding
}

// Error is the errors among the findings, a line each.
func (e *Error) Error() string {
	var lines []string
	for _, f := range e.Findings {
		if f.Severity == SeverityError {
			lines = append(lines, f.String())
		}
	}
	return strings.Join(lines, "\n")
}

// findings collects what is to be said of one file.
type findings struct {
	file string
	// list has at most MaxFindings of each severity, in the order in which they were found: that
	// is not the order of the file, as lint comes last.
	list  []Finding
	count [2]int // by severity, those left out too
	// overflow is by severity the last one that was left out: its place is where "7 more are not
	// shown" is told.
	overflow [2]Finding
	merges   int // how deep << takes over what << took over
}

// add tells of something at a node. Words of the file are args of format and not parts of it, so
// that Kind can leave them out; a word of Weir's among args is an own.
func (f *findings) add(at *yaml.Node, s Severity, rule, format string, args ...any) {
	found := Finding{File: f.file, Line: max(at.Line, 1), Column: max(at.Column, 1), Severity: s}
	if f.count[s]++; f.count[s] > MaxFindings {
		f.overflow[s] = found
		return
	}
	// A finding is one line, whatever the file made it quote.
	found.Rule, found.Text = rule, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " ")
	found.Kind = withoutWords(format, args)
	f.list = append(f.list, found)
}

// own is a word of Weir's in a message, which Kind may tell to people who may not read the file.
type own string

// withoutWords is a message without what it quotes: numbers are kept, and own words.
//
//	unknown key "shadow-mode" in a descriptor; did you mean shadow_mode?
//	unknown key … in …; …
func withoutWords(format string, args []any) string {
	words := false
	args = slices.Clone(args)
	for i, a := range args {
		switch a.(type) {
		case int, own:
		default:
			args[i], words = elided{}, true
		}
	}
	if kind := fmt.Sprintf(format, args...); !words || strings.ContainsFunc(kind, unicode.IsLetter) {
		return kind
	}
	return "" // it was nothing but quoted
}

// elided stands for words of a file, whatever they were to be printed as: %q and %v alike.
type elided struct{}

func (elided) Format(to fmt.State, _ rune) { _, _ = to.Write([]byte("…")) }

func (f *findings) failed() bool { return f.count[SeverityError] > 0 }

// sorted is the findings in the order of the file.
func (f *findings) sorted() []Finding {
	list := slices.Clone(f.list)
	for s, last := range f.overflow {
		if more := f.count[s] - MaxFindings; more > 0 {
			last.Text = fmt.Sprintf("%d more %ss are not shown", more, last.Severity)
			last.Kind = last.Text
			list = append(list, last)
		}
	}
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return list
}

// position is a place in a file. Rules have one, and not a node, as a node would keep its whole
// document in memory.
type position struct{ line, column int }

func positionOf(n *yaml.Node) position { return position{n.Line, n.Column} }

func (p position) node() *yaml.Node { return &yaml.Node{Line: p.line, Column: p.column} }

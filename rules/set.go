package rules

import (
	"bytes"
	"slices"
)

// Set is the rules of all domains. It never changes, and may be shared between
// goroutines. It is made by Parse, Load and Demo. A nil Set has no domains and no rules.
//
// That it never changes is what makes a reload safe: a request takes one Set at its
// beginning and goes by it to its end, while Limiter.Replace puts another in place.
type Set struct {
	domains map[string]*domain // by name; a domain is in one file
	names   []string           // of domains, in the order of the files
	rules   []*Rule            // of all domains, in the order of the files
	// warnings are about rules that work, and perhaps not as their author means. Errors
	// are not here: with one there is no Set.
	warnings []Finding
	partial  []Finding   // files that look half written; see Complete
	texts    []*fileText // what it was made of, for Export
}

// domain is what one file holds.
type domain struct {
	name string
	file string // as findings call it
	// text is of the file, as it was read. Same compares it: a reload that changes one domain of
	// many leaves the candidates and reports of the others alone.
	text  []byte
	top   level   // where the entries of a descriptor begin their way
	rules []*Rule // in the order of the file
}

// Domains is the names of all domains, sorted.
func (s *Set) Domains() []string {
	if s == nil {
		return nil
	}
	return slices.Sorted(slices.Values(s.names))
}

// Same is whether a domain has the same text in both sets, or is in neither.
func (s *Set) Same(o *Set, domain string) bool { return bytes.Equal(s.text(domain), o.text(domain)) }

// text is the file of a domain; nil when there is none.
func (s *Set) text(domain string) []byte {
	if s == nil || s.domains[domain] == nil {
		return nil
	}
	return s.domains[domain].text
}

// Rules is all rules in the order of their files, one for each limit. A
// descriptor without a limit has none.
func (s *Set) Rules() []*Rule {
	if s == nil {
		return nil
	}
	return slices.Clone(s.rules)
}

// Warnings is what people should know of the files, in their order.
func (s *Set) Warnings() []Finding { return slices.Clone(s.warnings) }

// Complete fails with an *Error when a file has no `descriptors` key. Such a
// file is fine to begin with, but when rules are loaded again it is most
// likely half written, and would take all limits of its domain away: keep the
// old rules then.
func (s *Set) Complete() error {
	if len(s.partial) == 0 {
		return nil
	}
	return &Error{Findings: slices.Clone(s.partial)}
}

// add puts a file's domain into s. The caller has seen to it that its name is not taken.
func (s *Set) add(f *file) {
	s.domains[f.domain.name] = f.domain
	s.names = append(s.names, f.domain.name)
	s.rules = append(s.rules, f.domain.rules...)
	s.warnings = append(s.warnings, f.findings.sorted()...)
	if f.partial {
		s.partial = append(s.partial, Finding{
			File: f.findings.file, Line: f.root.Line, Column: f.root.Column,
			Text: halfWritten, Kind: halfWritten,
		})
	}
}

// halfWritten says why a reload is refused. An editor that saves a file in two steps, or a copy that
// is under way, leaves such a file for a moment.
const halfWritten = "there is no descriptors key, as in a file half written; write descriptors: [] for a domain without rules"

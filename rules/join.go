package rules

import "fmt"

// Join makes one set of several, whose domains stand in their order. It costs
// little, however large they are. Two may not have the same domain: it fails
// with an *Error then.
//
// A daemon has rules of files and of a database, and each domain of the database by itself. When one
// changes, only that one is parsed, and all are joined anew: domains are shared with the old set, as
// nothing changes them.
func Join(sets ...*Set) (*Set, error) {
	s := &Set{domains: map[string]*domain{}}
	var double []Finding
	for _, one := range sets {
		for _, name := range one.names {
			if other := s.domains[name]; other != nil {
				double = append(double, Finding{
					File: one.domains[name].file, Line: 1, Column: 1,
					Text: fmt.Sprintf("duplicate domain %q, also in %s", name, other.file),
				})
				continue
			}
			s.domains[name] = one.domains[name]
		}
		s.names = append(s.names, one.names...)
		s.rules = append(s.rules, one.rules...)
		s.warnings = append(s.warnings, one.warnings...)
		s.partial = append(s.partial, one.partial...)
		s.texts = append(s.texts, one.texts...)
	}
	if len(double) > 0 {
		return nil, &Error{Findings: double}
	}
	return s, nil
}

package rules

import (
	"fmt"

	"go.yaml.in/yaml/v4"

	"github.com/weir-limit/weir"
)

// Fits fails with an *Error when a store with these traits can't keep a limit of
// s. Ask before the rules come into force, and keep the old ones then.
func (s *Set) Fits(store weir.Traits) error {
	if store.Unfit == nil {
		return nil
	}
	bad := &Error{}
	of := &findings{}
	flush := func() { bad.Findings = append(bad.Findings, of.sorted()...) }
	for _, r := range s.rules {
		if r.File != of.file {
			flush()
			of = &findings{file: r.File}
		}
		if r.Unlimited {
			continue
		}
		if why := store.Unfit(r.Limit); why != "" {
			of.add(&yaml.Node{Line: r.at.line, Column: r.at.column}, SeverityError, r.Name, "the store can't keep %q: %s", r.Limit, why)
		}
	}
	flush()
	if len(bad.Findings) > 0 {
		return bad
	}
	return nil
}

// Unshared warns of rules that say how the nodes of a cluster share their limit, for
// a store that is none.
func (s *Set) Unshared() []Finding {
	var all []Finding
	for _, r := range s.rules {
		said := ""
		switch {
		case r.Sharing != "":
			said = "sharing: " + string(r.Sharing)
		case r.Partition != "":
			said = "partition: " + string(r.Partition)
		default:
			continue
		}
		all = append(all, Finding{
			File: r.File, Line: r.Line, Column: r.Column, Severity: SeverityWarning, Rule: r.Name,
			Text: said + " has no effect with this store: it is for the nodes of --store cluster:",
		})
		if len(all) == MaxFindings {
			break
		}
	}
	return all
}

// position is a place in a file.
type position struct{ line, column int }

func positionOf(n *yaml.Node) position { return position{n.Line, n.Column} }

// fits fails with a *RequestError when r brings a limit that a store with these
// traits can't keep.
func (r *Request) fits(store weir.Store) error {
	for i := range r.Descriptors {
		l := r.Descriptors[i].Override
		if l == nil {
			continue
		}
		if unfit := store.Traits().Unfit; unfit != nil && unfit(l) != "" {
			return &RequestError{fmt.Sprintf("descriptors[%d].limit", i), fmt.Sprintf("is %q, which the store can't keep: %s", l, unfit(l))}
		}
	}
	return nil
}

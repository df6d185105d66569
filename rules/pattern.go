package rules

import (
	"slices"
	"strings"
)

// pattern is a text in which each * stands for any text, also none.
type pattern []string // what stands between the *s; a single part has none

func newPattern(text string) pattern { return strings.Split(text, "*") }

func (p pattern) wild() bool { return len(p) > 1 }

// matches is whether the whole of text fits. Taking each middle part where it
// first occurs leaves the most for those after it, so no choice is ever
// regretted.
func (p pattern) matches(text string) bool {
	first, last := p[0], p[len(p)-1]
	if !p.wild() {
		return text == first
	}
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range p[1 : len(p)-1] {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}

// patterns finds the first of many patterns that fits a text. It looks only at
// those that begin as the text does: one look-up for each length that the
// beginning of a pattern has.
type patterns struct {
	lengths  []int                  // of the beginnings, ascending, each once
	byPrefix map[string][]candidate // by what stands before the first *; in the order of the file
}

// candidate is a place to go to when its pattern fits.
type candidate struct {
	pattern pattern
	to      *place
}

// add puts a pattern behind those already there.
func (ps *patterns) add(p pattern, to *place) {
	if ps.byPrefix == nil {
		ps.byPrefix = map[string][]candidate{}
	}
	prefix := p[0]
	if i, found := slices.BinarySearch(ps.lengths, len(prefix)); !found {
		ps.lengths = slices.Insert(ps.lengths, i, len(prefix))
	}
	ps.byPrefix[prefix] = append(ps.byPrefix[prefix], candidate{p, to})
}

// first is the place earliest in the file, of those whose pattern fits text and
// that accept value; nil when there is none.
func (ps *patterns) first(text, value string) *place {
	var best *place
	for _, n := range ps.lengths {
		if n > len(text) {
			break
		}
		for _, c := range ps.byPrefix[text[:n]] {
			if best != nil && best.order < c.to.order {
				break // the rest stands even later
			}
			if c.pattern.matches(text) && c.to.accepts(value) {
				best = c.to
				break
			}
		}
	}
	return best
}

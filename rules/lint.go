package rules

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// maxCrowd bounds how many patterns that begin alike are held against each
// other, because that takes the square of their number.
const maxCrowd = 1024

// prober makes a text that fits a pattern and, of the others beside it, only
// those that fit all that the pattern does: each * becomes a byte that none of
// them has, so that only a * can take it.
//
// Say that /a*/b stands behind /a* on a level. With the byte 0, the text that stands for all of the
// second is "/a\x00/b". Matching finds /a* first, so no request ever reaches /a*/b: /a* hides it.
// Beside /x* nothing is hidden, as that does not fit the text.
type prober struct {
	level *level
	byte  string // empty when there is no such byte, or the level is crowded
}

func newProber(l *level) prober {
	var used [256]bool
	mark := func(text string) {
		for i := range len(text) {
			used[text[i]] = true
		}
	}
	most := l.keys.crowd()
	for key, family := range l.families {
		mark(key)
		for value := range family.exact {
			mark(value)
		}
		most = max(most, family.values.crowd())
	}
	// Nearly always 0 is free: YAML reads no control characters but tabs and line ends.
	if i := slices.Index(used[:], false); i >= 0 && most <= maxCrowd {
		return prober{l, string([]byte{byte(i)})}
	}
	return prober{l, ""}
}

// crowd is how many patterns begin alike: as many as a match of one text tries at worst.
func (ps *patterns) crowd() int {
	most := 0
	for _, alike := range ps.byPrefix {
		most = max(most, len(alike))
	}
	return most
}

// hiding is the place that takes all that p is for, or nil: the place that a match of p's probe finds
// before it finds p. Where the level is crowded it finds nothing, and a warning is missing.
func (pr prober) hiding(p *place) *place {
	if pr.byte == "" || p.exact() {
		return nil // an exact key and value comes before all patterns
	}
	// No value is the empty text here. It fits where any value does, which is right: a key alone takes
	// each value, so only patterns of nothing but * can hide it.
	e := Entry{strings.Join(p.key(), pr.byte), strings.Join(p.value, pr.byte)}
	first := pr.level.nextWild(pr.level.families[e.Key], e, -1)
	if first == p {
		return nil
	}
	return first
}

// lint warns of descriptors that no request can meet, and the like. A warning never keeps a file from
// being used: Envoy's service takes such files, and a rule that never matches limits nobody.
func (f *file) lint() {
	probers := map[*level]prober{}
	for _, p := range f.places {
		if len(p.path) == MaxEntries+1 {
			f.add(p.at, SeverityWarning, p.rule, "never matches: a request has at most %d entries", MaxEntries)
		}
		if p.place.key().literals() > MaxWord || p.place.value.literals() > MaxWord {
			f.add(p.at, SeverityWarning, p.rule, "never matches: a request's key and value have at most %d bytes", MaxWord)
		}
		pr, known := probers[p.level]
		if !known {
			pr = newProber(p.level)
			probers[p.level] = pr
		}
		if other := pr.hiding(p.place); other != nil {
			f.add(p.at, SeverityWarning, p.rule, "never matches: hidden by the descriptor %s in line %d, which fits all that this one does", other.entry.pretty(), other.line)
		}
	}
	f.lintNames()
}

// lintNames warns of names that stand for two rules, or for none. Counts go by places, so two rules
// with a name still count apart; but metrics, log lines and answers tell them as one.
func (f *file) lintNames() {
	first := map[string]*Rule{}
	envoy := map[string]bool{}
	for _, r := range f.domain.rules {
		envoy[r.EnvoyName] = true
		if first[r.Name] == nil {
			first[r.Name] = r
			continue
		}
		f.add(&yaml.Node{Line: r.Line, Column: r.Column}, SeverityWarning, r.Name, "another rule has the same name, in line %d", first[r.Name].Line)
	}
	for _, it := range f.replaces {
		if !envoy[it.name] {
			f.add(it.at, SeverityWarning, it.rule, "replaces %q, but no rate_limit of this domain has that name", it.name)
		}
	}
}

// pretty is the entry as key=value.
func (e Entry) pretty() string {
	if e.Value == "" {
		return e.Key
	}
	return e.Key + "=" + e.Value
}

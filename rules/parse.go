package rules

import (
	"bytes"
	"slices"

	"go.yaml.in/yaml/v4"
)

// file is a rule file that is being read. Reading goes on after a mistake, so that an author
// sees all mistakes of a file at once; what is made beside a mistake is thrown away with the file.
//
// It is read in one pass from the top down: yaml.go makes nodes of the text, value.go reads single
// values, parse.go goes down the tree of descriptors, and options.go makes the rules of one. lint.go
// then looks at what only the whole file shows.
type file struct {
	findings

	root   *yaml.Node // its first document; nodes live until the file is read
	named  *yaml.Node // the domain's name, for a finding about it; root where it is missing
	domain *domain    // what is made of it
	// partial is whether there is no descriptors key: the file may be half written.
	partial bool
	// places are all descriptors that have their own place, for lint.
	places []placed
	// replaces are the names that other rules should have: known when the file is read.
	replaces []mention
}

// placed is a place, and where it stands.
type placed struct {
	place *place
	level *level     // that it is on
	path  []Entry    // from the top to it
	at    *yaml.Node // for findings
	rule  string     // its name, for findings
}

// mention is a name that a rule speaks of.
type mention struct {
	name, rule string // the name, and the rule that speaks of it
	at         *yaml.Node
}

// Parse reads the text of one rule file; file is what findings call it. The
// error is an *Error.
func Parse(file string, text []byte) (*Set, error) {
	return collect([]*fileText{{name: file, text: bytes.Clone(text)}})
}

// fileText is a file as it was read. A Set keeps it for Export, so that comments and the order of
// keys come back as their author wrote them.
type fileText struct {
	name  string // what findings call it: its path, or NAME#TITLE of a part of an export
	text  []byte
	title string // what exports call it; empty: by its name
}

// collect makes a set of files, or an *Error of all that is wrong with them. A domain in two files
// is a mistake of the second: counts go by domains, and whichever file was read last would decide.
func collect(texts []*fileText) (*Set, error) {
	s := &Set{domains: map[string]*domain{}, texts: texts}
	var all []Finding
	failed := false
	from := map[string]*file{}
	for _, t := range texts {
		f := readFile(t)
		if other := from[f.domain.name]; other != nil {
			f.add(f.named, SeverityError, "", "duplicate domain %q, also in %s:%d", f.domain.name, other.file, other.named.Line)
		} else if f.domain.name != "" {
			from[f.domain.name] = f
		}
		all = append(all, f.sorted()...)
		// After a mistake the other files are read for theirs, and no longer kept.
		if failed = failed || f.failed(); !failed {
			s.add(f)
		}
	}
	if failed {
		return nil, &Error{Findings: all}
	}
	return s, nil
}

// readFile reads one file. What is wrong with it is in its findings, and it is never nil: a domain
// without a name or a place is made all the same, so that the rest is read for its mistakes.
func readFile(t *fileText) *file {
	f := &file{findings: findings{file: t.name}, domain: &domain{file: t.name, text: t.text}}
	f.root = readYAML(t.text, &f.findings)
	if f.root == nil {
		// Findings need a place, and a file without content has none.
		if f.root = (&yaml.Node{Line: 1, Column: 1}); !f.failed() {
			f.add(f.root, SeverityError, "", "the file is empty; write domain: NAME and descriptors")
		}
		return f
	}
	m, ok := f.mapping(f.root, "", "a rule file is a mapping that begins with domain: NAME")
	if !ok {
		return f
	}
	f.onlyKeys(&m, "", "a rule file", "domain", "descriptors")
	f.named = f.root
	if it, there := m.members["domain"]; there {
		f.named = it.value
	}
	f.domain.name, ok = f.needed(&m, "domain", "")
	_, there := m.members["descriptors"]
	f.partial = !there
	f.descriptors(&m, "", &f.domain.top, nil)
	f.domain.top.markValues(nil)
	// Without a domain's name the names of rules are wrong, and findings would speak of them.
	if ok {
		f.lint()
	}
	return f
}

// needed reads a text that must not be empty.
func (f *findings) needed(m *mapping, key, rule string) (string, bool) {
	n := m.value(key)
	if n == nil {
		at := m.node
		if it, there := m.members[key]; there {
			at = it.key
		}
		f.add(at, SeverityError, rule, "empty %s; write %s: NAME", own(key), own(key))
		return "", false
	}
	text := f.text(m, key, rule)
	if text == "" && n.Kind == yaml.ScalarNode {
		f.add(n, SeverityError, rule, "empty %s; write %s: NAME", own(key), own(key))
	}
	return text, text != ""
}

// onlyKeys finds keys that have no place in m. It does not refuse keys that Envoy's service takes
// there without using them: a file that works there works here, and the author is warned of what
// does nothing. what names the mapping in messages, as "a descriptor".
func (f *findings) onlyKeys(m *mapping, rule, what string, known ...string) {
	for _, key := range m.order {
		if slices.Contains(known, key) {
			continue
		}
		at := m.members[key].key
		switch key {
		case "domain", "descriptors":
			f.add(at, SeverityWarning, rule, "%s has no effect in %s", key, what)
		case "key", "value", "rate_limit", "shadow_mode", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata":
			f.add(at, SeverityWarning, rule, "%s has no effect in %s; it belongs to a descriptor", key, what)
		case "unit", "requests_per_unit", "unlimited", "replaces":
			f.add(at, SeverityWarning, rule, "%s has no effect in %s; it belongs into rate_limit", key, what)
		case "name":
			f.add(at, SeverityWarning, rule, "%s has no effect in %s", key, what)
		default:
			f.add(at, SeverityError, rule, "unknown key %q in %s; %s", key, what, didYouMean(key, known))
		}
	}
}

// descriptors reads the list of descriptors in m.
func (f *file) descriptors(m *mapping, rule string, into *level, path []Entry) {
	for _, n := range f.items(m, "descriptors", rule, "descriptors is a list; begin each item with - key: NAME") {
		f.descriptor(n, rule, into, path)
	}
}

// descriptor reads one descriptor and all below it. around is the rule name of the descriptor that
// it stands in, for findings where it has no name of its own; path leads to it from the top.
func (f *file) descriptor(n *yaml.Node, around string, into *level, path []Entry) {
	m, ok := f.mapping(n, around, "a descriptor is a mapping; write - key: NAME")
	if !ok {
		return
	}
	key, ok := f.needed(&m, "key", around)
	p := &place{
		entry: Entry{Key: key, Value: f.text(&m, "value", around)}, line: n.Line,
		literal: f.oneOf(&m, "match", around, "pattern", "exact") == "exact",
	}
	// Below what any request can meet, descriptors are read for their errors.
	met := len(path) <= MaxEntries
	rule := around
	name := f.text(&m, "name", around)
	if met {
		path = append(slices.Clip(path), p.entry)
		if ok || name != "" {
			rule = ruleName(name, f.domain.name, path)
		}
	}
	f.onlyKeys(
		&m, rule, "a descriptor",
		"key", "value", "match", "rate_limit", "limits", "descriptors", "name", "owner", "shadow_mode", "fallback", "charge",
		"sync", "lease", "sharing", "leaders", "partition", "nodes", "quota", "quota_mode", "detailed_metric", "value_to_metric", "share_threshold",
		"metadata",
	)
	base := f.options(&m, rule, path, p)
	p.share, p.toMetric = base.ShareThreshold, base.ValueToMetric
	if made := f.rules(&m, base); met {
		p.rules = made
		f.domain.rules = append(f.domain.rules, made...)
	}
	if ok {
		f.put(placed{p, into, path, n, rule}, met)
	}
	// A list that is empty is as none: a request that has more entries ends here either way, and a
	// level would cost memory in each of a hundred thousand rules.
	p.below = &level{}
	f.descriptors(&m, rule, p.below, path)
	if p.below.size == 0 {
		p.below = nil
	}
}

// put adds a place to its level. met is whether requests can meet it, or all but: one level too deep is
// looked at by lint, which warns of it.
func (f *file) put(p placed, met bool) {
	if double := p.level.add(p.place); double != nil {
		f.add(p.at, SeverityError, p.rule, "duplicate descriptor, also in line %d", double.line)
		return
	}
	if met {
		f.places = append(f.places, p)
	}
}

package rules

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// member is a key of a mapping and its value, with aliases followed.
type member struct{ key, value *yaml.Node }

// mapping is the members of a mapping by key. It is what YAML means, and not what stands there:
// aliases are followed, keys that came by << are in it, and of a duplicate key the first.
//
// The readers of values below share one way of telling: each gives the zero value where there is
// nothing, so that a key left out and a key with null mean the same; and where something else
// stands than should, each adds a finding with what to write, and gives the zero value too.
type mapping struct {
	node    *yaml.Node
	members map[string]member
	// order is the keys in the order of the file, for findings to be in it.
	order []string
}

// mapping reads the keys of n. It gives false when n is no mapping; should says
// what to write then.
func (f *findings) mapping(n *yaml.Node, rule, should string) (mapping, bool) {
	if n.Kind != yaml.MappingNode {
		f.add(n, SeverityError, rule, "%s here; %s", kindOf(n), should)
		return mapping{}, false
	}
	m := mapping{node: n, members: map[string]member{}}
	// merged are keys that came by <<. One that is written too replaces it, and is no duplicate.
	merged := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		it := member{follow(n.Content[i]), follow(n.Content[i+1])}
		if it.key.Kind != yaml.ScalarNode {
			f.add(it.key, SeverityError, rule, "%s as a key; write a word", kindOf(it.key))
			continue
		}
		if it.key.ShortTag() == "!!merge" {
			f.merge(&m, merged, it, rule)
			continue
		}
		name := it.key.Value
		if before, double := m.members[name]; double && !merged[name] {
			f.add(it.key, SeverityError, rule, "duplicate key %q, also in line %d", name, before.key.Line)
			continue
		}
		m.put(it)
		delete(merged, name)
	}
	return m, true
}

// put adds a member, in place of one with the same key; but a rate_limit and
// metadata keep what the new one does not say, as with envoyproxy/ratelimit.
func (m *mapping) put(it member) {
	name := it.key.Value
	before, there := m.members[name]
	if !there {
		m.order = append(m.order, name)
	}
	if there && (name == "rate_limit" || name == "metadata") && before.value.Kind == yaml.MappingNode && it.value.Kind == yaml.MappingNode {
		it.value = over(before.value, it.value)
	}
	m.members[name] = it
}

// over is a mapping that takes over what below has and it has not. It says so by <<, so that reading
// it is like reading any other mapping.
func over(below, it *yaml.Node) *yaml.Node {
	both := *it
	merge := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!merge", Value: "<<", Line: it.Line, Column: it.Column}
	both.Content = append([]*yaml.Node{merge, below}, it.Content...)
	return &both
}

// merge takes over the keys of the mapping that << names, or of several: of
// equal keys the first. Keys that are written after it replace them, and it
// replaces those written before, which readers of YAML do not agree on; this is
// how envoyproxy/ratelimit's does:
//
//	base: &base {unit: second, requests_per_unit: 5}
//	rate_limit: {<<: *base, unit: minute}    # 5 a minute
//	rate_limit: {unit: minute, <<: *base}    # 5 a second, and a warning
//
// A mapping may take over one that takes over another. maxMerges bounds how deep.
func (f *findings) merge(m *mapping, merged map[string]bool, it member, rule string) {
	const should = "<< takes a mapping, by its alias (*), or a list of them"
	if f.merges++; f.merges > maxMerges {
		f.add(it.key, SeverityError, rule, "over %d mappings take over keys from each other by <<; write them out", maxMerges)
		return
	}
	defer func() { f.merges-- }()
	from := []*yaml.Node{it.value}
	if it.value.Kind == yaml.SequenceNode {
		from = it.value.Content
	}
	// The first of several mappings counts, and put replaces: so the last comes first.
	for _, n := range slices.Backward(from) {
		other, ok := f.mapping(follow(n), rule, should)
		if !ok {
			continue
		}
		for _, name := range other.order {
			if before, there := m.members[name]; there && !merged[name] {
				f.add(it.key, SeverityWarning, rule, "<< brings %q in place of what line %d says; write << first, then your own keys count", name, before.key.Line)
			}
			m.put(other.members[name])
			merged[name] = true
		}
	}
}

// value is what stands at a key, nil when there is nothing.
func (m *mapping) value(key string) *yaml.Node {
	it, ok := m.members[key]
	if !ok || null(it.value) {
		return nil
	}
	return it.value
}

// null is whether n says nothing.
func null(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// kindOf is what messages call that which stands at n.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode, yaml.AliasNode, yaml.DocumentNode, yaml.StreamNode:
	}
	if null(n) {
		return "nothing"
	}
	return "a single value"
}

// text reads the text at a key; empty when there is none.
func (f *findings) text(m *mapping, key, rule string) string {
	n := m.value(key)
	if n == nil {
		return ""
	}
	return f.scalar(n, rule, key+" is a text")
}

// scalar reads a text. Numbers and the like are texts too, as written: the value of the descriptor
// {key: version, value: 1.10} is 1.10, and not the number 1.1.
func (f *findings) scalar(n *yaml.Node, rule, should string) string {
	if n.Kind != yaml.ScalarNode || null(n) {
		f.add(n, SeverityError, rule, "%s here; %s", kindOf(n), should)
		return ""
	}
	if n.ShortTag() != "!!binary" {
		return n.Value
	}
	raw, err := base64.StdEncoding.DecodeString(n.Value)
	if err != nil {
		f.add(n, SeverityError, rule, "this is not base64, which !!binary needs: %v", err)
	}
	return string(raw)
}

// plain is whether n is a value of the kind of tag, or may be read as one: YAML
// 1.1 knows more spellings of numbers and flags than the reader does.
func plain(n *yaml.Node, tag string) bool {
	const quoted = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle
	return n.Kind == yaml.ScalarNode && (n.ShortTag() == tag || n.Style&quoted == 0)
}

// flag reads yes or no; no when there is none. Quoted words are refused: "false" in quotes is a text,
// and a reader that takes any text for yes would turn it round.
func (f *findings) flag(m *mapping, key, rule string) bool {
	n := m.value(key)
	if n == nil {
		return false
	}
	yes, ok := truth(n)
	if !ok {
		f.add(n, SeverityError, rule, "%s is true or false, without quotes", key)
	}
	return yes
}

// truth is a yes or no, in all the ways of YAML 1.1, which Envoy's files have. The reader of YAML is
// one of 1.2, to which yes and on are texts.
func truth(n *yaml.Node) (yes, ok bool) {
	if !plain(n, "!!bool") {
		return false, false
	}
	yes = slices.Contains([]string{"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"}, n.Value)
	no := slices.Contains([]string{"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"}, n.Value)
	return yes, yes || no
}

// number reads a whole number of least…most, as YAML 1.1 writes it: 1_000, 0x3E8 and 0b11 too; 0
// when there is none. It gives false when what stands there was refused.
func (f *findings) number(m *mapping, key, rule string, least, most int64) (int64, bool) {
	n := m.value(key)
	if n == nil {
		return 0, true
	}
	if plain(n, "!!int") {
		i, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64)
		if err == nil && i >= least && i <= most {
			return i, true
		}
	}
	f.add(n, SeverityError, rule, "%s is a whole number of %d…%d, without quotes", key, least, most)
	return 0, false
}

// oneOf reads one of several words; empty when there is none, which means the default.
func (f *findings) oneOf(m *mapping, key, rule string, words ...string) string {
	n := m.value(key)
	if n == nil {
		return ""
	}
	word := f.scalar(n, rule, key+" is one of "+strings.Join(words, ", "))
	if word == "" || slices.Contains(words, word) {
		return word
	}
	f.add(n, SeverityError, rule, "%s %q: %s", key, word, didYouMean(word, words))
	return ""
}

// items reads the list at a key, with aliases followed; should says what to write instead of anything
// else.
func (f *findings) items(m *mapping, key, rule, should string) []*yaml.Node {
	n := m.value(key)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		f.add(n, SeverityError, rule, "%s here; %s", kindOf(n), should)
		return nil
	}
	list := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		list[i] = follow(item)
	}
	return list
}

// duration reads a time such as 500ms or 30s; 0 when there is none. The units are those of limits,
// not of Go: min for minutes, and one unit only. A time of 0 is refused, as it would mean the same
// as no time.
func (f *findings) duration(m *mapping, key, rule string) time.Duration {
	n := m.value(key)
	if n == nil {
		return 0
	}
	text := f.scalar(n, rule, key+" is a time, such as 500ms or 30s")
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	units := map[string]time.Duration{
		"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour,
	}
	unit := units[text[digits:]]
	times, err := strconv.ParseInt(text[:digits], 10, 64)
	if err == nil && unit > 0 && times > 0 && times <= int64(24*time.Hour/unit) {
		return time.Duration(times) * unit
	}
	if n.Kind == yaml.ScalarNode {
		f.add(n, SeverityError, rule, "%s %q: write a time of 1us…24h, such as 500ms or 30s", key, text)
	}
	return 0
}

// metadata reads free values. They go back to Envoy as a protobuf Struct, so they become what that
// can say: null, flags, numbers, texts, lists and mappings.
func (f *findings) metadata(n *yaml.Node, rule string) map[string]any {
	m, ok := f.mapping(n, rule, "metadata is a mapping")
	if !ok || len(m.order) == 0 {
		return nil
	}
	values := make(map[string]any, len(m.order))
	for _, key := range m.order {
		values[key] = f.free(m.members[key].value, rule)
	}
	return values
}

// free reads a value of any kind.
func (f *findings) free(n *yaml.Node, rule string) any {
	switch n.Kind {
	case yaml.MappingNode:
		if m := f.metadata(n, rule); m != nil {
			return m
		}
		return map[string]any{}
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = f.free(follow(item), rule)
		}
		return list
	case yaml.ScalarNode, yaml.AliasNode, yaml.DocumentNode, yaml.StreamNode:
	}
	if null(n) {
		return nil
	}
	if yes, ok := truth(n); ok {
		return yes
	}
	switch n.ShortTag() {
	case "!!int":
		if i, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64); err == nil {
			return i
		}
	case "!!float":
		if x, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64); err == nil {
			return x
		}
	}
	text := f.scalar(n, rule, "")
	if !utf8.ValidString(text) {
		f.add(n, SeverityError, rule, "metadata goes back to Envoy as text, and this is no UTF-8")
	}
	return text
}

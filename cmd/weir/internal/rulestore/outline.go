package rulestore

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/weir-limit/weir/rules"
)

// maxIndent is how many spaces the rules of a file may be moved to the right.
const maxIndent = 8

// outline is a rule file, cut between its rules.
type outline struct {
	domain string
	head   string // all before the first rule; it ends with the line of descriptors
	indent int    // spaces before the - of each rule
	items  []item
}

// item is one rule of a file: an item of its descriptors.
type item struct {
	id    string
	owner string // what it says; empty: nothing
	text  string // from its comments on, with its - at the left
	names []name // that people read in it
}

// name is a key or a value of a rule, or a name that other rules replace it by.
type name struct{ field, text string }

// checkNames refuses names that people would take for others, but for those that
// are known: a rule that was stored before they were refused can be changed.
func (it *item) checkNames(known []name) error {
	for _, n := range it.names {
		if slices.Contains(known, n) {
			continue
		}
		if err := checkText(n.field, n.text); err != nil {
			return err
		}
	}
	return nil
}

// file is the file again.
func (o *outline) file() string {
	var b strings.Builder
	b.WriteString(o.head)
	for _, it := range o.items {
		writeIndented(&b, it.text, o.indent)
	}
	return b.String()
}

func writeIndented(b *strings.Builder, text string, indent int) {
	margin := strings.Repeat(" ", indent)
	for line := range strings.Lines(text) {
		if line != "\n" {
			b.WriteString(margin)
		}
		b.WriteString(line)
	}
}

// cutFile cuts a file of a domain. It refuses what package rules refuses, and
// files that can't be cut. name is what findings call it.
func cutFile(name, text string) (*outline, error) {
	text = normal(text)
	if err := CheckSize(text); err != nil {
		return nil, err
	}
	set, err := rules.Parse(name, []byte(text))
	if err == nil {
		err = set.Complete()
	}
	if err != nil {
		return nil, refused(err)
	}
	root, err := document(text)
	if err != nil {
		return nil, err
	}
	list, err := lastMember(root, "descriptors")
	if err != nil {
		return nil, err
	}
	o := &outline{domain: set.Domains()[0], indent: 2}
	if err := checkName("domain", o.domain); err != nil {
		return nil, err
	}
	switch {
	case len(list.Content) == 0:
		o.head, err = emptyHead(text, list)
	case list.Style&yaml.FlowStyle != 0:
		err = o.cutFlow(text, list)
	default:
		err = o.cutBlock(text, list)
	}
	if err != nil {
		return nil, err
	}
	if len(o.head) > MaxText {
		return nil, invalid("text", "%d bytes stand before the first rule; there may be %d", len(o.head), MaxText)
	}
	return o, o.check(set)
}

// CheckSize refuses a file of a domain that is too long or has too many rules,
// before anything is made of them: that takes seconds for what fits into MaxFile.
// It lets a text pass that is no file at all: the parser refuses it with a better message.
func CheckSize(text string) error {
	if len(text) > MaxFile {
		return invalid("text", "has %d bytes; the file of a domain may have %d", len(text), MaxFile)
	}
	parts := 0
	for _, mark := range []string{"\n", ",", "[", "{", ": ", "- "} {
		parts += strings.Count(text, mark)
	}
	if parts > maxParts {
		return invalid("text", "has about %d lines, keys and list items; the file of a domain may have %d, and %d rules: begin another domain", parts, maxParts, MaxRules)
	}
	root, err := document(text)
	if err != nil || root.Kind != yaml.MappingNode {
		return nil //nolint:nilerr // as above
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if n := len(root.Content[i+1].Content); root.Content[i].Value == "descriptors" && n > MaxRules {
			return invalid("text", "there are %d rules; a domain may have %d", n, MaxRules)
		}
	}
	return nil
}

// check refuses rules that can't stand alone, and a cut that changed anything.
func (o *outline) check(set *rules.Set) error {
	for i, it := range o.items {
		read, err := readItem(o.domain, it.text)
		if bad, ok := errors.AsType[*Error](err); ok {
			bad.Text = fmt.Sprintf("rule %d: %s", i+1, bad.Text)
			if len(bad.Findings) > 0 { // the file has none
				bad.Text = fmt.Sprintf("rule %d can't be kept by itself; write it without anchors of other rules", i+1)
			}
		}
		if err != nil {
			return err
		}
		o.items[i] = read
	}
	again, err := rules.Parse(o.domain, []byte(o.file()))
	if err != nil {
		return refused(err)
	}
	same := slices.EqualFunc(set.Rules(), again.Rules(), func(a, b *rules.Rule) bool {
		return a.State("") == b.State("") && a.Name == b.Name && fmt.Sprint(a.Limit) == fmt.Sprint(b.Limit)
	})
	if !same {
		return invalid("text", "the file can't be cut into its rules; write descriptors as a plain list, each item below the one before")
	}
	return nil
}

// readItem reads one rule, as people write it.
func readItem(domain, text string) (item, error) {
	text = normal(text)
	if len(text) > MaxText {
		return item{}, invalid("text", "has %d bytes; a rule may have %d", len(text), MaxText)
	}
	const before = 2 // lines
	file := fmt.Sprintf("domain: %q\ndescriptors:\n%s", domain, text)
	set, err := rules.Parse("rule", []byte(file))
	if err != nil {
		bad := refused(err)
		for i := range bad.Findings {
			bad.Findings[i].Line = max(bad.Findings[i].Line-before, 1)
		}
		return item{}, bad
	}
	root, err := document(file)
	if err != nil {
		return item{}, err
	}
	list, err := lastMember(root, "descriptors")
	if err != nil {
		return item{}, err
	}
	if len(list.Content) != 1 || list.Style&yaml.FlowStyle != 0 || list.Column != 1 {
		return item{}, invalid("text", "is not one rule; begin it with - key: NAME at the left, and nothing else there")
	}
	var said struct{ Key, Value, Owner string }
	if err := list.Content[0].Load(&said); err != nil {
		return item{}, invalid("text", "%v", err)
	}
	if made := set.Rules(); len(made) > 0 {
		said.Key, said.Value = made[0].Path[0].Key, made[0].Path[0].Value
	}
	it := item{id: rules.Entry{Key: said.Key, Value: said.Value}.ID(), owner: said.Owner, text: text, names: namesIn(said.Key, said.Value, set)}
	if it.owner != "" {
		return it, errors.Join(checkID(it.id), checkName("owner", it.owner))
	}
	return it, checkID(it.id)
}

// namesIn is the names in a rule of this key and value.
func namesIn(key, value string, set *rules.Set) []name {
	names := []name{{"rule", key}, {"rule", value}}
	for _, r := range set.Rules() {
		for _, at := range r.Path[1:] {
			names = append(names, name{"text", at.Key}, name{"text", at.Value})
		}
		names = append(names, name{"text", r.EnvoyName})
		for _, other := range r.Replaces {
			names = append(names, name{"text", other})
		}
	}
	return names
}

// cutBlock cuts a list whose items each begin a line.
func (o *outline) cutBlock(text string, list *yaml.Node) error {
	lines := slices.Collect(strings.Lines(text))
	o.indent = list.Column - 1
	if o.indent > maxIndent {
		return invalid("text", "descriptors begin %d spaces from the left; at most %d", o.indent, maxIndent)
	}
	dash := strings.Repeat(" ", o.indent) + "-"
	var starts []int
	for i := list.Line - 1; i < len(lines); i++ {
		rest, ok := strings.CutPrefix(lines[i], dash)
		if ok && (rest == "" || strings.ContainsRune(" \t\n", rune(rest[0]))) {
			starts = append(starts, i-commentsAbove(lines[:i], o.indent))
		}
	}
	if len(starts) != len(list.Content) {
		return invalid("text", "the file can't be cut into its rules; write descriptors as a plain list, each item below the one before")
	}
	o.head = strings.Join(lines[:starts[0]], "")
	for n, from := range starts {
		to := len(lines)
		if n+1 < len(starts) {
			to = starts[n+1]
		}
		var b strings.Builder
		for _, line := range lines[from:to] {
			b.WriteString(dedent(line, o.indent))
		}
		o.items = append(o.items, item{text: b.String()})
	}
	return nil
}

// commentsAbove is how many lines at the end of lines speak of what comes next.
func commentsAbove(lines []string, indent int) (n int) {
	for i := len(lines) - 1; i >= 0; i-- {
		rest := strings.TrimLeft(lines[i], " ")
		if !strings.HasPrefix(rest, "#") || len(lines[i])-len(rest) > indent {
			return n
		}
		n++
	}
	return n
}

// dedent takes at most n spaces from the left.
func dedent(line string, n int) string {
	spaces := len(line) - len(strings.TrimLeft(line, " "))
	return line[min(n, spaces):]
}

// cutFlow writes a list in brackets as one of lines.
func (o *outline) cutFlow(text string, list *yaml.Node) (err error) {
	if o.head, _, err = around(text, list); err != nil {
		return err
	}
	o.head = strings.TrimRight(o.head, " ") + "\n"
	for _, n := range list.Content {
		out, err := yaml.Dump([]*yaml.Node{n}, yaml.WithV4Defaults())
		if err != nil {
			return invalid("text", "write descriptors as a plain list: %v", err)
		}
		o.items = append(o.items, item{text: string(out)})
	}
	return nil
}

// emptyHead is a file without rules, ready for the first.
func emptyHead(text string, list *yaml.Node) (string, error) {
	if list.Kind != yaml.SequenceNode { // descriptors: and nothing
		return text, nil
	}
	before, after, err := around(text, list)
	if err != nil {
		return "", err
	}
	_, after, ok := strings.Cut(after, "]")
	if !ok {
		return "", invalid("text", "write descriptors: [] in one line")
	}
	return strings.TrimRight(before, " ") + after, nil
}

// around is what stands before a list, and from there on.
func around(text string, list *yaml.Node) (before, after string, err error) {
	at := 0
	for range list.Line - 1 {
		at += strings.IndexByte(text[at:], '\n') + 1
	}
	bracket := strings.IndexByte(text[at:], '[') // nothing before it but the key
	if bracket < 0 || len([]rune(text[at:at+bracket])) != list.Column-1 {
		return "", "", invalid("text", "write descriptors as a plain list, without anchor or tag")
	}
	at += bracket
	return text[:at], text[at:], nil
}

// document is the mapping that a file is.
func document(text string) (*yaml.Node, error) {
	loader, err := yaml.NewLoader(strings.NewReader(text))
	if err != nil {
		return nil, invalid("text", "YAML: %v", err)
	}
	var doc, more yaml.Node
	if err := loader.Load(&doc); err != nil {
		return nil, invalid("text", "YAML: %v", err)
	}
	if err := loader.Load(&more); !errors.Is(err, io.EOF) {
		return nil, invalid("text", "there is a second document; give one domain at a time")
	}
	if len(doc.Content) == 0 {
		return nil, invalid("text", "is empty; write domain: NAME and descriptors")
	}
	return doc.Content[0], nil
}

// lastMember is the value of the last key of a mapping, which must be key.
func lastMember(root *yaml.Node, key string) (*yaml.Node, error) {
	n := len(root.Content)
	if root.Kind != yaml.MappingNode || n < 2 || root.Style&yaml.FlowStyle != 0 || root.Content[n-2].Value != key {
		return nil, invalid("text", "%s must stand last in the file, below domain, for rules can be added there then", key)
	}
	return root.Content[n-1], nil
}

// normal is text without byte order mark, in lines that end with \n.
func normal(text string) string {
	text = strings.TrimPrefix(text, "\uFEFF")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// refused is an error of package rules.
func refused(err error) *Error {
	bad, ok := errors.AsType[*rules.Error](err)
	if !ok {
		return invalid("text", "%v", err)
	}
	e := &Error{Kind: Invalid, Field: "text", Text: "is refused", Findings: bad.Findings}
	for _, f := range bad.Findings {
		if f.Severity == rules.SeverityError {
			e.Text = "is refused: " + f.Text
			break
		}
	}
	return e
}

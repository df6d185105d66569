package rules

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// The bounds of a rule file. A descriptor inside another is two levels deeper.
const (
	// MaxFileSize is how many bytes a file may have, and all files of a folder or an export together.
	MaxFileSize = 64 << 20
	// maxFileNodes is how many keys, values, lists and mappings a file has, with aliases followed.
	// Envoy's form takes 11 a rule, and more, so a file has room for 150,000 rules.
	maxFileNodes = 2_000_000
	// maxFileDepth is how many lists and mappings may stand in each other; envoyproxy/ratelimit reads
	// as many.
	maxFileDepth = 10_000
	// maxMerges is how many mappings << may take out of each other.
	maxMerges = 64
)

// readYAML reads the first document of text. It gives nil when there are errors
// or nothing at all.
//
// The rule API reads what anybody with a token sends, so reading has bounds: of the text, of the
// nodes before they are made, of the depth while they are made, and of what aliases stand for
// afterwards. Ten lines of aliases of aliases could else stand for billions of nodes.
func readYAML(text []byte, f *findings) *yaml.Node {
	top := &yaml.Node{Line: 1, Column: 1}
	if len(text) > MaxFileSize {
		f.add(top, SeverityError, "", "the file has %d bytes; there may be %d", len(text), MaxFileSize)
		return nil
	}
	if pieces(text) > maxFileNodes {
		f.add(top, SeverityError, "", "the lines, keys and list items of the file are over %d together; spread it over several domains", maxFileNodes)
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxFileDepth))))
	if err != nil {
		f.add(top, SeverityError, "", "YAML: %v", err)
		return nil
	}
	var doc yaml.Node
	if err := loader.Load(&doc); err != nil {
		if !errors.Is(err, io.EOF) {
			at, message := syntax(text, err)
			f.add(at, SeverityError, "", "YAML: %s", message)
		}
		return nil
	}
	f.rest(text, loader)
	if len(doc.Content) == 0 {
		return nil
	}
	c := counter{}
	if culprit := c.count(doc.Content[0], 0); culprit != nil {
		f.add(culprit, SeverityError, "", "there are over %d keys and values, or over %d levels, from here on; aliases (*) count as what they stand for", maxFileNodes, maxFileDepth)
		return nil
	}
	return follow(doc.Content[0])
}

// rest warns of what follows the first document: envoyproxy/ratelimit passes
// over it, be it YAML or not.
func (f *findings) rest(text []byte, loader *yaml.Loader) {
	var second yaml.Node
	switch err := loader.Load(&second); {
	case err == nil && !empty(&second):
		f.add(&second, SeverityWarning, "", "a second document begins here, and has no effect; write one domain a file")
	case err != nil && !errors.Is(err, io.EOF):
		at, message := syntax(text, err)
		f.add(at, SeverityWarning, "", "what follows the first document has no effect, and is no YAML: %s", message)
	}
}

// pieces is about how many nodes YAML makes of text, found without making them. A node takes over
// 150 bytes, so a text of 64 MiB of commas would take 10 GB. It counts too many rather than too few:
// a comma in a text counts, too.
func pieces(text []byte) int {
	n := 0
	for i, c := range text {
		switch c {
		case '\n', ',', '[', '{':
			n++
		case ':', '-', '?':
			if i+1 < len(text) && text[i+1] == ' ' {
				n++
			}
		}
	}
	return n
}

// empty is whether a document holds nothing.
func empty(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" && doc.Content[0].Kind == yaml.ScalarNode
}

// counter bounds what walking over a document can cost.
type counter struct{ nodes int }

// count gives the node at which there is too much; nil where there is not. An alias counts as what
// it stands for, each time, as readers of values walk over it each time.
func (c *counter) count(n *yaml.Node, depth int) (culprit *yaml.Node) {
	if c.nodes++; c.nodes > maxFileNodes || depth > maxFileDepth {
		return n
	}
	if n.Alias != nil {
		if c.count(n.Alias, depth+1) != nil {
			return n // the alias is to blame, not what it stands for
		}
	}
	for _, child := range n.Content {
		if culprit := c.count(child, depth+1); culprit != nil {
			return culprit
		}
	}
	return nil
}

// follow is what an alias stands for. All that reads a node follows it first, so no other code knows of
// aliases.
func follow(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// syntax is where the YAML reader failed, and why. at is a node without content: findings take their
// place from nodes.
func syntax(text []byte, err error) (at *yaml.Node, message string) {
	at = &yaml.Node{Line: 1, Column: 1}
	message = err.Error()
	if e, ok := errors.AsType[*yaml.LoadError](err); ok {
		at.Line, at.Column = e.Mark.Line, e.Mark.Column
		message = e.Message
		if e.ContextMsg != "" {
			message = e.ContextMsg + ": " + message
		}
	}
	if at.Line == 0 { // bytes that are no text are found before lines are counted
		at.Line, at.Column = firstInvalid(text)
	}
	return at, message
}

// firstInvalid is where text has the first byte that YAML does not read: control characters, the two
// noncharacters at the end of the first plane, and what is no UTF-8.
func firstInvalid(text []byte) (line, column int) {
	line, column = 1, 1
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		control := r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
		if control || r == utf8.RuneError && n == 1 {
			break
		}
		if column++; r == '\n' {
			line, column = line+1, 1
		}
		text = text[n:]
	}
	return line, column
}

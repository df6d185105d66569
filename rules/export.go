package rules

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf16"
)

// Export is the text of all files that s was made of, as one YAML stream. A daemon hands its rules to
// others that way, and an operator saves them:
//
//	--- # shop.yaml
//	domain: shop
//	descriptors: […]
//	--- # team.yaml
//	…
//
// ParseExport makes the same rules of it.
func (s *Set) Export() []byte {
	var b bytes.Buffer
	for _, t := range s.texts {
		exportFile(&b, t)
	}
	return b.Bytes()
}

// exportFile writes the document of t so that each line keeps its number,
// counted from below the mark with the file's name. So a finding about a part of an export has the
// line of the file that it came from.
//
// It goes by lines and does not parse: comments, quotes and the order of keys stay as they are. What
// it has to know of YAML is where a document begins and ends.
func exportFile(b *bytes.Buffer, t *fileText) {
	text := normal(t.text)
	// begun is whether the document has begun, with a mark or without; directives whether the lines
	// so far may still be directives, which stand before the mark.
	begun, directives := false, hasDirectives(text)
	if directives {
		b.WriteString("...\n") // they may stand only behind the end of a document
	} else {
		title := t.title
		if title == "" {
			title = escape(filepath.Base(t.name), "/=")
		}
		fmt.Fprintf(b, "--- # %s\n", title)
	}
	for line := range bytes.Lines(text) {
		switch {
		case ends(line) && begun:
			return
		case !marks(line):
			begun = begun || !directives && !blank(line)
		case begun:
			return // what comes behind is empty, or the file would not be in a set
		case directives:
			begun, directives = true, false
		case blank(line[3:]):
			begun = true
			b.WriteString("# ") // the mark stands above
		default:
			begun = true
			line = append([]byte("   "), line[3:]...)
		}
		b.Write(bytes.TrimSuffix(line, []byte("\n")))
		b.WriteByte('\n')
	}
}

// ParseExport reads what Export wrote, or another stream of rule files, each a
// document. Findings call a document name#FILE, and count its lines from its
// beginning. The error is an *Error. A document that says nothing is left out, as at the beginning of
// a stream that starts with ---.
func ParseExport(name string, text []byte) (*Set, error) {
	if len(text) > MaxFileSize {
		return nil, exportError(name, fmt.Sprintf("rules have at most %d bytes, all together", MaxFileSize))
	}
	var texts []*fileText
	var part *fileText // the document that is being read
	next := func(title string) {
		if title == "" {
			title = fmt.Sprint(len(texts) + 1)
		}
		part = &fileText{name: name + "#" + title, title: title}
	}
	end := func() {
		if firstLine(part.text) != nil {
			texts = append(texts, part)
		}
		next("")
	}
	next("")
	for line := range bytes.Lines(normal(text)) {
		switch {
		case ends(line):
			end()
			continue
		case marks(line) && !onlyDirectives(part.text):
			end()
			if blank(line[3:]) {
				next(strings.TrimLeft(string(bytes.TrimSpace(line[3:])), "# "))
				continue
			}
		}
		part.text = append(part.text, line...)
	}
	end()
	switch {
	case len(texts) == 0:
		return nil, exportError(name, "there are no rules")
	case len(texts) > maxFiles:
		return nil, exportError(name, fmt.Sprintf("%d documents; there may be %d", len(texts), maxFiles))
	}
	return collect(texts)
}

// exportError is about an export as a whole.
func exportError(name, text string) *Error {
	return &Error{Findings: []Finding{{File: name, Line: 1, Column: 1, Text: text}}}
}

// normal is text as UTF-8 without a byte order mark, its lines ended by \n. To
// YAML it is the same; a stream of several files can have one encoding only.
func normal(text []byte) []byte {
	switch {
	case bytes.HasPrefix(text, []byte("\uFEFF")):
		text = text[3:]
	case bytes.HasPrefix(text, []byte{0xFF, 0xFE}):
		text = fromUTF16(text[2:], binary.LittleEndian)
	case bytes.HasPrefix(text, []byte{0xFE, 0xFF}):
		text = fromUTF16(text[2:], binary.BigEndian)
	}
	if bytes.IndexByte(text, '\r') < 0 {
		return text
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
}

// fromUTF16 is text in UTF-8. Half a character at its end is left out.
func fromUTF16(text []byte, order binary.ByteOrder) []byte {
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = order.Uint16(text[2*i:])
	}
	return []byte(string(utf16.Decode(units)))
}

// marks is whether a document begins with line. YAML has no other use for ---
// at the left, not even in texts of several lines.
func marks(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || strings.IndexByte(" \t\n", line[3]) >= 0)
}

// ends is whether a document ends with line.
func ends(line []byte) bool {
	return bytes.HasPrefix(line, []byte("...")) && blank(line[3:])
}

// blank is whether a line says nothing.
func blank(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// firstLine is the first line that says something; nil when none does.
func firstLine(text []byte) []byte {
	for line := range bytes.Lines(text) {
		if !blank(line) {
			return line
		}
	}
	return nil
}

// hasDirectives is whether text begins with directives, such as %YAML 1.1.
func hasDirectives(text []byte) bool { return bytes.HasPrefix(firstLine(text), []byte("%")) }

// onlyDirectives is whether text has directives and nothing else so far: then the next mark begins
// their own document, and not another one.
func onlyDirectives(text []byte) bool {
	some := false
	for line := range bytes.Lines(text) {
		switch {
		case line[0] == '%':
			some = true
		case !blank(line):
			return false
		}
	}
	return some
}

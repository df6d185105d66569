package accesslog

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how deep objects and arrays may be nested in a line.
const maxDepth = 100

// kind is what a JSON value is.
type kind uint8

const (
	nothing kind = iota // null, true and false, which say nothing of a request
	number
	text
	object
	array
)

// value is a JSON value as it stands in the line; that of a text is without
// its quotes.
type value struct {
	kind kind
	text []byte
}

func (v value) scalar() bool { return v.kind == text || v.kind == number }

// decoded is the value with its escapes undone, in place, so that it may be
// called once.
func (v value) decoded() []byte {
	slash := bytes.IndexByte(v.text, '\\')
	if slash < 0 {
		return v.text
	}
	out, in := v.text[:slash], v.text[slash:]
	for len(in) > 0 {
		if in[0] != '\\' {
			out, in = append(out, in[0]), in[1:]
			continue
		}
		if in[1] != 'u' {
			c := unescaped(in[1])
			if in[1] == '/' {
				c = '/'
			}
			out, in = append(out, c), in[2:]
			continue
		}
		r, size := rune(unhex4(in[2:])), len(`\u0000`)
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if len(in) >= 12 && in[6] == '\\' && in[7] == 'u' {
				low = rune(unhex4(in[8:]))
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				size = 12
			}
		}
		in = in[size:]
		out = utf8.AppendRune(out, r)
	}
	return out
}

// unhex4 is the number that four hexadecimal digits make.
func unhex4(b []byte) uint16 {
	return uint16(unhex(b[0]))<<12 | uint16(unhex(b[1]))<<8 | uint16(unhex(b[2]))<<4 | uint16(unhex(b[3]))
}

// scanner reads JSON. It accepts what encoding/json does, but for nesting
// deeper than maxDepth.
type scanner struct {
	rest []byte
}

func (s *scanner) space() {
	i := 0
	for i < len(s.rest) && (s.rest[i] == ' ' || s.rest[i] == '\t' || s.rest[i] == '\r' || s.rest[i] == '\n') {
		i++
	}
	s.rest = s.rest[i:]
}

// next takes the byte c if it comes next.
func (s *scanner) next(c byte) bool {
	if len(s.rest) == 0 || s.rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

// value takes a value of any kind, depth levels down.
func (s *scanner) value(depth int) (value, bool) {
	if len(s.rest) == 0 || depth > maxDepth {
		return value{}, false
	}
	whole := s.rest
	switch c := s.rest[0]; {
	case c == '"':
		t, ok := s.text()
		return value{text, t}, ok
	case c == '{':
		ok := s.object(depth)
		return value{object, whole[:len(whole)-len(s.rest)]}, ok
	case c == '[':
		ok := s.array(depth)
		return value{array, whole[:len(whole)-len(s.rest)]}, ok
	case c == '-' || isDigit(c):
		ok := s.number()
		return value{number, whole[:len(whole)-len(s.rest)]}, ok
	}
	for _, word := range [...]string{"null", "true", "false"} {
		if bytes.HasPrefix(s.rest, []byte(word)) {
			s.rest = s.rest[len(word):]
			return value{}, true
		}
	}
	return value{}, false
}

func (s *scanner) object(depth int) bool { return s.members(depth, nil) }

// members takes an object, and calls f, which may be nil, for each member.
func (s *scanner) members(depth int, f func(name []byte, v value)) bool {
	if !s.next('{') {
		return false
	}
	s.space()
	if s.next('}') {
		return true
	}
	for {
		name, ok := s.text()
		if !ok {
			return false
		}
		s.space()
		if !s.next(':') {
			return false
		}
		s.space()
		v, ok := s.value(depth + 1)
		if !ok {
			return false
		}
		if f != nil {
			f(name, v)
		}
		s.space()
		if s.next('}') {
			return true
		}
		if !s.next(',') {
			return false
		}
		s.space()
	}
}

func (s *scanner) array(depth int) bool {
	s.next('[')
	s.space()
	if s.next(']') {
		return true
	}
	for {
		if _, ok := s.value(depth + 1); !ok {
			return false
		}
		s.space()
		if s.next(']') {
			return true
		}
		if !s.next(',') {
			return false
		}
		s.space()
	}
}

// text takes a text and returns what is between its quotes.
func (s *scanner) text() ([]byte, bool) {
	if !s.next('"') {
		return nil, false
	}
	for i := 0; ; {
		i += plainLen(s.rest[i:])
		if i == len(s.rest) {
			return nil, false
		}
		switch s.rest[i] {
		case '"':
			t := s.rest[:i]
			s.rest = s.rest[i+1:]
			return t, true
		case '\\':
			n := escapeLen(s.rest[i:])
			if n == 0 {
				return nil, false
			}
			i += n
		default: // a control character
			return nil, false
		}
	}
}

// plainLen is how many bytes come before a quote, a backslash or a control
// character. It looks at eight at a time, for most of a line is such text.
func plainLen(b []byte) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^each*'"', w^each*'\\' // 0 where it is one
		if ((w-each*' ')&^w|(quote-each)&^quote|(slash-each)&^slash)&high != 0 {
			break
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// escapeLen is the length of the escape that b begins with, 0 when it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	if b[1] != 'u' {
		if bytes.IndexByte([]byte(`"\/bfnrt`), b[1]) < 0 {
			return 0
		}
		return 2
	}
	if len(b) < 6 {
		return 0
	}
	for _, c := range b[2:6] {
		if unhex(c) > 15 {
			return 0
		}
	}
	return 6
}

func (s *scanner) number() bool {
	s.next('-')
	if !s.next('0') && !s.digits() {
		return false
	}
	if s.next('.') && !s.digits() {
		return false
	}
	if s.next('e') || s.next('E') {
		if !s.next('+') {
			s.next('-')
		}
		return s.digits()
	}
	return true
}

// digits takes at least one digit.
func (s *scanner) digits() bool {
	i := 0
	for i < len(s.rest) && isDigit(s.rest[i]) {
		i++
	}
	s.rest = s.rest[i:]
	return i > 0
}

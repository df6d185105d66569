package httplimit

import (
	"encoding/base64"
	"strconv"
	"strings"
)

const (
	// maxLearned is how long a field may be to be read, and maxMembers how many
	// members it may have. A field with more is ignored: a server that a client talks to is not
	// always a friendly one, and what is learned only makes the client slower.
	maxLearned = 16 << 10
	maxMembers = 64
)

// value is a bare item of a structured field (RFC 9651), as far as limits are told
// by it: an Integer, a Decimal, or a String or Token; any other value has no kind.
type value struct {
	kind   byte  // 'i', 'd', 't' or 0
	number int64 // of an Integer; a Decimal is read to its end, and its number is not wanted
	text   string
}

// member is one of a List of Items, or, with a key, of a Dictionary. The three drafts that servers
// follow differ in which it is:
//
//	RateLimit: "user";r=5;t=30                     a List; the text is the name of a policy
//	RateLimit: limit=10, remaining=5, reset=30     a Dictionary of Integers
//	RateLimit-Policy: 10;w=60                      a List; the Integer is the limit
type member struct {
	key string // empty: of a List
	value
	params map[string]value // nil: there are none; of two with a name the last counts
}

// integer is a parameter that must be an Integer and not negative. ok is false
// when it is something else; when it is not there, n is 0.
func (m *member) integer(name string) (n int64, there, ok bool) {
	v, there := m.params[name]
	return v.number, there, !there || v.kind == 'i' && v.number >= 0
}

// parseMembers reads a List of Items or a Dictionary of them. It is false for
// what is neither, and for Inner Lists, which no field of limits has.
func parseMembers(field string) ([]member, bool) {
	if len(field) > maxLearned {
		return nil, false
	}
	p := parser{strings.Trim(field, " ")}
	var all []member
	for p.rest != "" {
		m, ok := p.member()
		if !ok || len(all) == maxMembers {
			return nil, false
		}
		all = append(all, m)
		p.space()
		if p.rest == "" {
			break
		}
		if !p.skip(',') {
			return nil, false
		}
		if p.space(); p.rest == "" { // a comma at the end
			return nil, false
		}
	}
	return all, true
}

// parser reads rest from the left. Each method takes off what it reads; after one that is false, rest
// means nothing.
type parser struct{ rest string }

// space skips what may stand around a comma.
func (p *parser) space() { p.rest = strings.TrimLeft(p.rest, " \t") }

// skip takes off c, if it is next.
func (p *parser) skip(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// take is the longest start of which each byte is one of those.
func (p *parser) take(among func(byte) bool) string {
	n := 0
	for n < len(p.rest) && among(p.rest[n]) {
		n++
	}
	taken := p.rest[:n]
	p.rest = p.rest[n:]
	return taken
}

// member reads an Item with its parameters, and the key before it if there is one. Whether a name is a
// key or a Token is known behind it: only a key has a = there.
func (p *parser) member() (m member, ok bool) {
	before := p.rest
	if m.key, ok = p.name(); !ok || !p.skip('=') {
		m.key, p.rest = "", before
	}
	if m.value, ok = p.bare(); !ok {
		return m, false
	}
	for p.skip(';') {
		p.rest = strings.TrimLeft(p.rest, " ")
		name, ok := p.name()
		if !ok {
			return m, false
		}
		var v value // true, when nothing is said
		if p.skip('=') {
			if v, ok = p.bare(); !ok {
				return m, false
			}
		}
		if m.params == nil {
			m.params = map[string]value{}
		}
		m.params[name] = v
	}
	return m, true
}

// name is the key of a parameter or of a member of a Dictionary.
func (p *parser) name() (string, bool) {
	if p.rest == "" || !lower(p.rest[0]) && p.rest[0] != '*' {
		return "", false
	}
	return p.take(func(c byte) bool { return lower(c) || digit(c) || strings.IndexByte("_-.*", c) >= 0 }), true
}

// bare reads an Item without its parameters. The types that no field of limits has (bytes, booleans,
// dates) are read to their end, as other parameters beside those that count may have them.
func (p *parser) bare() (value, bool) {
	if p.rest == "" {
		return value{}, false
	}
	switch c := p.rest[0]; {
	case digit(c) || c == '-':
		return p.number()
	case c == '"':
		return p.text()
	case lower(c|0x20) || c == '*':
		text := p.take(func(c byte) bool {
			return lower(c|0x20) || digit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
		})
		return value{kind: 't', text: text}, true
	case c == ':':
		encoded, rest, ok := strings.Cut(p.rest[1:], ":")
		p.rest = rest
		_, err := base64.StdEncoding.DecodeString(encoded)
		return value{}, ok && err == nil
	case c == '?':
		p.rest = p.rest[1:]
		return value{}, p.skip('0') || p.skip('1')
	case c == '@':
		p.rest = p.rest[1:]
		v, ok := p.number()
		return value{}, ok && v.kind == 'i'
	}
	return value{}, false
}

// number is an Integer of up to 15 digits, or a Decimal of up to 12 and 3.
func (p *parser) number() (value, bool) {
	sign := int64(1)
	if p.skip('-') {
		sign = -1
	}
	whole := p.take(digit)
	if p.skip('.') {
		part := p.take(digit)
		return value{kind: 'd'}, len(whole) > 0 && len(whole) <= 12 && len(part) > 0 && len(part) <= 3
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	return value{kind: 'i', number: sign * n}, err == nil && len(whole) <= 15
}

// text is a String: printable ASCII in quotes, in which \ stands before " and \.
func (p *parser) text() (value, bool) {
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case c == '"':
			p.rest = p.rest[i+1:]
			return value{kind: 't', text: b.String()}, true
		case c < ' ' || c > '~':
			return value{}, false
		case c == '\\':
			if i++; i == len(p.rest) || p.rest[i] != '"' && p.rest[i] != '\\' {
				return value{}, false
			}
			c = p.rest[i]
		}
		b.WriteByte(c)
	}
	return value{}, false
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }
func digit(c byte) bool { return '0' <= c && c <= '9' }

package httpapi

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// inputError says what is wrong with a request, where, and what to write
// instead.
type inputError struct {
	where string // such as descriptors[2].cost; empty for the whole
	what  string
}

func (e *inputError) Error() string {
	if e.where == "" {
		return e.what
	}
	return e.where + ": " + e.what
}

// within says that e is inside of the member or element called where.
func within(where string, err error) error {
	e, ok := err.(*inputError) //nolint:errorlint // this package makes it and wraps it nowhere
	if !ok {
		return err
	}
	switch {
	case e.where == "":
		e.where = where
	case e.where[0] == '[':
		e.where = where + e.where
	default:
		e.where = where + "." + e.where
	}
	return e
}

func faultf(format string, args ...any) error {
	return &inputError{what: fmt.Sprintf(format, args...)}
}

// text reads JSON (RFC 8259) whose shape is known, and takes nothing else: no
// member that is not asked for, none twice, no value of another type, no text
// that is not UTF-8, nothing behind the end. The known shape bounds how deep it reads.
type text struct {
	src string
	at  int
}

func (t *text) space() {
	for t.at < len(t.src) {
		switch t.src[t.at] {
		case ' ', '\t', '\n', '\r':
			t.at++
		default:
			return
		}
	}
}

// next is the first byte of what comes next, 0 at the end.
func (t *text) next() byte {
	t.space()
	if t.at == len(t.src) {
		return 0
	}
	return t.src[t.at]
}

// take steps over c if it comes next.
func (t *text) take(c byte) bool {
	if t.next() != c || t.at == len(t.src) {
		return false
	}
	t.at++
	return true
}

// end checks that nothing follows.
func (t *text) end() error {
	if t.next(); t.at < len(t.src) {
		return faultf("something follows the end of the request at byte %d; send one JSON object", t.at)
	}
	return nil
}

// wanted is the error for finding something else than what.
func (t *text) wanted(what string) error {
	c := t.next()
	found := "something that is not JSON"
	switch {
	case t.at == len(t.src):
		found = "the end"
	case c == '{':
		found = "an object"
	case c == '[':
		found = "an array"
	case c == '"':
		found = "a string"
	case c == '-' || '0' <= c && c <= '9':
		found = "a number"
	case strings.HasPrefix(t.src[t.at:], "true"), strings.HasPrefix(t.src[t.at:], "false"):
		found = "a boolean"
	case strings.HasPrefix(t.src[t.at:], "null"):
		found = "null"
	}
	return faultf("write %s, not %s (byte %d)", what, found, t.at)
}

// object reads an object whose members are among names, and calls member with
// the index of each before its value. It returns the members that were there
// as bits.
func (t *text) object(names []string, member func(i int) error) (seen uint, err error) {
	if !t.take('{') {
		return 0, t.wanted("an object")
	}
	if t.take('}') {
		return 0, nil
	}
	for {
		if t.next() != '"' {
			return seen, t.wanted("the name of a member")
		}
		name, err := t.string()
		if err != nil {
			return seen, err
		}
		i := slices.Index(names, name)
		switch {
		case i < 0:
			return seen, faultf("unknown member %s; the members are %s", quote(name), strings.Join(names, ", "))
		case seen&(1<<i) != 0:
			return seen, faultf("member %s stands there twice; write it once", quote(name))
		case !t.take(':'):
			return seen, t.wanted("a colon after " + quote(name))
		}
		seen |= 1 << i
		if err := member(i); err != nil {
			return seen, within(names[i], err)
		}
		if t.take('}') {
			return seen, nil
		}
		if !t.take(',') {
			return seen, t.wanted("a comma or }")
		}
	}
}

// quote is s between quotation marks, shortened to what a person reads.
func quote(s string) string {
	if len(s) > 64 {
		s = strings.ToValidUTF8(s[:64], "") + "…"
	}
	return strconv.Quote(s)
}

// array reads an array of at most most elements and calls element for each.
func (t *text) array(most int, element func(i int) error) error {
	if !t.take('[') {
		return t.wanted("an array")
	}
	if t.take(']') {
		return nil
	}
	for i := 0; ; i++ {
		if i == most {
			return faultf("there are more than %d; send several requests", most)
		}
		if err := element(i); err != nil {
			return within("["+strconv.Itoa(i)+"]", err)
		}
		if t.take(']') {
			return nil
		}
		if !t.take(',') {
			return t.wanted("a comma or ]")
		}
	}
}

func (t *text) boolean() (bool, error) {
	t.space()
	for _, word := range [...]string{"true", "false"} {
		if strings.HasPrefix(t.src[t.at:], word) {
			t.at += len(word)
			return word == "true", nil
		}
	}
	return false, t.wanted("true or false")
}

// integer reads a whole number from 0 to most, written in digits alone.
func (t *text) integer(most int64) (int64, error) {
	t.space()
	start := t.at
	for t.at < len(t.src) && '0' <= t.src[t.at] && t.src[t.at] <= '9' {
		t.at++
	}
	digits := t.src[start:t.at]
	rest := t.src[t.at:]
	switch {
	case digits == "" && strings.HasPrefix(rest, "-"):
		return 0, faultf("it must be 0…%d; write a whole number without a sign", most)
	case digits == "":
		return 0, t.wanted("a whole number")
	case rest != "" && strings.IndexByte(".eE", rest[0]) >= 0, len(digits) > 1 && digits[0] == '0':
		return 0, faultf("write a whole number in digits alone, such as 1 or 1000")
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > most {
		return 0, faultf("%s is too large; it must be 0…%d", quote(digits), most)
	}
	return n, nil
}

// string reads a string. Without escapes it shares memory with the source.
func (t *text) string() (string, error) {
	if !t.take('"') {
		return "", t.wanted("a string")
	}
	start := t.at
	for t.at < len(t.src) {
		switch c := t.src[t.at]; {
		case c == '"':
			s := t.src[start:t.at]
			t.at++
			return s, t.valid(s)
		case c == '\\':
			return t.escaped(start)
		case c < ' ':
			return "", t.control(c)
		}
		t.at++
	}
	return "", faultf("a string does not end; close it with a quotation mark")
}

func (t *text) valid(s string) error {
	if utf8.ValidString(s) {
		return nil
	}
	return faultf("a string before byte %d is not UTF-8; encode binary keys, in base64 for example", t.at)
}

func (t *text) control(c byte) error {
	return faultf("a string holds the control character %#02x at byte %d; write \\u%04x", c, t.at, c)
}

// escaped reads on from the first escape of a string that began at start.
func (t *text) escaped(start int) (string, error) {
	b := []byte(t.src[start:t.at])
	for t.at < len(t.src) {
		c := t.src[t.at]
		t.at++
		switch {
		case c == '"':
			s := string(b)
			return s, t.valid(s)
		case c < ' ':
			t.at--
			return "", t.control(c)
		case c != '\\':
			b = append(b, c)
		default:
			r, err := t.escape()
			if err != nil {
				return "", err
			}
			b = utf8.AppendRune(b, r)
		}
	}
	return "", faultf("a string does not end; close it with a quotation mark")
}

// escape reads what follows a backslash.
func (t *text) escape() (rune, error) {
	at := t.at - 1
	if t.at < len(t.src) {
		c := t.src[t.at]
		t.at++
		switch c {
		case '"', '\\', '/':
			return rune(c), nil
		case 'b':
			return '\b', nil
		case 'f':
			return '\f', nil
		case 'n':
			return '\n', nil
		case 'r':
			return '\r', nil
		case 't':
			return '\t', nil
		case 'u':
			if r, ok := t.unicode(); ok {
				return r, nil
			}
		}
	}
	return 0, faultf("the escape at byte %d is not one of JSON, or half of a pair; write \\uXXXX, and \\uD8XX\\uDCXX for pairs", at)
}

// unicode reads the digits of \uXXXX, and the second half of a pair. Half of a
// pair is no character: taken for U+FFFD, different keys would be one.
func (t *text) unicode() (rune, bool) {
	r, ok := t.hex()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if !strings.HasPrefix(t.src[t.at:], `\u`) {
		return 0, false
	}
	t.at += 2
	low, ok := t.hex()
	r = utf16.DecodeRune(r, low)
	return r, ok && r != utf8.RuneError
}

func (t *text) hex() (rune, bool) {
	if len(t.src)-t.at < 4 {
		return 0, false
	}
	digits := t.src[t.at : t.at+4]
	t.at += 4
	n, err := strconv.ParseUint(digits, 16, 16) // takes neither sign nor _
	return rune(n), err == nil
}

package accesslog

import (
	"bytes"
	"strconv"
)

// maxStamp is the longest that is looked at as the time between brackets.
const maxStamp = 64

// parseCLF reads a line of the common log format,
//
//	address ident user [time] "request" status bytes
//
// and with later set what the combined format adds to it,
//
//	"referer" "user agent"
//
// The user may hold blanks and brackets, and ident and user may be missing.
func (l *Line) parseCLF(b []byte, later bool) Fault {
	space := bytes.IndexByte(b, ' ')
	if space < 0 || !l.setAddress(b[:space]) {
		return NoAddress
	}
	b = b[space:]
	names, b, ok := l.cutTime(b)
	if !ok {
		return NoTime
	}
	if len(names) > 0 {
		if _, user, ok := bytes.Cut(names[1:], []byte(" ")); ok {
			l.set(User, undoEscapes(user))
		}
	}
	request, b, ok := cutQuoted(b)
	if !ok || !l.setRequest(undoEscapes(request)) {
		return NoRequest
	}
	status, b := cutWord(b)
	if !l.setStatus(status) {
		return NoStatus
	}
	size, b := cutWord(b)
	if l.costField == CostBytes {
		l.costText = size
	}
	if later {
		referer, b, _ := cutQuoted(b)
		agent, _, _ := cutQuoted(b)
		l.set(Referer, undoEscapes(referer))
		l.set(UserAgent, undoEscapes(agent))
	}
	return Whole
}

// cutTime finds the first " [time]" in b before a quote, keeps its time and
// returns what is before and after it.
func (l *Line) cutTime(b []byte) (before, after []byte, ok bool) {
	for at := 1; at < len(b); at++ {
		next := bytes.IndexByte(b[at:], '[')
		if next < 0 {
			return nil, nil, false
		}
		at += next
		if b[at-1] != ' ' {
			continue
		}
		stamp := b[at+1 : min(at+1+maxStamp, len(b))]
		end := bytes.IndexByte(stamp, ']')
		if end < 0 {
			continue
		}
		after = b[at+1+end+1:]
		if l.Time, ok = l.stamps.parse(stamp[:end]); ok && bytes.HasPrefix(after, []byte(` "`)) {
			return b[:at-1], after, true
		}
	}
	return nil, nil, false
}

// cutWord returns the word after the blank that b begins with, and the rest.
func cutWord(b []byte) (word, rest []byte) {
	if len(b) == 0 || b[0] != ' ' {
		return nil, b
	}
	if end := bytes.IndexByte(b[1:], ' '); end >= 0 {
		return b[1 : 1+end], b[1+end:]
	}
	return b[1:], nil
}

// cutQuoted returns the text in quotes after the blank that b begins with, and
// the rest. A quote after a backslash belongs to the text.
func cutQuoted(b []byte) (text, rest []byte, ok bool) {
	if len(b) < 2 || b[0] != ' ' || b[1] != '"' {
		return nil, nil, false
	}
	b = b[2:]
	for at := 0; at < len(b); {
		quote := bytes.IndexByte(b[at:], '"')
		if quote < 0 {
			break
		}
		slash := bytes.IndexByte(b[at:at+quote], '\\')
		if slash < 0 {
			return b[:at+quote], b[at+quote+1:], true
		}
		at += slash + 2
	}
	return nil, nil, false
}

// undoEscapes undoes the escapes of Apache and nginx: \xHH, \", \\ and those of C. A
// backslash before anything else stands for itself.
func undoEscapes(b []byte) []byte {
	if bytes.IndexByte(b, '\\') < 0 {
		return b
	}
	out, rest := make([]byte, 0, len(b)), string(b)
	for rest != "" {
		if len(rest) > 1 && rest[0] == '\\' && isOne(rest[1], `x"\ntrbfv`) {
			if c, _, after, err := strconv.UnquoteChar(rest, '"'); err == nil {
				out, rest = append(out, byte(c)), after
				continue
			}
		}
		out, rest = append(out, rest[0]), rest[1:]
	}
	return out
}

package httplimit

import (
	"net/netip"
	"strings"
)

// listHops is the addresses of X-Forwarded-For from the last of its last line to
// the first of its first: the last was written by the nearest proxy. Of
//
//	X-Forwarded-For: 198.51.100.9, 203.0.113.7
//	X-Forwarded-For: 10.0.0.2
//
// it is 10.0.0.2, 203.0.113.7, 198.51.100.9. A client may begin the field as it likes, so the further a
// hop is to the left, the less it is worth. A caller stops where it believes no more: what is left of
// there is not even read, however long a client made it.
func listHops(lines []string) func(yield func(netip.Addr) bool) {
	return func(yield func(netip.Addr) bool) {
		for i := len(lines) - 1; i >= 0; i-- {
			for line, more := lines[i], true; more; {
				var last string
				if at := strings.LastIndexByte(line, ','); at >= 0 {
					line, last = line[:at], line[at+1:]
				} else {
					last, more = line, false
				}
				if strings.Trim(last, " \t") == "" {
					continue // a List may have empty elements (RFC 9110 §5.6.1)
				}
				if !yield(hop(last)) {
					return
				}
			}
		}
	}
}

// forwardedHops is the same of Forwarded (RFC 7239). An element that can't be read
// is a hop that can't be read. It reads from the right: whatever a client begins and
// does not end, a proxy that adds to the line has written after it.
func forwardedHops(lines []string) func(yield func(netip.Addr) bool) {
	return func(yield func(netip.Addr) bool) {
		for i := len(lines) - 1; i >= 0; i-- {
			for line, more := lines[i], true; more; {
				var last string
				line, last, more = cutLastElement(line)
				if strings.Trim(last, " \t") == "" {
					continue // as in any List
				}
				// unknown and _hidden are no addresses, nor is an element without for.
				if node, ok := forwardedNode(last); !yield(hop(node)) || !ok {
					return
				}
			}
		}
	}
}

// cutLastElement cuts a line at its last comma that is not in quotes; without one,
// all of it is the last element.
func cutLastElement(line string) (before, last string, more bool) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch {
		case line[i] == ',' && !quoted:
			return line[:i], line[i+1:], true
		case line[i] == '"' && (!quoted || !escaped(line[:i])):
			quoted = !quoted
		}
	}
	return "", line, false
}

// escaped is whether what follows text in a quoted-string has a backslash of its own.
func escaped(text string) bool {
	return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1
}

// forwardedNode is what an element says by for. It is false when the element is not
// as RFC 7239 §4 wants it: name=value pairs with ; between them.
//
//	for="[2001:db8::7]:4711";proto=https    →  [2001:db8::7]:4711
//	proto=https                             →  nothing, and true
//
// It is strict, because two readers that read a malformed element differently find different clients: a
// client could then be limited as one and served as another.
func forwardedNode(element string) (node string, ok bool) {
	seen := false
	for {
		element = strings.TrimLeft(element, " \t;")
		if element == "" {
			return node, true
		}
		name, after, found := strings.Cut(element, "=")
		if !found || !isToken(name) {
			return "", false
		}
		value, after, ok := forwardedValue(after)
		if !ok {
			return "", false
		}
		if strings.EqualFold(name, "for") {
			if seen {
				return "", false // which of the two was counted?
			}
			node, seen = value, true
		}
		element = strings.TrimLeft(after, " \t")
		if element != "" && element[0] != ';' {
			return "", false
		}
	}
}

// forwardedValue reads a token or a quoted-string (RFC 9110 §5.6).
func forwardedValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, " \t,;\"")
		if end < 0 {
			end = len(s)
		}
		// Proxies write 192.0.2.1:80 without the quotes that it needs.
		return s[:end], s[end:], end > 0
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

// tokenBytes are those of a token (RFC 9110 §5.6.2).
const tokenBytes = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

func isToken(s string) bool { return s != "" && strings.Trim(s, tokenBytes) == "" }

package httplimit

import (
	"net/netip"
	"strings"
)

// listHops is the addresses of X-Forwarded-For from the last of its last line to
// the first of its first: the last was written by the nearest proxy.
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

// forwardedHops is the same of Forwarded (RFC 7239). A line that can't be read is
// a hop that can't be read.
func forwardedHops(lines []string) func(yield func(netip.Addr) bool) {
	return func(yield func(netip.Addr) bool) {
		for i := len(lines) - 1; i >= 0; i-- {
			nodes, ok := forwardedNodes(lines[i])
			if !ok {
				yield(netip.Addr{})
				return
			}
			for j := len(nodes) - 1; j >= 0; j-- {
				// unknown and _hidden are no addresses, nor is an element without for.
				if !yield(hop(nodes[j])) {
					return
				}
			}
		}
	}
}

// forwardedNodes is what each element of a line says by for, the last maxHops of
// them. It is false when the line is not as RFC 7239 §4 wants it.
func forwardedNodes(line string) (nodes []string, ok bool) {
	for {
		line = strings.TrimLeft(line, " \t,")
		if line == "" {
			return nodes, true
		}
		var node string
		if node, line, ok = forwardedElement(line); !ok {
			return nil, false
		}
		if len(nodes) == maxHops {
			nodes = append(nodes[:0], nodes[1:]...)
		}
		nodes = append(nodes, node)
	}
}

// forwardedElement reads name=value pairs with ; between them, up to a comma.
func forwardedElement(line string) (node, rest string, ok bool) {
	seen := false
	for {
		line = strings.TrimLeft(line, " \t;")
		if line == "" || line[0] == ',' {
			return node, line, true
		}
		name, after, found := strings.Cut(line, "=")
		if !found || !isToken(name) {
			return "", "", false
		}
		value, after, ok := forwardedValue(after)
		if !ok {
			return "", "", false
		}
		if strings.EqualFold(name, "for") {
			if seen {
				return "", "", false // which of the two was counted?
			}
			node, seen = value, true
		}
		line = strings.TrimLeft(after, " \t")
		if line != "" && line[0] != ';' && line[0] != ',' {
			return "", "", false
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

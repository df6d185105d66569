package accesslog

import "bytes"

// setRequest reads a request line: method, target and, but for HTTP/0.9, the
// protocol.
func (l *Line) setRequest(r []byte) bool {
	method, target, ok := bytes.Cut(r, []byte(" "))
	if !ok {
		return false
	}
	if last := bytes.LastIndexByte(target, ' '); last >= 0 && bytes.HasPrefix(target[last+1:], []byte("HTTP/")) {
		target = target[:last]
	}
	return l.setMethod(method) && l.setTarget(target)
}

func (l *Line) setMethod(v []byte) bool {
	for _, c := range v {
		if !isAlnum(c) && bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), c) < 0 {
			return false
		}
	}
	l.set(Method, v)
	return len(l.values[Method]) > 0
}

// setTarget reads the target of a request in any of its four forms. The method
// is known by then. A host in the target stands back behind one that the log
// names by itself.
func (l *Line) setTarget(t []byte) bool {
	switch {
	case len(t) == 0 || len(t) == 1 && t[0] == '-':
		return false
	case t[0] == '/':
	case string(l.values[Method]) == "CONNECT":
		l.setHost(t)
		return true
	default:
		if scheme, rest, ok := bytes.Cut(t, []byte("://")); ok && bytes.IndexByte(scheme, '?') < 0 {
			end := bytes.IndexAny(rest, "/?#")
			if end < 0 {
				end = len(rest)
			}
			l.setHost(rest[:end])
			t = rest[end:]
			if len(t) == 0 || t[0] != '/' {
				t = []byte("/")
			}
		}
	}
	t, _, _ = bytes.Cut(t, []byte("?"))
	t, _, _ = bytes.Cut(t, []byte("#"))
	l.set(Path, t)
	return true
}

func (l *Line) setHost(v []byte) {
	if len(l.values[Host]) == 0 {
		l.set(Host, v)
	}
}

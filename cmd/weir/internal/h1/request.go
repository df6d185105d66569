package h1

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// MaxRequest is how large a request may be, with its head: as much as is read at a time. net/http reads larger ones.
const MaxRequest = 8 << 10

// finding is what bytes are.
type finding int

const (
	partial  finding = iota // a request that may go on
	whole                   // a request of the subset
	doubtful                // anything else
)

// question is a request of the subset. Its fields outlive the bytes that were read, but for body.
type question struct {
	method, target string
	url            url.URL
	body           []byte

	fields fields
	lines  []byte // that fields were read from, up to the empty one
}

// fields is what the fields of a head say.
type fields struct {
	header http.Header // without Host
	host   string
	length int // of the body; −1: it is not said
}

var (
	lineEnd = []byte("\r\n")
	version = []byte("HTTP/1.1")
)

// read reads the request at the beginning of b, and says how many bytes it has. takes says which paths are in the
// subset.
func (q *question) read(b []byte, takes func(method, path string) bool) (size int, is finding) {
	if size, is = q.find(b, takes); is == partial && len(b) >= MaxRequest {
		is = doubtful
	}
	return size, is
}

func (q *question) find(b []byte, takes func(method, path string) bool) (size int, is finding) {
	end := bytes.Index(b, lineEnd)
	if end < 0 {
		return 0, partial
	}
	if !q.readLine(b[:end], takes) {
		return 0, doubtful
	}
	lines := b[end+len(lineEnd):]
	n, is := q.readFields(lines)
	if is != whole {
		return 0, is
	}
	posts := q.method == http.MethodPost
	if posts != (q.fields.length > 0) || !posts && q.fields.length >= 0 {
		return 0, doubtful
	}
	size = end + len(lineEnd) + n
	if posts {
		size += q.fields.length
	}
	switch {
	case size > MaxRequest:
		return 0, doubtful
	case size > len(b):
		return 0, partial
	}
	q.body = b[size-max(q.fields.length, 0) : size]
	return size, whole
}

// readLine reads the first line of a request.
func (q *question) readLine(line []byte, takes func(method, path string) bool) bool {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	target, proto, _ := bytes.Cut(rest, []byte(" "))
	if !bytes.Equal(proto, version) {
		return false
	}
	switch string(method) {
	case http.MethodPost:
		q.method = http.MethodPost
	case http.MethodGet:
		q.method = http.MethodGet
	case http.MethodHead:
		q.method = http.MethodHead
	default:
		return false
	}
	for _, c := range target {
		if c <= ' ' || c > '~' || c == '#' {
			return false
		}
	}
	if string(target) == q.target && takes(q.method, q.url.Path) {
		return true
	}
	q.target = string(target)
	path, query, asks := strings.Cut(q.target, "?")
	q.url = url.URL{Path: path, RawQuery: query}
	return takes(q.method, path) && (!asks || q.method != http.MethodPost && query != "")
}

// readFields reads the fields of a request, and the empty line behind them. Those of clients are usually the same as
// those of the request before.
func (q *question) readFields(b []byte) (size int, is finding) {
	if len(q.lines) > 0 && bytes.HasPrefix(b, q.lines) {
		return len(q.lines), whole
	}
	f := fields{header: make(http.Header, 8), length: -1}
	for {
		n := bytes.IndexByte(b[size:], '\n')
		if n < 0 {
			return 0, partial
		}
		line := b[size : size+n]
		size += n + 1
		if n == 0 || line[n-1] != '\r' {
			return 0, doubtful
		}
		if n == 1 {
			break
		}
		if !f.add(line[:n-1]) {
			return 0, doubtful
		}
	}
	if f.host == "" {
		return 0, doubtful
	}
	q.fields, q.lines = f, append(q.lines[:0], b[:size]...)
	return size, whole
}

// add reads a field. It is false for one that is in doubt, or that may change where a request ends, or what becomes
// of its connection.
func (f *fields) add(line []byte) bool {
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok || !isToken(name) {
		return false
	}
	value = bytes.Trim(value, " \t")
	for _, c := range value {
		if c != '\t' && (c < ' ' || c > '~') {
			return false
		}
	}
	key := textproto.CanonicalMIMEHeaderKey(string(name))
	switch key {
	case "Host":
		if f.host != "" || !isHost(value) {
			return false
		}
		f.host = string(value)
		return true
	case "Content-Length":
		if f.length, ok = length(value, f.length); !ok {
			return false
		}
	case "Connection":
		if len(f.header[key]) > 0 || !strings.EqualFold(string(value), "keep-alive") {
			return false
		}
	case "Transfer-Encoding", "Upgrade", "Expect", "Trailer", "Te", "Http2-Settings", "Keep-Alive", "Proxy-Connection",
		"Pragma": // net/http makes a Cache-Control of it
		return false
	}
	f.header[key] = append(f.header[key], string(value))
	return true
}

// length is what a Content-Length says, in digits alone, if there was none before.
func length(value []byte, before int) (n int, ok bool) {
	if before >= 0 || len(value) == 0 || len(value) > 4 || len(value) > 1 && value[0] == '0' {
		return 0, false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n <= MaxRequest
}

// isToken is whether a name of a field is one (RFC 9110, 5.6.2).
func isToken(name []byte) bool {
	for _, c := range name {
		if !isWord(c) && strings.IndexByte("!#$%&'*+^`|~", c) < 0 {
			return false
		}
	}
	return len(name) > 0
}

// isHost is whether a Host is a name or an address, with or without a port, of the usual bytes.
func isHost(value []byte) bool {
	for _, c := range value {
		if !isWord(c) && c != ':' && c != '[' && c != ']' {
			return false
		}
	}
	return len(value) > 0
}

// isWord is whether a byte is one of the usual ones in names.
func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_'
}

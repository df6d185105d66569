package h2

import (
	"bytes"
	"strings"
)

// maxHead is how large the fields of a request may be, each with fieldCost.
const maxHead = 16 << 10

// Head is the header fields of a request. Its texts are valid until the call is answered.
type Head struct {
	bytes  []byte
	fields []field
	size   int

	malformed bool // it is no head of a request
	large     bool // fields are missing: together they are larger than maxHead
	// Where the fields that each request has begin with a colon; -1: it has none.
	method, path, scheme, authority int
	// length is what content-length says; -1: nothing.
	length int64
}

// field is where a field stands: its name up to value, and its value up to the end.
type field struct{ name, value, end int32 }

func (h *Head) reset() {
	h.bytes, h.fields, h.size = h.bytes[:0], h.fields[:0], 0
	h.malformed, h.large = false, false
}

// add adds a field.
func (h *Head) add(name, value []byte) {
	if h.large { // what is dropped need not be copied
		h.size += len(name) + len(value) + fieldCost
		return
	}
	from := len(h.bytes)
	h.bytes = append(h.bytes, name...)
	middle := len(h.bytes)
	h.bytes = append(h.bytes, value...)
	h.added(from, middle)
}

// added adds the field that stands from there on, if it is not too much.
func (h *Head) added(from, middle int) {
	h.size += len(h.bytes) - from + fieldCost
	if h.size > maxHead {
		h.large = true
		h.bytes = h.bytes[:from]
		return
	}
	h.fields = append(h.fields, field{int32(from), int32(middle), int32(len(h.bytes))})
}

// Len is how many fields there are.
func (h *Head) Len() int { return len(h.fields) }

// At is a field.
func (h *Head) At(i int) (name, value []byte) {
	f := h.fields[i]
	return h.bytes[f.name:f.value], h.bytes[f.value:f.end]
}

// Get is the value of the first field of this name, which is in small letters; nil: there is none.
func (h *Head) Get(name string) []byte {
	for _, f := range h.fields {
		if int(f.value-f.name) == len(name) && string(h.bytes[f.name:f.value]) == name {
			return h.bytes[f.value:f.end:f.end]
		}
	}
	return nil
}

// Method is what :method says.
func (h *Head) Method() []byte { return h.value(h.method) }

// Path is what :path says.
func (h *Head) Path() []byte { return h.value(h.path) }

func (h *Head) value(i int) []byte {
	if i < 0 {
		return nil
	}
	f := h.fields[i]
	return h.bytes[f.value:f.end]
}

// check reads the fields as those of a request, and tells whether they are (RFC 9113, 8.2 and 8.3).
func (h *Head) check() bool {
	h.method, h.path, h.scheme, h.authority, h.length = -1, -1, -1, -1, -1
	if h.malformed {
		return false
	}
	regular := false
	for i := range h.fields {
		name, value := h.At(i)
		if len(name) > 0 && name[0] == ':' {
			if regular || !h.pseudo(i, name) {
				return false
			}
			continue
		}
		regular = true
		if !h.may(name, value) {
			return false
		}
	}
	if h.large {
		return true // what is missing may be among what was dropped
	}
	if string(h.Method()) == "CONNECT" {
		return h.authority >= 0 && h.path < 0 && h.scheme < 0
	}
	return h.method >= 0 && h.scheme >= 0 && h.path >= 0 && len(h.Path()) > 0
}

// pseudo notes a field that begins with a colon.
func (h *Head) pseudo(i int, name []byte) bool {
	at := &h.method
	switch string(name) {
	case ":method":
	case ":path":
		at = &h.path
	case ":scheme":
		at = &h.scheme
	case ":authority":
		at = &h.authority
	default:
		return false
	}
	if *at >= 0 {
		return false
	}
	*at = i
	return true
}

// may is whether a request may have such a field.
func (h *Head) may(name, value []byte) bool {
	switch string(name) {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return false
	case "te":
		return string(value) == "trailers"
	case "content-length":
		n, ok := decimal(value)
		if !ok || h.length >= 0 && h.length != n {
			return false
		}
		h.length = n
	}
	return true
}

// decimal reads a number of up to 15 digits.
func decimal(text []byte) (n int64, ok bool) {
	if len(text) == 0 || len(text) > 15 {
		return 0, false
	}
	for _, b := range text {
		if b < '0' || b > '9' {
			return 0, false
		}
		n = n*10 + int64(b-'0')
	}
	return n, true
}

// trailers is whether the fields may stand behind a request's body.
func (h *Head) trailers() bool {
	for i := range h.fields {
		if name, value := h.At(i); len(name) == 0 || name[0] == ':' || !h.may(name, value) {
			return false
		}
	}
	return !h.malformed
}

// isName is whether a field may have this name: a token in small letters, and perhaps a colon before it
// (RFC 9113, 8.2.1).
func isName(name []byte) bool {
	if len(name) > 1 && name[0] == ':' {
		name = name[1:]
	}
	for _, b := range name {
		if !inName(b) {
			return false
		}
	}
	return len(name) > 0
}

func inName(b byte) bool {
	return 'a' <= b && b <= 'z' || b == '-' || '0' <= b && b <= '9' || strings.IndexByte("!#$%&'*+.^_`|~", b) >= 0
}

// isValue is whether a field may have this value.
func isValue(value []byte) bool {
	if len(value) == 0 {
		return true
	}
	space := func(b byte) bool { return b == ' ' || b == '\t' }
	return !space(value[0]) && !space(value[len(value)-1]) && bytes.IndexByte(value, 0) < 0 &&
		bytes.IndexByte(value, '\r') < 0 && bytes.IndexByte(value, '\n') < 0
}

// clone copies src into h.
func (h *Head) clone(src *Head) {
	own, fields := h.bytes, h.fields
	*h = *src
	h.bytes, h.fields = append(own[:0], src.bytes...), append(fields[:0], src.fields...)
}

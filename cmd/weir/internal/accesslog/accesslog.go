// Package accesslog reads the access logs of web servers: the common and the
// combined format, and one JSON object a line as nginx, Caddy and Envoy write
// it. A [Reader] gives the lines that count, and counts the rest; a [Reorder]
// puts lines back into the order of their times.
//
// A line counts when address, time, request and status can be read. The fields after the status may
// be missing. Text is as the client sent it: the escapes of the log are undone (\xHH and \" of
// Apache and nginx, \uHHHH of JSON), those of the request, such as %20, are not. A field that is
// empty or "-" is absent.
package accesslog

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weir-limit/weir"
)

// Field is one of the things that a line says of a request. Its name is the key
// that rules use for it.
type Field uint8

// The fields of a line.
const (
	// RemoteAddress is who asked: an address or host name, without a port.
	RemoteAddress Field = iota
	// Method is the method of the request.
	Method
	// Path is the path of the request's target, as it was sent: before the
	// query, percent signs untouched. CONNECT has none; OPTIONS may have "*".
	Path
	// Host is the host that was asked. Common and combined logs offer it only
	// when the request names it in its target.
	Host
	// User is who logged in.
	User
	// Status is the status of the response, in digits.
	Status
	// UserAgent is what the client says it is.
	UserAgent
	// Referer is where the client says it came from.
	Referer
)

// FieldCount is the number of fields.
const FieldCount = int(Referer) + 1

var fieldNames = [FieldCount]string{
	"remote_address", "method", "path", "host", "user", "status", "user_agent", "referer",
}

// FieldNames are the names of all fields.
func FieldNames() []string { return slices.Clone(fieldNames[:]) }

// String is the name of the field.
func (f Field) String() string {
	if int(f) < FieldCount {
		return fieldNames[f]
	}
	return fmt.Sprintf("field(%d)", uint8(f))
}

// FieldOf is the field of that name.
func FieldOf(name string) (Field, bool) {
	f := slices.Index(fieldNames[:], name)
	return Field(max(f, 0)), f >= 0
}

// Line is what one line of a log offers.
type Line struct {
	// Time is when the request came, or was answered: what the log says.
	Time      weir.Instant
	values    [FieldCount][]byte
	costField string
	costText  []byte
	stamps    lastStamp
	scanner   scanner // of JSON
}

// Value is what the line says of f; it is empty when f is absent. It is good
// until the reader that gave the line is asked for the next one.
func (l *Line) Value(f Field) []byte { return l.values[f] }

// set keeps a value unless it stands for nothing.
func (l *Line) set(f Field, v []byte) {
	if len(v) == 0 || len(v) == 1 && v[0] == '-' {
		return
	}
	l.values[f] = v
}

// setAddress keeps an address, without its port, or a host name. The server's
// own name with a port, as it stands at the head of Apache's vhost_combined, is
// neither.
func (l *Line) setAddress(v []byte) bool {
	if !isHostName(v) {
		if len(v) > len("[0000:0000:0000:0000:0000:ffff:255.255.255.255%interface-name]:65535") {
			return false
		}
		if _, err := netip.ParseAddr(string(v)); err != nil {
			if v = withoutPort(v); v == nil {
				return false
			}
		}
	}
	l.set(RemoteAddress, v)
	return len(l.values[RemoteAddress]) > 0
}

// isHostName is whether v could be a host name or an IPv4 address.
func isHostName(v []byte) bool {
	for _, c := range v {
		if !isAlnum(c) && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	return len(v) > 0
}

// withoutPort is the address of "192.0.2.1:80", "[2001:db8::1]:80" or
// "[2001:db8::1]", nil for anything else.
func withoutPort(v []byte) []byte {
	if _, err := netip.ParseAddrPort(string(v)); err == nil {
		v = v[:bytes.LastIndexByte(v, ':')]
	}
	inside, open := bytes.CutPrefix(v, []byte("["))
	inside, closed := bytes.CutSuffix(inside, []byte("]"))
	if a, err := netip.ParseAddr(string(inside)); err != nil || open != closed || open && !a.Is6() {
		return nil
	}
	return inside
}

// setStatus keeps a status of up to three digits: Envoy and nginx write 0 or
// 000 for a client that left before there was one.
func (l *Line) setStatus(v []byte) bool {
	if len(v) > 3 || !allDigits(string(v)) {
		return false
	}
	l.values[Status] = v
	return true
}

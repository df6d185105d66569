package h1

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer is the http.ResponseWriter of a request. It is written as net/http writes it, always with its length.
type answer struct {
	header http.Header
	status int // 0: the handler has not said it yet
	body   []byte
	names  []string
}

// Header is that of http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader is that of http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

// Write is that of http.ResponseWriter.
func (a *answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, b...)
	return len(b), nil
}

// keptBody is how much memory of an answer a connection keeps.
const keptBody = 4 << 10

func (a *answer) reset() {
	clear(a.header)
	a.status, a.body = 0, a.body[:0]
	if cap(a.body) > keptBody {
		a.body = nil
	}
}

// last is whether the handler has the connection end.
func (a *answer) last() bool {
	return slices.ContainsFunc(a.header["Connection"], func(v string) bool { return strings.EqualFold(v, "close") })
}

// append appends the answer to a request. closes says that no other follows.
func (a *answer) append(b []byte, method string, closes bool, date string) []byte {
	a.WriteHeader(http.StatusOK)
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(a.status), 10)
	b = append(append(append(b, ' '), http.StatusText(a.status)...), "\r\n"...)
	a.names = a.names[:0]
	for name := range a.header {
		a.names = append(a.names, name)
	}
	slices.Sort(a.names)
	for _, name := range a.names {
		for _, value := range a.header[name] {
			b = appendField(b, name, value)
		}
	}
	b = append(append(append(b, "Date: "...), date...), "\r\n"...)
	if method != http.MethodHead || len(a.body) > 0 {
		b = append(b, "Content-Length: "...)
		b = append(strconv.AppendInt(b, int64(len(a.body)), 10), "\r\n"...)
	}
	if _, said := a.header["Content-Type"]; !said && len(a.body) > 0 {
		b = append(append(append(b, "Content-Type: "...), http.DetectContentType(a.body)...), "\r\n"...)
	}
	if closes && !a.last() {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(b, "\r\n"...)
	if method != http.MethodHead {
		b = append(b, a.body...)
	}
	return b
}

// appendField appends a field. A value never ends its line.
func appendField(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	for _, c := range []byte(strings.Trim(value, " \t\r\n")) {
		if c == '\r' || c == '\n' {
			c = ' '
		}
		b = append(b, c)
	}
	return append(b, "\r\n"...)
}

// second is a Date, and the second that it is of.
type second struct {
	unix int64
	text string
}

// date is now as the field Date has it.
func (s *Server) date(now time.Time) string {
	unix := now.Unix()
	if last := s.second.Load(); last != nil && last.unix == unix {
		return last.text
	}
	last := &second{unix, now.UTC().Format(http.TimeFormat)}
	s.second.Store(last)
	return last.text
}

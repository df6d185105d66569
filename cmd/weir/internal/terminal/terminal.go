// Package terminal makes what others wrote fit to be shown: keys, names and
// messages can hold what moves a cursor, rings, or begins a line of its own.
package terminal

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape is s with all that is not to be printed escaped as in Go's strings: it is
// one line, whose order and colours are those of the program that prints it.
func Escape(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return b.String()
}

// EscapeLines escapes each line of s, but for the tabs that begin it.
func EscapeLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		text := strings.TrimLeft(line, "\t")
		lines[i] = line[:len(line)-len(text)] + Escape(text)
	}
	return strings.Join(lines, "\n")
}

// EscapeAll escapes all strings that v, a pointer, leads to: of what somebody else
// has sent, before it is shown. Keys of maps stay as they are.
func EscapeAll(v any) { escape(reflect.ValueOf(v)) }

func escape(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			escape(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			escape(field)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			escape(v.Index(i))
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if e := v.MapIndex(k); e.Kind() == reflect.String {
				v.SetMapIndex(k, reflect.ValueOf(Escape(e.String())).Convert(e.Type()))
			}
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString(Escape(v.String()))
		}
	default: // numbers and the like
	}
}

package record

import "strings"

// Escape writes text so that it can be part of the name of a count: what can't be
// read, % and :, and the bytes of special, as %XX. No two texts become one.
func Escape(text, special string) string {
	safe := func(c byte) bool {
		return c > ' ' && c < 0x7f && c != '%' && c != ':' && strings.IndexByte(special, c) < 0
	}
	at := 0
	for at < len(text) && safe(text[at]) {
		at++
	}
	if at == len(text) {
		return text
	}
	const hexadecimal = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteString(text[:at])
	for _, c := range []byte(text[at:]) {
		if safe(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexadecimal[c>>4], hexadecimal[c&15]})
		}
	}
	return b.String()
}

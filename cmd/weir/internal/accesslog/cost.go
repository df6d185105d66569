package accesslog

import (
	"slices"

	"github.com/weir-limit/weir"
)

// CostBytes is the cost field that each format knows: the bytes of the response.
// In the common and the combined format it is the only one; in JSON it is the
// member bytes, bytes_sent, body_bytes_sent or size.
const CostBytes = "bytes"

// Cost is what the line is worth by the cost field of its Reader: a whole number
// from 0 to weir.MaxCount. It is false when the line says no such number. Bytes
// that are "-", as Apache writes for none, are 0.
func (l *Line) Cost() (int64, bool) {
	t := l.costText
	if l.costField == CostBytes && len(t) == 1 && t[0] == '-' {
		return 0, true
	}
	n := int64(0)
	for _, c := range t {
		if !isDigit(c) {
			return 0, false
		}
		if n = n*10 + int64(c-'0'); n > weir.MaxCount {
			return 0, false
		}
	}
	return n, len(t) > 0
}

// isCost is whether a member of that name says what the line is worth.
func (d *draft) isCost(name []byte) bool {
	if d.cost != CostBytes {
		return string(name) == d.cost
	}
	return slices.Contains([]string{"bytes", "bytes_sent", "body_bytes_sent", "size"}, string(name))
}

package accesslog

import (
	"slices"
	"strconv"

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
	t := string(l.costText)
	if l.costField == CostBytes && t == "-" {
		return 0, true
	}
	n, err := strconv.ParseInt(t, 10, 64)
	return n, err == nil && allDigits(t) && n <= weir.MaxCount
}

// isCost is whether a member of that name says what the line is worth.
func (d *draft) isCost(name []byte) bool {
	if d.cost != CostBytes {
		return string(name) == d.cost
	}
	return slices.Contains([]string{"bytes", "bytes_sent", "body_bytes_sent", "size"}, string(name))
}

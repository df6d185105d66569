package packing_test

import (
	"encoding/binary"
	"testing"

	"github.com/weir-limit/weir/internal/packing"
)

// TestReader: what was packed comes out again, and what is cut short, too large or in
// another form is bad, and all behind it.
func TestReader(t *testing.T) {
	b := binary.AppendUvarint(nil, 300)
	b = append(packing.AppendText(b, "alice"), 7)
	r := packing.Reader{Rest: b}
	if n, text, last := r.Number(), r.Text(5), r.Take(1); n != 300 || text != "alice" || last[0] != 7 || r.Bad || len(r.Rest) > 0 {
		t.Errorf("%d %q %v, bad %v, rest %v", n, text, last, r.Bad, r.Rest)
	}
	for name, read := range map[string]func(*packing.Reader){
		"a number that is cut":      func(r *packing.Reader) { r.Rest = r.Rest[:1]; r.Number() },
		"a number in a longer form": func(r *packing.Reader) { r.Rest = []byte{0x80, 0}; r.Number() },
		"a number over its limit":   func(r *packing.Reader) { r.Below(300) },
		"more parts than bytes":     func(r *packing.Reader) { r.Length() },
		"a text over its bound":     func(r *packing.Reader) { r.Number(); r.Text(4) },
		"a text that is cut":        func(r *packing.Reader) { r.Rest = r.Rest[:6]; r.Number(); r.Bytes() },
		"more bytes than are there": func(r *packing.Reader) { r.Take(10) },
		"a number where nothing is": func(r *packing.Reader) { r.Take(9); r.Number() },
	} {
		r := packing.Reader{Rest: b}
		if read(&r); !r.Bad || len(r.Rest) > 0 || r.Number() != 0 || r.Text(9) != "" {
			t.Errorf("%s is good: %+v", name, r)
		}
	}
}

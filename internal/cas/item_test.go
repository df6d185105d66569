package cas

import (
	"bytes"
	"testing"
)

// FuzzItem: no bytes under our key make the decoder panic, and what it reads it
// writes alike.
func FuzzItem(f *testing.F) {
	it := &item{born: 5, counts: []count{{label: "#a", until: 7, raw: []byte("x")}}, notes: []note{{kind: noteOnce, id: 3, until: 9, data: []byte("y")}}}
	f.Add(it.encode())
	f.Add([]byte(itemSign))
	f.Add([]byte("5"))
	f.Fuzz(func(t *testing.T, b []byte) {
		it, err := decodeItem(b, 0)
		if err != nil || len(b) == 0 {
			return
		}
		again, err := decodeItem(it.encode(), 0)
		if err != nil || !bytes.Equal(again.encode(), it.encode()) {
			t.Errorf("%q becomes %q, %v", b, again.encode(), err)
		}
	})
}

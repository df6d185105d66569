// Package packing reads what was packed close: numbers as binary.AppendUvarint writes
// them, and texts behind their length.
package packing

import "encoding/binary"

// AppendText appends a text behind its length.
func AppendText[Text string | []byte](b []byte, text Text) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// Reader takes bytes apart from the front. A value that is missing is zero
// or empty, and sets Bad; so are all values after it.
type Reader struct {
	Rest []byte
	Bad  bool
}

func (r *Reader) fail() { r.Bad, r.Rest = true, nil }

// Number is the next number. Each has one form.
func (r *Reader) Number() uint64 {
	n, size := binary.Uvarint(r.Rest)
	if size <= 0 || size > 1 && r.Rest[size-1] == 0 {
		r.fail()
		return 0
	}
	r.Rest = r.Rest[size:]
	return n
}

// Below is the next number, which is less than a limit.
func (r *Reader) Below(limit uint64) uint64 {
	n := r.Number()
	if n >= limit {
		r.fail()
		return 0
	}
	return n
}

// Length is the next number, of parts: there can't be more of them than bytes.
func (r *Reader) Length() int {
	n := r.Number()
	if n > uint64(len(r.Rest)) {
		r.fail()
		return 0
	}
	return int(n)
}

// Take is the next n bytes, in the memory of Rest.
func (r *Reader) Take(n int) []byte {
	if n > len(r.Rest) {
		r.fail()
		return nil
	}
	part := r.Rest[:n:n]
	r.Rest = r.Rest[n:]
	return part
}

// Bytes is the next text, in the memory of Rest.
func (r *Reader) Bytes() []byte { return r.Take(r.Length()) }

// Text is the next text, of at most most bytes.
func (r *Reader) Text(most uint64) string {
	part := r.Bytes()
	if uint64(len(part)) > most {
		r.fail()
		return ""
	}
	return string(part)
}

package pgstore

import (
	"encoding/binary"
)

// The types of what statements are given, by PostgreSQL's numbers.
const (
	oidText       = 25
	oidInt8       = 20
	oidBytea      = 17
	oidTextArray  = 1009
	oidInt8Array  = 1016
	oidByteaArray = 1001
)

// array is an array of one dimension in PostgreSQL's binary form. Its bytes are used again.
type array struct {
	oid  uint32 // of its elements
	n    int
	data []byte
}

// arrayHead is how long the head of an array is: dimensions, whether it has nulls, the type of its
// elements, how many, and the number of the first.
const arrayHead = 20

func (a *array) reset(oid uint32) {
	a.oid, a.n = oid, 0
	if cap(a.data) > maxKept {
		a.data = nil
	}
	a.data = append(a.data[:0], make([]byte, arrayHead)...)
}

func (a *array) bytes(b []byte) {
	a.n++
	a.data = binary.BigEndian.AppendUint32(a.data, uint32(len(b)))
	a.data = append(a.data, b...)
}

func (a *array) text(s string) {
	a.n++
	a.data = binary.BigEndian.AppendUint32(a.data, uint32(len(s)))
	a.data = append(a.data, s...)
}

func (a *array) number(n int64) {
	a.n++
	a.data = binary.BigEndian.AppendUint32(a.data, 8)
	a.data = binary.BigEndian.AppendUint64(a.data, uint64(n))
}

// encoded is the whole array. It holds until the next reset.
func (a *array) encoded() []byte {
	if a.n == 0 { // it has no dimension
		binary.BigEndian.PutUint32(a.data[0:], 0)
		binary.BigEndian.PutUint32(a.data[8:], a.oid)
		return a.data[:12]
	}
	binary.BigEndian.PutUint32(a.data[0:], 1)
	binary.BigEndian.PutUint32(a.data[8:], a.oid)
	binary.BigEndian.PutUint32(a.data[12:], uint32(a.n))
	binary.BigEndian.PutUint32(a.data[16:], 1)
	return a.data
}

// number reads a bigint in PostgreSQL's binary form.
func number(b []byte) int64 {
	if len(b) != 8 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b))
}

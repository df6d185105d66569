package storewire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errMalformed is what all bytes that are no message come to.
var errMalformed = errors.New("malformed message")

// kind is how a field is written, as protocol buffers number the ways.
type kind uint64

const (
	varint  kind = 0
	fixed64 kind = 1
	length  kind = 2
	fixed32 kind = 5
)

// maxField is the highest number of a field that protocol buffers allow.
const maxField = 1<<29 - 1

func appendTag(b []byte, field int, as kind) []byte {
	return binary.AppendUvarint(b, uint64(field)<<3|uint64(as))
}

// appendNumber appends a field that is left out when it is zero, as proto3 has it.
func appendNumber(b []byte, field int, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(appendTag(b, field, varint), v)
}

func appendFlag(b []byte, field int, v bool) []byte {
	if !v {
		return b
	}
	return appendNumber(b, field, 1)
}

func appendText(b []byte, field int, v string) []byte {
	if v == "" {
		return b
	}
	return appendElement(b, field, v)
}

// appendElement appends one of several texts, which may be empty.
func appendElement(b []byte, field int, v string) []byte {
	return append(binary.AppendUvarint(appendTag(b, field, length), uint64(len(v))), v...)
}

// appendMessage appends a message that body appends, even an empty one.
func appendMessage(b []byte, field int, body func([]byte) []byte) []byte {
	b = appendTag(b, field, length)
	begin := len(b)
	b = body(b)
	size := len(b) - begin
	var head [binary.MaxVarintLen64]byte
	prefix := binary.AppendUvarint(head[:0], uint64(size))
	b = append(b, prefix...)
	copy(b[begin+len(prefix):], b[begin:begin+size])
	copy(b[begin:], prefix)
	return b
}

// value is a field as it was read: number or bytes, by its type.
type value struct {
	number uint64
	bytes  []byte
}

func (v value) flag() bool { return v.number != 0 }

// signed is a number that proto calls int64.
func (v value) signed() int64 { return int64(v.number) }

// eachField calls field for all that a message has, and skips fixed numbers, which no
// version of these messages has.
func eachField(b []byte, field func(n int, v value) error) error {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 || tag>>3 == 0 || tag>>3 > maxField {
			return errMalformed
		}
		b = b[n:]
		as := kind(tag & 7)
		v, n := consume(b, as)
		if n <= 0 {
			return errMalformed
		}
		b = b[n:]
		if as == fixed64 || as == fixed32 {
			continue
		}
		if err := field(int(tag>>3), v); err != nil {
			return err
		}
	}
	return nil
}

// consume reads the value that b begins with, and how long it is; 0: it is malformed,
// as a group is, which proto3 does not have.
func consume(b []byte, as kind) (v value, n int) {
	switch as {
	case varint:
		v.number, n = binary.Uvarint(b)
		return v, max(n, 0)
	case length:
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return v, 0
		}
		end := n + int(size)
		return value{bytes: b[n:end:end]}, end
	case fixed64:
		n = 8
	case fixed32:
		n = 4
	}
	if len(b) < n {
		return v, 0
	}
	return v, n
}

// tooMany is for a message that has more of something than it may.
func tooMany(what string, most int) error {
	return fmt.Errorf("more than %d %s in a message", most, what)
}

package storewire

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// errMalformed is what all bytes that are no message come to.
var errMalformed = errors.New("malformed message")

// appendNumber appends a field that is left out when it is zero, as proto3 has it.
func appendNumber(b []byte, field protowire.Number, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

func appendFlag(b []byte, field protowire.Number, v bool) []byte {
	return appendNumber(b, field, protowire.EncodeBool(v))
}

func appendText(b []byte, field protowire.Number, v string) []byte {
	if v == "" {
		return b
	}
	return appendElement(b, field, v)
}

// appendElement appends one of several texts, which may be empty.
func appendElement(b []byte, field protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), v)
}

// appendMessage appends a message that body appends, even an empty one.
func appendMessage(b []byte, field protowire.Number, body func([]byte) []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	begin := len(b)
	b = body(b)
	size := len(b) - begin
	var head [10]byte
	prefix := protowire.AppendVarint(head[:0], uint64(size))
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

func (v value) flag() bool { return protowire.DecodeBool(v.number) }

// signed is a number that proto calls int64.
func (v value) signed() int64 { return int64(v.number) }

// eachField calls field for all that a message has, and skips groups and fixed
// numbers, which no version of these messages has.
func eachField(b []byte, field func(n int, v value) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		var v value
		switch kind {
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(b)
		default:
			if n = protowire.ConsumeFieldValue(number, kind, b); n >= 0 {
				b = b[n:]
				continue
			}
		}
		if n < 0 {
			return errMalformed
		}
		b = b[n:]
		if err := field(int(number), v); err != nil {
			return err
		}
	}
	return nil
}

// tooMany is for a message that has more of something than it may.
func tooMany(what string, most int) error {
	return fmt.Errorf("more than %d %s in a message", most, what)
}

package storewire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/weir-limit/weir"
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

// appendText appends a text or bytes, also empty ones.
func appendText(b []byte, field int, v string) []byte {
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

// ended is the number of the field after the last one of a message that is read: a message that
// lacks what it needs says so then.
const ended = 0

// coder carries messages one way. The function of a message names its fields once, for both ways:
// a coder that writes appends all of them, and one that reads calls the function for each field that
// came, of which one is meant.
type coder struct {
	out []byte // what is written

	reading bool
	field   int // the number of the one that is read, or ended
	value   value
	limits  Limits
	odd     error // why a limit of a take can't be meant
	request bool  // has MaxParts at most
	parts   int   // of all lists that were read
	err     error
}

// coded is a message of store.proto.
type coded interface{ fields(c *coder) }

// write appends m to b.
func write(b []byte, m coded) []byte {
	c := coder{out: b}
	m.fields(&c)
	return c.out
}

// parse reads b into m.
func parse(b []byte, c *coder, m coded) error {
	c.reading = true
	c.read(b, func() { m.fields(c) })
	return c.err
}

// read reads the fields of a message that may be in another.
func (c *coder) read(b []byte, fields func()) {
	outer, its := c.field, c.value
	err := eachField(b, func(n int, v value) error {
		c.field, c.value = n, v
		fields()
		return c.err
	})
	c.fail(err)
	c.field = ended
	fields()
	c.field, c.value = outer, its
}

// fail ends reading with an error.
func (c *coder) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// reads is whether the field n is the one that is read.
func (c *coder) reads(n int) bool { return c.reading && c.field == n }

// ends is whether a message was read to its end.
func (c *coder) ends() bool { return c.reading && c.field == ended }

// number is a field that is left out when it is zero.
func number[T ~int64 | ~uint64](c *coder, n int, to *T) {
	if c.reads(n) {
		*to = T(c.value.number)
	} else if !c.reading {
		c.out = appendNumber(c.out, n, uint64(*to))
	}
}

func (c *coder) flag(n int, to *bool) {
	if c.reads(n) {
		*to = c.value.number != 0
	} else if !c.reading && *to {
		c.out = appendNumber(c.out, n, 1)
	}
}

// micros is a duration in whole microseconds, rounded up, at most 292 years of them.
func (c *coder) micros(n int, to *time.Duration) {
	if c.reads(n) {
		us := min(max(int64(c.value.number), 0), math.MaxInt64/int64(time.Microsecond))
		*to = time.Duration(us) * time.Microsecond
	} else if !c.reading {
		us := uint64(*to / time.Microsecond)
		if *to%time.Microsecond > 0 {
			us++
		}
		c.out = appendNumber(c.out, n, us)
	}
}

// text is a field that is left out when it is empty.
func (c *coder) text(n int, to *string) {
	if c.reads(n) {
		*to = string(c.value.bytes)
	} else if !c.reading && *to != "" {
		c.out = appendText(c.out, n, *to)
	}
}

// limit is a limit by its text. A message without one has the empty text.
func (c *coder) limit(n int, to **weir.Limit) (err error) {
	switch {
	case c.reads(n):
		*to, err = c.limits(string(c.value.bytes))
	case !c.reading:
		c.out = appendText(c.out, n, (*to).String())
	case c.ends() && *to == nil:
		*to, err = c.limits("")
	}
	return err
}

// message is a field that is a message, and is written even when that is empty.
func message[T any](c *coder, n int, m *T, fields func(*coder, *T)) {
	if c.reads(n) {
		c.read(c.value.bytes, func() { fields(c, m) })
	} else if !c.reading {
		c.out = appendMessage(c.out, n, func(b []byte) []byte {
			c.out = b
			fields(c, m)
			return c.out
		})
	}
}

// optional is a message that may be missing.
func optional[T any](c *coder, n int, m **T, fields func(*coder, *T)) {
	if c.reads(n) {
		*m = new(T)
	}
	if *m != nil {
		message(c, n, *m, fields)
	}
}

// list is messages of one kind: a field that comes several times, or never.
func list[T any](c *coder, n int, all *[]T, fields func(*coder, *T)) {
	if c.reads(n) && grow(c, all) {
		message(c, n, &(*all)[len(*all)-1], fields)
	}
	for i := 0; !c.reading && i < len(*all); i++ {
		message(c, n, &(*all)[i], fields)
	}
}

// texts is several texts, of which some may be empty.
func (c *coder) texts(n int, all *[]string) {
	if c.reads(n) && grow(c, all) {
		(*all)[len(*all)-1] = string(c.value.bytes)
	}
	for i := 0; !c.reading && i < len(*all); i++ {
		c.out = appendText(c.out, n, (*all)[i])
	}
}

// grow makes room for one more in a list. All lists of a request have MaxParts at most; an answer
// has what was asked for.
func grow[T any](c *coder, all *[]T) bool {
	if c.parts++; c.request && c.parts > MaxParts {
		c.fail(fmt.Errorf("more than %d parts in a message", MaxParts))
		return false
	}
	*all = append(*all, *new(T))
	return true
}

// Package frame is what all messages between nodes have in common: each begins with its length, then the version and
// its kind, a byte each.
package frame

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/packing"
)

// Version is that of messages between nodes. A node drops messages of another one.
const Version = 1

// The bounds of a message.
const (
	// MaxText is how long a rule's place or a key may be in a message.
	MaxText = 4096
	// MaxMessage is how long a message may be: the state of the longest log, and
	// the texts.
	MaxMessage = 8*weir.MaxLogCount + 4*MaxText
)

// Errors of those who read messages.
var (
	// ErrMessage is returned for bytes that are no message, and nothing behind them
	// can be read.
	ErrMessage = errors.New("not a message")
	// ErrUnknown is returned for a message of a version or kind that this node does
	// not know. The node may read the messages behind it.
	ErrUnknown = errors.New("a message of an unknown version or kind")
)

// Cut is the first message of b, which begins with its length, and what follows it.
func Cut(b []byte) (body, rest []byte, err error) {
	r := packing.Reader{Rest: b}
	if body = r.Bytes(); r.Bad || len(body) > MaxMessage {
		return nil, nil, ErrMessage
	}
	return body, r.Rest, nil
}

// Measured puts the length of what follows into the byte at start, and more where one
// byte has no room for it.
func Measured(b []byte, start int) []byte {
	size := len(b) - start - 1
	if size < 1<<7 {
		b[start] = byte(size)
		return b
	}
	var length [binary.MaxVarintLen64]byte
	return slices.Replace(b, start, start+1, length[:binary.PutUvarint(length[:], uint64(size))]...)
}

// Flag is 1 for what is so.
func Flag(on bool) byte {
	if on {
		return 1
	}
	return 0
}

// Within is whether n is not less than the least, and not more than the most.
func Within(n, least, most int64) bool { return least <= n && n <= most }

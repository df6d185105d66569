package gossip

import (
	"encoding/binary"

	"github.com/weir-limit/weir/internal/packing"
)

// A packet of the data plane is a header of 24 bytes and what messages there are,
// each with its length before it. The header is read before anything is known of
// the sender, and sealed with the rest:
//
//	0   magic     "wR"
//	2   version   1
//	3   round     of the sender: how often it has missed some time, from 1
//	4   sender    the number of the process that sends it
//	12  key       which cluster key seals it; 0: none does
//	16  heard     the round of the receiver, as heard of late; 0: not heard of
//	17  kind      1 a datagram, 2 a frame of a stream
//	18  sequence  48 bits, from 1, of datagrams or frames to one receiver
//
// The last 12 bytes are the nonce: kind and sequence are never the same twice
// between two processes.
const (
	headerSize = 24
	nonceAt    = 12
	magic      = "wR"
	version    = 1

	datagram = 1
	frame    = 2
)

// The bounds of what is sent at once.
const (
	// packetSize is how many bytes a datagram has at most, so that none is cut in
	// two where 1,500 are usual.
	packetSize = 1400
	// MaxMessage is how long a message may be. A message that fits into no datagram goes by a
	// stream.
	MaxMessage = 64 << 10

	sealSize  = 16 // of AES-GCM
	lengthMax = 3  // bytes of a message's length
	frameSize = headerSize + sealSize + lengthMax + MaxMessage
)

type header struct {
	kind     uint8
	key      uint32
	sender   uint64
	round    uint8
	heard    uint8
	sequence uint64
}

func (h *header) append(b []byte) []byte {
	b = append(append(b, magic...), version, h.round)
	b = binary.BigEndian.AppendUint64(b, h.sender)
	b = binary.BigEndian.AppendUint32(b, h.key)
	return binary.BigEndian.AppendUint64(b, uint64(h.heard)<<56|uint64(h.kind)<<48|h.sequence&(1<<48-1))
}

// parseHeader reads what a packet of kind begins with. most is how long all of
// the packet may be.
func parseHeader(b []byte, kind uint8, most int) (header, Reason) {
	switch {
	case len(b) > most:
		return header{}, Oversize
	case len(b) < headerSize:
		return header{}, Truncated
	case string(b[:2]) != magic || b[2] != version || b[17] != kind:
		return header{}, Version
	}
	last := binary.BigEndian.Uint64(b[16:])
	return header{
		round: b[3], sender: binary.BigEndian.Uint64(b[4:]), key: binary.BigEndian.Uint32(b[12:]),
		heard: uint8(last >> 56), kind: kind, sequence: last & (1<<48 - 1),
	}, None
}

// appendMessage adds a message as it stands in a packet.
func appendMessage(b, message []byte) []byte {
	return packing.AppendText(b, message)
}

// cut is the first message of b, and what follows it. ok is false where none begins.
func cut(b []byte) (message, rest []byte, ok bool) {
	r := packing.Reader{Rest: b}
	message = r.Bytes()
	return message, r.Rest, !r.Bad && len(message) > 0 && len(message) <= MaxMessage
}

// whole is whether b is messages and nothing else.
func whole(b []byte) bool {
	for len(b) > 0 {
		_, rest, ok := cut(b)
		if !ok {
			return false
		}
		b = rest
	}
	return true
}

// prefix is how many bytes of b are the messages that fit into size, at least one:
// what is queued fits.
func prefix(b []byte, size int) int {
	n := 0
	for n < len(b) {
		_, rest, _ := cut(b[n:])
		if next := len(b) - len(rest); next <= size {
			n = next
			continue
		}
		break
	}
	return n
}

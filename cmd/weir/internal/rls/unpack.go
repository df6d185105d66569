package rls

import (
	"bytes"
	"compress/gzip"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxUnpacked is how large a message that comes packed may be. It is several times
// what 100 usual descriptors are; 2 KiB of a bomb would be 2 MiB otherwise.
const maxUnpacked = 256 << 10

// unpacker is a grpc.Decompressor that leaves messages packed, for unpack. The one that
// gRPC brings unpacks them as soon as they have come, into 2 MiB.
type unpacker struct{}

// Type is the encoding that unpack knows.
func (unpacker) Type() string { return "gzip" }

// Do gives what is packed as it is.
func (unpacker) Do(packed io.Reader) ([]byte, error) { return io.ReadAll(packed) }

// unpack unpacks a message that is packed. No other begins like it: field 3 would be of
// a type that there is not.
func unpack(wire []byte) ([]byte, error) {
	if !bytes.HasPrefix(wire, []byte("\x1f\x8b")) {
		return wire, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(wire))
	if err != nil {
		return nil, err
	}
	message, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if len(message) > maxUnpacked {
		return nil, status.Errorf(codes.ResourceExhausted, "unpacked, the message is over %d KiB; send it unpacked, or fewer descriptors at a time", maxUnpacked>>10)
	}
	return message, err
}

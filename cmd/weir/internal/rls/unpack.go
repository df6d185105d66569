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

// unpack unpacks a message.
func unpack(wire []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(wire))
	if err != nil {
		return nil, notPacked(err)
	}
	message, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if err != nil {
		return nil, notPacked(err)
	}
	if len(message) > maxUnpacked {
		return nil, status.Errorf(codes.ResourceExhausted, "unpacked, the message is over %d KiB; send it unpacked, or fewer descriptors at a time", maxUnpacked>>10)
	}
	return message, nil
}

func notPacked(err error) error {
	return status.Error(codes.InvalidArgument, "the message is not in gzip: "+err.Error())
}

package rls

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/weir-limit/weir/internal/storewire"
)

// inbound is the bytes of a request. They are unpacked and read when the client has
// said that no more follow: until then a call holds no more than was sent for it.
type inbound struct{ wire mem.Buffer }

// read has the request read, and leaves the bytes to others.
func (in *inbound) read(parse func([]byte) error) error {
	defer in.wire.Free()
	message, err := unpack(in.wire.ReadOnlyData())
	if err != nil {
		return err
	}
	return parse(message)
}

// codec is gRPC's own, but that bytes which are no request are the handler's to
// refuse: gRPC would answer INTERNAL, as if it were our fault.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal reads a message into v.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	in := &inbound{data.MaterializeToBuffer(mem.DefaultBufferPool())}
	if to, ok := v.(*inbound); ok {
		*to = *in
		return nil
	}
	return in.read(func(message []byte) error { return c.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(message)}, v) })
}

// Marshal writes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if v, ok := v.(storewire.Written); ok {
		return mem.BufferSlice{mem.SliceBuffer(v.Append(nil))}, nil
	}
	return c.CodecV2.Marshal(v)
}

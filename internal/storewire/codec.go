package storewire

import (
	"fmt"

	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Codec is gRPC's codec for the messages. It calls itself proto, for that is what is
// written.
type Codec struct{}

// Name is "proto".
func (Codec) Name() string { return proto.Name }

// Marshal writes a Written.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(Written)
	if !ok {
		return nil, fmt.Errorf("storewire: %T is no message", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(m.Append(nil))}, nil
}

// Unmarshal reads a Read.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(Read)
	if !ok {
		return fmt.Errorf("storewire: %T is no message", v)
	}
	return m.Parse(data.Materialize())
}

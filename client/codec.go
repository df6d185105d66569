package client

import (
	"fmt"

	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/weir-limit/weir/internal/storewire"
)

// codec is gRPC's codec for the messages. It calls itself proto, for that is what is
// written. A value that is no message is a mistake in this package, never one of a daemon.
type codec struct{}

// Name is "proto".
func (codec) Name() string { return proto.Name }

// Marshal writes a Written.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(storewire.Written)
	if !ok {
		return nil, fmt.Errorf("client: %T is no message", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(m.Append(nil))}, nil
}

// Unmarshal reads a Read.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(storewire.Read)
	if !ok {
		return fmt.Errorf("client: %T is no message", v)
	}
	return m.Parse(data.Materialize())
}

package rls

import (
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	"github.com/weir-limit/weir/internal/storewire"
)

// inbound is a request, or what is wrong with its bytes.
type inbound struct {
	request rls.RateLimitRequest
	err     error
}

// lent is the same of a call for the store.
type lent struct {
	request storewire.Read
	err     error
}

// codec is gRPC's own, but that bytes which are no request are the handler's to
// refuse: gRPC would answer INTERNAL, as if it were our fault.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(proto.Name)} }

// Unmarshal reads a message into v.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch v := v.(type) {
	case *inbound:
		v.err = c.CodecV2.Unmarshal(data, &v.request)
		return nil
	case *lent:
		v.err = v.request.Parse(data.Materialize())
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// Marshal writes a message.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if v, ok := v.(storewire.Written); ok {
		return storewire.Codec{}.Marshal(v)
	}
	return c.CodecV2.Marshal(v)
}

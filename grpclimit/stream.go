package grpclimit

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/weir-limit/weir/internal/pacing"
)

// stream is one of a client. Its first message, or its end, is the answer that
// something is learned from.
type stream struct {
	grpc.ClientStream

	call *pacing.Call
	ctx  context.Context

	receiving atomic.Bool
	answer    sync.Once
	end       sync.Once
}

// RecvMsg is the next message.
func (s *stream) RecvMsg(message any) error {
	s.receiving.Store(true)
	err := s.ClientStream.RecvMsg(message)
	s.answer.Do(func() {
		var r pacing.Reply
		if err != nil {
			r = heard(err, s.Trailer())
		}
		r.Replay = false // messages were sent that nobody has kept
		s.call.Heard(s.ctx, r)
	})
	return err
}

// finish is called when the stream has ended, also more than once.
func (s *stream) finish(error) {
	if !s.receiving.Load() { // else RecvMsg is about to return what was learned
		s.answer.Do(s.call.Lost)
	}
	s.end.Do(func() { s.call.End(context.WithoutCancel(s.ctx)) })
}

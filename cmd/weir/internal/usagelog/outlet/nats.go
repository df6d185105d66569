package outlet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-limit/weir/cmd/weir/internal/broker"
	"github.com/weir-limit/weir/cmd/weir/internal/usagelog"
)

// stream is a Sink that sends messages with lines to JetStream, which drops copies by their id.
type stream struct {
	*broker.NATS

	conn *nats.Conn
	js   jetstream.JetStream
	last atomic.Pointer[error] // what the server has complained of; nil: nothing
}

func openNATS(n *broker.NATS) (usagelog.Sink, error) {
	s := &stream{NATS: n}
	return s, s.connect()
}

func (s *stream) connect() (err error) {
	if s.conn, err = s.Connect(nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { s.last.Store(&err) })); err != nil {
		return err
	}
	s.js, err = jetstream.New(s.conn)
	return err
}

// maxMessage is how many bytes of records a message has, but for one record that is longer. Servers take
// 1 MiB by default.
const maxMessage = 256 << 10

// Append is as Sink has it. When it comes again, the stream drops the messages that it has.
//
// The client closes for ever when a server says an error that it does not know, of a message that is too large
// for the server, say. Then another one connects.
func (s *stream) Append(ctx context.Context, b usagelog.Batch) error {
	if s.conn.IsClosed() {
		if err := s.connect(); err != nil {
			return err
		}
	}
	for part := range b.Split(maxMessage) {
		if err := s.publish(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) publish(ctx context.Context, b usagelog.Batch) error {
	s.last.Store(nil)
	m := nats.NewMsg(s.Subject)
	m.Data = b.Lines
	_, err := s.js.PublishMsg(ctx, m, jetstream.WithMsgID(b.ID))
	switch said := s.last.Load(); {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("no stream has the subject %q; make one: nats stream add --subjects %s (%w)", s.Subject, s.Subject, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("a message has %d bytes; raise max_payload of the servers to 1 MB: %w", len(b.Lines), err)
	case said != nil:
		return fmt.Errorf("%w (%w)", *said, err)
	case !s.conn.IsConnected():
		return fmt.Errorf("no server answers (%w): %w", err, noted(s.conn.LastError()))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the stream of %q has not acknowledged a message in time; is its server frozen, or most of its replicas away? %w", s.Subject, err)
	}
	return err
}

// noted is err, or that there is none.
func noted(err error) error {
	if err == nil {
		return nats.ErrDisconnected
	}
	return err
}

// Close ends the connection.
func (s *stream) Close() error {
	s.conn.Close()
	return nil
}

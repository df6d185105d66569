package logstore

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// maxArrived is how many messages wait until poll takes them in; the client keeps more.
const maxArrived = 256

// streamReader reads a stream in order, until something is lost on its way.
type streamReader struct {
	consuming jetstream.ConsumeContext
	arrived   chan arrival
	failed    <-chan error  // why no more come
	stopped   chan struct{} // by stop
	last      uint64        // number of the last arrival that poll took in
}

// arrival is a message as it came.
type arrival struct {
	message

	number uint64 // 1 is the first that the reader got
	end    int64  // where the stream ended then
}

func newStreamReader(failed <-chan error) *streamReader {
	return &streamReader{arrived: make(chan arrival, maxArrived), failed: failed, stopped: make(chan struct{})}
}

// hear is given each message. What is too long is another program's: it is not kept.
func (r *streamReader) hear(m jetstream.Msg) {
	is, err := m.Metadata()
	if err != nil {
		return // it came from nobody's stream
	}
	value := m.Data()
	if len(value) > maxLine {
		value = nil
	}
	a := arrival{
		message: message{int64(is.Sequence.Stream), value, is.Timestamp},
		number:  is.Sequence.Consumer, end: int64(is.Sequence.Stream + is.NumPending + 1),
	}
	select {
	case r.arrived <- a:
	case <-r.stopped:
	}
}

// poll waits for messages, and returns those that are there, and where the stream ends. After an error
// the reader is of no use.
func (r *streamReader) poll(ctx context.Context) (messages []message, end int64, err error) {
	take := func(a *arrival) error {
		if r.last++; a.number != r.last {
			return errGap
		}
		messages, end = append(messages, a.message), a.end
		return nil
	}
	select {
	case <-ctx.Done():
		return nil, 0, nil
	case err := <-r.failed:
		return nil, 0, err
	case a := <-r.arrived:
		err = take(&a)
	}
	for err == nil && len(messages) < maxPoll {
		select {
		case a := <-r.arrived:
			err = take(&a)
		default:
			return messages, end, nil
		}
	}
	return messages, end, err
}

// stop ends it.
func (r *streamReader) stop() {
	close(r.stopped)
	r.consuming.Stop()
}

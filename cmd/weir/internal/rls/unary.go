package rls

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/cmd/weir/internal/h2"
	"github.com/weir-limit/weir/internal/here"
)

// method is one that has one message each way, as all have that decide something.
type method struct {
	name  string
	store bool // it is one of the store's that is lent
	// answer appends the answer to a message, of which it keeps nothing.
	answer func(ctx context.Context, m *message, dst []byte) ([]byte, error)
	serve  func(*h2.Call) // serving makes it
}

// message is a call's. It comes with memory that is used again.
type message struct {
	text []byte
	from from
	wire envoy.Wire
	here here.Context // for a try
	out  []byte
}

// The fields that answer a call beside its message.
var (
	answerHead = []h2.Field{{Name: "content-type", Value: "application/grpc"}}
	answerOK   = []h2.Field{{Name: "grpc-status", Value: "0"}}
)

// prefix is what stands before a message: whether it is packed, and its size.
const prefix = 5

// methodOf is the method that a call with this head is for; nil: it is none of ours.
func (s *Server) methodOf(h *h2.Head) *method {
	m := s.methods[string(h.Path())]
	if m == nil || string(h.Method()) != http.MethodPost {
		return nil
	}
	switch string(h.Get("content-type")) {
	case "application/grpc", "application/grpc+proto":
	default:
		return nil
	}
	return m
}

// unknownPacking is an error if a client packs messages in a way that is not known here.
func unknownPacking(h *h2.Head) error {
	switch way := h.Get("grpc-encoding"); string(way) {
	case "", "identity", "gzip":
		return nil
	default:
		return status.Errorf(codes.Unimplemented, "grpc-encoding is %q; send identity or gzip", way)
	}
}

// fast says who answers a call with this head at once, or nobody.
func (s *Server) fast(h *h2.Head) func(*h2.Call) {
	m := s.methodOf(h)
	if m == nil {
		return nil
	}
	if err := unknownPacking(h); err != nil {
		return func(c *h2.Call) {
			s.options.Observe(status.Code(err), 0)
			c.Answer(failure(err))
		}
	}
	return m.serve
}

// serving is how calls of a method are answered: here, or where they may wait.
func (s *Server) serving(m *method) func(*h2.Call) {
	if s.options.Here {
		return func(c *h2.Call) { s.call(c.Context(), c, m) }
	}
	tries := s.options.Tries && !m.store && s.options.Trace == nil // a span that began would be told of
	return func(c *h2.Call) {
		if tries && s.tried(c, m) {
			return
		}
		later, ctx := c.Later()
		s.hand(func() { s.call(ctx, later, m) })
	}
}

// hand has a worker do it, or a goroutine of its own.
func (s *Server) hand(do func()) {
	select {
	case s.work <- do:
	default:
		s.running.Go(do)
	}
}

// begin begins the workers.
func (s *Server) begin() {
	for range workers {
		s.running.Go(func() {
			for {
				select {
				case do := <-s.work:
					do()
				case <-s.closing:
					return
				}
			}
		})
	}
}

// call answers a call.
func (s *Server) call(ctx context.Context, c *h2.Call, m *method) {
	t := s.message(c)
	s.answer(c, t, s.run(ctx, c.Head, c.Arrived, m, t, c.Body))
	s.messages.Put(t)
}

// tried answers a call if it need not wait.
func (s *Server) tried(c *h2.Call, m *method) bool {
	t := s.message(c)
	defer s.messages.Put(t)
	t.here.Context = c.Context()
	err := s.run(&t.here, c.Head, c.Arrived, m, t, c.Body)
	t.here.Context = nil
	if errors.Is(err, here.ErrWaits) {
		return false
	}
	s.answer(c, t, err)
	return true
}

// message is memory for a call.
func (s *Server) message(c *h2.Call) *message {
	t, _ := s.messages.Get().(*message) // nil where there is none
	if t == nil {
		t = &message{from: from{server: s}}
	}
	t.from.client, _ = c.Caller().(string) // it is one
	return t
}

// answer answers a call with what stands in t.out, or its failure.
func (s *Server) answer(c *h2.Call, t *message, err error) {
	if err != nil {
		c.Answer(failure(err))
		return
	}
	c.Answer(&h2.Answer{Status: http.StatusOK, Head: answerHead, Body: t.out, Trailers: answerOK})
}

// failure is the answer to a call that fails.
func failure(err error) *h2.Answer {
	st := status.Convert(err)
	a := &h2.Answer{Status: http.StatusOK, Head: []h2.Field{
		answerHead[0], {Name: "grpc-status", Value: strconv.Itoa(int(st.Code()))}, {Name: "grpc-message", Value: escape(st.Message())},
	}}
	if st.Code() == codes.Unimplemented { // as the protocol of gRPC wants
		a.Head = append(a.Head, h2.Field{Name: "grpc-accept-encoding", Value: "identity,gzip"})
	}
	return a
}

// escape is a text as grpc-message holds it.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// run decides a call; body is its message behind its prefix. The answer stands in t.out. Whatever happens in a
// call, the process lives on.
func (s *Server) run(ctx context.Context, head *h2.Head, arrived time.Time, m *method, t *message, body []byte) (err error) {
	start := time.Now()
	defer func() {
		if p := recover(); p != nil {
			err = s.panicked(m.name, p)
		}
		if !errors.Is(err, here.ErrWaits) {
			s.options.Observe(status.Code(err), time.Since(start))
		}
	}()
	if err := s.admit(head, m); err != nil {
		return err
	}
	if text := head.Get("grpc-timeout"); text != nil {
		patience, ok := timeout(text)
		if !ok {
			return status.Errorf(codes.InvalidArgument, "grpc-timeout is %q; send up to 8 digits and a unit: H, M, S, m, u or n", text)
		}
		end := arrived.Add(patience)
		if !start.Before(end) {
			ctx = expired()
		} else if !s.options.Here && !here.Only(ctx) {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, end)
			defer cancel()
		}
	}
	if s.options.Trace != nil && !m.store {
		var end func(codes.Code)
		if ctx, end = s.options.Trace(withMetadata(ctx, head)); end != nil {
			defer func() { end(status.Code(err)) }()
		}
	}
	if ctx.Err() != nil { // nobody waits for it, so nothing is charged
		s.options.Refused(ReasonLate)
		return status.FromContextError(ctx.Err()).Err()
	}
	s.options.Gate.Begin()
	defer s.options.Gate.End()
	if t.text, err = unframe(body, head); err != nil {
		return err
	}
	t.out = append(t.out[:0], 0, 0, 0, 0, 0)
	if t.out, err = m.answer(ctx, t, t.out); err != nil {
		return err
	}
	binary.BigEndian.PutUint32(t.out[1:], uint32(len(t.out)-prefix))
	return nil
}

// expired is a context whose deadline is over.
func expired() context.Context {
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	cancel()
	return ctx
}

// admit refuses a call before it has cost much. UNAVAILABLE lets Envoy apply its failure mode, and stock
// clients ask another daemon; RESOURCE_EXHAUSTED would look like a decision.
func (s *Server) admit(head *h2.Head, m *method) error {
	if s.options.Gate.Shut() {
		s.options.Refused(ReasonWait)
		return status.Error(codes.Unavailable, "more is asked than can be decided in time; ask again later, or another daemon")
	}
	if m.store {
		return s.options.Store.admit(head)
	}
	return nil
}

// withMetadata is ctx with the fields of a head, for those who trace.
func withMetadata(ctx context.Context, head *h2.Head) context.Context {
	md := metadata.MD{}
	for i := range head.Len() {
		name, value := head.At(i)
		md.Append(string(name), string(value))
	}
	return metadata.NewIncomingContext(ctx, md)
}

// units are those of grpc-timeout.
var units = [256]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// timeout reads grpc-timeout.
func timeout(text []byte) (time.Duration, bool) {
	n := len(text) - 1
	if n < 1 || n > 8 {
		return 0, false
	}
	unit := units[text[n]]
	digits := int64(0)
	for _, b := range text[:n] {
		if b < '0' || b > '9' {
			return 0, false
		}
		digits = digits*10 + int64(b-'0')
	}
	if unit == time.Hour {
		digits = min(digits, 1e6) // no call takes as long, and more would be too many nanoseconds
	}
	return time.Duration(digits) * unit, unit > 0
}

// unframe is the one message of a call.
func unframe(body []byte, head *h2.Head) ([]byte, error) {
	if len(body) < prefix {
		return nil, status.Error(codes.Internal, "the call has no message; a unary call has one")
	}
	size := binary.BigEndian.Uint32(body[1:])
	message := body[prefix:]
	switch {
	case size > MaxMessage:
		return nil, tooLarge(size)
	case int(size) != len(message):
		return nil, status.Errorf(codes.Internal, "the message should have %d bytes, and %d follow; a unary call has one message", size, len(message))
	case body[0] == 0:
		return message, nil
	case body[0] == 1 && string(head.Get("grpc-encoding")) == "gzip":
		return unpack(message)
	}
	return nil, status.Error(codes.Internal, "the message is marked as packed, and grpc-encoding does not say how")
}

func tooLarge(size uint32) error {
	return status.Errorf(codes.ResourceExhausted, "a message of %d bytes is larger than %d", size, MaxMessage)
}

// rest answers what fast does not: calls whose message is large, here, and all others, by gRPC.
func (s *Server) rest(w http.ResponseWriter, r *http.Request) {
	head, m := h2.HeadOf(r), (*method)(nil)
	if head != nil {
		m = s.methodOf(head)
	}
	if m == nil {
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
			_, _ = io.CopyN(io.Discard, r.Body, h2.MaxBody) // no request is answered that turns out to be none
		}
		s.grpc.ServeHTTP(w, r)
		return
	}
	t := &message{from: from{server: s}}
	t.from.client, _ = h2.Caller(r.Context()).(string) // it is one
	arrived := time.Now()
	var body []byte
	err := unknownPacking(head)
	if err == nil {
		body, err = readMessage(r.Body)
	}
	if err == nil {
		err = s.run(r.Context(), head, arrived, m, t, body)
	} else {
		s.options.Observe(status.Code(err), time.Since(arrived))
	}
	a := &h2.Answer{Head: answerHead, Trailers: answerOK}
	if err != nil {
		a = failure(err)
		t.out = nil
	}
	for _, f := range a.Head {
		w.Header().Set(f.Name, f.Value)
	}
	_, _ = w.Write(t.out) // nobody waits for it any more, if it fails
	for _, f := range a.Trailers {
		w.Header().Set(http.TrailerPrefix+f.Name, f.Value)
	}
}

// readMessage reads a message behind its prefix, unless it is too large. It has no more memory than twice of what
// has come.
func readMessage(r io.Reader) ([]byte, error) {
	body := make([]byte, prefix, h2.MaxBody)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, status.Error(codes.Internal, "the call has no message; a unary call has one")
	}
	size := binary.BigEndian.Uint32(body[1:])
	if size > MaxMessage {
		return nil, tooLarge(size)
	}
	for {
		if len(body) == cap(body) {
			more := make([]byte, len(body), min(2*len(body), prefix+int(size)+1))
			copy(more, body)
			body = more
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF) || len(body) > prefix+int(size):
			return body, nil
		case err != nil:
			return nil, status.Error(codes.Canceled, "the call did not arrive")
		}
	}
}

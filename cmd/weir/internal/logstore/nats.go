package logstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/weir-limit/weir/internal/sleep"
	"github.com/weir-limit/weir/natsstore"
)

// The options of the URL of a stream.
const (
	optionLog      = "log"      // its name
	optionReplicas = "replicas" // on how many servers it is kept, when it is made
)

const (
	// maxStreamName is how long a stream's name is at most, in bytes.
	maxStreamName = 64
	// maxReplicas is how many JetStream keeps at most.
	maxReplicas = 5
	// patience is how long a server may take for an answer, or to acknowledge a message.
	patience = 2 * time.Second
	// writeTimeout is how long a server may take no bytes.
	writeTimeout = time.Second
	// pullBytes is how much a server sends before more is asked for, but for a message that is longer.
	pullBytes = 8 << 20
	// heartbeat is how often a server says that there is nothing to send; the least there is.
	heartbeat = 500 * time.Millisecond
	// resumePause is how long to wait until reading is tried again.
	resumePause = 50 * time.Millisecond
	// maxLine is how long a message may be to be looked at; one of Weir is shorter.
	maxLine = 32 << 10
)

var (
	errClosed = errors.New("the log was closed")
	errGap    = errors.New("messages were lost on their way")
	errForgot = errors.New("the servers have forgotten messages")
)

// stream is a stream of JetStream as an eventLog. It has one partition; offsets are sequences. Its subject
// is its name.
type stream struct {
	*streamPlace

	conn *nats.Conn
	js   jetstream.JetStream
	said atomic.Pointer[complaint] // the last

	mu   sync.Mutex
	sent map[*nats.Msg]func(error) // not acknowledged yet; nil: closed

	failed chan error    // why the reader gets no more
	reader *streamReader // nil: it is to be made
	last   uint64        // sequence of the message before the one that is read next, and
	at     time.Time     // when that was appended; zero: it was not read
	again  bool          // the reader begins with that message
	forgot bool          // the servers have another in its place
}

// complaint is what a server says of a user without the rights to do something. It does not answer that.
type complaint struct {
	err error
	at  time.Time
}

// streamPlace is what a URL says.
type streamPlace struct {
	servers  *natsstore.Servers
	name     string
	replicas int // 0: it does not say
}

// isStream is whether a URL names a stream.
func isStream(url string) bool {
	options := strings.Split(url[strings.LastIndexByte(url, '?')+1:], "&")
	return strings.HasPrefix(url, "nats://") && slices.ContainsFunc(options, func(option string) bool {
		name, _, _ := strings.Cut(option, "=")
		return name == optionLog
	})
}

// parseStream reads a URL, nats://[USER:PASSWORD@]HOST[:PORT][,…]?log=STREAM with options as those of package
// natsstore, and connects to nobody.
func parseStream(url string) (*streamPlace, error) {
	servers, err := natsstore.ParseServers(url, optionLog, optionReplicas, optionNode)
	if err != nil {
		return nil, err
	}
	p := &streamPlace{servers: servers, name: servers.Own[optionLog]}
	odd := func(r rune) bool {
		return !('a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || r == '_' || r == '-')
	}
	if p.name == "" || len(p.name) > maxStreamName || strings.ContainsFunc(p.name, odd) {
		return nil, fmt.Errorf("log: %.70q is no name of a stream; it has up to %d letters, digits, _ and -", p.name, maxStreamName)
	}
	if text := servers.Own[optionReplicas]; text != "" {
		p.replicas, err = strconv.Atoi(text)
		if err != nil || p.replicas < 1 || p.replicas > maxReplicas {
			return nil, fmt.Errorf("replicas: %q is not 1…%d", text, maxReplicas)
		}
	}
	return p, nil
}

// openStream connects.
func openStream(p *streamPlace) (eventLog, error) {
	s := &stream{streamPlace: p, sent: map[*nats.Msg]func(error){}, failed: make(chan error, 1)}
	var err error
	s.conn, err = p.servers.Connect(
		nats.NoEcho(), nats.FlusherTimeout(writeTimeout), nats.ErrorHandler(s.complain),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { s.fail(err) }),
	)
	if err != nil {
		return nil, s.explain(err)
	}
	s.js, err = jetstream.New(s.conn,
		jetstream.WithPublishAsyncMaxPending(2*maxInFlight), jetstream.WithPublishAsyncTimeout(patience),
		jetstream.WithPublishAsyncAckHandler(func(_ jetstream.JetStream, m *nats.Msg, _ *jetstream.PubAck) { s.acknowledge(m, nil) }),
		jetstream.WithPublishAsyncErrHandler(func(_ jetstream.JetStream, m *nats.Msg, err error) { s.acknowledge(m, err) }),
	)
	if err != nil {
		s.conn.Close()
		return nil, err
	}
	return s, nil
}

// complain hears what the user has no right to.
func (s *stream) complain(_ *nats.Conn, _ *nats.Subscription, err error) {
	if errors.Is(err, nats.ErrPermissionViolation) {
		s.said.Store(&complaint{err, time.Now()})
	}
}

func (s *stream) close() {
	s.leave()
	s.conn.Close()
	s.mu.Lock()
	sent := s.sent
	s.sent = nil
	s.mu.Unlock()
	for _, done := range sent {
		done(errClosed)
	}
}

// info asks for the stream.
func (s *stream) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, err := s.js.Stream(ctx, s.name)
	if err != nil {
		return nil, err
	}
	return found.CachedInfo(), nil
}

func (s *stream) find(ctx context.Context) (shape, error) {
	is, err := s.info(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return shape{}, nil
	case err != nil:
		return shape{}, s.explain(err)
	}
	return shape{1, is.Created.String()}, nil
}

func (s *stream) make(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, err := s.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: s.name, Subjects: []string{s.name}, Storage: jetstream.FileStorage, Replicas: max(s.replicas, 1),
		Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, MaxAge: retention,
	})
	if err != nil && !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return fmt.Errorf("there is no stream %q, and it can't be made; make it, see docs/stores.md: %w", s.name, s.explain(err))
	}
	return nil
}

func (s *stream) settings(ctx context.Context, back time.Duration) (settings, error) {
	is, err := s.info(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return settings{findings: []Finding{finding(false, "there is no stream %q; weir serve makes it, or make it yourself: "+
			"nats stream add %s --subjects %s --storage file --replicas 3 --retention limits --discard old --max-age %s --defaults",
			s.name, s.name, s.name, hours(retention))}}, nil
	case err != nil:
		return settings{}, s.explain(err)
	}
	set := settings{replicas: is.Config.Replicas, kept: -1}
	if is.Config.MaxAge > 0 {
		set.kept = is.Config.MaxAge
	}
	set.findings = append(s.faults(&is.Config), s.unwise(&is.Config, back)...)
	return set, nil
}

// hours is a time as people write it for the nats command.
func hours(d time.Duration) string { return fmt.Sprintf("%dh", d/time.Hour) }

// faults are why counts would be lost.
func (s *stream) faults(c *jetstream.StreamConfig) (found []Finding) {
	fault := func(is bool, format string, args ...any) {
		if is {
			found = append(found, finding(true, "the stream %q "+format, append([]any{s.name}, args...)...))
		}
	}
	fault(c.MaxMsgsPerSubject > 0, "keeps %d messages of a subject, and drops counts of other processes; "+
		"set max-msgs-per-subject=-1", c.MaxMsgsPerSubject)
	fault(c.Retention != jetstream.LimitsPolicy, "drops messages that were read, which others have to read; make it with retention limits")
	fault(c.NoAck, "acknowledges nothing; make it without --no-ack")
	fault(c.Sealed, "is sealed, so that nothing can be appended; make another")
	fault(c.Replicas < s.replicas, "has replicas: %d, and the URL says %d; nats stream edit %s --replicas %d", c.Replicas, s.replicas, s.name, s.replicas)
	return found
}

// unwise is what an operator may mean so.
func (s *stream) unwise(c *jetstream.StreamConfig, back time.Duration) (found []Finding) {
	warn := func(is bool, format string, args ...any) {
		if is {
			found = append(found, finding(false, format, args...))
		}
	}
	bounded := c.MaxMsgs > 0 || c.MaxBytes > 0
	warn(c.Replicas == 1, "the stream has one replica, so that counts are lost with its server; nats stream edit %s --replicas 3", s.name)
	warn(c.Replicas == 2, "the stream has two replicas, and appending needs both; nats stream edit %s --replicas 3", s.name)
	warn(c.Storage == jetstream.MemoryStorage, "the stream is in memory, so that counts are lost when its servers restart; make it with storage file")
	warn(c.MaxAge > 0 && c.MaxAge < back, "the stream keeps messages for %v, and a process that starts reads back %v; set max-age=%s",
		c.MaxAge, back, hours(retention))
	warn(bounded && c.Discard == jetstream.DiscardNew, "the stream takes nothing when it is full, and the fallbacks of the rules decide then; set discard=old")
	warn(bounded && c.Discard == jetstream.DiscardOld, "the stream drops old messages when it is full, which a process that starts may lack; "+
		"see that it holds those of %v, or set max-msgs=-1 and max-bytes=-1", back)
	warn(c.MaxMsgSize > 0 && c.MaxMsgSize < maxLine, "the stream refuses messages of more than %d bytes, and so some keys; set max-msg-size=-1", c.MaxMsgSize)
	warn(len(c.Subjects) > 1, "the stream takes messages of other subjects, which all daemons read and skip; give Weir a stream of its own")
	return found
}

// first appends a message, and asks the server that leads the stream for its clock, by which messages are
// stamped.
func (s *stream) first(ctx context.Context, _ int, value []byte) ([]int64, time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ack, err := s.js.Publish(ctx, s.name, value)
	if err != nil {
		return nil, time.Time{}, s.explain(err)
	}
	if ack.Stream != s.name {
		return nil, time.Time{}, fmt.Errorf("the stream %q does not take the subject %s, and the stream %q does; give it that subject", s.name, s.name, ack.Stream)
	}
	is, err := s.info(ctx)
	if err != nil {
		return nil, time.Time{}, s.explain(err)
	}
	return []int64{int64(ack.Sequence)}, is.TimeStamp, nil
}

func (s *stream) begin(ctx context.Context, since time.Time, _ []int64) ([]int64, time.Duration, error) {
	is, err := s.info(ctx)
	if err == nil {
		err = s.seek(ctx, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &since})
	}
	if err != nil {
		return nil, 0, s.explain(err)
	}
	missing := time.Duration(0)
	if first := is.State.FirstSeq; first > 1 && s.last+1 == first {
		missing = max(is.State.FirstTime.Sub(since), 0)
	}
	return []int64{int64(s.last + 1)}, missing, nil
}

// seek has poll return messages from where from says.
func (s *stream) seek(ctx context.Context, from jetstream.ConsumerConfig) error {
	s.leave()
	from.AckPolicy, from.MemoryStorage, from.Replicas = jetstream.AckNonePolicy, true, 1
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	consumer, err := s.js.CreateConsumer(asking, s.name, from)
	if err != nil {
		return err
	}
	r := newStreamReader(s.failed)
	r.consuming, err = consumer.Consume(r.hear,
		jetstream.PullMaxBytes(max(pullBytes, 2*int(s.conn.MaxPayload()))), jetstream.PullHeartbeat(heartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { s.fail(err) }))
	if err != nil {
		return err
	}
	if s.reader = r; s.at.IsZero() {
		s.last = consumer.CachedInfo().Delivered.Stream
	}
	return nil
}

// leave ends what reads.
func (s *stream) leave() {
	if s.reader != nil {
		s.reader.stop()
		s.reader = nil
	}
	select {
	case <-s.failed: //nolint:errcheck // it was told of what is left
	default:
	}
}

// fail has poll read in another way.
func (s *stream) fail(err error) {
	if errors.Is(err, nats.ErrNoResponders) {
		err = jetstream.ErrConsumerNotFound // its server was restarted
	}
	select {
	case s.failed <- cmp.Or(err, nats.ErrDisconnected):
	default: // it will
	}
}

// resume reads on, from the message that was read last, to see whether it is still the same. Where the
// servers have forgotten it, and number others so now, it reads those that came later.
func (s *stream) resume(ctx context.Context) error {
	is, err := s.info(ctx)
	switch {
	case err != nil:
		return err
	case s.at.IsZero():
		return s.seek(ctx, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.last + 1})
	case s.forgot || is.State.LastSeq < s.last:
		s.again, s.forgot = false, false
		later := s.at.Add(1)
		return s.seek(ctx, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &later})
	}
	s.again = true
	return s.seek(ctx, jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.last})
}

// overlap drops the message that was read before. It fails where the servers have another in its place.
func (s *stream) overlap(messages []message) ([]message, error) {
	if !s.again || len(messages) == 0 {
		return messages, nil
	}
	s.again = false
	switch first := &messages[0]; {
	case first.offset != int64(s.last): // it was deleted
		return messages, nil
	case !first.stamp.Equal(s.at):
		s.forgot = true
		return nil, errForgot
	}
	return messages[1:], nil
}

func (s *stream) poll(ctx context.Context) ([]batch, error) {
	if s.reader == nil {
		if err := s.resume(ctx); err != nil {
			_ = sleep.For(ctx, resumePause)
			return nil, s.explain(err)
		}
	}
	messages, end, err := s.reader.poll(ctx)
	messages, forgot := s.overlap(messages)
	if n := len(messages); n > 0 {
		s.last, s.at = uint64(messages[n-1].offset), messages[n-1].stamp
	}
	if err = cmp.Or(forgot, err); err != nil {
		s.leave()
		err = s.explain(err)
	}
	return []batch{{0, end, messages}}, err
}

func (s *stream) send(_ int, _, value []byte, done func(error)) {
	m := &nats.Msg{Subject: s.name, Data: value}
	s.mu.Lock()
	closed := s.sent == nil
	if !closed {
		s.sent[m] = done
	}
	s.mu.Unlock()
	if closed {
		done(errClosed)
		return
	}
	// Nothing is sent again by the client: it would come after what was sent since.
	if _, err := s.js.PublishMsgAsync(m, jetstream.WithRetryAttempts(0)); err != nil {
		s.acknowledge(m, err)
	}
}

// acknowledge hears what became of a message.
func (s *stream) acknowledge(m *nats.Msg, err error) {
	s.mu.Lock()
	done := s.sent[m]
	delete(s.sent, m)
	s.mu.Unlock()
	if done == nil {
		return // it was closed
	}
	done(s.explain(err))
}

// explain says what to do about what a server said.
func (s *stream) explain(err error) error {
	said := s.said.Load()
	switch {
	case err == nil:
		return nil
	case s.conn != nil && s.conn.IsClosed(): // a server said an error that the client does not know
		return fmt.Errorf("%w: %w", errOver, cmp.Or(s.conn.LastError(), err))
	case said != nil && time.Since(said.at) < 2*patience:
		return fmt.Errorf("%w the stream %q; give it the rights that docs/stores.md lists: %w", errRefused, s.name, said.err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("%w; check user, password, token, creds and nkey", err)
	case errors.Is(err, nats.ErrNoServers):
		return fmt.Errorf("%w; is nats-server running there?", err)
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w; turn JetStream on, for the servers and for the account, and see that most servers are there", err)
	case errors.Is(err, jetstream.ErrNoStreamResponse):
		return fmt.Errorf("no server takes the subject %s for the stream %q; are most of its replicas there, and is it a subject of the stream: %w", s.name, s.name, err)
	case s.conn != nil && !s.conn.IsConnected():
		return fmt.Errorf("no server of the log is connected: %w", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrAsyncPublishTimeout), errors.Is(err, jetstream.ErrNoHeartbeat):
		return fmt.Errorf("no server of the log answers in time; are most replicas of the stream there: %w", err)
	}
	return err
}

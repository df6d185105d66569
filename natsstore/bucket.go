package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weir-limit/weir/internal/cas"
	"github.com/weir-limit/weir/internal/sleep"
)

// stream is what JetStream says of the stream of a bucket, as far as it matters here.
type stream struct {
	Config  config    `json:"config"`
	Created time.Time `json:"created"`
	State   struct {
		Messages int64  `json:"messages"`
		Bytes    int64  `json:"bytes"`
		LastSeq  uint64 `json:"last_seq"`
	} `json:"state"`
	Cluster struct {
		Leader   string    `json:"leader"`
		Replicas []replica `json:"replicas"`
	} `json:"cluster"`
	Time time.Time `json:"ts"`
}

// replica is one that follows the leader.
type replica struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Offline bool   `json:"offline"`
	Lag     uint64 `json:"lag"`
}

// config is how a stream keeps its messages.
type config struct {
	Name      string   `json:"name"`
	Subjects  []string `json:"subjects"`
	Storage   string   `json:"storage"`
	Retention string   `json:"retention"`
	Replicas  int      `json:"num_replicas"`
	Discard   string   `json:"discard"`
	PerKey    int64    `json:"max_msgs_per_subject"`
	MaxMsgs   int64    `json:"max_msgs"`
	MaxBytes  int64    `json:"max_bytes"`
	MaxAge    int64    `json:"max_age"`
	MaxSize   int64    `json:"max_msg_size"`
	TTLs      bool     `json:"allow_msg_ttl"`
	Direct    bool     `json:"allow_direct"`
	Rollup    bool     `json:"allow_rollup_hdrs"`
	NewPerKey bool     `json:"discard_new_per_subject,omitempty"`
	Silent    bool     `json:"no_ack,omitempty"`

	Sources   []json.RawMessage `json:"sources,omitempty"`
	Transform json.RawMessage   `json:"subject_transform,omitempty"`
	Deny      bool              `json:"deny_delete"`
	FirstSeq  uint64            `json:"first_seq,omitempty"`
	Sealed    bool              `json:"sealed,omitempty"`
}

// apiError is what JetStream answers where it does not do as it is told.
type apiError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return e.Description }

// Codes of JetStream.
const (
	codeNoMessage     = 10037
	codeTooLarge      = 10054
	codeOtherStream   = 10058 // one of that name is made otherwise
	codeNoStream      = 10059
	codeWrongSequence = 10071
	codeWriteOnItsWay = 10164 // a write of the same key is not done yet
	codeUnavailable   = 10008
	streamPrefix      = "KV_" // of a bucket's stream
	metadataRoom      = 1 << 10
	streamInfo        = "$JS.API.STREAM.INFO."
	streamCreate      = "$JS.API.STREAM.CREATE."
	streamMessage     = "$JS.API.STREAM.MSG.GET."
	accountInfo       = "$JS.API.INFO"
	maxStreamMessage  = maxValue + metadataRoom
	storageFile       = "file"
	storageMemory     = "memory"
	discardNew        = "new"
	retentionLimits   = "limits"
)

// info asks for the stream of the bucket.
func (l *link) info(ctx context.Context, s *stream) error {
	b, err := l.read(ctx, streamInfo+streamPrefix+l.bucket, nil)
	if err != nil {
		return err
	}
	return decode(b, s)
}

// decode reads an answer of JetStream.
func decode(b []byte, answer any) error {
	var failed struct {
		Error *apiError `json:"error"`
	}
	if err := errors.Join(json.Unmarshal(b, &failed), json.Unmarshal(b, answer)); err != nil {
		return fmt.Errorf("this is no answer of JetStream: %w", err)
	}
	if failed.Error != nil {
		return failed.Error
	}
	return nil
}

// findBucket looks whether the bucket is there and fit, and makes one where there is none. It begins
// an epoch where the bucket is not the one that it was.
func (l *link) findBucket() error {
	high := l.high.Load()
	var s stream
	ctx, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	asked := time.Now()
	err := l.info(ctx, &s)
	if code(err) == codeNoStream && !l.created.IsZero() && sleep.For(ctx, deletePause) == nil {
		err = l.info(ctx, &s)
	}
	for code(err) == codeNoStream {
		if err = l.makeBucket(ctx, &s); code(err) != codeOtherStream || sleep.For(ctx, firstPause) != nil {
			break
		}
		err = l.info(ctx, &s) // another process is faster; the servers may not all know yet
	}
	if err != nil {
		return err
	}
	if err := cas.Near(s.Time, asked); err != nil {
		return err
	}
	if err := l.fit(&s.Config); err != nil {
		return err
	}
	if err := l.writable(ctx); err != nil {
		return err
	}
	if !s.Created.Equal(l.created) || s.State.LastSeq < high {
		l.created = s.Created // only the goroutine of keep uses it
		l.renew(s.State.LastSeq)
	}
	return nil
}

// writable fails where a bucket can't be written. One that was made just now is led a moment later.
func (l *link) writable(ctx context.Context) error {
	for {
		err := l.probe(ctx)
		if !errors.Is(err, errNobody) || sleep.For(ctx, firstPause) != nil {
			return err
		}
	}
}

// probeKey is a key that is no count's. What is written there is forgotten soon.
const probeKey = "=probe"

// probe writes to the bucket, and counts nothing.
func (l *link) probe(ctx context.Context) error {
	b, err := l.ask(ctx, l.subjects+probeKey, nats.Header{"Nats-TTL": {"60"}}, nil)
	if err == nil {
		_, err = sequence(b)
	}
	return err
}

// makeBucket makes the bucket.
//
// Its first sequence is the time, so that a bucket that is made again numbers its writes above all of
// the one before: a view from then matches no write of now. It would take a million writes a second
// for years to get there.
func (l *link) makeBucket(ctx context.Context, s *stream) error {
	c := config{
		Name: streamPrefix + l.bucket, Subjects: []string{l.subjects + ">"}, Storage: storageFile, Retention: retentionLimits,
		Replicas: l.replicas, Discard: discardNew, PerKey: 1, MaxMsgs: -1, MaxBytes: -1, MaxSize: maxStreamMessage,
		TTLs: true, Direct: true, Rollup: true, Deny: true, FirstSeq: uint64(time.Now().UnixMicro()),
	}
	if l.memory {
		c.Storage = storageMemory
	}
	ask, err := json.Marshal(c)
	if err != nil {
		return err
	}
	b, err := l.ask(ctx, streamCreate+c.Name, nil, ask)
	if err != nil {
		return err
	}
	return decode(b, s)
}

// code is that of JetStream; 0 for other errors.
func code(err error) int {
	if e := (*apiError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// fit refuses a bucket that would not keep counts as this store means it.
func (l *link) fit(c *config) error {
	why := ""
	switch {
	case len(c.Subjects) != 1 || c.Subjects[0] != l.subjects+">" || c.Retention != retentionLimits || c.Sealed:
		why = "it is no bucket that is written"
	case c.PerKey != 1:
		why = fmt.Sprintf("it keeps a history of %d, and an old count would come back when a newer one is over", c.PerKey)
	case c.NewPerKey:
		why = "it keeps the first value of a key, and refuses a newer one"
	case len(c.Sources) > 0:
		why = "it takes messages from another stream, which would put old counts over newer ones"
	case len(c.Transform) > 0:
		why = "it keeps keys under other names"
	case c.Silent:
		why = "it does not answer writes"
	case !c.TTLs:
		why = "it has no ttl for each message, which NATS 2.11 and later have"
	case c.MaxAge != 0:
		why = fmt.Sprintf("it drops all keys after %v", time.Duration(c.MaxAge))
	case c.Discard != discardNew && (c.MaxBytes > 0 || c.MaxMsgs > 0):
		why = "it drops old keys when it is full"
	case c.Storage == storageMemory && !l.memory:
		why = "it is in memory, and the URL does not say storage=memory"
	case c.Replicas < l.replicas:
		why = fmt.Sprintf("it has replicas: %d, and the URL says %d", c.Replicas, l.replicas)
	default:
		return nil
	}
	return fmt.Errorf("the bucket %s %w: %s", l.bucket, errUnfit, why)
}

// errUnfit is of a bucket that would not keep counts as this store means it.
var errUnfit = errors.New("is not fit")

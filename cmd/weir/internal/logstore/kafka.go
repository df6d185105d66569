package logstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weir-limit/weir/cmd/weir/internal/broker"
	"github.com/weir-limit/weir/internal/cluster/bounds"
)

// A topic that is not there is made with these.
const (
	partitions = 8
	retention  = bounds.LogBack + 24*time.Hour
)

// kafka is a topic as an eventLog.
type kafka struct {
	client  *kgo.Client
	admin   *kadm.Client
	topic   string
	connect func(...kgo.Opt) (*kgo.Client, error)
}

// openKafka connects when it is used. Tests have options of their own.
func openKafka(topic *broker.Kafka, own ...kgo.Opt) (*kafka, error) {
	connect := func(o ...kgo.Opt) (*kgo.Client, error) { return topic.Client(append(o, own...)...) }
	client, err := connect(
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(2*maxInFlight),
		kgo.UnknownTopicRetries(-1), kgo.RequestRetries(2), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	if err != nil {
		return nil, err
	}
	return &kafka{client, kadm.NewClient(client), topic.Topic, connect}, nil
}

func (k *kafka) close() { k.client.Close() }

func (k *kafka) find(ctx context.Context) (shape, error) {
	topics, err := k.admin.ListTopics(ctx, k.topic)
	if err != nil {
		return shape{}, k.explain(err)
	}
	topic := topics[k.topic]
	if errors.Is(topic.Err, kerr.UnknownTopicOrPartition) {
		return shape{}, nil
	}
	if topic.Err != nil {
		return shape{}, k.explain(topic.Err)
	}
	return shape{len(topic.Partitions), topic.ID.String()}, nil
}

func (k *kafka) make(ctx context.Context) error {
	_, err := k.admin.CreateTopic(ctx, partitions, -1, map[string]*string{
		"cleanup.policy":         new("delete"),
		"retention.ms":           new(strconv.FormatInt(retention.Milliseconds(), 10)),
		"message.timestamp.type": new("LogAppendTime"),
	}, k.topic)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("there is no topic %q, and it can't be made; make it: %w", k.topic, err)
	}
	return nil
}

func (k *kafka) settings(ctx context.Context, back time.Duration) (settings, error) {
	topics, err := k.admin.ListTopics(ctx, k.topic)
	if err != nil {
		return settings{}, err
	}
	if errors.Is(topics[k.topic].Err, kerr.UnknownTopicOrPartition) {
		return settings{findings: []Finding{finding(false, "there is no topic %q; weir serve makes it, or make it yourself: partitions %d, "+
			"cleanup.policy=delete, retention.ms=%d, message.timestamp.type=LogAppendTime", k.topic, partitions, retention.Milliseconds())}}, nil
	}
	s := settings{kept: -1, replicas: topics[k.topic].Partitions.NumReplicas()}
	if s.replicas == 1 {
		s.findings = append(s.findings, finding(false, "the topic has one replica, so that counts are lost with its broker; give it three"))
	}
	all, err := k.admin.DescribeTopicConfigs(ctx, k.topic)
	if err != nil {
		return s, err
	}
	one, err := all.On(k.topic, nil)
	if err == nil {
		err = one.Err
	}
	if err != nil {
		return s, fmt.Errorf("the settings of the topic can't be read; give this user DESCRIBE_CONFIGS, or look yourself: %w", err)
	}
	k.judge(&s, one.Configs, back)
	return s, nil
}

// judge finds what is unwise in the settings of a topic.
func (k *kafka) judge(s *settings, configs []kadm.Config, back time.Duration) {
	compacted, brokerTime := false, false
	for _, c := range configs {
		switch value := c.MaybeValue(); c.Key {
		case "cleanup.policy":
			compacted = value != "" && value != "delete"
		case "retention.ms":
			if ms, err := strconv.ParseInt(value, 10, 64); err == nil && ms >= 0 {
				s.kept = time.Duration(min(ms, 1<<40)) * time.Millisecond
			}
		case "message.timestamp.type":
			brokerTime = value == "LogAppendTime"
		}
	}
	if compacted {
		s.findings = append(s.findings, finding(true, "the topic %q is compacted, which drops counts of other processes; set cleanup.policy=delete", k.topic))
	}
	if s.kept >= 0 && s.kept < back {
		s.findings = append(s.findings, finding(false, "the topic keeps messages for %v, and a process that starts reads back %v; set retention.ms=%d",
			s.kept, back, retention.Milliseconds()))
	}
	if !brokerTime {
		s.findings = append(s.findings, finding(false, "messages have the time of the processes that wrote them, whose clocks may differ: "+
			"a start then forgets, or counts for longer; set message.timestamp.type=LogAppendTime"))
	}
}

// first has a reader of its own read a beat back, to know the broker's clock.
func (k *kafka) first(ctx context.Context, partitions int, value []byte) ([]int64, time.Time, error) {
	beats := make([]*kgo.Record, partitions)
	for p := range beats {
		beats[p] = &kgo.Record{Topic: k.topic, Partition: int32(p), Value: value}
	}
	if err := k.client.ProduceSync(ctx, beats...).FirstErr(); err != nil {
		return nil, time.Time{}, k.explain(err)
	}
	offsets := make([]int64, partitions)
	for p, r := range beats {
		offsets[p] = r.Offset
	}
	reader, err := k.connect(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{k.topic: {0: kgo.NewOffset().At(offsets[0])}}))
	if err != nil {
		return nil, time.Time{}, err
	}
	defer reader.Close()
	fetches := reader.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil {
		return nil, time.Time{}, k.explain(err)
	}
	for r := range fetches.RecordsAll() {
		return offsets, r.Timestamp, nil
	}
	return nil, time.Time{}, errors.New("the log did not give back what was appended")
}

func (k *kafka) begin(ctx context.Context, since time.Time, goals []int64) ([]int64, time.Duration, error) {
	found, err := k.admin.ListOffsetsAfterMilli(ctx, since.UnixMilli(), k.topic)
	if err != nil {
		return nil, 0, k.explain(err)
	}
	starts, err := k.admin.ListStartOffsets(ctx, k.topic)
	if err != nil {
		return nil, 0, k.explain(err)
	}
	from, missing := make([]int64, len(goals)), time.Duration(0)
	reading := map[int32]kgo.Offset{}
	for p := range from {
		start, _ := starts.Lookup(k.topic, int32(p))
		first, _ := found.Lookup(k.topic, int32(p))
		if err := cmp.Or(first.Err, start.Err); err != nil {
			return nil, 0, k.explain(err)
		}
		at := first.Offset
		if at < start.Offset || at > goals[p] { // this broker does not find messages by their time
			at = start.Offset
		} else if at == start.Offset && at > 0 {
			missing = max(missing, time.UnixMilli(first.Timestamp).Sub(since))
		}
		from[p], reading[int32(p)] = at, kgo.NewOffset().At(at)
	}
	k.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{k.topic: reading})
	return from, missing, nil
}

func (k *kafka) poll(ctx context.Context) ([]batch, error) {
	fetches := k.client.PollRecords(ctx, maxPoll)
	var failed error
	fetches.EachError(func(_ string, _ int32, err error) { failed = k.explain(err) })
	var batches []batch
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		if len(p.Records) == 0 {
			return // an error, which may be of no partition
		}
		b := batch{int(p.Partition), p.HighWatermark, make([]message, len(p.Records))}
		for i, r := range p.Records {
			b.messages[i] = message{r.Offset, r.Value, r.Timestamp}
		}
		batches = append(batches, b)
	})
	return batches, failed
}

func (k *kafka) send(partition int, key, value []byte, done func(error)) {
	r := &kgo.Record{Topic: k.topic, Partition: int32(partition), Key: key, Value: value}
	k.client.TryProduce(context.Background(), r, func(_ *kgo.Record, err error) { done(k.explain(err)) })
}

// explain says what to do about what a broker said.
func (k *kafka) explain(err error) error {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("there is no topic %q: %w", k.topic, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("%w the topic %q; give it READ, WRITE and DESCRIBE there: %w", errRefused, k.topic, err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("the broker closes the connection; does it want TLS, or another user or password: %w", err)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no broker of the log answers in time: %w", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w; is Kafka running there?", err)
	case errors.Is(err, kbin.ErrNotEnoughData):
		return fmt.Errorf("%w; this is no answer of Kafka: is the address right, and the broker new enough?", err)
	}
	return err
}

package outlet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/weir-limit/weir/cmd/weir/internal/broker"
	"github.com/weir-limit/weir/cmd/weir/internal/usagelog"
)

const (
	// linger is how long a record waits for others, to travel with them.
	linger = 5 * time.Millisecond
	// pingTimeout is how long to ask why nothing was acknowledged.
	pingTimeout = time.Second
)

// kafka is a Sink that sends a message for each record, under the name of node and incarnation: so
// those of one process are in one partition, in order.
type kafka struct {
	connect func() (*kgo.Client, error)
	client  *kgo.Client
	topic   string

	batch string     // that is on its way; empty: none is
	acked chan error // when it has arrived
}

func openKafka(k *broker.Kafka, more ...kgo.Opt) (usagelog.Sink, error) {
	o := append(more, kgo.DefaultProduceTopic(k.Topic), kgo.ProducerLinger(linger))
	sink := &kafka{connect: func() (*kgo.Client, error) { return k.Client(o...) }, topic: k.Topic}
	var err error
	sink.client, err = sink.connect()
	return sink, err
}

// Append is as Sink has it. The client has its own numbers for what it sends, by which the broker
// drops copies, and goes on sending a batch that is late: so one that comes again meanwhile is not
// sent a second time.
func (k *kafka) Append(ctx context.Context, b usagelog.Batch) error {
	if k.batch != b.ID {
		k.batch, k.acked = b.ID, make(chan error, 1)
		go k.send(b, k.acked)
	}
	select {
	case err := <-k.acked:
		k.batch = ""
		return errors.Join(k.explained(err), k.renew(err))
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		return k.why()
	}
}

func (k *kafka) send(b usagelog.Batch, acked chan<- error) {
	var all []*kgo.Record
	key := []byte(b.Node)
	for line := range bytes.Lines(b.Lines) {
		all = append(all, &kgo.Record{Key: key, Value: bytes.TrimSuffix(line, []byte{'\n'})})
	}
	acked <- k.client.ProduceSync(context.Background(), all...).FirstErr()
}

// renew makes a new client after a failure: one that was refused its number as a producer never asks for it
// again, also where it would get it now.
func (k *kafka) renew(failed error) error {
	if failed == nil {
		return nil
	}
	client, err := k.connect()
	if err == nil {
		k.client.Close()
		k.client = client
	}
	return err
}

// why is the reason for which nothing was acknowledged in time.
func (k *kafka) why() error {
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	if err := k.client.Ping(ctx); err != nil {
		return fmt.Errorf("no broker answers; are the address, tls, user and password right? %w", err)
	}
	return errors.New("brokers answer, and have not acknowledged a batch in time")
}

// explained says what to do about an error.
func (k *kafka) explained(err error) error {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("there is no topic %q; make it: %w", k.topic, err)
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return fmt.Errorf("this user may not write to the topic %q; give it the right WRITE there, and IDEMPOTENT_WRITE at the cluster: %w", k.topic, err)
	}
	return err
}

// Close ends the connections.
func (k *kafka) Close() error {
	k.client.Close()
	return nil
}

package outlet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/weir-limit/weir/cmd/weir/internal/broker"
)

const (
	// maxLine is how many bytes a line has at most; a longer one is no record.
	maxLine = 1 << 20
	// pulled is how many messages NATS sends before they are read.
	pulled = 64
	// readTimeout is how long a broker may say nothing while a log is read.
	readTimeout = 15 * time.Second
)

// IsLog is whether a text is the URL of a usage log.
func IsLog(text string) bool {
	return strings.HasPrefix(text, "file:") || broker.IsKafka(text) || broker.IsNATS(text)
}

// Check says what is wrong with the URL of a log.
func Check(url string) error {
	_, _, err := kindOf(url)
	return err
}

// Read calls f with each line of a log, from the first that is there to the last that was there when it
// began. Lines of one process are in order; they may come twice, and some may be no records. f must not
// keep a line. It takes the URL of a log, and file: may name a file, too.
func Read(ctx context.Context, url string, f func(line []byte) error) error {
	if broker.IsKafka(url) {
		k, err := broker.ParseKafka(url, optionNode, optionHashKey)
		if err != nil {
			return err
		}
		return readKafka(ctx, k, f)
	}
	if broker.IsNATS(url) {
		n, err := broker.ParseNATS(url, optionNode, optionHashKey)
		if err != nil {
			return err
		}
		return readNATS(ctx, n, f)
	}
	path, ok := strings.CutPrefix(url, "file:")
	path, _, _ = strings.Cut(path, "?") // what the daemon was told besides
	if !ok || path == "" {
		return errors.New("this is no usage log; " + schemes)
	}
	return readFiles(path, f)
}

// readFiles reads a file, or those of a folder, in the order of their names.
func readFiles(path string, f func(line []byte) error) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return readFile(path, f)
	}
	files, err := fs.Glob(os.DirFS(path), "usage-*.jsonl") // sorted
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%s has no file usage-*.jsonl", path)
	}
	for _, name := range files {
		file := filepath.Join(path, name)
		if err := readFile(file, f); err != nil {
			return err
		}
	}
	return nil
}

func readFile(name string, f func(line []byte) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewReaderSize(file, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		if err := f(line); err != nil {
			return err
		}
	}
}

// readKafka reads all partitions of a topic up to their ends.
func readKafka(ctx context.Context, k *broker.Kafka, f func(line []byte) error) error {
	client, err := k.Client(
		kgo.ConsumeTopics(k.Topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords(),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	left, err := ends(ctx, client, k.Topic)
	if err != nil {
		return err
	}
	for len(left) > 0 {
		polling, cancel := context.WithTimeout(ctx, readTimeout)
		got := client.PollFetches(polling)
		silent := polling.Err()
		cancel()
		if err := errors.Join(got.Err(), silent); err != nil {
			return fmt.Errorf("read topic %q: %w", k.Topic, err)
		}
		for r := range got.RecordsAll() {
			end, more := left[r.Partition]
			if !more {
				continue
			}
			if r.Offset+1 >= end {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() || r.Offset >= end {
				continue
			}
			if err := f(r.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// ends is where the partitions of a topic end now, of those that are not empty.
func ends(ctx context.Context, client *kgo.Client, topic string) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	asked := kmsg.NewPtrMetadataRequest()
	asked.Topics = []kmsg.MetadataRequestTopic{{Topic: new(topic)}}
	meta, err := asked.RequestWith(ctx, client)
	if err != nil {
		return nil, err
	}
	if len(meta.Topics) != 1 || meta.Topics[0].ErrorCode != 0 {
		code := int16(0)
		if len(meta.Topics) == 1 {
			code = meta.Topics[0].ErrorCode
		}
		return nil, fmt.Errorf("read topic %q: %w", topic, kerr.ErrorForCode(code))
	}
	left := map[int32]int64{}
	for _, at := range []int64{atEnd, atStart} {
		offsets := kmsg.NewPtrListOffsetsRequest()
		of := kmsg.NewListOffsetsRequestTopic()
		of.Topic = topic
		for _, p := range meta.Topics[0].Partitions {
			one := kmsg.NewListOffsetsRequestTopicPartition()
			one.Partition, one.Timestamp = p.Partition, at
			of.Partitions = append(of.Partitions, one)
		}
		offsets.Topics = append(offsets.Topics, of)
		answer, err := offsets.RequestWith(ctx, client)
		if err != nil {
			return nil, err
		}
		for _, t := range answer.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("read partition %d of topic %q: %w", p.Partition, topic, err)
				}
				if at == atEnd {
					left[p.Partition] = p.Offset
				} else if left[p.Partition] <= p.Offset {
					delete(left, p.Partition)
				}
			}
		}
	}
	return left, nil
}

// atEnd and atStart are what Kafka has in the place of a time.
const atEnd, atStart = -1, -2

// readNATS reads the messages of a subject up to the last.
func readNATS(ctx context.Context, n *broker.NATS, f func(line []byte) error) error {
	conn, err := n.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if !conn.IsConnected() {
		return fmt.Errorf("no server answers: %w", noted(conn.LastError()))
	}
	name, err := js.StreamNameBySubject(asking, n.Subject)
	if err != nil {
		return fmt.Errorf("find the stream of %q: %w", n.Subject, err)
	}
	c, err := js.OrderedConsumer(asking, name, jetstream.OrderedConsumerConfig{FilterSubjects: []string{n.Subject}})
	if err != nil {
		return fmt.Errorf("read stream %q: %w", name, err)
	}
	info, err := c.Info(asking)
	if err != nil {
		return fmt.Errorf("read stream %q: %w", name, err)
	}
	messages, err := c.Messages(jetstream.PullMaxMessages(pulled))
	if err != nil {
		return fmt.Errorf("read stream %q: %w", name, err)
	}
	defer messages.Stop()
	for range info.NumPending {
		waiting, cancel := context.WithTimeout(ctx, readTimeout)
		m, err := messages.Next(jetstream.NextContext(waiting))
		cancel()
		if err != nil {
			return fmt.Errorf("read stream %q: %w", name, err)
		}
		for line := range bytes.Lines(m.Data()) {
			if err := f(line); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

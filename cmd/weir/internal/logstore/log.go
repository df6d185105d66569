package logstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/broker"
)

// eventLog is a log at a broker. It has partitions, each of which keeps messages in order, by offset.
// Errors say what to do. Only one goroutine opens and polls; any may send.
type eventLog interface {
	// find is what the log is now: it has no partitions where there is none. It fails with errRefused where
	// this user may not use it.
	find(ctx context.Context) (shape, error)
	// make makes the log. Another process may do that meanwhile.
	make(ctx context.Context) error
	// settings look at what an operator has set, for rules that look back so far; where there is no log, the
	// finding says so. They fail where this user may not look.
	settings(ctx context.Context, back time.Duration) (settings, error)
	// first appends a message to each of the partitions, and says where they stand, and what the broker's
	// clock said then.
	first(ctx context.Context, partitions int, value []byte) (offsets []int64, stamp time.Time, err error)
	// begin has poll return messages from the first one on that is no older than since, of each partition, and
	// says where that is. Where the broker can't find it, all is read that is there. What was appended first
	// stands at goals. missing is how much later than since a partition begins because messages were deleted.
	begin(ctx context.Context, since time.Time, goals []int64) (from []int64, missing time.Duration, err error)
	// poll waits for messages. Those of a partition come in their order. It may fail for some partitions, and
	// return what others have; the next call tries again.
	poll(ctx context.Context) ([]batch, error)
	// send appends a message, and never waits. done is called when the log has it, or will not.
	send(partition int, key, value []byte, done func(error))
	// close ends it. Messages that were sent and are not acknowledged will not be appended.
	close()
}

var (
	// errRefused is of a user without the rights.
	errRefused = errors.New("this user may not read and write")
	// errOver is of a log that has to be opened again, because its client has given up.
	errOver = errors.New("the connection is over")
)

// shape is what a log is. When it changes, the log is another, or has more partitions.
type shape struct {
	partitions int
	id         string // of a log that was made again it is another; empty: the broker tells none
}

// settings are those of a log.
type settings struct {
	replicas int
	kept     time.Duration // −1: for ever
	findings []Finding
}

// batch is messages of one partition.
type batch struct {
	partition int
	end       int64 // where the partition ends, by what the broker knew
	messages  []message
}

type message struct {
	offset int64
	value  []byte
	stamp  time.Time // by the broker's clock
}

// place is a log that a URL names.
type place struct {
	kind string // of broker and log, in words
	name string
	node string // the name of this process
	open func() (eventLog, error)
}

// optionNode is the name of this process in entries.
const optionNode = "node"

// maxNode is how long that name is at most, in bytes.
const maxNode = 255

// Is is whether a URL names an event log.
func Is(url string) bool { return broker.IsKafka(url) || isStream(url) }

// placeOf reads a URL, and connects to nobody.
func placeOf(url string) (*place, error) {
	if isStream(url) {
		return placeOfStream(url)
	}
	topic, err := broker.ParseKafka(url, optionNode)
	if err != nil {
		return nil, err
	}
	node, err := nodeOf(topic.Options[optionNode])
	return &place{
		kind: "Kafka, topic", name: topic.Topic, node: node,
		open: func() (eventLog, error) { return openKafka(topic) },
	}, err
}

func placeOfStream(url string) (*place, error) {
	p, err := parseStream(url)
	if err != nil {
		return nil, err
	}
	node, err := nodeOf(p.servers.Own[optionNode])
	return &place{
		kind: "NATS, stream", name: p.name, node: node,
		open: func() (eventLog, error) { return openStream(p) },
	}, err
}

// nodeOf is the name of this process, as an option says or the machine's.
func nodeOf(option string) (string, error) {
	node := option
	if node == "" {
		var err error
		if node, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("this machine has no name; give one by ?%s=NAME: %w", optionNode, err)
		}
	}
	if len(node) > maxNode || strings.ToValidUTF8(node, "") != node {
		return "", fmt.Errorf("%s is the name of this process, of at most %d bytes of UTF-8", optionNode, maxNode)
	}
	return node, nil
}

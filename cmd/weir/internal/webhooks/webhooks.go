// Package webhooks tells URLs what happens to rules: signed, one message after the other, until each is delivered or given up.
//
// The audit of the rule database is the queue. A webhook has a cursor in it, so that nothing is lost, and a message has the same id at each try, by
// whichever node. One node sends for all that share the database: it holds a lease there, and another one takes over in seconds.
//
// sender.go goes through the queues, deliver.go makes a request, address.go says where to, and form.go what is in it.
package webhooks

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

const (
	// lookEvery is how often the sender looks for messages, and for webhooks.
	lookEvery = time.Second
	// leaseTime is how long a node sends without having said that it lives, before another one does.
	leaseTime = 5 * time.Second
	// renewTime is how long the database may take to renew that.
	renewTime = 2 * time.Second
	// databaseTime is how long the database may take to answer.
	databaseTime = 5 * time.Second
	// deliveryTime is how long a receiver may take, from the first packet to the end of its answer.
	deliveryTime = 10 * time.Second
	// The pause before the next try is drawn between nothing and a time that doubles with each try, from firstPause to maxPause.
	firstPause = time.Second
	maxPause   = 15 * time.Minute
	// lookupTime is how long it may take to look up the host of a new URL.
	lookupTime = 3 * time.Second
	// giveUpAfter is how old a message is when a try that fails is the last.
	giveUpAfter = 24 * time.Hour
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 4 << 10
	// maxHeader is how long the header of an answer may be, in bytes.
	maxHeader = 16 << 10
)

// Options are what a Sender stands on.
type Options struct {
	// Store is the rule database, or nil while it can't be reached.
	Store func() *rulestore.Store
	// Networks are where messages may go beside the public Internet, and without TLS.
	Networks []netip.Prefix
	// Agent is the User-Agent of requests.
	Agent string
	Log   *slog.Logger
}

// Sender sends what webhooks are told. Its methods may be called from many goroutines, but Keep from one.
type Sender struct {
	options Options
	client  client
	name    string // tells this process from others that share the database
	// lookEvery and leaseTime; tests have others.
	every, lease time.Duration

	delivered, failed, givenUp atomic.Int64

	mu      sync.Mutex
	sending map[string]*queue // webhooks that this node sends to now
	running sync.WaitGroup
}

// queue is the messages of one webhook.
type queue struct {
	stop   context.CancelFunc
	oldest atomic.Int64 // when the message that waits happened, in microseconds since 1970; 0: none waits
}

// New makes a Sender.
func New(o Options) *Sender {
	return &Sender{options: o, client: newClient(o), name: rand.Text(), every: lookEvery, lease: leaseTime, sending: map[string]*queue{}}
}

// Stats is what a node has sent since it started, and how old the oldest message is that it has yet to send.
type Stats struct {
	Delivered, Failed, GivenUp int64
	Oldest                     time.Duration // 0: none waits, or another node sends
}

// Stats tells how it is at now.
func (s *Sender) Stats(now time.Time) Stats {
	out := Stats{Delivered: s.delivered.Load(), Failed: s.failed.Load(), GivenUp: s.givenUp.Load()}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.sending {
		if at := q.oldest.Load(); at > 0 {
			out.Oldest = max(out.Oldest, now.Sub(time.UnixMicro(at)))
		}
	}
	return out
}

package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// How the connection is kept.
const (
	dialTimeout = time.Second
	// patience is how long an answer may take. The callers' own deadlines are shorter; this one
	// bounds what is kept of calls whose answers never come.
	patience = 2 * time.Second
	// readAgain is after what time a look is asked for again; then twice that, and so on.
	readAgain = 250 * time.Millisecond
	// firstPause and lastPause bound the time between tries to connect, and to find the bucket fit.
	firstPause = 50 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	// deletePause is how long a bucket that was deleted is not made again. A server answers before the
	// old files are gone: made within milliseconds, NATS 2.15 finds the old keys in them, or panics.
	deletePause = 500 * time.Millisecond
	// pingEvery is how often the client asks whether a silent connection is still one; the second
	// ping without an answer ends it.
	pingEvery = 2 * time.Second
	// maxInFlight is how many calls are on their way; others wait for their turn. A server keeps
	// what it has not written yet in memory, and refuses what is too much.
	maxInFlight = 256
)

var (
	errClosed = errors.New("the store was closed")
	// errUnsent is of a call that reached no server.
	errUnsent = errors.New("it was not sent")
	// errLost is of a call that was sent, and whose answer did not come.
	errLost = errors.New("the answer was lost")
	// errNobody is what a server says where nobody listens: no server leads the bucket.
	errNobody = errors.New("no server leads the bucket")
	errRight  = fmt.Errorf("the user has no right to it: %w", nats.ErrPermissionViolation)
)

// link is the connection to the servers. One that is lost is made again, by the client; calls then
// fail until the bucket was looked at again.
//
// Goroutines: keep is one, which own waits for. The client has some, which call lost, again, said and
// answered, and end with it. Those of a client that another has replaced may be late.
type link struct {
	*target

	subjects string // what the subjects of cells begin with

	ctx    context.Context // until Close
	cancel context.CancelFunc
	own    sync.WaitGroup
	tried  chan struct{} // closed when the first try to connect has ended
	wake   chan struct{} // the bucket has to be looked at
	slots  chan struct{} // one for each call on its way
	// high is the last sequence that is known of the bucket. Each write has a higher one, or else
	// the bucket is not the one that it was.
	high atomic.Uint64

	mu      sync.Mutex
	client  *nats.Conn // it stays while it connects again; keep replaces one that has given up
	inbox   string     // what the subjects of answers begin with
	deaf    bool       // the user has no right to the inbox
	epoch   uint64     // of the numbers of writes; see cells
	created time.Time  // when the bucket was made
	ready   bool       // the bucket is there and fit
	failed  error      // why it is not ready
	calls   map[uint64]*call
	last    uint64 // id of the last call
	closed  bool
}

// call is one message that is to be answered.
type call struct {
	subject string
	done    chan struct{} // closed with answer, or err
	answer  *nats.Msg
	err     error
}

func newLink(t *target) *link {
	l := &link{
		target: t, subjects: "$KV." + t.bucket + ".", failed: errors.New("not connected yet"), calls: map[uint64]*call{},
		tried: make(chan struct{}), wake: make(chan struct{}, 1), slots: make(chan struct{}, maxInFlight),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	// A program may have a dialer of its own.
	l.options = slices.Insert(l.options, 0, nats.SetCustomDialer(dialer{l.ctx}))
	return l
}

// keep connects, and looks at the bucket whenever it may have changed, until Close. It never gives
// up: a daemon that starts before its NATS has to find it later.
func (l *link) keep() {
	pause := firstPause
	for first := true; ; first = false {
		err := l.prepare()
		l.mu.Lock()
		l.ready, l.failed = err == nil, err
		l.mu.Unlock()
		if first {
			close(l.tried)
		}
		var again <-chan time.Time
		if err == nil {
			pause = firstPause
		} else {
			again = time.After(pause/2 + rand.N(pause))
			pause = min(2*pause, lastPause)
		}
		select {
		case <-again:
		case <-l.wake:
		case <-l.ctx.Done():
			return
		}
	}
}

// prepare connects where there is no client that could, and looks at the bucket.
func (l *link) prepare() error {
	l.mu.Lock()
	client, deaf := l.client, l.deaf
	l.mu.Unlock()
	if client == nil || client.IsClosed() || deaf {
		if client != nil {
			client.Close()
		}
		if err := l.connect(); err != nil {
			return err
		}
	}
	return l.findBucket()
}

// connect makes a client. One closes for ever when a server says an error that it does not know, of a
// message that is too large for the server, say; and it does not ask again for an inbox to which its
// user had no right.
func (l *link) connect() error {
	client, err := l.Servers.Connect(
		nats.NoEcho(), nats.DisconnectErrHandler(l.lost), nats.ReconnectHandler(l.again), nats.ClosedHandler(l.again),
		nats.ErrorHandler(l.said),
	)
	if err != nil {
		return err
	}
	inbox := client.NewInbox() + "."
	_, err = client.Subscribe(inbox+"*", l.answered)
	if err == nil {
		err = client.FlushTimeout(dialTimeout)
	}
	if said := client.LastError(); errors.Is(said, nats.ErrPermissionViolation) {
		err = errRight
	}
	if err != nil {
		client.Close()
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.client, l.inbox, l.deaf = client, inbox, false
	l.drop(errors.New("the connection was made anew"))
	return nil
}

// drop ends the calls on their way and the epoch. mu is held.
func (l *link) drop(err error) {
	l.epoch++
	l.ready, l.failed = false, err
	for id := range l.calls {
		l.end(id, fmt.Errorf("%w: %w", errLost, err))
	}
}

// connection is the client, once open has found one.
func (l *link) connection() *nats.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client
}

// dialer ends with the store.
type dialer struct{ ctx context.Context }

func (d dialer) Dial(network, address string) (net.Conn, error) {
	n := net.Dialer{Timeout: dialTimeout}
	return n.DialContext(d.ctx, network, address)
}

// lost ends the calls on their way when a connection is lost. Numbers of writes from before mean
// nothing to a server that was restarted with nothing on its disk.
func (l *link) lost(client *nats.Conn, err error) {
	if err = cmp.Or(err, client.LastError()); err == nil {
		err = errors.New("the connection was closed")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.client == client {
		l.drop(err)
	}
}

// again has the bucket looked at after a new connection, and when there won't be one.
func (l *link) again(*nats.Conn) { l.look() }

func (l *link) look() {
	select {
	case l.wake <- struct{}{}:
	default: // it will be
	}
}

// doubt has the bucket looked at before it is used again.
func (l *link) doubt(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ready {
		l.ready, l.failed = false, err
		l.look()
	}
}

// renew begins an epoch: the bucket is another one than it was.
func (l *link) renew(last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	l.high.Store(last)
}

// said ends calls that the user has no right to: the server does not answer them, and names their
// subject in an error.
func (l *link) said(_ *nats.Conn, _ *nats.Subscription, err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inbox != "" && strings.Contains(err.Error(), l.inbox) {
		l.deaf = true
		l.drop(errRight)
		l.look()
		return
	}
	for id, k := range l.calls {
		if strings.Contains(err.Error(), strconv.Quote(k.subject)) {
			l.end(id, fmt.Errorf("%w: %w", errUnsent, errRight))
		}
	}
}

// end ends a call that is on its way. mu is held.
func (l *link) end(id uint64, err error) *call {
	k := l.calls[id]
	if k == nil {
		return nil
	}
	delete(l.calls, id)
	<-l.slots
	if err != nil {
		k.err = err
		close(k.done)
	}
	return k
}

// answered hands an answer to its call. One that comes too late has none.
func (l *link) answered(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 36, 64)
	if err != nil {
		return // it is to nobody
	}
	l.mu.Lock()
	k := l.end(id, nil)
	l.mu.Unlock()
	if k == nil {
		return
	}
	k.answer = m
	if m.Header.Get("Status") == "503" {
		k.answer, k.err = nil, fmt.Errorf("%w: %w", errUnsent, errNobody)
	}
	close(k.done)
}

// open is the epoch of now, where the bucket can be used.
func (l *link) open(ctx context.Context) (uint64, error) {
	select {
	case <-l.tried:
	default:
		select {
		case <-l.tried:
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: not connected yet: %w", errUnsent, ctx.Err())
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, errClosed
	}
	if !l.ready {
		return 0, fmt.Errorf("%w: %w", errUnsent, l.failed)
	}
	return l.epoch, nil
}

// turn waits until a call may be sent.
func (l *link) turn(ctx context.Context) error {
	select {
	case l.slots <- struct{}{}:
		return nil
	default:
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case l.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errUnsent, ctx.Err())
	case <-late.C:
		return fmt.Errorf("%w: %d calls wait for their answers: %w", errUnsent, maxInFlight, os.ErrDeadlineExceeded)
	}
}

// send sends a call. An error of it is errUnsent: nothing was done.
func (l *link) send(ctx context.Context, subject string, header nats.Header, data []byte) (*call, uint64, error) {
	if err := l.turn(ctx); err != nil {
		return nil, 0, err
	}
	k := &call{subject: subject, done: make(chan struct{})}
	l.mu.Lock()
	client, inbox := l.client, l.inbox
	if l.closed {
		<-l.slots
		l.mu.Unlock()
		return nil, 0, errClosed
	}
	l.last++
	id := l.last
	l.calls[id] = k
	l.mu.Unlock()
	reply := inbox + strconv.FormatUint(id, 36)
	err := client.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: header, Data: data})
	if err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.end(id, nil)
		return nil, 0, fmt.Errorf("%w: %w", errUnsent, err)
	}
	return k, id, nil
}

// wait waits for the answer to a call.
func (l *link) wait(ctx context.Context, k *call, id uint64) ([]byte, error) {
	late := time.NewTimer(patience)
	defer late.Stop()
	var err error
	select {
	case <-k.done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = os.ErrDeadlineExceeded
	}
	if err != nil {
		l.mu.Lock()
		l.end(id, fmt.Errorf("%w: %w", errLost, err))
		l.mu.Unlock()
		<-k.done // it was ended now, or the answer is being handed over
	}
	if k.err != nil {
		if errors.Is(k.err, errNobody) {
			l.doubt(k.err)
		}
		return nil, k.err
	}
	return k.answer.Data, nil
}

// ask sends a call, and waits for the answer.
func (l *link) ask(ctx context.Context, subject string, header nats.Header, data []byte) ([]byte, error) {
	k, id, err := l.send(ctx, subject, header, data)
	if err != nil {
		return nil, err
	}
	return l.wait(ctx, k, id)
}

// read asks what changes nothing, and asks again where no answer comes soon: while the bucket changes
// its leader, nobody answers.
func (l *link) read(ctx context.Context, subject string, data []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for wait := readAgain; ; wait *= 2 {
		once, cancel := context.WithTimeout(ctx, wait)
		b, err := l.ask(once, subject, nil, data)
		cancel()
		if !errors.Is(err, errLost) || ctx.Err() != nil || !l.connection().IsConnected() {
			return b, err
		}
	}
}

// place is where the store is, for errors.
func (l *link) place() string { return strings.Join(l.places, ",") }

// close ends the calls on their way, and the connection.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	for id := range l.calls {
		l.end(id, fmt.Errorf("%w: %w", errLost, errClosed))
	}
	l.mu.Unlock()
	l.cancel()
	l.own.Wait()
	if client := l.connection(); client != nil {
		client.Close()
	}
}

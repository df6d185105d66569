package memcachestore

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/weir-limit/weir"
)

const (
	// patience is how long a server may leave commands unanswered, or unread,
	// before its connection is given up. Callers bring their own, shorter one.
	//
	// A server that is frozen so costs all of its calls this time once. After that the connection
	// is gone: calls wait for a new one, or fail at once with the error of the last try (see
	// line).
	patience = 2 * time.Second
	// maxPending is how many calls of one connection may wait for answers; more
	// fail with weir.ErrBusy.
	maxPending = 1 << 14
)

var (
	// errUnsent marks calls of which the server has heard nothing.
	//
	// The difference to errLost is what a caller may do next: an unsent call has certainly decided
	// nothing, and a lost one may have been a charge.
	errUnsent = errors.New("nothing was sent")
	// errLost marks calls that were sent, and nobody knows what became of them.
	errLost = errors.New("the answer was lost")
)

// call is commands that go to a server in one go, and are answered in order.
//
// Its maker leaves it alone from send until done is closed. Meanwhile the goroutine that writes
// reads the commands, and the goroutine that reads fills in answers. Where err is set, answers may
// be half filled in, and mean nothing.
type call struct {
	commands []command
	answers  []answer
	err      error
	done     chan struct{} // closed when answers or err are there
}

func newCall(commands ...command) *call {
	for i := range commands {
		commands[i].mark = rand.Uint32()
	}
	return &call{commands: commands, answers: make([]answer, len(commands)), done: make(chan struct{})}
}

// conn is one connection, on which many calls are on their way at a time. A goroutine that sends a
// call while no other writes does so itself, and then writes all calls that have gathered
// meanwhile. One goroutine reads, which ends when the connection fails.
//
// A call is in unsent, then in sent, and then answered; or the connection fails, and with it all
// calls that are in either. Whoever takes a call out of the two under mu closes its done, so that
// is closed once.
type conn struct {
	// It may be closed by any goroutine, through fail, once: that is what ends a read or a write
	// under way.
	net    net.Conn
	epoch  uint64        // its number among those that were made; set before it is used
	reader *bufio.Reader // of the goroutine that reads

	// mu guards the fields up to err, and is held for moments, never while the network is waited
	// for.
	mu      sync.Mutex
	writing bool    // a goroutine writes, or is about to: no other may
	unsent  []*call // in the order in which they came
	sent    []*call // in the order of their answers, which memcached gives in the order of commands
	err     error   // why the connection has failed; then both are empty

	// writing hands out from one goroutine that writes to the next, so it needs no lock. It is
	// kept for the next write unless one large item has made it large.
	out []byte // of the goroutine that writes
}

func newConn(c net.Conn) *conn {
	return &conn{net: c, reader: bufio.NewReaderSize(c, maxLine)}
}

// do has a call answered. It takes at most about twice patience.
//
// The goroutine of a lane calls it, or that of a status. A caller's context has no say here: the
// caller leaves by itself, while the call goes on to its end and the lane learns from it.
func (c *conn) do(k *call) error {
	if err := c.send(k); err != nil {
		return err
	}
	<-k.done
	return k.err
}

// send hands a call to the connection. An error of it is errUnsent or weir.ErrBusy, so nothing was
// decided.
func (c *conn) send(k *call) error {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return fmt.Errorf("%w: %w", errUnsent, c.err)
	}
	if len(c.unsent)+len(c.sent) >= maxPending {
		defer c.mu.Unlock()
		return fmt.Errorf("%d calls wait for %s: %w", maxPending, c.net.RemoteAddr(), weir.ErrBusy)
	}
	c.unsent = append(c.unsent, k)
	write, busy := !c.writing, len(c.sent) > 0
	c.writing = true
	c.mu.Unlock()
	if write {
		if busy {
			// Where nothing is on its way the call leaves at once: a lone caller waits for no
			// other.
			runtime.Gosched() // others are about to send, too; one write costs more than many calls
		}
		c.write()
	}
	return nil
}

// alive is whether the connection can still be used.
func (c *conn) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil
}

// write sends what is to be sent, all that has gathered at once, until nothing
// is. Only the goroutine that has set writing calls it.
func (c *conn) write() {
	for calls := c.next(); len(calls) > 0; calls = c.next() {
		out := c.out[:0]
		for _, k := range calls {
			for i := range k.commands {
				out = k.commands[i].append(out)
			}
		}
		_ = c.net.SetWriteDeadline(time.Now().Add(patience)) // fails only when closed, and then so does Write
		if _, err := c.net.Write(out); err != nil {
			c.fail(err)
			return
		}
		if cap(out) <= maxValue {
			c.out = out
		}
	}
}

// next takes the unsent calls as sent. When there are none, nobody writes.
func (c *conn) next() []*call {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Calls are in sent before a byte of them is written. So an answer always finds its call, and
	// a write that fails half-way makes its calls lost, not unsent.
	calls := c.unsent
	c.unsent, c.writing = nil, len(calls) > 0
	if len(c.sent) == 0 && len(calls) > 0 { // read waits without a deadline; from now on it has one
		_ = c.net.SetReadDeadline(time.Now().Add(patience)) // fails only when closed, and then so does Read
	}
	c.sent = append(c.sent, calls...)
	return calls
}

// read hands out answers until the connection fails. It reads even when nothing
// is to be answered, to notice at once when the server goes.
func (c *conn) read() {
	for {
		if c.reader.Buffered() == 0 { // else the next answer is there already, and no time is needed
			c.rest()
		}
		if _, err := c.reader.Peek(1); err != nil {
			c.fail(err)
			return
		}
		// The call stays in sent while it is answered, so that fail finds it there when the
		// connection breaks in the middle.
		k := c.first()
		if k == nil {
			line, err := readLine(c.reader)
			c.fail(errors.Join(unexpected(line), err))
			return
		}
		for i := range k.commands {
			var err error
			if k.answers[i], err = readAnswer(c.reader, &k.commands[i]); err != nil {
				c.fail(err)
				return
			}
		}
		c.mu.Lock()
		if c.err == nil {
			c.sent = c.sent[1:]
			close(k.done)
		}
		c.mu.Unlock()
	}
}

// rest sets the time by which the next answer has to come.
//
// rest and next both set the deadline under mu, and both look at sent there: whichever comes last
// has seen the calls of the other. So no call waits on a reader without a deadline, and an idle
// connection has none.
//
// The deadline moves with each answer that the reader has to wait for. A server that answers
// slowly but steadily keeps its connection; the callers' own deadlines judge it.
func (c *conn) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var by time.Time
	if len(c.sent) > 0 {
		by = time.Now().Add(patience)
	}
	_ = c.net.SetReadDeadline(by) // fails only when closed, and then so does Read
}

func (c *conn) first() *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sent) == 0 {
		return nil
	}
	return c.sent[0]
}

// fail ends the connection, and the calls on it. Those that were not sent can safely be tried
// elsewhere or later, and their error says so. Nobody knows what became of those that were sent: a
// write may have been done. A connection that answers what nobody asked fails, too: the next answer
// could be taken for that of another call.
func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	_ = c.net.Close() // it is of no more use
	for _, k := range c.unsent {
		k.err = fmt.Errorf("%w: %w", errUnsent, err)
		close(k.done)
	}
	for _, k := range c.sent {
		k.err = fmt.Errorf("%w: %w", errLost, err)
		close(k.done)
	}
	c.unsent, c.sent = nil, nil
}

package load

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"syscall"
	"time"
)

// H1 runs the load by HTTP/1.1. A request that is given up takes its connection
// with it, as it must, and so does one that is refused with "Connection: close".
//
// All is done by one loop. With a goroutine for each connection the generator
// has a queue of its own, of those that wait to be run, and thousands of
// connections are given up in it before they have asked.
func (o *Open) H1() (*Tally, error) {
	epoll, err := syscall.EpollCreate1(0)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	defer syscall.Close(epoll)
	l := &loopH1{Open: o, epoll: epoll, conns: make([]connH1, o.Connections), byFile: map[int32]*connH1{}}
	if l.to, err = netip.ParseAddrPort(o.Address); err != nil {
		return nil, err
	}
	for i := range l.conns {
		c := &l.conns[i]
		c.from, c.next = [4]byte{127, 0, 1, byte(i % sources)}, i*len(o.Bodies)/o.Connections
		if err := l.dial(c); err != nil {
			return nil, err
		}
		c.state = idle
		l.open = append(l.open, c)
	}
	time.Sleep(settle)
	err = l.run()
	for i := range l.conns {
		l.close(&l.conns[i])
	}
	return &l.tally, err
}

// settle is how long a server has to take up new connections before it is asked.
const settle = 300 * time.Millisecond

// sources is how many addresses the connections come from, as from as many
// clients. The ports of one are used up when connections are opened again by
// the thousand a second, and then the kernel looks long for a free one.
const sources = 200

// connH1 is a connection, or the place of one.
type connH1 struct {
	file  int
	state stateH1
	from  [4]byte
	next  int       // the body
	begun time.Time // when the call was due that it has; where it rests, until when
	asked bool      // its request is sent
	in    []byte    // of an answer
}

type stateH1 uint8

const (
	none    stateH1 = iota // it is to be opened
	idle                   // it is open
	asking                 // it has a call
	resting                // it failed, and is not to be opened yet
)

// loopH1 is a load that runs.
type loopH1 struct {
	*Open

	to     netip.AddrPort
	epoll  int
	conns  []connH1
	byFile map[int32]*connH1
	// Those that may take a call: open ones go first, of them those that were used
	// last, as in pools of clients.
	open, shut []*connH1
	tally      Tally
}

// burst is how many calls are sent before answers are looked for again.
const burst = 64

func (l *loopH1) run() error {
	start := time.Now()
	gap, first, looked := time.Duration(float64(time.Second)/l.Rate), int64(0), start
	var events [256]syscall.EpollEvent
	now, begin := start, int64(l.Rest/gap) // the first call that counts
	for counts := false; now.Sub(start) < l.Rest+l.Last; now = time.Now() {
		if !counts && now.Sub(start) >= l.Rest {
			counts, l.tally = true, Tally{}
			l.counting()
		}
		n, err := syscall.EpollWait(l.epoll, events[:], 0)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		now = time.Now()
		for _, e := range events[:max(n, 0)] {
			l.ready(l.byFile[e.Fd], now)
		}
		if now.Sub(looked) > time.Millisecond {
			l.look(now)
			looked = now
		}
		due := int64(now.Sub(start) / gap)
		l.tally.Offered = max(due-begin, 0)
		if old := int64((now.Sub(start) - l.Patience) / gap); first < old {
			l.tally.Unsent += old - first
			first = old
		}
		sent := 0
		for ; sent < burst && first < due; sent++ {
			c := l.free()
			if c == nil {
				break
			}
			l.call(c, start.Add(time.Duration(first)*gap), now)
			first++
		}
		if n <= 0 && sent == 0 {
			pause(tick)
		}
	}
	l.tally.Took = now.Sub(start) - l.Rest
	return nil
}

// free takes one that has no call, or nil.
func (l *loopH1) free() *connH1 {
	for n := len(l.open); n > 0; n = len(l.open) {
		c := l.open[n-1]
		if l.open = l.open[:n-1]; c.state == idle {
			return c
		}
		l.shut = append(l.shut, c) // closed meanwhile
	}
	n := len(l.shut)
	if n == 0 {
		return nil
	}
	c := l.shut[n-1]
	l.shut = l.shut[:n-1]
	return c
}

func (l *loopH1) call(c *connH1, begun, now time.Time) {
	open := c.state == idle
	c.state, c.begun, c.asked, c.in = asking, begun, false, c.in[:0]
	if !open {
		l.tally.Dialled++
		if err := l.dial(c); err != nil {
			l.fail(c, now)
			return
		}
	}
	l.ask(c, now)
}

// ask sends the request, unless the connection is not open yet.
func (l *loopH1) ask(c *connH1, now time.Time) {
	_, err := syscall.Write(c.file, l.Bodies[c.next%len(l.Bodies)])
	switch {
	case err == nil:
		c.asked = true
		c.next++
	case !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.ENOTCONN):
		l.fail(c, now)
	}
}

// ready reads what has come.
func (l *loopH1) ready(c *connH1, now time.Time) {
	if c == nil {
		return // closed meanwhile
	}
	if c.state == asking && !c.asked {
		if l.ask(c, now); !c.asked {
			return
		}
	}
	var buffer [4 << 10]byte
	n, err := syscall.Read(c.file, buffer[:])
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return
	case err != nil || n == 0 || c.state != asking:
		l.broken(c, now)
		return
	}
	c.in = append(c.in, buffer[:n]...)
	status, closes, whole := answer(c.in)
	if !whole {
		return
	}
	out := Refused
	if status == 200 || status == 429 {
		out = Answered
	}
	l.tally.count(out, now.Sub(c.begun), l.Deadline)
	if closes {
		l.rest(c, now)
		return
	}
	c.state = idle
	l.open = append(l.open, c)
}

// broken is for a connection that the server closed.
func (l *loopH1) broken(c *connH1, now time.Time) {
	if c.state == asking {
		l.fail(c, now)
		return
	}
	l.close(c) // free finds it so
	c.state = none
}

// fail is for a call without an answer.
func (l *loopH1) fail(c *connH1, now time.Time) {
	l.tally.Expired++
	l.rest(c, now)
}

// rest closes a connection until it may be opened again.
func (l *loopH1) rest(c *connH1, now time.Time) {
	l.close(c)
	c.state, c.begun = resting, now
	if l.Rest > 0 {
		c.begun = now.Add(l.Rest/2 + rand.N(l.Rest))
	}
}

// look gives up calls, and takes back those who have rested.
func (l *loopH1) look(now time.Time) {
	old := now.Add(-l.Deadline)
	if l.Deadline == 0 {
		old = time.Time{}
	}
	for i := range l.conns {
		switch c := &l.conns[i]; {
		case c.state == asking && c.begun.Before(old):
			l.fail(c, now)
		case c.state == resting && !c.begun.After(now):
			c.state = none
			l.shut = append(l.shut, c)
		}
	}
}

// dial begins to open a connection.
func (l *loopH1) dial(c *connH1) (err error) {
	const bindAddressNoPort = 24 // of Linux: the port is chosen when it is known where to
	if c.file, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0); err != nil {
		return err
	}
	l.byFile[int32(c.file)] = c
	event := syscall.EpollEvent{Events: syscall.EPOLLIN | syscall.EPOLLOUT | -syscall.EPOLLET, Fd: int32(c.file)}
	if err := errors.Join(
		syscall.SetsockoptInt(c.file, syscall.IPPROTO_IP, bindAddressNoPort, 1),
		syscall.SetsockoptInt(c.file, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1),
		syscall.Bind(c.file, &syscall.SockaddrInet4{Addr: c.from}),
		syscall.EpollCtl(l.epoll, syscall.EPOLL_CTL_ADD, c.file, &event),
	); err != nil {
		return err
	}
	err = syscall.Connect(c.file, &syscall.SockaddrInet4{Addr: l.to.Addr().As4(), Port: int(l.to.Port())})
	if errors.Is(err, syscall.EINPROGRESS) {
		return nil
	}
	return err
}

func (l *loopH1) close(c *connH1) {
	if c.file > 0 {
		delete(l.byFile, int32(c.file))
		_ = syscall.Close(c.file) // what it has to say is of no use
		c.file = 0
	}
}

// answer is what an answer says, when all of it has come.
func answer(in []byte) (status int, closes, whole bool) {
	head, body, whole := bytes.Cut(in, []byte("\r\n\r\n"))
	if !whole {
		return 0, false, false
	}
	length := 0
	for i, line := range bytes.Split(head, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte(": "))
		switch {
		case i == 0 && len(line) > 12:
			status, _ = strconv.Atoi(string(line[9:12]))
		case bytes.EqualFold(name, []byte("Content-Length")):
			length, _ = strconv.Atoi(string(value))
		case bytes.EqualFold(name, []byte("Connection")):
			closes = bytes.EqualFold(value, []byte("close"))
		}
	}
	return status, closes, len(body) >= length
}

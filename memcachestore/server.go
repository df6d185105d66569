package memcachestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

const (
	// lines is how many connections a server is asked over. Memcached serves each
	// by one of its threads.
	//
	// An item is always asked for over the same one: see pick.
	lines = 2
	// dialTime is how long a server may take to accept a connection.
	dialTime = time.Second
	// The time before a server that could not be reached is tried again doubles
	// from shortest to longest.
	//
	// Half of each wait is fixed, and half drawn. It begins at shortest again once a connection
	// was made.
	shortest = 5 * time.Millisecond
	longest  = 500 * time.Millisecond
)

// server is one memcached.
//
// All but the fields of its lines never change.
type server struct {
	index   int    // of all
	network string // tcp or unix
	addr    string
	hash    uint64 // FNV-1a of addr and a 0
	lines   [lines]line
}

// line is a connection to a server that is made when it is needed, and made again when it has
// failed. One goroutine connects at a time, and others wait for it: a server that comes back is not
// met by all at once. While the wait after a failed try is not over, calls fail at once with the
// error of that try; the edge around the store then lets the fallbacks decide.
type line struct {
	server *server
	mu     sync.Mutex    // not held while it connects
	conn   *conn         // the last one that was made; it may have failed since
	making chan struct{} // closed when the goroutine that connects has done so; nil: none connects
	err    error         // why the last try failed; nil: it did not
	wait   time.Duration // until the next try after a failed one; 0 once it is connected
	until  time.Time     // of that wait, drawn at random so that processes do not come back at once
	closed bool          // no other is made
}

func newServer(index int, network, addr string) *server {
	h := fnv.New64a()
	_, _ = h.Write(append([]byte(addr), 0)) // a hash takes all
	sv := &server{index: index, network: network, addr: addr, hash: h.Sum64()}
	for i := range sv.lines {
		sv.lines[i].server = sv
	}
	return sv
}

// pick is the server of an item, by rendezvous hashing: of all, the one that has
// the highest number for this name. A server more takes only its own share from
// the others. One that is away is not passed over, for another would begin to
// count anew.
//
// The address as the URL has it is hashed, and not what it resolves to: every process that names
// the same servers picks the same one, in whatever order it names them, and a server keeps its
// items when its machine gets another IP address. A list with one server less moves that server's
// items to all others; they begin to count anew there.
//
// Two lines of one server are chosen by the lowest bit of the same sum.
func pick(servers []*server, name string) *line {
	var best *server
	var most uint64
	for _, sv := range servers {
		h := sv.hash
		for i := range len(name) {
			h = (h ^ uint64(name[i])) * fnvPrime
		}
		if sum := mix(h); best == nil || sum > most {
			best, most = sv, sum
		}
	}
	return &best.lines[most%lines]
}

// fnvPrime is that of the 64-bit FNV-1a hash, which goes on from a server's hash over a name here: each
// call of a server picks, and the library's hash would be made anew for each.
const fnvPrime = 1099511628211

// mix spreads what the last bytes of a name change over all bits (splitmix64). It is no other
// function's twin: another one would move the items of running servers.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// open is a connection that works. Where there is none it makes one; a call that comes meanwhile
// waits for that.
//
// No caller's context ends it, but Close does. The goroutine of a lane waits here for about dialTime at
// most, for its own try or that of another; callers that will not wait so long leave by
// themselves.
func (l *line) open(all *cells) (*conn, error) {
	for {
		l.mu.Lock()
		switch {
		case l.closed:
			l.mu.Unlock()
			return nil, errClosed
		case l.conn != nil && l.conn.alive():
			defer l.mu.Unlock()
			return l.conn, nil
		case l.making != nil:
			making := l.making
			l.mu.Unlock()
			<-making
			continue
		case l.err != nil && time.Now().Before(l.until):
			defer l.mu.Unlock()
			return nil, l.err
		}
		l.making = make(chan struct{})
		l.mu.Unlock()
		if l.connect(all) {
			l.server.retry()
		}
	}
}

// live is the connection, if it works; nil: there is none.
func (l *line) live() *conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil && l.conn.alive() {
		return l.conn
	}
	return nil
}

// retry has connections that wait for their next try make it at once: the server was
// just reached.
func (sv *server) retry() {
	for i := range sv.lines {
		l := &sv.lines[i]
		l.mu.Lock()
		l.until = time.Time{}
		l.mu.Unlock()
	}
}

// connect makes the connection, or notes why it could not. Only the goroutine that has set
// making calls it.
func (l *line) connect(all *cells) (made bool) {
	c, err := l.server.dial(all.ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.making)
	l.making, l.err = nil, err
	switch {
	case err != nil && all.ctx.Err() != nil:
		l.err = errClosed
	case err != nil:
		l.wait = min(max(2*l.wait, shortest), longest)
		l.until = time.Now().Add(l.wait/2 + rand.N(l.wait/2))
	case l.closed:
		c.fail(errClosed)
	default:
		l.conn, l.wait = c, 0
		c.epoch = all.epochs.Add(1)
		all.own.Go(c.read)
		return true
	}
	return false
}

// close ends the connection, and makes no other.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.conn != nil {
		l.conn.fail(errClosed)
	}
}

// dial connects, and asks who answers.
func (sv *server) dial(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	var d net.Dialer
	n, err := d.DialContext(ctx, sv.network, sv.addr)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnsent, err)
	}
	// greet does not know of ctx: when that ends, a deadline in the past ends its reading.
	stop := context.AfterFunc(ctx, func() { _ = n.SetDeadline(time.Unix(1, 0)) }) // fails only when closed
	c := newConn(n)
	err = greet(c)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = n.Close() // it is of no more use
		return nil, fmt.Errorf("%w: connect to %s: %w", errUnsent, sv.addr, err)
	}
	return c, nil
}

// greet asks for the server's version, and whether that has meta commands.
func greet(c *conn) error {
	hello := command{verb: verbVersion}
	if _, err := c.net.Write(hello.append(nil)); err != nil {
		return err
	}
	a, err := readAnswer(c.reader, &hello)
	if err != nil {
		return err
	}
	if a.outcome == outcomeFailed {
		return errors.New(a.text)
	}
	return fitVersion(a.value)
}

var errOld = errors.New("memcached 1.6 or later is needed")

// fitVersion is whether a server of this version has the meta commands.
func fitVersion(version []byte) error {
	first, rest, _ := bytes.Cut(version, []byte("."))
	second, _, _ := bytes.Cut(rest, []byte("."))
	major, err := strconv.Atoi(string(first))
	minor, err2 := strconv.Atoi(string(second))
	if err == nil && err2 == nil && (major > 1 || major == 1 && minor >= 6) {
		return nil
	}
	return fmt.Errorf("it is version %.40q: %w", version, errOld)
}

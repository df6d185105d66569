package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// The bounds of a listener's connections.
const (
	// MaxConnections is how many a listener has at a time. When full, newcomers take
	// the place of those that have been silent the longest, and wait while there
	// are none: first one of them, then the others in the backlog of the
	// operating system.
	MaxConnections = 16 << 10
	// MaxAdminConnections is the same of the admin listener. There, newcomers take the place
	// of those that came first and have shown no right token for what they ask now.
	MaxAdminConnections = 256
	// spareFiles is how many files a daemon may have open besides connections to
	// its listeners for callers.
	spareFiles = 512
	// SilentLeast is how long a connection must have been silent to lose its
	// place. No call takes nearly as long.
	SilentLeast = time.Second
	// maxDropped is how many lose their place at once, because to find them
	// means to look at all.
	maxDropped = 64
	// MaxTalk is how many bytes a connection of HTTP may send between two requests, or
	// two parts of a body. Heads are less, and what net/http reads of a body that nobody
	// wants; frames of HTTP/2 that ask nothing are more, sooner or later.
	MaxTalk = 512 << 10
	// dropEvery is how often a newcomer that waits looks for silent ones again.
	dropEvery = 50 * time.Millisecond
)

// Connections returns how many connections each of so many listeners may have, and how
// many files the process may have open. Where that is too few files for MaxConnections
// each, the listeners have fewer: else the process could not accept anybody.
func Connections(listeners int) (most int, files uint64) {
	files = openFiles()
	return connectionsOf(files, listeners), files
}

func connectionsOf(files uint64, doors int) int {
	if files >= uint64(doors*MaxConnections+spareFiles) {
		return MaxConnections
	}
	return max(int(files)-spareFiles, 0)/doors + 1
}

// Options say how a Listener bounds its connections.
type Options struct {
	// Most is how many connections there may be at a time.
	Most int
	// Silent is how long a connection must have been silent to lose its place.
	Silent time.Duration
	// Seats makes the connections lose their place that came first and have no
	// seat, however much they say. See KeepSeats.
	Seats bool
	// TLS is what TLS makes connections safe by. Nil: nothing does.
	TLS *tls.Config
	// Gate knows whether work waits. Then connections are closed whose clients have
	// given up. Nil: all are kept.
	Gate    *overload.Gate
	Metrics Metrics
}

// Metrics count the connections of a listener.
type Metrics struct {
	Open    prometheus.Gauge
	Full    prometheus.Counter // newcomers that found no place
	Dropped prometheus.Counter // connections that lost their place
	Left    prometheus.Counter // with a Gate: those whose clients have given up
	Floods  prometheus.Counter // of HTTP: those that said too much and asked nothing; else nil
}

// Listener is a listener that has at most so many connections at a time.
type Listener struct {
	net.Listener
	Options

	slots   chan struct{}
	done    chan struct{}
	closing sync.Once
	leaving atomic.Bool
	until   atomic.Int64 // how long it takes connections when it leaves, in ns of Unix time

	mu   sync.Mutex
	open map[*slot]struct{}
}

// Bound bounds the connections of a listener.
func Bound(l net.Listener, o Options) *Listener {
	return &Listener{
		Listener: l, Options: o, slots: make(chan struct{}, o.Most), done: make(chan struct{}), open: map[*slot]struct{}{},
	}
}

// Safe is the listener with TLS, where it has any. Connections are counted below that, so
// that those count, too, that have not shaken hands yet. Each shakes hands on a goroutine
// of its own.
func (l *Listener) Safe() net.Listener {
	if l.TLS == nil {
		return l
	}
	return tls.NewListener(l, l.TLS)
}

// Accept waits for a connection, then for a slot.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.next()
	if err != nil && l.leaving.Load() {
		c, err = l.last()
	}
	if err != nil {
		return nil, err
	}
	if !l.room() {
		_ = c.Close() // nothing was said yet
		return nil, net.ErrClosed
	}
	l.Metrics.Open.Inc()
	s := &slot{Conn: c, listener: l}
	s.hear()
	s.come()
	l.mu.Lock()
	l.open[s] = struct{}{}
	l.mu.Unlock()
	return s, nil
}

// next waits for a connection. While work waits, it passes over those whose
// clients have given up: the others behind them would have to as well.
func (l *Listener) next() (net.Conn, error) {
	for {
		// While there are any, Accept never waits, and its goroutine would go on for
		// 10 ms before those that were accepted have their turn.
		runtime.Gosched()
		c, err := l.Listener.Accept()
		switch {
		case err != nil || l.Gate == nil || !l.Gate.Late():
			return c, err
		case gone(c):
			l.Metrics.Left.Inc()
			_ = c.Close() // nobody is there
			continue
		case l.Gate.Full():
			time.Sleep(overload.Newcomer)
		}
		return c, nil
	}
}

// room takes a slot. It gives false when the listener was closed before one was
// free.
func (l *Listener) room() bool {
	select {
	case l.slots <- struct{}{}:
		return true
	default:
	}
	l.Metrics.Full.Inc()
	again := time.NewTicker(dropEvery)
	defer again.Stop()
	for {
		l.drop()
		select {
		case l.slots <- struct{}{}:
			return true
		case <-l.done:
			return false
		case <-again.C:
		}
	}
}

// drop closes the connections that have been silent the longest, or one that came
// first.
func (l *Listener) drop() {
	type quiet struct {
		slot  *slot
		since int64
	}
	var all []quiet
	latest, most := time.Now().Add(-l.Silent).UnixNano(), maxDropped
	if l.Seats {
		most = 1
	}
	l.mu.Lock()
	for s := range l.open {
		if since, ok := s.since(); ok && since <= latest {
			all = append(all, quiet{s, since})
		}
	}
	l.mu.Unlock()
	slices.SortFunc(all, func(a, b quiet) int { return cmp.Compare(a.since, b.since) })
	for _, q := range all[:min(len(all), most)] {
		if since, ok := q.slot.since(); ok && since == q.since { // nothing has happened meanwhile
			l.Metrics.Dropped.Inc()
			_ = q.slot.Close() // nobody has anything to say to it
		}
	}
}

// lastCalls is how long a listener that leaves still takes what comes, and then,
// for as long again at most, what is in its backlog: closing it would reset them.
const lastCalls = 20 * time.Millisecond

// last takes one that is in the backlog when the time to leave has come, or closes
// the listener at once where there is none.
func (l *Listener) last() (net.Conn, error) {
	if time.Now().UnixNano() < l.until.Load() {
		if c := pending(l.Listener); c != nil {
			return c, nil
		}
	}
	_ = l.Close() // before others come
	return nil, net.ErrClosed
}

// Leave lets Accept end when the backlog is empty, waits for that, and then until
// no connection is left, at most for grace. Calls that come meanwhile are
// answered.
func (l *Listener) Leave(grace time.Duration) {
	tcp, ok := l.Listener.(*net.TCPListener)
	if !ok {
		return
	}
	end := time.Now().Add(lastCalls)
	l.until.Store(end.Add(lastCalls).UnixNano())
	l.leaving.Store(true)
	if tcp.SetDeadline(end) != nil {
		return // it is closed
	}
	end = end.Add(grace)
	select {
	case <-l.done: // the backlog is empty
	case <-time.After(time.Until(end)):
	}
	for len(l.slots) > 0 && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
	}
}

// Close also ends an Accept that waits for a slot.
func (l *Listener) Close() error {
	l.closing.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// slot is a connection that holds a slot until it is closed.
type slot struct {
	net.Conn

	listener *Listener
	closing  sync.Once
	heard    atomic.Int64 // when something was read or written last, in ns of Unix time
	came     atomic.Int64 // when it was accepted, or let in last, likewise
	seats    atomic.Int64 // its requests under way that have shown a right token
	said     atomic.Int64 // bytes since it asked something last
}

func (s *slot) hear() { s.heard.Store(time.Now().UnixNano()) }
func (s *slot) come() { s.came.Store(time.Now().UnixNano()) }

// since is from when it counts for losing its place, if it may.
func (s *slot) since() (ns int64, ok bool) {
	if s.listener.Seats {
		return s.came.Load(), s.seats.Load() == 0
	}
	return s.heard.Load(), true
}

type slotKey struct{}

// WithSlot is the ConnContext of an http.Server whose handlers keep seats.
func WithSlot(ctx context.Context, c net.Conn) context.Context {
	if safe, ok := c.(*tls.Conn); ok {
		c = safe.NetConn()
	}
	return context.WithValue(ctx, slotKey{}, c)
}

// HasAsked says that a connection has asked something.
func HasAsked(ctx context.Context) {
	if s, ok := ctx.Value(slotKey{}).(*slot); ok {
		s.said.Store(0)
	}
}

// KeepSeats is for requests that were let in by a right token: while next answers one, its
// connection keeps its place.
func KeepSeats(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s, ok := r.Context().Value(slotKey{}).(*slot); ok {
			s.come()
			s.seats.Add(1)
			defer func() {
				s.come()
				s.seats.Add(-1)
			}()
		}
		next.ServeHTTP(w, r)
	})
}

// Read is that of net.Conn. While work waits, what a client has asked that has
// given up meanwhile is not read: nothing is charged for it, and to answer it would make other
// clients wait until they give up.
func (s *slot) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.hear()
	if l := s.listener; l.Metrics.Floods != nil && s.said.Add(int64(n)) > MaxTalk {
		l.Metrics.Floods.Inc()
		_ = s.Close() // it hears nothing either
		return 0, net.ErrClosed
	}
	if l := s.listener; err == nil && l.Gate != nil && l.Gate.Late() && gone(s.Conn) {
		l.Metrics.Left.Inc()
		return 0, io.EOF
	}
	return n, err
}

// Write is that of net.Conn.
func (s *slot) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	s.hear()
	return n, err
}

// Close also gives the slot back.
func (s *slot) Close() error {
	err := s.Conn.Close()
	s.closing.Do(func() {
		l := s.listener
		l.mu.Lock()
		delete(l.open, s)
		l.mu.Unlock()
		l.Metrics.Open.Dec()
		<-l.slots
	})
	return err
}

package listen

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
)

// listener is a bounded listener whose connections are accepted as fast as they
// may, and handed on.
func door(t *testing.T, most int, silent time.Duration) (l *Listener, accepted chan net.Conn) {
	t.Helper()
	var config net.ListenConfig
	inner, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l = Bound(inner, Options{Most: most, Silent: silent, Metrics: Metrics{
		Open: prometheus.NewGauge(prometheus.GaugeOpts{Name: "open"}),
		Full: prometheus.NewCounter(prometheus.CounterOpts{Name: "full"}), Dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "dropped"}),
	}})
	accepted = make(chan net.Conn, 100)
	closed := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				closed <- err
				return
			}
			accepted <- c
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		if err := <-closed; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return l, accepted
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the test may have
	return c
}

// TestFullDoor: where all speak, newcomers wait until one leaves, and it is
// told. A listener that is just full drops nobody.
func TestFullDoor(t *testing.T) {
	l, accepted := door(t, 1, time.Hour)
	dial(t, l.Addr().String())
	first := <-accepted
	if n := testutil.ToFloat64(l.Metrics.Full); n != 0 {
		t.Errorf("full %v times before a second came", n)
	}
	dial(t, l.Addr().String())
	for testutil.ToFloat64(l.Metrics.Full) == 0 {
		runtime.Gosched()
	}
	if n := testutil.ToFloat64(l.Metrics.Open); n != 1 || len(accepted) != 0 {
		t.Errorf("%v connections are open", n)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	_ = first.Close() // the slot is given back once
	<-accepted
	dial(t, l.Addr().String()) // it waits when the listener closes
	for testutil.ToFloat64(l.Metrics.Full) == 1 {
		runtime.Gosched()
	}
	if n := testutil.ToFloat64(l.Metrics.Dropped); n != 0 {
		t.Errorf("%v connections were dropped", n)
	}
}

// TestSilentLoseTheirPlace: whoever fills a listener and says nothing locks nobody
// out; the one that has been silent the longest goes first, and those who speak
// stay.
func TestSilentLoseTheirPlace(t *testing.T) {
	const most = 3 * maxDropped
	l, accepted := door(t, most, time.Nanosecond)
	held := make([]net.Conn, most)
	for i := range held {
		dial(t, l.Addr().String())
		held[i] = <-accepted
	}
	speaks := held[0].(*slot)
	speaks.hear()
	if n := testutil.ToFloat64(l.Metrics.Dropped); n != 0 {
		t.Errorf("%v were dropped before anybody needed their place", n)
	}
	dial(t, l.Addr().String())
	<-accepted
	if n := testutil.ToFloat64(l.Metrics.Dropped); n != maxDropped {
		t.Errorf("%v were dropped at once", n)
	}
	for i, c := range held {
		err := c.SetReadDeadline(time.Unix(1, 0))
		if gone := errors.Is(err, net.ErrClosed); gone != (i >= 1 && i <= maxDropped) {
			t.Errorf("connection %d: gone %v (%v)", i, gone, err)
		}
	}
	if n := testutil.ToFloat64(l.Metrics.Open); n != most-maxDropped+1 || len(l.open) != int(n) {
		t.Errorf("%v connections are open, %d are known", n, len(l.open))
	}
}

// TestSeats: where seats are kept, a newcomer takes the place of the one that came first
// and has none, however much that says; those that have a seat stay.
func TestSeats(t *testing.T) {
	l, accepted := door(t, 3, 0)
	l.Seats = true
	var held []*slot
	come := func() *slot {
		dial(t, l.Addr().String())
		s := (<-accepted).(*slot)
		held = append(held, s)
		return s
	}
	seat, first := come(), come()
	request := httptest.NewRequestWithContext(WithSlot(t.Context(), seat), http.MethodGet, "/", nil)
	KeepSeats(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		come() // the third
		for range 3 {
			first.hear() // it drips
			come()
		}
	})).ServeHTTP(httptest.NewRecorder(), request)
	come() // none has a seat, and that of before was the last to speak
	for i, s := range held {
		err := s.SetReadDeadline(time.Unix(1, 0))
		if gone := errors.Is(err, net.ErrClosed); gone != (i >= 1 && i <= 4) {
			t.Errorf("connection %d: gone %v (%v)", i, gone, err)
		}
	}
	if n := testutil.ToFloat64(l.Metrics.Dropped); n != 4 {
		t.Errorf("%v were dropped", n)
	}
}

// TestNewcomersWaitForSilence: the first is too young to lose its place when the
// second comes, and loses it soon.
func TestNewcomersWaitForSilence(t *testing.T) {
	l, accepted := door(t, 1, 10*time.Millisecond)
	dial(t, l.Addr().String())
	silent := <-accepted
	speaking := dial(t, l.Addr().String())
	at := <-accepted
	if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := io.WriteString(speaking, "x"); err != nil {
		t.Error(err)
	}
	if n, err := at.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Error(n, err)
	}
}

// TestLastCalls: when the time to leave has come, what is in the backlog is taken
// all the same, and then the listener is closed.
func TestLastCalls(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("only Unix tells what is in the backlog without waiting")
	}
	var config net.ListenConfig
	inner, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	model, _ := door(t, 1, time.Hour)
	l := Bound(inner, Options{Most: 10, Silent: time.Hour, Metrics: model.Metrics})
	for range 3 {
		dial(t, inner.Addr().String())
	}
	l.leaving.Store(true)
	l.until.Store(time.Now().Add(time.Hour).UnixNano())
	tcp, ok := inner.(*net.TCPListener)
	if !ok || tcp.SetDeadline(time.Now().Add(-time.Hour)) != nil {
		t.Fatal("it has no deadline")
	}
	for i := range 3 {
		c, err := l.Accept()
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer c.Close()
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	var d net.Dialer
	if c, err := d.DialContext(t.Context(), "tcp", inner.Addr().String()); err == nil {
		t.Error("the listener is open", c.Close())
	}
}

// TestLeave: a listener that has no connections waits all the same until its
// backlog is empty and it is closed.
func TestLeave(t *testing.T) {
	l, _ := door(t, 1, time.Hour)
	l.Leave(time.Hour)
	select {
	case <-l.done:
	default:
		t.Error("it left with the listener open")
	}
}

// TestConnectionsOf: connections never use up the files that a process may open.
func TestConnectionsOf(t *testing.T) {
	for _, c := range []struct {
		files       uint64
		doors, most int
	}{
		{1 << 63, 3, MaxConnections},
		{3*MaxConnections + spareFiles, 3, MaxConnections},
		{3*MaxConnections + spareFiles - 3, 3, MaxConnections},
		{3*MaxConnections + spareFiles - 4, 3, MaxConnections - 1},
		{1024, 2, 257},
		{100, 2, 1},
		{0, 2, 1},
	} {
		if got := connectionsOf(c.files, c.doors); got != c.most {
			t.Errorf("%d files, %d listeners: %d connections, want %d", c.files, c.doors, got, c.most)
		}
	}
}

// prepared is a listener that gives connections which are there already.
type prepared struct {
	net.Listener

	conns []net.Conn
}

func (p *prepared) Accept() (net.Conn, error) {
	c := p.conns[0]
	p.conns = p.conns[1:]
	return c, nil
}

// TestGone: while work waits, connections whose clients have given up are passed
// over and closed, and what they have asked is not read.
func TestGone(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells whether a client has left")
	}
	var config net.ListenConfig
	inner, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	pair := func() (client, server net.Conn) {
		client = dial(t, inner.Addr().String())
		server, err := inner.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Close() }) // the test may have
		return client, server
	}
	client, left := pair()
	_, here := pair()
	if gone(left) {
		t.Error("a client that is there has left")
	}
	if _, err := io.WriteString(client, "asks"); err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	for !gone(left) { // what is closed here is known there in a moment
		time.Sleep(time.Millisecond)
	}
	gate, counter := new(overload.Gate), prometheus.NewCounter(prometheus.CounterOpts{Name: "left"})
	next := func(want net.Conn, passed float64) {
		t.Helper()
		l := &Listener{Listener: &prepared{conns: []net.Conn{left, here}}, Options: Options{Gate: gate, Metrics: Metrics{Left: counter}}}
		got, err := l.next()
		if err != nil || got != want || testutil.ToFloat64(counter) != passed {
			t.Errorf("%v %v, %v passed over", got, err, testutil.ToFloat64(counter))
		}
	}
	next(left, 0)
	read := func() (int, error) {
		s := &slot{Conn: left, listener: &Listener{Options: Options{Gate: gate, Metrics: Metrics{Left: counter}}}}
		return s.Read(make([]byte, 1))
	}
	if n, err := read(); n != 1 || err != nil {
		t.Error(n, err)
	}
	gate.SetLate(true)
	if n, err := read(); n != 0 || !errors.Is(err, io.EOF) {
		t.Error(n, err)
	}
	next(here, 2)
	if _, err := left.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the connection is open: %v", err)
	}
}

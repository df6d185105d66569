package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/internal/cas"
)

const (
	// callTime is how long a line waits for an answer. It is longer than what statementTime leaves the statements
	// of a call, so that what a slow server says of itself arrives.
	callTime = 2 * time.Second
	// partTime is after which time parts of a flight are not tried again. All that wait then is likely to wait for
	// a lock of the whole table.
	partTime = 200 * time.Millisecond
	// idle is after which time a connection is looked at before it is used: the server may have ended it.
	idle = 50 * time.Millisecond
	// The time before a server that could not be reached is tried again doubles from shortest to longest.
	//
	// Half of each wait is fixed, and half drawn. It begins at shortest again once a connection was made.
	shortest = 5 * time.Millisecond
	longest  = 500 * time.Millisecond
)

// line is a connection that is made when it is needed, and made again when it has failed. Its goroutine
// serves one flight of calls after the other.
type line struct {
	cells    *cells
	conn     *pgconn.PgConn // nil: none
	prepared map[string]bool
	used     time.Time     // when it last answered
	sent     bool          // what this flight is for was sent, or a part of it
	mark     int64         // what the answer to this flight begins with
	astray   bool          // this process's clock, which decides, was far from the server's in this flight
	waits    time.Duration // for how long its statements wait for a lock
	rows     rows
}

// door is where lines connect, one after the other. While the wait after a failed try is not over, calls fail
// at once with the error of that try; the edge around the store then lets the fallbacks decide.
type door struct {
	mu    sync.Mutex // held while a line connects
	err   error      // why the last try failed
	wait  time.Duration
	until time.Time   // of that wait
	shut  atomic.Bool // the last try failed, and no line had an answer since
}

// work serves calls until the store is closed.
func (l *line) work() {
	defer l.hangUp()
	late := time.AfterFunc(overdue, l.cells.gather.wake)
	defer late.Stop()
	for {
		of, calls := l.cells.gather.next()
		if calls == nil {
			return
		}
		late.Reset(overdue)
		l.serve(calls[0].kind, calls)
		late.Stop()
		l.cells.gather.land(of, calls)
	}
}

// serve answers calls of one kind, each with what it asked for or an error.
func (l *line) serve(of kind, calls []*call) {
	l.waits = lockTime
	l.try(of, calls, time.Now().Add(partTime))
}

// try is serve, as long as parts of a flight may be tried again.
//
// When calls have waited too long for a row that another transaction holds, they are tried again by halves, so that
// those of other rows are answered. A call that is alone with such a row is tried again later.
func (l *line) try(of kind, calls []*call, until time.Time) {
	if err := l.ready(); err != nil {
		fail(calls, err)
		return
	}
	// It is not a caller's context: a flight serves many callers, and outlives each of them.
	ctx, cancel := context.WithTimeout(l.cells.ctx, callTime)
	defer cancel()
	l.sent = false
	err := l.fly(ctx, of, calls)
	if err != nil && l.unprepared(err) {
		err = l.fly(ctx, of, calls) // the server has said that it did nothing
	}
	l.used = time.Now()
	held := isHeld(err) && of.writes()
	switch half := len(calls) / 2; {
	case err == nil:
		l.cells.door.shut.Store(false)
		if l.astray {
			l.hangUp() // the next call has to find the clock near again
		}
	case held && half > 0 && time.Now().Before(until):
		l.waits = lockAgain
		l.try(of, calls[:half], until)
		l.try(of, calls[half:], until)
	case held && half == 0 && calls[0].tries < maxHeld && l.cells.ctx.Err() == nil:
		calls[0].tries++
		calls[0].again = true
	case held && half == 0:
		fail(calls, fmt.Errorf("%w: %w", weir.ErrBusy, err))
	default:
		fail(calls, l.why(of, err))
		if l.conn != nil && (l.conn.IsClosed() || spoils(err)) {
			l.hangUp()
		}
	}
}

// isHeld is whether a statement has waited too long for a lock, and so wrote nothing.
func isHeld(err error) bool {
	said := code(err)
	return said == "55P03" || said == "40P01"
}

func fail(calls []*call, err error) {
	for _, k := range calls {
		k.err = err
	}
}

// why is what callers are told of an error.
func (l *line) why(of kind, err error) error {
	why := err
	if l.cells.ctx.Err() != nil {
		why = errClosed
	}
	if of.writes() && l.lost(err) {
		why = fmt.Errorf("%w: %w", errLost, why)
	}
	return why
}

func (l *line) fly(ctx context.Context, of kind, calls []*call) error {
	switch of {
	case kindLook:
		return l.look(ctx, calls)
	case kindSwap:
		return l.swap(ctx, calls, &l.cells.sql.swap)
	case kindGroup:
		return l.swap(ctx, calls, &l.cells.sql.group)
	case kindSet:
		return l.set(ctx, calls)
	default:
		return calls[0].task(ctx, l)
	}
}

// ready sees to it that there is a connection.
func (l *line) ready() error {
	//nolint:staticcheck // Ping would cost callers a round trip, and with a server that is silent, all their time
	if l.conn != nil && time.Since(l.used) > idle && l.conn.CheckConn() != nil {
		l.hangUp()
	}
	if l.conn != nil {
		return nil
	}
	d := &l.cells.door
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case l.cells.ctx.Err() != nil:
		return errClosed
	case d.shut.Load() && time.Now().Before(d.until):
		return d.err
	}
	if err := l.connect(); err != nil {
		if l.cells.ctx.Err() != nil {
			return errClosed
		}
		d.err, d.wait = err, min(max(2*d.wait, shortest), longest)
		d.until = time.Now().Add(d.wait/2 + rand.N(d.wait/2))
		d.shut.Store(true)
		return err
	}
	d.wait = 0
	return nil
}

// connect makes a connection, and looks whether the table is fit.
//
// A host that is silent takes its time, and the next one is tried after it: calls wait longer for them than
// for an answer.
func (l *line) connect() error {
	ctx, cancel := context.WithTimeout(l.cells.ctx, l.cells.options.connecting)
	defer cancel()
	conn, err := pgconn.ConnectConfig(context.WithValue(ctx, connecting{}, true), l.cells.config)
	if err != nil {
		return oneLine{err}
	}
	l.conn, l.prepared = conn, map[string]bool{}
	l.cells.open.Add(1)
	l.cells.clock.renew()
	ctx, cancel = context.WithTimeout(l.cells.ctx, callTime)
	defer cancel()
	err = l.cells.fit(ctx, conn)
	if err == nil && !l.cells.options.serverClock {
		err = l.onTime(ctx)
	}
	if err != nil {
		l.hangUp()
	}
	return err
}

// onTime fails where this process's clock is far from the server's.
func (l *line) onTime(ctx context.Context) error {
	asked := time.Now()
	r := l.conn.ExecParams(ctx, `select `+serverNow, nil, nil, nil, inBinary).Read()
	if r.Err != nil || len(r.Rows) == 0 {
		return r.Err
	}
	l.astray = false
	return cas.Near(time.UnixMicro(number(r.Rows[0][0])), asked)
}

// oneLine is why none of the hosts could be connected to. pgconn has a line for each try, and tries a host with TLS
// and without.
type oneLine struct{ error }

func (e oneLine) Unwrap() error { return e.error }

func (e oneLine) Error() string {
	lines := strings.Split(e.error.Error(), "\n")
	var each []string
	for _, line := range lines[1:] {
		if line = strings.TrimSpace(line); !slices.Contains(each, line) {
			each = append(each, line)
		}
	}
	return strings.TrimSpace(lines[0] + " " + strings.Join(each, ", "))
}

// connecting marks contexts of connect.
type connecting struct{}

// onlyConnect keeps pgconn from dialing when a call has failed: it would have the server cancel the statement,
// and so wait for a server that is frozen. The server ends statements by itself.
func onlyConnect(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if ctx.Value(connecting{}) == nil {
			return nil, errors.New("statements are not cancelled")
		}
		return dial(ctx, network, addr)
	}
}

// hangUp ends the connection.
func (l *line) hangUp() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = l.conn.Close(ctx)     // it may be broken
	_ = l.conn.Conn().Close() // of a broken one pgconn waits 15 s for the server to end it
	<-l.conn.CleanupDone()
	l.conn = nil
	l.cells.open.Add(-1)
}

// prepare has the connection know statements by their names, where it can. The server may say that another
// has prepared one on this connection: then a pooler hands it round, and the texts travel each time.
func (l *line) prepare(ctx context.Context, all ...*statement) (named bool, err error) {
	if l.cells.pooled.Load() {
		return false, nil
	}
	var lacks []*statement
	for _, st := range all {
		if !l.prepared[st.name] {
			lacks = append(lacks, st)
		}
	}
	if len(lacks) == 0 {
		return true, nil
	}
	// The server locks the table as it reads a statement, so the settings travel ahead here, too.
	p := l.conn.StartPipeline(ctx)
	settings := &l.cells.sql.settings
	p.SendQueryParams(settings.sql, [][]byte{l.patience(), make([]byte, 8)}, settings.takes, inBinary, inBinary)
	for _, st := range lacks {
		p.SendPrepare(st.name, st.sql, st.takes)
	}
	err = p.Sync()
	if err == nil {
		_, err = p.GetResults() // of the settings
	}
	for i := 0; err == nil && i < len(lacks); i++ {
		if _, err = p.GetResults(); err == nil {
			l.prepared[lacks[i].name] = true
		}
	}
	if err = cmp.Or(err, p.Close()); code(err) == "42P05" {
		l.cells.pooled.Store(true)
		return false, nil
	}
	return err == nil, err
}

// unprepared is whether a statement failed, before it did anything, because the connection behind the pooler
// is another than the one that had prepared it. From then on the texts travel each time.
func (l *line) unprepared(err error) bool {
	if code(err) != "26000" || l.conn.IsClosed() {
		return false
	}
	l.cells.pooled.Store(true)
	return true
}

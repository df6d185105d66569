package pgstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// callTime is how long a line waits for an answer. It is longer than statementTime, so that what a slow
	// server says of itself arrives.
	callTime = 2 * time.Second
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
	used     time.Time // when it last answered
	sent     bool      // what this flight is for was sent, or a part of it
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
	for {
		kind, calls := l.cells.gather.next()
		if calls == nil {
			return
		}
		err := l.serve(kind, calls)
		l.cells.gather.land(kind)
		for _, k := range calls {
			if err != nil {
				k.err = err
			}
			close(k.done)
		}
	}
}

// serve answers calls of one kind, all with one error or each with what it asked for.
func (l *line) serve(of kind, calls []*call) error {
	// It is not a caller's context: a flight serves many callers, and outlives each of them.
	ctx, cancel := context.WithTimeout(l.cells.ctx, callTime)
	defer cancel()
	if err := l.ready(ctx); err != nil {
		return err
	}
	l.sent = false
	err := l.fly(ctx, of, calls)
	if err != nil && l.unprepared(err) {
		err = l.fly(ctx, of, calls) // the server has said that it did nothing
	}
	l.used = time.Now()
	if err == nil {
		l.cells.door.shut.Store(false)
		return nil
	}
	why := err
	if l.cells.ctx.Err() != nil {
		why = errClosed
	}
	if of.writes() && l.lost(err) {
		why = fmt.Errorf("%w: %w", errLost, why)
	}
	if l.conn.IsClosed() || spoils(err) {
		l.hangUp()
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
	}
	return calls[0].task(ctx, l)
}

// ready sees to it that there is a connection.
func (l *line) ready(ctx context.Context) error {
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
	if err := l.connect(ctx); err != nil {
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
func (l *line) connect(ctx context.Context) error {
	conn, err := pgconn.ConnectConfig(ctx, l.cells.config)
	if err != nil {
		return err
	}
	l.conn, l.prepared = conn, map[string]bool{}
	l.cells.open.Add(1)
	l.cells.clock.renew()
	if err := l.cells.fit(ctx, conn); err != nil {
		l.hangUp()
		return err
	}
	return nil
}

// hangUp ends the connection.
func (l *line) hangUp() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = l.conn.Close(ctx) // it may be broken
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
	for _, st := range all {
		if l.prepared[st.name] {
			continue
		}
		_, err := l.conn.Prepare(ctx, st.name, st.sql, st.takes)
		if code(err) == "42P05" {
			l.cells.pooled.Store(true)
			return false, nil
		}
		if err != nil {
			return false, err
		}
		l.prepared[st.name] = true
	}
	return true, nil
}

// unprepared is whether a statement failed, before it did anything, because the connection behind the pooler
// is another than the one that had prepared it. From then on the texts travel each time.
func (l *line) unprepared(err error) bool {
	if code(err) != "26000" || l.conn.IsClosed() {
		return false
	}
	return !l.cells.pooled.Swap(true)
}

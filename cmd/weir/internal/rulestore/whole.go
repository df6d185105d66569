package rulestore

import (
	"context"
	"database/sql/driver"
)

// whole opens connections to SQLite whose statements run to their end, though the one who
// asked has gone: modernc.org/sqlite 1.40.0 leaves a statement open that is interrupted at its
// last step. Its connection reads the database as it was then, for as long as it lives
// (TestGone). Statements are short, and wait for a lock for busyMillis at most.
type whole struct {
	name   string
	driver driver.Driver
}

// conn is what a connection to SQLite can do.
type conn interface {
	driver.Conn
	driver.Pinger
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// patient is a connection that hears of no end of a context.
type patient struct{ conn }

func (w *whole) Connect(context.Context) (driver.Conn, error) {
	c, err := w.driver.Open(w.name)
	if err != nil {
		return nil, err
	}
	return patient{c.(conn)}, nil
}

func (w *whole) Driver() driver.Driver { return w.driver }

func (p patient) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return p.conn.BeginTx(context.WithoutCancel(ctx), opts)
}

func (p patient) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return p.conn.ExecContext(context.WithoutCancel(ctx), query, args)
}

func (p patient) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return p.conn.QueryContext(context.WithoutCancel(ctx), query, args)
}

package rulestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// Store keeps rules. It is made by Open; its methods may be called from many
// goroutines, and fail with an *Error.
type Store struct {
	dialect
	write, read *sql.DB
	told        *bell
	dir         string        // of SQLite; empty: it is PostgreSQL
	claim       *sql.DB       // that holds the lock of Claim, or nil
	hold        time.Duration // exceptionHold; tests have another
	parsed      atomic.Pointer[parsed]
	unused      atomic.Int64 // when the use of a token or session could not be written down, in microseconds; 0: it always could
}

// dialect is where SQLite and PostgreSQL differ.
type dialect struct {
	types    *strings.Replacer     // of a schema's types
	snapshot sql.IsolationLevel    // that reads one moment
	clock    string                // the time now, in microseconds since 1970
	lock     string                // makes a migration, or a sign-in, be alone; empty: it is
	notify   string                // tells other nodes of a change; empty: there are none
	explain  func(err error) error // makes an *Error of the database's own
	guard    string                // has the database refuse to change lines of the audit

	// listen waits for what notify tells, and calls look at first, then after each
	// time or within pollEvery, until it is done; and heard after each. Nil: only this process tells.
	listen func(ctx context.Context, db *sql.DB, heard func(), look func(context.Context, *sql.Conn) (done bool, err error)) error
}

// Open opens a store: at a folder, which has or gets a SQLite database, or at
// the URL of a PostgreSQL database, postgres://….
func Open(ctx context.Context, place string) (*Store, error) {
	var s *Store
	var err error
	scheme, _, isURL := strings.Cut(place, "://")
	switch {
	case IsPostgres(place):
		s, err = openPostgres(place)
	case isURL:
		err = invalid("data", "%s:// is no database that rules can be kept in; name a folder DIR, for SQLite, or postgres://USER@HOST/DATABASE", clip(scheme))
	default:
		s, err = openSQLite(ctx, place)
	}
	if err != nil {
		return nil, err
	}
	s.hold = exceptionHold
	if err := migrate(ctx, s.write, s.dialect); err != nil {
		return nil, errors.Join(s.failed(err), s.Close())
	}
	return s, nil
}

// IsPostgres is whether Open takes place for the URL of a PostgreSQL database.
func IsPostgres(place string) bool {
	return strings.HasPrefix(place, "postgres://") || strings.HasPrefix(place, "postgresql://")
}

// Close ends the store. Changes that were answered are kept.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.write, s.read, s.claim} { // twice the same, in PostgreSQL
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// failed makes an *Error of any error.
func (s *Store) failed(err error) error {
	if _, ok := errors.AsType[*Error](err); ok || err == nil {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return unavailable(err, "its time was over")
	}
	return s.explain(err)
}

func unavailable(err error, advice string) *Error {
	return &Error{Kind: Unavailable, Text: fmt.Sprintf("the rule database: %v; %s", err, advice), cause: err}
}

// isNone is whether a query found nothing.
func isNone(err error) bool { return errors.Is(err, sql.ErrNoRows) }

// tx is one change, while it is made. It is alone: other changes wait.
type tx struct {
	*sql.Tx

	by       Actor
	revision int64
	at       int64 // microseconds since 1970, by the clock of this node
	clock    int64 // likewise, by the database's, which all nodes share
	reason   string
	done     []Event // for the audit
	head     Head    // of the audit; zero: it was not looked up yet
}

// attempt is what somebody wants to do, for the audit.
type attempt struct {
	action, domain, rule string
	version              int64
	team                 string // whose thing it is, where that is known before
	reason               string
	clients              bool // its entries and lines name clients, which stay out of the audit
	people               bool // it is about teams or tokens, or only says something, and changes no rule
	dry                  bool // it is only asked whether it may be done
}

// errDry ends a change that is not to be made.
var errDry = errors.New("only asked")

// change makes a change, or none. A refusal is audited, too; where that fails, the
// error is Unavailable first. An attempt that is dry changes nothing, and is not audited.
func (s *Store) change(ctx context.Context, by Actor, a attempt, do func(*tx) error) error {
	err := s.try(ctx, by, a, do)
	if a.dry {
		if errors.Is(err, errDry) {
			return nil
		}
		return s.failed(err)
	}
	if err == nil {
		s.told.ring()
	}
	return s.refused(ctx, by, a, err)
}

// refused is the error of an attempt, which is audited when it is a refusal.
func (s *Store) refused(ctx context.Context, by Actor, a attempt, err error) error {
	if bad, ok := errors.AsType[*Error](err); ok && bad.Kind != Unavailable {
		// An attempt that leaves no trace is told as the failure that it is, and logged.
		said := bad.Error()
		if a.clients && (bad.Field == "entries" || bad.Field == "lines") {
			said = bad.Field + " can't be used; who asked was told which, and why"
		}
		return errors.Join(s.Refused(ctx, by, a.event(said)), err)
	}
	return s.failed(err)
}

func (s *Store) try(ctx context.Context, by Actor, a attempt, do func(*tx) error) error {
	if err := checkName("actor", by.Name); err != nil {
		return err
	}
	return transact(ctx, s.write, func(raw *sql.Tx) error {
		t := &tx{Tx: raw, by: by, reason: a.reason}
		// The transaction that has changed this row is alone until its end: the next one waits
		// here.
		err := raw.QueryRowContext(ctx, `UPDATE counters SET revision = revision + $1 RETURNING revision, `+s.clock, 1-number(a.people)).Scan(&t.revision, &t.clock)
		if err != nil {
			return err
		}
		if a.people {
			t.revision = 0
		}
		t.at = time.Now().UnixMicro()
		if err := do(t); err != nil {
			return err
		}
		if a.dry {
			return errDry
		}
		if len(t.done) == 0 {
			t.done = append(t.done, a.event(""))
		}
		for _, e := range t.done {
			if err := t.audit(ctx, e); err != nil {
				return err
			}
		}
		if s.notify != "" {
			_, err = raw.ExecContext(ctx, s.notify)
		}
		return err
	})
}

// transact makes all that do does, or nothing when it or the end of it fails.
func transact(ctx context.Context, db *sql.DB, do func(*sql.Tx) error) error {
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it goes back to the pool, or is broken
	raw, err := c.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Rollback() }() // it does nothing behind a commit
	if err := do(raw); err != nil {
		return err
	}
	if err := raw.Commit(); err != nil {
		// SQLite is in the transaction still, and the next one could not begin: this
		// connection is not used again.
		_ = c.Raw(func(any) error { return driver.ErrBadConn }) // it gives that back
		return err
	}
	return nil
}

// look reads at one moment, however many queries it takes.
func (s *Store) look(ctx context.Context, read func(*sql.Tx) error) error {
	raw, err := s.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: s.snapshot})
	if err != nil {
		return s.failed(err)
	}
	defer func() { _ = raw.Rollback() }() // nothing was changed
	return s.failed(read(raw))
}

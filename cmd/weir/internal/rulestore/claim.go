package rulestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// claimFile is locked, beside File, by the node that serves the folder. It stays
// empty, and the lock ends with the process, however that ends.
const claimFile = "serving.lock"

// ErrClaimed is in the error of Claim when another process serves the database.
var ErrClaimed = errors.New("another weir serve has it open")

// Claim makes this process the one node that serves a database in a folder, until
// Close. Other processes may go on to open it, as commands do beside a daemon. Nodes that share
// PostgreSQL need no claim, and all get one.
//
// SQLite itself would bear several nodes, but not on two machines that share a
// folder, where its locks may not hold: a lock that is never let go shows these,
// before there is damage.
func (s *Store) Claim(ctx context.Context) error {
	if s.dir == "" || s.claim != nil {
		return nil
	}
	path := filepath.Join(s.dir, claimFile)
	if err := private(path); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", fileURL(path, ""))
	if err != nil {
		return s.failed(err)
	}
	db.SetMaxOpenConns(1) // which keeps the transaction, and so the lock
	if _, err := db.ExecContext(ctx, `BEGIN EXCLUSIVE`); err != nil {
		return errors.Join(s.unclaimed(err), db.Close())
	}
	s.claim = db
	return nil
}

func (s *Store) unclaimed(err error) error {
	if bad, ok := errors.AsType[*sqlite.Error](err); !ok || bad.Code()&0xff != sqlite3.SQLITE_BUSY {
		return s.failed(err)
	}
	return &Error{
		Kind: Unavailable, cause: ErrClaimed,
		Text: fmt.Sprintf("%v in %s; end that one, name another folder, or let nodes share PostgreSQL: --data postgres://USER@HOST/DATABASE", ErrClaimed, s.dir),
	}
}

package rulestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// File is the database's file in the folder that Open is given.
const File = "weir.db"

const (
	busyMillis = 5000 // how long a change waits for that of another process
	maxReaders = 8    // connections that read at a time
)

// openSQLite opens the database in dir, and makes both when they are missing.
// Only this user may read them.
func openSQLite(ctx context.Context, dir string) (*Store, error) {
	if at, err := os.Stat(dir); err == nil && !at.IsDir() {
		return nil, invalid("data", "%s is a file; name the folder that has, or gets, %s", dir, File)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unavailable(err, "make the folder, or name one that can be made")
	}
	path := filepath.Join(dir, File)
	err := private(path)
	if err != nil {
		return nil, err
	}
	s := &Store{dialect: sqliteDialect(), told: newBell(), dir: dir}
	// One connection changes, so that changes of this process wait in line
	// instead of for the file.
	if s.write, err = openDB(path, 1, "_txlock=immediate"); err != nil {
		return nil, err
	}
	if s.read, err = openDB(path, maxReaders, "_pragma=query_only(1)"); err != nil {
		return nil, errors.Join(err, s.write.Close())
	}
	if err := sound(ctx, s.write, path); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// private makes a file that only this user may read, unless it is there.
func private(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return unavailable(err, "let this user write there")
	}
	if err := f.Close(); err != nil {
		return unavailable(err, "look after the disk")
	}
	return nil
}

func openDB(path string, most int, more string) (*sql.DB, error) {
	// synchronous=full: what was answered is there after a power cut, too.
	name := fileURL(path, fmt.Sprintf(
		"_pragma=busy_timeout(%d)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_pragma=foreign_keys(1)&%s", busyMillis, more))
	plain, err := sql.Open("sqlite", name) // which has not connected yet
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(&whole{name, plain.Driver()})
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, plain.Close()
}

// fileURL names a file to SQLite.
func fileURL(path, query string) string {
	u := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: query}
	return u.String()
}

// sound refuses a damaged file.
func sound(ctx context.Context, db *sql.DB, path string) error {
	var said string
	if err := db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&said); err != nil {
		return sqliteDialect().explain(err)
	}
	if said != "ok" {
		return &Error{Kind: Unavailable, Text: fmt.Sprintf("%s is damaged: %s; restore it from a backup, or save what is left with sqlite3 %s .recover", path, said, path)}
	}
	return nil
}

func sqliteDialect() dialect {
	return dialect{types: strings.NewReplacer(" UNLOGGED", ""), clock: "CAST(unixepoch('subsec') * 1000000 AS BIGINT)", guard: guardSQLite, explain: func(err error) error {
		bad, ok := errors.AsType[*sqlite.Error](err)
		if !ok {
			return unavailable(err, "look after the database")
		}
		return unavailable(err, sqliteAdvice(bad.Code()&0xff))
	}}
}

// guardSQLite refuses INSERT OR REPLACE, too, for which SQLite runs no trigger for DELETE.
const guardSQLite = `
CREATE TRIGGER audit_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
CREATE TRIGGER audit_insert BEFORE INSERT ON audit WHEN length(NEW.hash) <> 64 OR EXISTS (SELECT 1 FROM audit WHERE seq = NEW.seq)
	BEGIN SELECT RAISE(ABORT, 'the audit is append-only, and each line has a hash'); END;
`

// sqliteAdvice is what to do about a primary result code.
func sqliteAdvice(code int) string {
	switch code {
	case sqlite3.SQLITE_FULL:
		return "the disk is full: make room; nothing was changed"
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return "let this user write the file and its folder; nothing was changed"
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return "another process holds the database; try again"
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return "the file is damaged or no database: restore it from a backup"
	}
	return "look after the disk"
}

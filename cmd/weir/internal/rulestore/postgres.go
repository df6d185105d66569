package rulestore

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	// maxConnections is how many connections a node has to PostgreSQL.
	maxConnections = 8
	// connectTime is how long a server may take to answer at first.
	connectTime = 5 * time.Second
	// answerTime is how long it may take to tell its revision: a network that loses
	// everything gives no error for a quarter of an hour.
	answerTime = 5 * time.Second
	// pingTime is how long a connection that was idle may take to show that it lives.
	pingTime = time.Second
	// channel is where nodes are notified of changes.
	channel = "weir_rules"
)

// openPostgres opens the database of a URL.
func openPostgres(url string) (*Store, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, invalid("data", "%v; write postgres://USER@HOST:PORT/DATABASE", err) // without the password
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTime
	}
	// A node that stands still in the middle of a change must not hold up others.
	for name, value := range map[string]string{"lock_timeout": "5s", "statement_timeout": "60s", "idle_in_transaction_session_timeout": "10s"} {
		if config.RuntimeParams[name] == "" {
			config.RuntimeParams[name] = value
		}
	}
	db := stdlib.OpenDB(*config, stdlib.OptionShouldPing(silent))
	db.SetMaxOpenConns(maxConnections)
	db.SetMaxIdleConns(maxConnections)
	db.SetConnMaxIdleTime(time.Minute)
	return &Store{write: db, read: db, told: newBell(), dialect: dialect{
		types:    strings.NewReplacer(" TEXT", ` TEXT COLLATE "C"`), // sorted as bytes, as in SQLite
		clock:    "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)",
		lock:     "SELECT pg_advisory_xact_lock(7310326)",
		snapshot: sql.LevelRepeatableRead,
		notify:   "SELECT pg_notify('" + channel + "', '')",
		listen:   listen,
		explain:  explainPostgres,
		guard:    guardPostgres,
	}}, nil
}

// guardPostgres holds for all roles, the owner of the table too, who alone can drop it.
const guardPostgres = `
CREATE OR REPLACE FUNCTION weir_audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN RAISE EXCEPTION 'the audit is append-only: % is refused', TG_OP; END
$$;
CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION weir_audit_append_only();
ALTER TABLE audit ADD CONSTRAINT audit_hash CHECK (length(hash) = 64);
`

// silent is whether a connection that was idle does not answer soon. It is given up
// then, and another taken: calls would wait for as long as they may, one by one.
func silent(ctx context.Context, p stdlib.ShouldPingParams) bool {
	if p.IdleDuration <= time.Second {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, pingTime)
	defer stop()
	return p.Conn.PgConn().Ping(ctx) != nil
}

// listen waits on one connection until somebody has made a change, or for as
// long as ctx has time. It calls heard for each notification.
func listen(ctx context.Context, db *sql.DB, heard func(), look func(context.Context, *sql.Conn) (done bool, err error)) error {
	beginning, stop := context.WithTimeout(ctx, connectTime+answerTime)
	defer stop()
	c, err := db.Conn(beginning)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // it goes back to the pool, or is broken
	if _, err := c.ExecContext(beginning, "LISTEN "+channel); err != nil {
		return err
	}
	defer func() {
		ending, stop := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer stop()
		_, _ = c.ExecContext(ending, "UNLISTEN *") // a broken one hears nothing anyway
	}()
	for {
		looking, stop := context.WithTimeout(ctx, answerTime)
		done, err := look(looking, c)
		stop()
		if done || err != nil {
			return err
		}
		err = c.Raw(func(raw any) error {
			waiting, stop := context.WithTimeout(ctx, pollEvery)
			defer stop()
			_, err := raw.(*stdlib.Conn).Conn().WaitForNotification(waiting)
			if waiting.Err() != nil && ctx.Err() == nil {
				return nil // nobody told: look all the same
			}
			if err == nil {
				heard()
			}
			return err
		})
		if err != nil {
			return err
		}
	}
}

// explainPostgres says what to do about an error of PostgreSQL.
func explainPostgres(err error) error {
	bad, ok := errors.AsType[*pgconn.PgError](err)
	if away, is := errors.AsType[*pgconn.ConnectError](err); is && !ok {
		return unavailable(oneLine{away}, "see that it runs and can be reached")
	}
	if !ok {
		return unavailable(err, "see that it runs and can be reached; a change that was under way may have been made: look at the history")
	}
	switch {
	case bad.Code == "53100":
		return unavailable(err, "its disk is full: make room; nothing was changed")
	case bad.Code == "25006":
		return unavailable(err, "it is read-only: name the primary server; nothing was changed")
	case bad.Code == "55P03", bad.Code == "57014":
		return unavailable(err, "another node's change takes long; try again")
	case bad.Code == "42501":
		return unavailable(err, "let this user make and change tables in the database, or have their owner open it once by weir token list --data URL, and grant this user what docs/operating.md lists; nothing was changed")
	case strings.HasPrefix(bad.Code, "28"), strings.HasPrefix(bad.Code, "3D"):
		return unavailable(err, "see to the user, password and name of the database in the URL")
	}
	return unavailable(err, "look after the database")
}

// oneLine is an error whose lines, for each address that was tried, stand in one,
// none twice.
type oneLine struct{ error }

func (e oneLine) Error() string {
	var lines []string
	for line := range strings.Lines(e.error.Error()) {
		line = strings.TrimSpace(line)
		if !slices.ContainsFunc(lines, func(said string) bool { return strings.HasSuffix(said, line) }) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

func (e oneLine) Unwrap() error { return e.error }

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// oldest is the oldest PostgreSQL that has all that statements need: scans of ranges of ctid.
const oldest = 14

// createTable makes the table, as a statement that an administrator can run, too. Half of each page stays
// free, so that a row that is written again stays on its page and no index changes. Vacuum does not give
// pages at the end back: it would lock the table for that.
func (o *options) createTable() string {
	unlogged := ""
	if o.unlogged {
		unlogged = "unlogged "
	}
	return fmt.Sprintf(`create %stable if not exists %s `+
		`(k text collate "C" primary key, v bigint not null, s bytea not null, until timestamptz not null) `+
		`with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off)`, unlogged, o.quoted())
}

// columns are those of the table, as facts has them.
const columns = `k text C, v bigint, s bytea, until timestamp with time zone`

// facts is a statement that tells what there is under the name of the table.
const facts = `select c.relkind, c.relpersistence, quote_ident(current_user),
  (select string_agg(attname || ' ' || format_type(atttypid, atttypmod) ||
      coalesce(' ' || (select collname from pg_collation as l where l.oid = attcollation), '') ||
      case when attnotnull then '' else ' null' end, ', ' order by attnum)
    from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped),
  exists (select from pg_index as i join pg_attribute as a
      on a.attrelid = c.oid and a.attname = 'k' and i.indkey[0] = a.attnum
    where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indimmediate and i.indnkeyatts = 1
      and i.indpred is null),
  (select string_agg(p, ', ') from unnest('{select,insert,update,delete}'::text[]) as p
    where not has_table_privilege(c.oid, p)),
  row_security_active(c.oid)
from pg_class as c where c.oid = to_regclass($1)`

// fit looks whether the server and the table are such that the store can work, and makes the table where
// there is none.
func (c *cells) fit(ctx context.Context, conn *pgconn.PgConn) error {
	if err := fitVersion(conn.ParameterStatus("server_version")); err != nil {
		return err
	}
	for range 3 {
		there, err := c.fitTable(ctx, conn)
		if there || err != nil {
			return err
		}
		_, err = conn.Exec(ctx, c.options.createTable()).ReadAll()
		switch code(err) {
		case "42P07", "42710", "23505", "XX000": // another process was faster
		case "42501", "3F000":
			return fmt.Errorf("%w: %w", &absentError{c.options, userOf(ctx, conn)}, err)
		default:
			if err != nil {
				return err
			}
		}
	}
	return errors.New("its table comes and goes; does another program drop it?")
}

// fitVersion is whether a server of this version has what statements need.
func fitVersion(version string) error {
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(version)
	}
	if n, err := strconv.Atoi(version[:end]); err == nil && n >= oldest {
		return nil
	}
	return fmt.Errorf("it is version %.40q: %w", version, errOld)
}

var errOld = fmt.Errorf("PostgreSQL %d or later is needed", oldest)

// fitTable is whether there is a table, and what is wrong with it.
func (c *cells) fitTable(ctx context.Context, conn *pgconn.PgConn) (there bool, err error) {
	r := conn.ExecParams(ctx, facts, [][]byte{[]byte(c.options.quoted())}, nil, nil, nil).Read()
	switch {
	case code(r.Err) == "42501":
		return false, fmt.Errorf("%w: %w", &schemaError{c.options, userOf(ctx, conn)}, r.Err)
	case r.Err != nil || len(r.Rows) == 0:
		return false, r.Err
	}
	row := r.Rows[0]
	table := c.options.quoted()
	switch has, lacks := string(row[3]), string(row[5]); {
	case string(row[0]) != "r":
		return true, &foreignError{table, "is no plain table"}
	case has != columns:
		return true, &foreignError{table, fmt.Sprintf("has the columns %.300s, and not %s", has, columns)}
	case string(row[4]) != "t":
		return true, &foreignError{table, "has no primary key (k)"}
	case (string(row[1]) == "u") != c.options.unlogged:
		return true, &loggedError{table, c.options.unlogged}
	case lacks != "":
		return true, &rightsError{c.options, string(row[2]), lacks}
	case string(row[6]) == "t":
		return true, &hiddenError{table, string(row[2])}
	}
	return true, nil
}

// userOf is the user of a connection, as SQL takes it. Through a pooler it is not that of the URL.
func userOf(ctx context.Context, conn *pgconn.PgConn) string {
	r := conn.ExecParams(ctx, `select quote_ident(current_user)`, nil, nil, nil, nil).Read()
	if r.Err != nil || len(r.Rows) == 0 {
		return "its user"
	}
	return string(r.Rows[0][0])
}

// absentError is of a user who may not make the table.
type absentError struct {
	options *options
	user    string
}

func (e *absentError) Error() string { return "there is no table " + e.options.quoted() }

func (e *absentError) remedy() string {
	schema := ""
	if e.options.schema != "" {
		schema = fmt.Sprintf("create schema if not exists %q; ", e.options.schema)
	}
	return "let an administrator run: " + schema + e.options.createTable() + "; " + e.options.grant(e.user)
}

// schemaError is of a user who may not see into the schema of the table.
type schemaError struct {
	options *options
	user    string
}

func (e *schemaError) Error() string {
	return fmt.Sprintf("user %s may not use schema %q", e.user, e.options.schema)
}

func (e *schemaError) remedy() string { return "run: " + e.options.grant(e.user) }

// rightsError is of a user who may not do all that the store does.
type rightsError struct {
	options     *options
	user, lacks string
}

func (e *rightsError) Error() string {
	return fmt.Sprintf("user %s may not %s in table %s", e.user, e.lacks, e.options.quoted())
}

func (e *rightsError) remedy() string { return "run: " + e.options.grant(e.user) }

// grant is what gives a user the rights that the store needs.
func (o *options) grant(user string) string {
	usage := ""
	if o.schema != "" {
		usage = fmt.Sprintf("grant usage on schema %q to %s; ", o.schema, user)
	}
	return fmt.Sprintf("%sgrant select, insert, update, delete on %s to %s", usage, o.quoted(), user)
}

// foreignError is of a table that is another program's, or another version's.
type foreignError struct{ table, is string }

func (e *foreignError) Error() string { return fmt.Sprintf("table %s %s", e.table, e.is) }

func (e *foreignError) remedy() string {
	return "it is another program's, or another version's; name another with table=, or drop it if nobody needs it"
}

// hiddenError is of a table whose policies may hide rows from the user.
type hiddenError struct{ table, user string }

func (e *hiddenError) Error() string {
	return fmt.Sprintf("table %s has row-level security, which may hide rows from user %s", e.table, e.user)
}

func (e *hiddenError) remedy() string {
	return "run: alter table " + e.table + " disable row level security"
}

// loggedError is of a table that is not as the URL says.
type loggedError struct {
	table    string
	unlogged bool // the URL says so
}

func (e *loggedError) Error() string {
	if e.unlogged {
		return fmt.Sprintf("table %s is logged, and the URL says unlogged=1", e.table)
	}
	return fmt.Sprintf("table %s is unlogged, and the URL does not say unlogged=1", e.table)
}

func (e *loggedError) remedy() string {
	if e.unlogged {
		return "leave unlogged=1 out, or run: alter table " + e.table + " set unlogged"
	}
	return "write unlogged=1, or run: alter table " + e.table + " set logged"
}

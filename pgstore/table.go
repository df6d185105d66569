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
	return fmt.Sprintf(`create %stable if not exists %s (k text collate "C" primary key, v bigint not null, s bytea not null, until timestamptz not null) `+
		`with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, vacuum_truncate = off)`, unlogged, o.quoted())
}

// columns are those of the table, as facts has them.
const columns = `k text C, v bigint, s bytea, until timestamp with time zone`

// facts is a statement that tells what there is under the name of the table.
const facts = `select c.relkind, c.relpersistence, current_user,
  (select string_agg(attname || ' ' || format_type(atttypid, atttypmod) ||
      coalesce(' ' || (select collname from pg_collation as l where l.oid = attcollation), ''), ', ' order by attnum)
    from pg_attribute where attrelid = c.oid and attnum > 0 and not attisdropped),
  exists (select from pg_index as i join pg_attribute as a on a.attrelid = c.oid and a.attname = 'k' and i.indkey[0] = a.attnum
    where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indimmediate and i.indnkeyatts = 1 and i.indpred is null),
  (select string_agg(p, ', ') from unnest('{select,insert,update,delete}'::text[]) as p where not has_table_privilege(c.oid, p))
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
			return fmt.Errorf("%w: %w", &absentError{c.options}, err)
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
	if r.Err != nil || len(r.Rows) == 0 {
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
		return true, &rightsError{table, string(row[2]), lacks}
	}
	return true, nil
}

// absentError is of a user who may not make the table.
type absentError struct{ options *options }

func (e *absentError) Error() string { return "there is no table " + e.options.quoted() }

// foreignError is of a table that is another program's, or another version's.
type foreignError struct{ table, is string }

func (e *foreignError) Error() string { return fmt.Sprintf("table %s %s", e.table, e.is) }

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

// rightsError is of a user who may not do all that the store does.
type rightsError struct{ table, user, lacks string }

func (e *rightsError) Error() string {
	return fmt.Sprintf("user %s may not %s in table %s", e.user, e.lacks, e.table)
}

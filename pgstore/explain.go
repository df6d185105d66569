package pgstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-limit/weir/internal/cas"
)

// code is the SQLSTATE of what a server says; empty: it is no error of a server.
func code(err error) string {
	var said *pgconn.PgError
	if errors.As(err, &said) {
		return said.Code
	}
	return ""
}

// remedies say what to do about what a server says, by the first letters of its code. The first that
// matches counts, so what is particular stands before what is general.
var remedies = [...]struct{ code, remedy string }{
	{"28", "is the user or the password in the URL right, and does pg_hba.conf let it in?"},
	{"3D000", "create the database"},
	{"42501", "grant select, insert, update and delete on the table, and usage on its schema"},
	{"42P01", "something has dropped the table; it is made again where the user may"},
	{"42704", "an option of the URL is none of PostgreSQL; see docs/stores.md"},
	{"25006", "this is a replica, or read-only; name the primary, or all of them with commas"},
	{"53100", "its disk is full; make room"},
	{"53200", "it has no memory left"},
	{"53300", "raise max_connections, or write connections=2 into the URL"},
	{"53", "it has no room for more"},
	{"55P03", "another transaction holds its row, or the whole table: see pg_locks and pg_stat_activity"},
	{"57014", "a lock or a slow disk holds it up: see pg_stat_activity"},
	{"57P03", "it starts, or stops"},
	{"57P", "it was stopped, or restarts"},
	{"0A000", "PgBouncer has to be in transaction or session mode, not in statement mode"},
	{"08P01", "if this is PgBouncer, see its log"},
}

// tableError is of a table that is not as the store needs it.
type tableError interface {
	error
	remedy() string
}

// remedy is what to do about an error.
func remedy(err error) string {
	if table, ok := errors.AsType[tableError](err); ok {
		return table.remedy()
	}
	if errors.Is(err, errOld) {
		return "upgrade it"
	}
	if errors.Is(err, cas.ErrApart) {
		return "run NTP on both, or write clock=server"
	}
	if errors.Is(err, errStrange) {
		return "if a pooler stands before it, see the pooler's log"
	}
	if said := code(err); said != "" {
		for _, r := range remedies {
			if strings.HasPrefix(said, r.code) {
				return r.remedy
			}
		}
		return ""
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return "is PostgreSQL running there?"
	case errors.Is(err, syscall.EMFILE):
		return "this process has too many open files; raise ulimit -n"
	case errors.Is(err, errReadOnly), strings.Contains(err.Error(), "read only connection"):
		return "this is a replica, or read-only; name the primary, or all of them with commas"
	case strings.Contains(err.Error(), "would take more than"):
		return "give the descriptor fewer limits"
	case strings.Contains(err.Error(), "another program's"):
		return "give Weir a table of its own, with table="
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), pgconn.Timeout(err):
		return "it is overloaded, frozen, or cut off by a firewall"
	}
	return ""
}

var errReadOnly = errors.New("it takes no writes")

// Answers says whether an error of Status tells of a server that answers, and of a table that is not fit.
func Answers(err error) bool {
	_, is := errors.AsType[tableError](err)
	return is || errors.Is(err, errOld) || errors.Is(err, cas.ErrApart) || errors.Is(err, errReadOnly) || strings.Contains(err.Error(), "read only connection")
}

// spoils is whether a connection is of no more use after an error: the server is none to write to any more, or the
// table has to be looked at again, as a new connection does.
func spoils(err error) bool {
	said := code(err)
	return said == "25006" || slices.ContainsFunc([]string{"42", "0A", "08", "57P"}, func(begin string) bool {
		return strings.HasPrefix(said, begin)
	})
}

// explain adds to an error whose it is, whether something may have been charged, and what to do
// about it. It names no key, for keys are personal and errors are logged.
func (c *cells) explain(err error) error {
	switch r := remedy(err); {
	case errors.Is(err, errLost):
		return fmt.Errorf("pgstore: %s: what was sent may have been a charge: %w", c.where, err)
	case r != "":
		return fmt.Errorf("pgstore: %s: nothing was decided: %w; %s", c.where, err, r)
	}
	return fmt.Errorf("pgstore: %s: nothing was decided: %w", c.where, err)
}

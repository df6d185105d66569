package pgstore

import (
	"context"
	"strconv"
	"time"

	"github.com/weir-limit/weir"
)

// Status is what the server says of itself and of the table.
type Status struct {
	Addr           string // as the URL has it
	TLS            bool
	Version        string
	Latency        time.Duration // of a small statement
	Skew           time.Duration // its clock, less ours in the middle of the call
	Table          string
	Unlogged       bool
	Rows           int64  // about
	Dead           int64  // about: rows that were written again or deleted, and that vacuum has to clear away
	Bytes          int64  // of the table and its index
	Replicas       int    // that stream from it
	Commit         string // synchronous_commit of takes
	Fsync          bool
	Autovacuum     bool
	Connections    int // of all programs
	MaxConnections int
	Err            error // why it could not be asked
}

// statusQuery tells of the server and of the table. In pg_stat_activity a user sees no more than its own connections.
const statusQuery = `select current_setting('server_version'),
  current_setting('synchronous_commit'), current_setting('fsync') = 'on', current_setting('autovacuum') = 'on',
  current_setting('max_connections'), (select sum(numbackends) from pg_stat_database),
  (select count(*) from pg_stat_replication), coalesce(n_live_tup, 0), coalesce(n_dead_tup, 0),
  pg_total_relation_size($1::regclass), coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false)
from (select) as one left join pg_stat_user_tables on relid = $1::regclass`

// Status asks the server.
func (s *Store) Status(ctx context.Context) Status {
	c := s.cells
	st := Status{Addr: c.where, Table: c.options.quoted(), Unlogged: c.options.unlogged}
	if st.Err = s.Ping(ctx, 0); st.Err != nil {
		return st
	}
	asked := time.Now()
	row, err := c.ask(ctx, `select (extract(epoch from clock_timestamp()) * 1000000)::bigint`)
	if st.Err = err; err != nil {
		return st
	}
	st.Latency = time.Since(asked)
	st.Skew = weir.Instant(integer(row[0])).Time().Sub(asked.Add(st.Latency / 2))
	if row, err = c.ask(ctx, statusQuery, c.options.quoted()); err != nil {
		st.Err = err
		return st
	}
	st.Version, st.Commit = string(row[0]), string(row[1])
	if c.options.synchronousCommit != "" {
		st.Commit = c.options.synchronousCommit
	}
	st.Fsync, st.Autovacuum = string(row[2]) == "t", string(row[3]) == "t"
	st.MaxConnections, st.Connections, st.Replicas = int(integer(row[4])), int(integer(row[5])), int(integer(row[6]))
	st.TLS = string(row[10]) == "t"
	st.Rows, st.Dead, st.Bytes = integer(row[7]), integer(row[8]), integer(row[9])
	return st
}

// integer reads a number as text.
func integer(b []byte) int64 {
	n, _ := strconv.ParseInt(string(b), 10, 64) // what is no number was not asked for
	return n
}

// Ping asks the server whether it is there, and can be written to.
func (s *Store) Ping(ctx context.Context, _ int) error {
	row, err := s.cells.ask(ctx, `select pg_is_in_recovery() or current_setting('transaction_read_only') = 'on'`)
	if err == nil && string(row[0]) == "t" {
		return s.cells.explain(errReadOnly)
	}
	return err
}

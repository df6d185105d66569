package pgstore

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// statement is SQL that connections prepare once.
//
// Its name is made of its text: through a pooler, a connection may meet what another process has
// prepared under the name, and that is then the same statement.
type statement struct {
	name, sql string
	takes     []uint32 // the types of what it is given
	gives     int      // how many columns its answers have
}

func newStatement(sql string, gives int, takes ...uint32) statement {
	h := fnv.New64a()
	_, _ = h.Write([]byte(sql)) // a hash takes all
	return statement{"weir_" + strconv.FormatUint(h.Sum64(), 36), sql, takes, gives}
}

// statements are those of a table.
type statements struct {
	// level and settings hold until the end of the transaction, and so reach the statements that travel behind
	// them. They are no settings of the connection, for a pooler would hand these to others. The level comes first,
	// for it can't be set once a statement has read: where the server's default is a higher one, a statement would
	// fail that meets another's write. All rows are found by their names: a plan that was made while the table was
	// small would go on to read the whole table. Those of Status that do read a whole table then look dear, and without
	// jit=off they would be compiled for a second. A statement that waits ends before its caller gives up.
	level    statement
	settings statement // it is given for how long a statement waits for a lock, and a mark to answer with
	look     statement // rows by their names
	add      statement // rows that are not there
	set      statement // rows, whether they are there or not
	// Rows are written, or locked, one after the other as they stand in the arrays, which is the order of
	// their names: so no two statements wait for each other. For that the row of each name is found in a
	// query of its own (lateral, and offset or for update, which keep it one), and written by its place
	// (ctid).
	//
	// A statement sees rows as they were when it began. One that another statement writes meanwhile it
	// waits for, and looks at again as it is then: swap asks for its version once more, and group has locked
	// the version that it goes by. What was seen was there before the statement began, so the place of a
	// row that still is what was seen holds it.
	swap  statement // rows that still are what was seen
	group statement // the same by groups: of a group that lacks a row, none is written
}

const (
	// statementTime is how long the server may work on a statement.
	//
	// Two of them take less than callTime, so that one that waits fails with an error that says that it wrote
	// nothing.
	statementTime = 800 * time.Millisecond
	// lockTime is how long a statement waits for a row, or for the table. Other transactions of Weir hold rows for
	// as long as one write to disk takes; what holds one for longer is an operator's.
	lockTime = 20 * time.Millisecond
	// lockAgain is the same for parts of a flight that has waited for so long already.
	lockAgain = 5 * time.Millisecond
)

// serverNow is the server's time in microseconds, as weir.Instant has it.
const serverNow = "(extract(epoch from clock_timestamp()) * 1000000)::bigint"

func newStatements(o *options) statements {
	of := strings.NewReplacer("{table}", o.quoted(), "{now}", serverNow,
		"{until}", "clock_timestamp() + keep * interval '1 microsecond'")
	commit, settingsGive := "", 7
	if o.synchronousCommit != "" {
		commit = fmt.Sprintf(", set_config('synchronous_commit', '%s', true)", o.synchronousCommit)
		settingsGive++
	}
	return statements{
		level: newStatement(`set transaction_isolation = 'read committed'`, 0),
		settings: newStatement(of.Replace(fmt.Sprintf(`select {now}, $2::bigint,
  set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
  set_config('jit', 'off', true),
  set_config('statement_timeout', '%d', true), set_config('lock_timeout', $1, true)%s`,
			statementTime.Milliseconds(), commit)), settingsGive, oidText, oidInt8),
		look: newStatement(of.Replace(`select k, v, s from {table} where k = any($1)`), 3, oidTextArray),
		add: newStatement(of.Replace(`insert into {table} (k, v, s, until)
select k, v, s, {until} from unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[]) as u (k, v, s, keep)
on conflict do nothing returning v`), 1, oidTextArray, oidInt8Array, oidByteaArray, oidInt8Array),
		set: newStatement(of.Replace(`insert into {table} (k, v, s, until)
select k, v, s, {until} from unnest($1::text[], $2::bigint[], $3::bytea[], $4::bigint[]) as u (k, v, s, keep)
on conflict (k) do update set v = excluded.v, s = excluded.s, until = excluded.until returning v`),
			1, oidTextArray, oidInt8Array, oidByteaArray, oidInt8Array),
		swap: newStatement(of.Replace(`update {table} as w set v = u.new, s = u.s, until = {until}
from (
  select u.*, w.ctid as at from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[]) as u (k, seen, new, s, keep, g),
  lateral (select ctid from {table} as w where w.k = u.k and w.v = u.seen offset 0) as w
) as u where w.ctid = u.at and w.v = u.seen returning u.g`),
			1, oidTextArray, oidInt8Array, oidInt8Array, oidByteaArray, oidInt8Array, oidInt8Array),
		group: newStatement(of.Replace(`with held as materialized (
  select u.*, w.ctid as at, count(*) over (partition by u.g) as held
  from unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[]) as u (k, seen, new, s, keep, g, n),
  lateral (select ctid from {table} as w where w.k = u.k and w.v = u.seen for update) as w
)
update {table} as w set v = held.new, s = held.s, until = {until} from held where w.ctid = held.at and held.held = held.n returning held.g`),
			1, oidTextArray, oidInt8Array, oidInt8Array, oidByteaArray, oidInt8Array, oidInt8Array, oidInt8Array),
	}
}

// inBinary says that values and results travel in PostgreSQL's binary form.
var inBinary = []int16{1}

// append adds the statement to what travels together: by its name where the connection has it
// prepared, and else as text.
func (st *statement) append(b *pgconn.Batch, prepared bool, values ...[]byte) {
	if prepared {
		b.ExecPrepared(st.name, values, inBinary, inBinary)
		return
	}
	b.ExecParams(st.sql, values, st.takes, inBinary, inBinary)
}

package pgstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weir-limit/weir/internal/cas"
)

// placeholder is how long a row is kept, at least, that stands for one that was to be written together with
// others and was not. It holds nothing, and that is how it reads: as a count that was never used.
const placeholder = time.Minute

// rows are the arrays that a statement is given. They are used again.
type rows struct{ k, seen, v, s, keep, group, size array }

func (r *rows) reset() {
	r.k.reset(oidText)
	r.s.reset(oidBytea)
	for _, a := range []*array{&r.seen, &r.v, &r.keep, &r.group, &r.size} {
		a.reset(oidInt8)
	}
}

func (r *rows) add(name string, v int64, value []byte, keep time.Duration) {
	r.k.text(name)
	r.v.number(v)
	r.s.bytes(value)
	r.keep.number(int64((keep + time.Microsecond - 1) / time.Microsecond))
}

// answer is one row of a result. It holds until the next.
type answer = [][]byte

// run sends statements in one transaction and one round trip, behind settings, and has read called with
// each row of the answers, and the number of the statement. It reads as many columns as gives says, and says whether
// they are an answer. The statements have written if run returns nil.
//
// The server's clock comes with each answer.
func (l *line) run(ctx context.Context, b *pgconn.Batch, statements []*statement, read func(statement int, row answer) bool) error {
	l.cells.statements.Add(int64(len(statements)))
	l.sent = true
	asked := time.Now()
	results := l.conn.ExecBatch(ctx, b)
	var failed error
	marked := false
	for n := -ahead; failed == nil && results.NextResult(); n++ {
		r := results.ResultReader()
		for r.NextRow() {
			row := r.Values()
			switch {
			case n < 0:
				if marked = l.answers(row); marked {
					l.told(number(row[0]), asked)
				}
			case !marked || n >= max(len(statements), 1) || n < len(statements) && len(row) != statements[n].gives || !read(n, row):
				marked = false
			}
			if !marked {
				return l.strange()
			}
		}
		_, failed = r.Close()
	}
	if failed = cmp.Or(failed, results.Close()); failed == nil && !marked {
		return l.strange()
	}
	return failed // what failed first says why
}

// answers is whether a row is what settings give, with the mark of this flight: then what follows answers it.
func (l *line) answers(row answer) bool {
	return len(row) == l.cells.sql.settings.gives && number(row[1]) == l.mark
}

// told hears the server's time.
func (l *line) told(server int64, asked time.Time) {
	if l.cells.options.serverClock {
		l.cells.clock.tell(server, asked, time.Now())
		return
	}
	l.astray = cas.Near(time.UnixMicro(server), asked) != nil
}

// strange ends a connection on which answers can't be told from those of other questions any more.
func (l *line) strange() error {
	l.hangUp()
	return errStrange
}

// errStrange is an answer to what was not asked. Answers of PostgreSQL have no numbers: after one too many, each
// would be taken for that of the next question.
var errStrange = errors.New("this is no answer to what was asked, and the connection was closed")

// ahead is how many statements travel ahead of those of calls: level and settings.
const ahead = 2

// batch begins what travels together.
func (l *line) batch(ctx context.Context, all ...*statement) (b *pgconn.Batch, named bool, err error) {
	sql := &l.cells.sql
	named, err = l.prepare(ctx, append(all, &sql.level, &sql.settings)...)
	if err != nil {
		return nil, false, err
	}
	b = new(pgconn.Batch)
	sql.level.append(b, named)
	l.mark = rand.Int64()
	sql.settings.append(b, named, l.patience(), binary.BigEndian.AppendUint64(nil, uint64(l.mark)))
	return b, named, nil
}

// patience is for how long statements wait for a lock, as PostgreSQL takes it.
func (l *line) patience() []byte {
	return strconv.AppendInt(nil, l.waits.Milliseconds(), 10)
}

// look reads rows for calls.
func (l *line) look(ctx context.Context, calls []*call) error {
	b, named, err := l.batch(ctx, &l.cells.sql.look)
	if err != nil {
		return err
	}
	l.rows.reset()
	wanted := make(map[string][]*cas.Cell, len(calls))
	for _, k := range calls {
		for i, name := range k.names {
			wanted[name] = append(wanted[name], &k.cells[i])
			if len(wanted[name]) == 1 {
				l.rows.k.text(name)
			}
		}
	}
	l.cells.sql.look.append(b, named, l.rows.k.encoded())
	return l.run(ctx, b, []*statement{&l.cells.sql.look}, func(_ int, row answer) bool {
		value := slices.Clone(row[2])
		for _, to := range wanted[string(row[0])] {
			*to = cas.Cell{Value: value, Version: cas.Version{Number: uint64(number(row[1]))}}
		}
		return true
	})
}

// set writes rows, whatever is there.
func (l *line) set(ctx context.Context, calls []*call) error {
	b, named, err := l.batch(ctx, &l.cells.sql.set)
	if err != nil {
		return err
	}
	l.rows.reset()
	drawn := draw(calls)
	for _, d := range drawn {
		l.rows.add(d.swap.Name, d.v, d.swap.Value, d.swap.Keep)
	}
	l.cells.sql.set.append(b, named, l.rows.k.encoded(), l.rows.v.encoded(), l.rows.s.encoded(), l.rows.keep.encoded())
	if err := l.run(ctx, b, []*statement{&l.cells.sql.set}, func(int, answer) bool { return true }); err != nil {
		return err
	}
	for _, d := range drawn {
		d.written()
	}
	for _, k := range calls {
		k.written = true
	}
	return nil
}

// drawing is a swap with the version of its write.
type drawing struct {
	swap  *cas.Swap
	group int // the number of its call
	v     int64
}

func (d *drawing) written() {
	d.swap.Version, d.swap.Life = cas.Version{Number: uint64(d.v)}, d.swap.Keep
}

// draw draws versions for the swaps of calls, and brings them into the order in which all processes lock
// rows: that of the bytes of their names.
func draw(calls []*call) []drawing {
	var all []drawing
	for g, k := range calls {
		for i := range k.swaps {
			all = append(all, drawing{&k.swaps[i], g, 1 + rand.Int64N(1<<63-1)})
		}
	}
	slices.SortFunc(all, func(a, b drawing) int { return cmp.Compare(a.swap.Name, b.swap.Name) })
	return all
}

// swap writes the rows of each call whose rows all still are what was seen, and no row of the others, by
// one of the statements swap and group.
//
// A row that is not there and is written alone is added, unless another process was faster. Where it is one of
// several, a placeholder is added in its place, and swapped with the others by the next statement: a row that
// was added could not be taken back if another of its call is not as it was seen. Both statements are one
// transaction, so no other process sees a placeholder before the swap. One that is left for a call that was
// not written holds nothing.
func (l *line) swap(ctx context.Context, calls []*call, by *statement) error {
	drawn := draw(calls)
	adds, swaps := apart(calls, drawn)
	var used []*statement
	if len(adds) > 0 {
		used = append(used, &l.cells.sql.add)
	}
	if len(swaps) > 0 {
		used = append(used, by)
	}
	b, named, err := l.batch(ctx, used...)
	if err != nil {
		return err
	}
	written := make([]bool, len(calls))
	alone := map[int64]int{} // the calls of rows that are added alone, by version
	if len(adds) > 0 {
		l.appendAdds(b, named, calls, adds, alone)
	}
	if len(swaps) > 0 {
		l.appendSwaps(b, named, calls, swaps, by)
	}
	err = l.run(ctx, b, used, func(n int, row answer) bool {
		v := number(row[0])
		if used[n] == by {
			if v < 0 || v >= int64(len(written)) {
				return false
			}
			written[v] = true
		} else if g, ok := alone[v]; ok {
			written[g] = true
		}
		return true
	})
	if err != nil {
		return err
	}
	for i := range drawn {
		if written[drawn[i].group] {
			drawn[i].written()
		}
	}
	for g, k := range calls {
		k.written = written[g]
	}
	return nil
}

// apart says which rows are added, and which are swapped; a placeholder is both.
func apart(calls []*call, drawn []drawing) (adds, swaps []*drawing) {
	for i := range drawn {
		d := &drawn[i]
		absent := d.swap.Seen.Number == 0
		if absent {
			adds = append(adds, d)
		}
		if !absent || len(calls[d.group].swaps) > 1 {
			swaps = append(swaps, d)
		}
	}
	return adds, swaps
}

func (l *line) appendAdds(b *pgconn.Batch, named bool, calls []*call, adds []*drawing, alone map[int64]int) {
	r := &l.rows
	r.reset()
	for _, d := range adds {
		if len(calls[d.group].swaps) > 1 {
			r.add(d.swap.Name, d.v, nil, placeholder)
			continue
		}
		r.add(d.swap.Name, d.v, d.swap.Value, d.swap.Keep)
		alone[d.v] = d.group
	}
	l.cells.sql.add.append(b, named, r.k.encoded(), r.v.encoded(), r.s.encoded(), r.keep.encoded())
}

func (l *line) appendSwaps(b *pgconn.Batch, named bool, calls []*call, swaps []*drawing, by *statement) {
	r := &l.rows
	r.reset()
	for _, d := range swaps {
		r.add(d.swap.Name, d.v, d.swap.Value, d.swap.Keep)
		seen := int64(d.swap.Seen.Number)
		if seen == 0 {
			seen = d.v // the placeholder's
		}
		r.seen.number(seen)
		r.group.number(int64(d.group))
		r.size.number(int64(len(calls[d.group].swaps)))
	}
	given := [][]byte{r.k.encoded(), r.seen.encoded(), r.v.encoded(), r.s.encoded(), r.keep.encoded(), r.group.encoded(), r.size.encoded()}
	by.append(b, named, given[:len(by.takes)]...)
}

// lost is whether what was sent may have been done all the same. A server that answers with an error has done
// nothing; where it ends the connection with its error, it may have done so after the transaction.
func (l *line) lost(err error) bool {
	var said *pgconn.PgError
	if errors.As(err, &said) && said.SeverityUnlocalized == "ERROR" {
		return false
	}
	return l.sent
}

// errLost is of a write whose answer did not come.
var errLost = errors.New("the connection ended before the answer")

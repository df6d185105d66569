package pgstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/internal/sleep"
)

const (
	// sweepEvery is how long after a sweep the next one begins, of whichever process. Rows that are over stay
	// about so long.
	sweepEvery = 30 * time.Second
	// sweepLease is how long a process that sweeps keeps others from it after its last word, as when it dies.
	sweepLease = time.Minute
	// sweepPages is how many pages a statement of the sweeper reads, and sweepRows how many rows it deletes.
	sweepPages = 256
	sweepRows  = 1000
	// After each statement the sweeper rests sweepRest times as long as that took, so it uses a fraction of one processor.
	sweepRest = 9
)

// sweep deletes rows that are over, until the store is closed. It reads the pages of the table from the first to
// the last: an index on until would have to be written with each take, and take the place of the free half of the page.
//
// One process of all sweeps at a time. They agree by a row of the table, which works through a pooler, where
// no lock outlives a transaction. Two that sweep at once after all do no harm: they skip each other's rows.
func (c *cells) sweep() {
	for sleep.For(c.ctx, sweepEvery/2+rand.N(sweepEvery/2)) == nil {
		// What fails is tried again; takes tell what is wrong with the server.
		if _, err := c.sweepOnce(c.ctx); err != nil {
			continue
		}
	}
}

// sweepOnce deletes the rows that are over now, if it is this process's turn, and says how many.
func (c *cells) sweepOnce(ctx context.Context) (deleted int64, err error) {
	mine := 1 + rand.Int64N(1<<63-1)
	turn, err := c.claimSweep(ctx, mine, sweepLease)
	if err != nil || !turn {
		return 0, err
	}
	claimed := time.Now()
	pages, err := c.pages(ctx)
	for page := int64(0); err == nil && page < pages; {
		begin := time.Now()
		var n int64
		if n, err = c.sweepSome(ctx, page); err != nil {
			return deleted, err
		}
		deleted += n
		c.swept.Add(n)
		if n < sweepRows { // else more of these pages may be over
			page += sweepPages
		}
		err = sleep.For(ctx, sweepRest*time.Since(begin))
		if err == nil && time.Since(claimed) > sweepLease/4 {
			if turn, err = c.claimSweep(ctx, mine, sweepLease); !turn {
				return deleted, err
			}
			claimed = time.Now()
		}
	}
	if err == nil {
		_, err = c.claimSweep(ctx, mine, sweepEvery)
	}
	return deleted, err
}

// claimSweep keeps other processes from sweeping for some time, unless another does so from this one.
func (c *cells) claimSweep(ctx context.Context, mine int64, keep time.Duration) (turn bool, err error) {
	row, err := c.ask(ctx, `insert into {table} as w (k, v, s, until)
values ($1, $2::bigint, '', clock_timestamp() + $3::bigint * interval '1 millisecond')
on conflict (k) do update set v = excluded.v, until = excluded.until where w.v = excluded.v or w.until < clock_timestamp()
returning v`, sweeper, decimal(mine), decimal(keep.Milliseconds()))
	return row != nil, err
}

// pages is how long the table is.
func (c *cells) pages(ctx context.Context) (int64, error) {
	row, err := c.ask(ctx, `select pg_relation_size($1::regclass) / current_setting('block_size')::bigint`, c.options.quoted())
	if row == nil {
		return 0, err
	}
	return strconv.ParseInt(string(row[0]), 10, 64)
}

// sweepSome deletes rows that are over, of some pages, and says how many.
func (c *cells) sweepSome(ctx context.Context, page int64) (int64, error) {
	row, err := c.ask(ctx, `with over as materialized (
  select ctid as at from {table} where ctid >= $1::tid and ctid < $2::tid and until < clock_timestamp()
  limit $3::bigint for update skip locked
), gone as (delete from {table} as w using over where w.ctid = over.at returning 1)
select count(*) from gone`, tid(page), tid(page+sweepPages), decimal(sweepRows))
	if row == nil {
		return 0, err
	}
	return strconv.ParseInt(string(row[0]), 10, 64)
}

func tid(page int64) string { return "(" + decimal(page) + ",0)" }

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// ask has the server answer a statement with one row, or none.
func (c *cells) ask(ctx context.Context, sql string, values ...string) (row [][]byte, err error) {
	given := make([][]byte, len(values))
	for i, v := range values {
		given[i] = []byte(v)
	}
	err = c.task(ctx, func(ctx context.Context, l *line) error {
		b, _, err := l.batch(ctx)
		if err != nil {
			return err
		}
		b.ExecParams(strings.ReplaceAll(sql, "{table}", c.options.quoted()), given, nil, nil, nil)
		return l.run(ctx, b, nil, func(_ int, r answer) bool {
			for _, value := range r {
				row = append(row, slices.Clone(value))
			}
			return true
		})
	})
	return row, err
}

// task has a line do something, as long as ctx lets it.
func (c *cells) task(ctx context.Context, do func(ctx context.Context, l *line) error) error {
	k := &call{kind: kindTask, task: do}
	if err := c.gather.join(k); err != nil {
		return c.explain(err)
	}
	select {
	case <-k.done:
		if k.err != nil {
			return c.explain(k.err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pgstore: %s does not answer: %w", c.where, ctx.Err())
	}
}

package rulestore

import (
	"context"
	"database/sql"
)

// queryer reads: a change, or a look.
type queryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// row is one row that a query found.
type row interface{ Scan(into ...any) error }

// each reads what a query finds, row by row.
func each(ctx context.Context, q queryer, read func(row) error, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // what failed, rows.Err tells
	for rows.Next() {
		if err := read(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// find is all that a query finds, each row as scan reads it.
func find[T any](
	ctx context.Context, q queryer, scan func(row) (T, error), query string, args ...any,
) (found []T, err error) {
	err = each(ctx, q, func(r row) error {
		one, err := scan(r)
		found = append(found, one)
		return err
	}, query, args...)
	return found, err
}

// count is how many rows of a table there are; where says which, and may be empty.
func count(ctx context.Context, q queryer, table, where string, args ...any) (n int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT COUNT(*) FROM `+table+where, args...).Scan(&n)
	return n, err
}

// exec makes a statement of a change.
func (t *tx) exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.ExecContext(ctx, statement, args...)
	return err
}

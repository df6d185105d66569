package main

import (
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"
)

// listing prints rows in columns, below a line with the columns' names. There is no such line where there
// are no rows.
type listing struct {
	table  *tabwriter.Writer
	header []string // nil: it is printed, or unwanted
}

// noHeadersFlag is for lists that scripts cut.
func noHeadersFlag(f *pflag.FlagSet, off *bool) {
	f.BoolVar(off, "no-headers", false, "leave out the line with the names of the columns")
}

func newListing(out io.Writer, noHeaders bool, columns ...string) *listing {
	l := &listing{table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	if !noHeaders {
		l.header = columns
	}
	return l
}

// row adds a row. Its cells are escaped.
func (l *listing) row(cells ...string) {
	if l.header != nil {
		l.write(l.header)
		l.header = nil
	}
	l.write(cells)
}

func (l *listing) write(cells []string) {
	_, _ = io.WriteString(l.table, strings.Join(cells, "\t")+"\n") // flush tells
}

// flush prints what was added.
func (l *listing) flush() error { return l.table.Flush() }

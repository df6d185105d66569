// Package table lays text out in columns, for terminals.
package table

import (
	"strings"
	"unicode/utf8"
)

// Table is rows of cells, the first row their heads. Columns From to To−1 hold
// numbers and are set to the right. All rows are as long as the first.
type Table struct {
	Rows     [][]string
	From, To int
}

// Write appends the table to b.
func (t *Table) Write(b *strings.Builder) {
	width := make([]int, len(t.Rows[0]))
	for _, row := range t.Rows {
		for c, cell := range row {
			width[c] = max(width[c], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range t.Rows {
		var line strings.Builder
		for c, cell := range row {
			pad := strings.Repeat(" ", width[c]-utf8.RuneCountInString(cell))
			if c > 0 {
				line.WriteString("  ")
			}
			if c >= t.From && c < t.To {
				line.WriteString(pad + cell)
			} else {
				line.WriteString(cell + pad)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
}

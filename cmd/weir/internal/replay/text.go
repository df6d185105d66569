package replay

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/table"
	"github.com/weir-limit/weir/cmd/weir/internal/terminal"
	"github.com/weir-limit/weir/rules"
)

// maxShown is how much of a name or key a table shows, in characters.
const maxShown = 60

// WriteText writes the report for people.
func (r *Report) WriteText(to io.Writer) error {
	var b strings.Builder
	writeRules(&b, r.Rules)
	if r.WhatIf != nil {
		r.WhatIf.write(&b, &r.Log)
	}
	b.WriteByte('\n')
	r.Log.write(&b)
	if _, err := io.WriteString(to, b.String()); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// writeRules writes what rules did, and whom they denied most.
func writeRules(b *strings.Builder, all []RuleReport) {
	sums := table.Table{Rows: [][]string{{"RULE", "LIMIT", "ASKED", "ALLOWED", "DENIED", "IMPOSSIBLE", "KEYS", "FIRST DENIED"}}, From: 2, To: 7}
	denied := table.Table{Rows: [][]string{{"DENIED MOST", "KEY", "DENIED"}}, From: 2, To: 3}
	for i := range all {
		sums.Rows = append(sums.Rows, all[i].cells())
		name := shown(all[i].Rule)
		for _, k := range all[i].TopDenied {
			denied.Rows = append(denied.Rows, []string{name, shown(k.Key), strconv.FormatInt(k.Denied, 10)})
			name = ""
		}
	}
	sums.Write(b)
	if len(denied.Rows) > 1 {
		b.WriteByte('\n')
		denied.Write(b)
	}
}

func (r *RuleReport) cells() []string {
	name, keys, first := shown(r.Rule), strconv.FormatInt(r.Keys, 10), "never"
	if r.Shadow {
		name += " (shadow)"
	}
	if r.KeysMore {
		keys = "≥ " + keys
	}
	if r.FirstDenied != nil {
		first = r.FirstDenied.String()
	}
	cells := []string{name, r.Limit}
	for _, n := range [...]int64{r.Asked, r.Allowed, r.Denied, r.Impossible} {
		cells = append(cells, strconv.FormatInt(n, 10))
	}
	return append(cells, keys, first)
}

// write says what was read, and what kept the rest from being exact.
func (l *LogReport) write(b *strings.Builder) {
	if l.Usage != nil {
		l.Usage.write(b, l)
		return
	}
	fmt.Fprintf(b, "%s read", manyLines(l.Lines))
	if l.From != nil {
		fmt.Fprintf(b, ", from %v to %v", l.From, l.To)
	}
	if l.Passed != nil {
		fmt.Fprintf(b, "; %d passed, %d were kept out", *l.Passed, l.Lines-*l.Passed)
	}
	b.WriteByte('\n')
	l.WriteNotes(b)
}

// WriteNotes says what kept the report from being exact, a line each.
func (l *LogReport) WriteNotes(b *strings.Builder) {
	if l.Skipped > 0 {
		fmt.Fprintf(b, "%s skipped: no address, time, request or status could be read\n", manyLines(l.Skipped))
		for _, d := range l.Damaged {
			fmt.Fprintf(b, "  line %d: %v\n", d.Line, d.Fault)
		}
		if more := l.Skipped - int64(len(l.Damaged)); more > 0 {
			fmt.Fprintf(b, "  and %d more\n", more)
		}
	}
	if l.Late > 0 {
		fmt.Fprintf(b, "%s too late to be put in order: decided at the newest time so far\n", manyLines(l.Late))
	}
	if l.Early > 0 {
		fmt.Fprintf(b, "%s decided early: more lines than could be held in 2 minutes\n", manyLines(l.Early))
	}
	if l.TooLong > 0 {
		fmt.Fprintf(b, "%s with a value over %d bytes: rules were not asked about it\n", manyLines(l.TooLong), rules.MaxWord)
	}
	if l.Costless > 0 {
		fmt.Fprintf(b, "%s without a cost from 0 to %d: rules were not asked about it\n", manyLines(l.Costless), weir.MaxCount)
	}
	if l.Forgotten > 0 {
		fmt.Fprintf(b, "%d states given up for want of room: take the numbers as estimates\n", l.Forgotten)
	}
}

func manyLines(n int64) string { return many(n, "line") }

// many is a number of things.
func many(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.FormatInt(n, 10) + " " + thing + "s"
}

// shown makes text of a log or a file fit for a terminal: what can't be printed
// is escaped, what is too long is cut.
func shown(s string) string {
	n := 0
	for i := range s {
		if n++; n > maxShown {
			return terminal.Escape(s[:i]) + "…"
		}
	}
	return terminal.Escape(s)
}

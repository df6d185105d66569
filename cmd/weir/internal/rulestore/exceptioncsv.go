package rulestore

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir"
)

// MaxExceptionCSV is how long a list of exceptions may be, in bytes.
const MaxExceptionCSV = 8 << 20

// ReadExceptions reads exceptions from CSV. Its first line names the columns: limit; until, a time in RFC 3339, or for, a
// duration such as 24h or 7day; perhaps of and reason; and each other column is a key of the requests, in their order, which may be written key:NAME to be told
// from these. SetExceptions tells what is wrong with lines, these and others together.
//
//	user,limit,for,reason
//	4711,100/s,7day,"a launch, until Friday"
func ReadExceptions(in io.Reader, now time.Time) (p ExceptionBatch) {
	r := csv.NewReader(in)
	r.FieldsPerRecord = -1 // told below, with what to do
	head, err := r.Read()
	switch {
	case errors.Is(err, io.EOF):
		p.bad.add(1, "is missing: the first line names the columns, as user,limit,for,reason")
		return p
	case err != nil:
		p.bad.add(csvFault(err))
		return p
	}
	head[0] = strings.TrimPrefix(head[0], "\uFEFF") // which spreadsheets write
	if why := badHead(head); why != "" {
		p.bad.add(1, why)
		return p
	}
	for len(p.List)+p.bad.all <= MaxExceptionBatch {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.bad.add(csvFault(err)) // what follows can't be told from it
			break
		}
		line, _ := r.FieldPos(0)
		if len(record) != len(head) {
			p.bad.add(line, fmt.Sprintf("has %d fields, and the first line names %d columns", len(record), len(head)))
			continue
		}
		e, why := readException(head, record, now)
		if why != "" {
			p.bad.add(line, why)
			continue
		}
		p.List, p.Lines = append(p.List, e), append(p.Lines, line)
	}
	return p
}

func csvFault(err error) (line int, text string) {
	if bad, ok := errors.AsType[*csv.ParseError](err); ok {
		return bad.StartLine, "is no CSV: " + bad.Err.Error() + "; write a field with quotes or commas between quotes, and each quote in it twice"
	}
	return 1, err.Error()
}

// badHead says what is wrong with the names of columns.
func badHead(head []string) string {
	keys := 0
	for i, name := range head {
		switch {
		case name == "":
			return fmt.Sprintf("column %d has no name", i+1)
		case slices.Contains(head[:i], name):
			return fmt.Sprintf("names the column %s twice", clip(name))
		case !exceptionColumn(name):
			keys++
		}
	}
	switch {
	case !slices.Contains(head, "limit"):
		return "names no column limit; the first line names the columns, as user,limit,for,reason"
	case slices.Contains(head, "until") == slices.Contains(head, "for"):
		return "must name one column of until and for"
	case keys == 0:
		return "names no key of requests; write a column for each, as user"
	}
	return ""
}

func exceptionColumn(name string) bool {
	return slices.Contains([]string{"limit", "until", "for", "of", "reason"}, name)
}

func readException(head, record []string, now time.Time) (e Exception, why string) {
	for i, name := range head {
		field := record[i]
		switch name {
		case "limit":
			e.Limit = field
		case "of":
			e.Of = field
		case "reason":
			e.Reason = field
		case "until":
			until, err := time.Parse(time.RFC3339, field)
			if err != nil {
				return e, fmt.Sprintf("until: %q is no time; write it as 2026-12-24T18:00:00Z", clip(field))
			}
			e.Until = until
		case "for":
			period, err := weir.ParseLimit("1/" + strings.TrimSpace(field)) // which knows all units
			if err != nil {
				return e, fmt.Sprintf("for: %q is no time; write one such as 30min, 24h or 7day", clip(field))
			}
			e.Until = now.Add(period.Spec().Period)
		default:
			e.Entries = append(e.Entries, Entry{strings.TrimPrefix(name, "key:"), field})
		}
	}
	return e, ""
}

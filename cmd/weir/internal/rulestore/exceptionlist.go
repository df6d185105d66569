package rulestore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limit/weir/internal/sleep"
	"github.com/weir-limit/weir/rules"
)

const (
	// exceptionChunk is how many exceptions of a list are looked up together.
	exceptionChunk = 64
	// exceptionHold is for how long other changes wait for a part of a list, and exceptionPause how long those parts let them go first:
	// another process at a file of SQLite looks now and then whether it may.
	exceptionHold  = 500 * time.Millisecond
	exceptionPause = 100 * time.Millisecond
	// maxLineErrors is how many wrong lines are told.
	maxLineErrors = 100
)

// ExceptionBatch is exceptions of one domain that are set together. It is made by ReadExceptions, or as it is.
type ExceptionBatch struct {
	Domain string
	List   []Exception // one without a Reason has that of the batch
	Lines  []int       // where each stands in a text of the caller's; nil: they stand line by line
	Reason string
	Dry    bool // nothing is changed
	// Fits says why exceptions can't have a limit here, by failing. Nil: they can have any.
	Fits func(limit string) error

	bad lineErrors // of lines that no exception could be read from
}

// line is where the i-th stands.
func (p *ExceptionBatch) line(i int) int {
	if i < len(p.Lines) {
		return p.Lines[i]
	}
	return i + 1
}

// ExceptionsSet is what came of a batch. The API gives it as it is.
type ExceptionsSet struct {
	Set    int    `json:"set"` // how many were set, or would be
	Author string `json:"author"`
	// Unreviewed is how many of them Author did alone in a domain under review.
	Unreviewed int `json:"unreviewed,omitempty"`
}

// By is who did it, for people, where somebody did it alone in a domain under review.
func (s *ExceptionsSet) By() string {
	switch s.Unreviewed {
	case 0:
		return ""
	case s.Set:
		return ", by " + s.Author + " alone"
	}
	return fmt.Sprintf(", %d of them by %s alone", s.Unreviewed, s.Author)
}

// lineErrors is what is wrong with lines of a list: the first in words, and a number of all.
type lineErrors struct {
	list []rules.Finding
	all  int
}

func (b *lineErrors) add(line int, text string) {
	if b.all++; len(b.list) < maxLineErrors {
		b.list = append(b.list, rules.Finding{File: "list", Line: line, Column: 1, Text: text})
	}
}

// err is the error of all, with the first in their order; nil: nothing is wrong.
func (b *lineErrors) err() error {
	if b.all == 0 {
		return nil
	}
	slices.SortStableFunc(b.list, func(a, b rules.Finding) int { return cmp.Compare(a.Line, b.Line) })
	text := counted(int64(b.all), "line") + " can't be used, and nothing was changed"
	if more := b.all - len(b.list); more > 0 {
		text += fmt.Sprintf(": %d are told, and there are %d more", len(b.list), more)
	}
	return &Error{Kind: Invalid, Field: "lines", Text: text, Findings: b.list}
}

// SetExceptions sets many. It first looks through the whole list, and changes nothing when something is wrong: the error has the wrong
// lines, a hundred at most. Then it sets them in parts, so that other changes wait for exceptionHold at most. Each exception is as SetException
// has it. When it can't go on, as the database is away, the error says how many are set: they stay, and sending the list again does no harm. The
// audit has a line about each part.
func (s *Store) SetExceptions(ctx context.Context, by Actor, p ExceptionBatch) (done ExceptionsSet, err error) {
	a := attempt{action: exceptionImport, domain: p.Domain, reason: p.Reason, clients: true}
	done = ExceptionsSet{Author: by.Name}
	for i := range p.List {
		p.List[i].Reason = cmp.Or(p.List[i].Reason, p.Reason)
	}
	begun := time.Now()
	alone, err := s.checkExceptions(ctx, by, a, &p, begun)
	switch {
	case p.Dry && err == nil:
		done.Set, done.Unreviewed = len(p.List), alone
		fallthrough
	case p.Dry:
		return done, s.failed(err)
	case err != nil:
		return done, s.refused(ctx, by, a, err)
	}
	for done.Set < len(p.List) {
		if done.Set > 0 {
			err = sleep.For(ctx, exceptionPause)
		}
		part := done
		if err == nil {
			err = s.change(ctx, by, a, func(t *tx) error { return s.setPart(ctx, t, a, &p, begun, &part) })
		}
		if err != nil {
			return done, stopped(err, &done, &p)
		}
		done = part
	}
	return done, nil
}

// stopped is the error of a list of which some are set already.
func stopped(err error, done *ExceptionsSet, p *ExceptionBatch) error {
	bad, ok := errors.AsType[*Error](err)
	if !ok {
		bad = unavailable(err, "its time was over")
	}
	if done.Set == 0 {
		return bad
	}
	e := *bad
	e.Text = fmt.Sprintf("%d of %d exceptions are set, up to line %d, and stay; send the whole list again, which does no harm. It stopped because of this: %s", done.Set, len(p.List), p.line(done.Set-1), bad.Text)
	return &e
}

// checkExceptions looks through a list, and changes nothing. alone is how many the actor would set alone in a domain under review.
func (s *Store) checkExceptions(ctx context.Context, by Actor, a attempt, p *ExceptionBatch, now time.Time) (alone int, err error) {
	if err := checkName("actor", by.Name); err != nil {
		return 0, err
	}
	err = s.look(ctx, func(raw *sql.Tx) error {
		t := &tx{Tx: raw, by: by, at: now.UnixMicro(), reason: a.reason}
		if err := raw.QueryRowContext(ctx, `SELECT `+s.clock).Scan(&t.clock); err != nil {
			return err
		}
		w, err := s.granting(ctx, t, a.domain)
		if err != nil {
			return err
		}
		w.dry = true
		switch {
		case len(p.List) > MaxExceptionBatch:
			return invalid("lines", "there are over %d exceptions, and so many may come in one call; nothing was changed: send them in parts", MaxExceptionBatch)
		case len(p.List) == 0 && p.bad.all == 0:
			return invalid("lines", "there are no exceptions; send a line for each exception, below the names of the columns")
		}
		if err := checkReason(a.reason, true); err != nil {
			return err
		}
		bad, err := w.checkList(ctx, p)
		if err == nil {
			err = bad.err()
		}
		if err == nil {
			err = w.limitsFit(ctx)
		}
		alone = w.some
		return err
	})
	return alone, err
}

// checkList finds what is wrong with a list.
func (w *granting) checkList(ctx context.Context, p *ExceptionBatch) (bad lineErrors, err error) {
	bad = p.bad
	seen, fits := make(map[string]int, len(p.List)), map[string]error{}
	for begin := 0; begin < len(p.List); begin += exceptionChunk {
		some, faults, err := w.prepare(ctx, p.List[begin:min(begin+exceptionChunk, len(p.List))])
		if err != nil {
			return bad, err
		}
		for i, fault := range faults {
			line := p.line(begin + i)
			if fault != nil {
				bad.add(line, fault.Error())
				continue
			}
			g := some[0]
			some = some[1:]
			if before := seen[g.count]; before != 0 {
				bad.add(line, fmt.Sprintf("is for the same key as line %d; leave one of them out", before))
				continue
			}
			seen[g.count] = line
			unfit, known := fits[g.Limit]
			if !known && p.Fits != nil {
				unfit = p.Fits(g.Limit)
				fits[g.Limit] = unfit
			}
			if unfit != nil {
				bad.add(line, unfit.Error())
			}
		}
	}
	return bad, nil
}

// setPart sets the next exceptions of a list, for as long as others may wait.
func (s *Store) setPart(ctx context.Context, t *tx, a attempt, p *ExceptionBatch, now time.Time, done *ExceptionsSet) error {
	begun, first := time.Now(), done.Set
	w, err := s.granting(ctx, t, a.domain)
	if err != nil {
		return err
	}
	w.now = now.UnixMicro() // when it was checked: what ends soon may have ended since
	for done.Set < len(p.List) && (done.Set == first || time.Since(begun) < s.hold) {
		chunk := p.List[done.Set:min(done.Set+exceptionChunk, len(p.List))]
		some, faults, err := w.prepare(ctx, chunk)
		if err != nil {
			return err
		}
		for i, fault := range faults { // the rules are others by now, or the actor may less
			if fault != nil {
				return &Error{Kind: Stale, Field: "lines", Text: fmt.Sprintf("line %d: %v", p.line(done.Set+i), fault)}
			}
		}
		if err := w.write(ctx, some); err != nil {
			return err
		}
		done.Set += len(chunk)
	}
	done.Unreviewed += w.some
	v := a.event("")
	v.Team = w.domain.Team
	v.Reason = fmt.Sprintf("%s: %s", counted(int64(done.Set-first), "exception"), a.reason)
	if whole := len(p.List); done.Set-first < whole {
		v.Reason = fmt.Sprintf("%d of %s, after %d: %s", done.Set-first, counted(int64(whole), "exception"), first, a.reason)
	}
	return w.end(ctx, v)
}

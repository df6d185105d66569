package rulestore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

const exceptionColumns = `id, domain, rule, entries, of_limit, limit_text, made, ends, author, reason, second, unreviewed FROM exceptions`

func scanException(found row) (e Exception, err error) {
	var entries string
	var made, ends int64
	err = found.Scan(&e.ID, &e.Domain, &e.Rule, &entries, &e.Of, &e.Limit, &made, &ends, &e.Author, &e.Reason, &e.Second, &e.Unreviewed)
	if err != nil {
		return e, err
	}
	e.Made, e.Until = moment(made), moment(ends)
	return e, json.Unmarshal([]byte(entries), &e.Entries)
}

// Exception is the one of an id that has not ended. It fails as NotFound.
func (s *Store) Exception(ctx context.Context, id string) (Exception, error) {
	return s.oneException(ctx, `id = $1`, printable(id, MaxName), clip(id))
}

// ExceptionOf is the one of a count. It fails as NotFound.
func (s *Store) ExceptionOf(ctx context.Context, at weir.StateKey) (Exception, error) {
	return s.oneException(ctx, `count = $1`, countID(at), "of this key")
}

func (s *Store) oneException(ctx context.Context, where, value, called string) (Exception, error) {
	e, err := scanException(s.read.QueryRowContext(ctx, `SELECT `+exceptionColumns+` WHERE `+where+` AND ends > `+s.clock, value))
	if isNone(err) {
		return e, notFound("there is no exception %s, or it has ended", called)
	}
	return e, s.failed(err)
}

// ExceptionList asks for exceptions that have not ended.
type ExceptionList struct {
	Domain string   // of this domain; empty: of all
	Rules  []string // of these rules of Domain; nil: of all
	Search string   // whose entries have this in them
	// BehindName and Behind are the name and the ID of the last of the page before; empty: from the first.
	BehindName, Behind string
	Limit              int // at most so many; 0: MaxPage
}

// Exceptions lists exceptions by the words of their requests.
func (s *Store) Exceptions(ctx context.Context, q ExceptionList) (list []Exception, err error) {
	args := []any{printable(q.BehindName, maxExceptionName), printable(q.Behind, MaxName), page(q.Limit)}
	where := `ends > ` + s.clock + ` AND (name > $1 OR name = $1 AND id > $2)`
	add := func(condition string, value any) {
		args = append(args, value)
		where += fmt.Sprintf(" AND "+condition, len(args))
	}
	if q.Domain != "" {
		add("domain = $%d", printable(q.Domain, MaxName+1))
	}
	if q.Search != "" {
		add("REPLACE(name, $%[1]d, '') <> name", printable(q.Search, maxExceptionName))
	}
	if q.Rules != nil {
		marks := make([]string, len(q.Rules))
		for i, id := range q.Rules {
			args = append(args, printable(id, MaxID+1))
			marks[i] = fmt.Sprintf("$%d", len(args))
		}
		where += ` AND rule IN (` + strings.Join(append(marks, "''"), ", ") + `)`
	}
	list, err = find(ctx, s.read, scanException, `SELECT `+exceptionColumns+` WHERE `+where+` ORDER BY name, id LIMIT $3`, args...)
	return list, s.failed(err)
}

// maxExceptionName is how much of the entries of an exception lists are sorted and searched by, in bytes.
const maxExceptionName = 256

// ExceptionsHeld is how many exceptions hold for a rule of a domain, or with no rule for all of the domain.
func (s *Store) ExceptionsHeld(ctx context.Context, domain, rule string) (n int64, err error) {
	n, err = count(ctx, s.read, "exceptions", ` WHERE domain = $1 AND ($2 = '' OR rule = $2) AND ends > `+s.clock, printable(domain, MaxName+1), printable(rule, MaxID+1))
	return n, s.failed(err)
}

// Granted is exceptions as nodes follow them.
type Granted struct {
	Revision int64
	// Changed are those that were set or ended since; one that has ended has no Limit.
	Changed []rules.Exception
	// Anew tells that they are all there are.
	Anew bool
	// Unread are those of Changed with a limit that this Weir can't read: they have no effect.
	Unread []weir.StateKey
}

// clockStep is by how much the clock of a node may differ from the database's, and exceptions still end at the time that they tell.
const clockStep = time.Second

// Granted is the exceptions that were changed behind a revision, at one moment; 0 or less brings all. The database's clock says which have ended, and
// each is given the time of its end by the clock of this node, whose time is now: nodes end it together, to clockStep.
func (s *Store) Granted(ctx context.Context, behind int64, now time.Time) (g Granted, err error) {
	err = s.look(ctx, func(tx *sql.Tx) error {
		var floor, clock int64
		if err := tx.QueryRowContext(ctx, `SELECT revision, exceptions_floor, `+s.clock+` FROM counters`).Scan(&g.Revision, &floor, &clock); err != nil {
			return err
		}
		g.Anew = behind <= 0 || behind < floor || g.Revision < behind
		if g.Anew {
			behind = 0
		}
		return g.read(ctx, tx, behind, clock, now.Sub(moment(clock)).Round(clockStep))
	})
	return g, err
}

// read reads rows at a time by the database's clock; the node's is ahead of it. Few different limits and rules stand in many: each is kept once.
func (g *Granted) read(ctx context.Context, q queryer, behind, now int64, ahead time.Duration) error {
	limits, places := map[string]*weir.Limit{}, map[string]string{}
	where, args := `ends > $1`, []any{now}
	if !g.Anew {
		where, args = `revision > $1`, []any{behind}
	}
	return each(ctx, q, func(found row) error {
		var place, key, text string
		var ends int64
		if err := found.Scan(&place, &key, &text, &ends); err != nil {
			return err
		}
		raw, err := hex.DecodeString(key)
		if err != nil {
			return fmt.Errorf("the key of an exception is damaged: %w", err)
		}
		if same, ok := places[place]; ok {
			place = same
		} else {
			places[place] = place
		}
		e := rules.Exception{State: weir.StateKey{Rule: place, Key: string(raw)}, Until: weir.Instant(ends + ahead.Microseconds())}
		if ends > now {
			l, known := limits[text]
			if !known {
				if l, err = weir.ParseLimit(text); err != nil {
					l = nil
				}
				limits[text] = l
			}
			if e.Limit = l; l == nil { // a newer Weir wrote it
				g.Unread = append(g.Unread, e.State)
			}
		}
		g.Changed = append(g.Changed, e)
		return nil
	}, `SELECT place, key, limit_text, ends FROM exceptions WHERE `+where, args...)
}

// Exceptions narrows a list to what the scope has, and is whether that is anything. A list of all domains is of the
// scope that has all.
func (s *Scope) Exceptions(q *ExceptionList) bool {
	if s.All || slices.Contains(s.Domains, q.Domain) {
		return true
	}
	own := []string{}
	for _, r := range s.Rules {
		if r.Domain == q.Domain && (q.Rules == nil || slices.Contains(q.Rules, r.ID)) {
			own = append(own, r.ID)
		}
	}
	if q.Domain == "" || len(own) == 0 {
		return false
	}
	q.Rules = own
	return true
}

// SortName is what lists are sorted by before the ID.
func (e *Exception) SortName() string { return printable(e.Name(), maxExceptionName) }

package rulestore

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// Exception is a limit of its own for one key of a rule, for a time. The API gives it as it is.
type Exception struct {
	ID     string `json:"id"` // names it in lists, in the audit and to EndException
	Domain string `json:"domain"`
	Rule   string `json:"rule"` // Rule.ID of the rule that requests with Entries meet
	// Entries are those of a descriptor of the requests that it is for.
	Entries []Entry `json:"entries"`
	// Of says which limit it is in place of, where the rule has several: its name, or its text.
	Of    string    `json:"of,omitempty"`
	Limit string    `json:"limit"`
	Made  time.Time `json:"made"`
	Until time.Time `json:"until"`
	// Author made it, and Second confirmed it in a domain under review; empty: nobody did. Unreviewed is whether
	// Author did it alone there.
	Author     string `json:"author"`
	Reason     string `json:"reason"`
	Second     string `json:"second,omitempty"`
	Unreviewed bool   `json:"unreviewed,omitempty"`
}

// Entry is a key of a request and its value.
type Entry struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Entries are those of a request.
func Entries(list []rules.Entry) []Entry {
	entries := make([]Entry, len(list))
	for i, one := range list {
		entries[i] = Entry(one)
	}
	return entries
}

// Request is the entries of its requests, for rules.
func (e *Exception) Request() []rules.Entry {
	entries := make([]rules.Entry, len(e.Entries))
	for i, one := range e.Entries {
		entries[i] = rules.Entry(one)
	}
	return entries
}

// By is who made it, and who confirmed it.
func (e *Exception) By() string {
	if e.Second == "" {
		return e.Author
	}
	return e.Author + " and " + e.Second
}

// Name is the entries for people: user=4711 path=/export.
func (e *Exception) Name() string {
	var words []string
	for _, one := range e.Entries {
		words = append(words, one.Key+"="+one.Value)
	}
	return strings.Join(words, " ")
}

// The bounds of exceptions. Beyond one, a call is refused.
const (
	// MaxException is the longest time that an exception may hold.
	MaxException = 92 * 24 * time.Hour
	// MaxExceptions is how many there may be in a database, with those that have ended in the last hour.
	MaxExceptions = 1_000_000
	// MaxExceptionLimits is how many different limits they may have, counted for each rule by itself: a node keeps
	// each of these once.
	MaxExceptionLimits = 10_000
	// MaxExceptionBatch is how many can be set in one call.
	MaxExceptionBatch = 50_000
)

// The actions of exceptions in the audit. No line has the words of a client: it has the id of the exception, which those
// look up that may read about the clients of its rule.
const (
	exceptionSet    = "exception.set"
	exceptionEnd    = "exception.end"
	exceptionImport = "exception.import"
)

// forgetEnded is for how long an exception stays in the database that has ended, so that nodes hear of it one by one. A node
// that was away for longer reads all.
const forgetEnded = time.Hour

// SetException gives the requests that have e.Entries as a descriptor e.Limit in place of the limit of the rule that they meet, until e.Until. It
// takes the place of an exception that they have. The use so far stays counted, now and when it ends. It takes the role
// Publish for the rule's team or the domain's. In a domain under review one person alone can do it for MaxUnreviewed, as Override
// has it; another person that does the same confirms it.
func (s *Store) SetException(ctx context.Context, by Actor, e Exception) (Exception, error) {
	a := attempt{action: exceptionSet, domain: e.Domain, reason: e.Reason, clients: true}
	var done Exception
	err := s.change(ctx, by, a, func(t *tx) error {
		w, err := s.granting(ctx, t, e.Domain)
		if err != nil {
			return err
		}
		if done, err = w.set(ctx, e); err != nil {
			return err
		}
		return w.end(ctx, a, &done, 1)
	})
	return done, err
}

// LineError says what is wrong in a line of a list.
type LineError struct {
	Line int // from 1
	Text string
}

// maxLineErrors is how many wrong lines are told.
const maxLineErrors = 100

// BadLines is the error of lines that are wrong. It has all of them in words, or the first hundred.
func BadLines(bad []LineError) *Error {
	var text strings.Builder
	text.WriteString(counted(int64(len(bad)), "line") + " can't be used, and nothing was changed:")
	for _, b := range bad[:min(len(bad), maxLineErrors)] {
		fmt.Fprintf(&text, "\nline %d: %s", b.Line, b.Text)
	}
	return &Error{Kind: Invalid, Field: "lines", Text: text.String()}
}

// ExceptionBatch is exceptions of one domain that are set together, or none.
type ExceptionBatch struct {
	Domain string
	List   []Exception // one without a Reason has that of the batch
	Lines  []int       // where each stands in a text of the caller's; nil: they stand line by line
	Reason string
	Dry    bool // nothing is changed
}

// Line is where the i-th stands.
func (p *ExceptionBatch) Line(i int) int {
	if i < len(p.Lines) {
		return p.Lines[i]
	}
	return i + 1
}

// SetExceptions sets many together, or none when one of them is wrong: then it tells all that are, a hundred at most. Each is
// as SetException has it. The audit has one line about all.
func (s *Store) SetExceptions(ctx context.Context, by Actor, p ExceptionBatch) (bad []LineError, err error) {
	a := attempt{action: exceptionImport, domain: p.Domain, reason: p.Reason, clients: true, dry: p.Dry}
	err = s.change(ctx, by, a, func(t *tx) (err error) {
		bad, err = s.setAll(ctx, t, a, &p)
		return err
	})
	return bad, err
}

func (s *Store) setAll(ctx context.Context, t *tx, a attempt, p *ExceptionBatch) (bad []LineError, err error) {
	switch {
	case len(p.List) > MaxExceptionBatch:
		return nil, &Error{Kind: Quota, Field: "lines", Text: fmt.Sprintf("there are %d exceptions, and %d may come in one call; send them in parts", len(p.List), MaxExceptionBatch)}
	case len(p.List) == 0:
		return nil, invalid("lines", "are none; send a line for each exception, below the names of the columns")
	}
	if err := checkReason(t.reason, true); err != nil {
		return nil, err
	}
	w, err := s.granting(ctx, t, a.domain)
	if err != nil {
		return nil, err
	}
	var last Exception
	seen := map[string]int{}
	for i := range p.List {
		e := p.List[i]
		e.Reason = cmp.Or(e.Reason, t.reason)
		done, err := w.set(ctx, e)
		if wrong, ok := err.(*Error); ok && wrong.Kind != Unavailable && wrong.Kind != Quota { //nolint:errorlint // as set gives it
			bad = append(bad, LineError{p.Line(i), wrong.Error()})
		} else if err != nil {
			return nil, err
		} else if before := seen[done.ID]; before != 0 {
			bad = append(bad, LineError{p.Line(i), fmt.Sprintf("is for the same key as line %d; leave one of them out", before)})
		} else {
			seen[done.ID], last = p.Line(i), done
		}
		if len(bad) >= maxLineErrors {
			break
		}
	}
	if len(bad) > 0 {
		return bad, BadLines(bad)
	}
	return nil, w.end(ctx, a, &last, len(p.List))
}

// granting makes exceptions of one domain, in one change.
type granting struct {
	*tx

	domain Domain
	active *rules.Set
	teams  map[string]string // of rules, by ID
	limits map[string]*weir.Limit
	known  map[weir.StateKey]bool // limits (as Key) that exceptions of a rule have
	news   bool                   // some have a limit that none had
	made   int64
	alone  bool  // one was set by one person alone, in a domain under review
	room   int64 // how many more there may be
}

// parsed is the active rules of a domain at a revision.
type parsed struct {
	domain   string
	revision int64
	set      *rules.Set
}

func (s *Store) granting(ctx context.Context, t *tx, domain string) (*granting, error) {
	if t.by.Role < Publish { // before a large domain is read for nothing
		return nil, t.by.need(Publish, "make exceptions")
	}
	d, err := t.domain(ctx, domain)
	if err != nil {
		return nil, err
	}
	w := &granting{tx: t, domain: d, teams: map[string]string{}, limits: map[string]*weir.Limit{}, known: map[weir.StateKey]bool{}}
	var n int64
	if err := t.QueryRowContext(ctx, `SELECT exceptions FROM counters`).Scan(&n); err != nil {
		return nil, err
	}
	w.room = MaxExceptions - n
	w.active, err = s.activeRules(ctx, t, d)
	return w, err
}

// activeRules is the active rules of a domain as they are written. Those of the last domain that was asked for are kept.
func (s *Store) activeRules(ctx context.Context, q queryer, d Domain) (*rules.Set, error) {
	if p := s.parsed.Load(); p != nil && p.domain == d.Name && p.revision == d.Revision {
		return p.set, nil
	}
	list, err := documents(ctx, q, []Domain{d}, d.Name)
	if err != nil {
		return nil, err
	}
	set, err := rules.Parse("database/"+d.Name+".yaml", []byte(list[0].File))
	if err != nil {
		return nil, refused(err)
	}
	s.parsed.Store(&parsed{d.Name, d.Revision, set})
	return set, nil
}

// ActiveRules is the active rules of a domain as they are written, which may have no effect on a node yet. It fails as NotFound.
func (s *Store) ActiveRules(ctx context.Context, domain string) (set *rules.Set, err error) {
	err = s.look(ctx, func(tx *sql.Tx) error {
		d, err := findDomain(ctx, tx, domain)
		if err != nil {
			return err
		}
		set, err = s.activeRules(ctx, tx, d)
		return err
	})
	return set, err
}

// set makes one exception.
func (w *granting) set(ctx context.Context, e Exception) (Exception, error) {
	if err := checkReason(e.Reason, true); err != nil {
		return e, err
	}
	until := e.Until.UnixMicro()
	switch {
	case until <= w.at:
		return e, invalid("until", "is over already; write a time to come")
	case e.Until.Sub(moment(w.at)) > MaxException:
		return e, invalid("until", "is more than %d days away; write a rule for it instead", MaxException/(24*time.Hour))
	}
	if err := checkEntries(e.Entries); err != nil {
		return e, err
	}
	limit, err := w.limit(e.Limit)
	if err != nil {
		return e, err
	}
	r, key, err := w.active.Grantable(w.domain.Name, e.Request(), e.Of)
	if err != nil {
		return e, &Error{Kind: NotFound, Field: "entries", Text: err.Error()}
	}
	if err := r.Bears(limit); err != nil {
		return e, invalid("limit", "%v", err)
	}
	e.Domain, e.Rule, e.Limit = w.domain.Name, r.Path[0].ID(), limit.String()
	e.Until, e.Made, e.Author = moment(until), moment(w.at), w.by.Name
	if err := w.mayGrant(ctx, e.Rule); err != nil {
		return e, err
	}
	return e, w.write(ctx, &e, r.State(key))
}

// mayGrant is whether the actor may make exceptions of a rule.
func (w *granting) mayGrant(ctx context.Context, rule string) error {
	team, known := w.teams[rule]
	if !known {
		r, err := w.rule(ctx, w.domain.Name, rule)
		if err != nil {
			return err
		}
		team = r.Team
		w.teams[rule] = team
	}
	return w.by.need(Publish, "make an exception of rule "+nameOf(rule), team, w.domain.Team)
}

func (w *granting) limit(text string) (*weir.Limit, error) {
	if l := w.limits[text]; l != nil {
		return l, nil
	}
	if strings.EqualFold(strings.TrimSpace(text), "unlimited") {
		return nil, invalid("limit", "can't be unlimited, for then nobody would see what the client uses; write a limit that is never reached, as 1000000/s")
	}
	l, err := weir.ParseLimit(text)
	if err != nil {
		return nil, invalid("limit", "%v", err)
	}
	w.limits[text] = l
	return l, nil
}

// checkEntries refuses words that a database or a person can't read.
func checkEntries(entries []Entry) error {
	if n := len(entries); n < 1 || n > rules.MaxEntries {
		return invalid("entries", "there are %d; there must be 1…%d, as the rule has keys", n, rules.MaxEntries)
	}
	for _, e := range entries {
		for _, word := range []string{e.Key, e.Value} {
			switch {
			case len(word) > rules.MaxWord:
				return invalid("entries", "%s… has %d bytes; a key or value may have %d", clip(word), len(word), rules.MaxWord)
			case !utf8.ValidString(word):
				return invalid("entries", "%q is not UTF-8", clip(printable(word, MaxName)))
			}
			if i := strings.IndexFunc(word, unicode.IsControl); i >= 0 {
				return invalid("entries", "%q has a control character; an exception can't be made of such a value", clip(word))
			}
		}
	}
	return nil
}

// countID is what a count is called in the table: nobody can ask for it by guessing names.
func countID(k weir.StateKey) string {
	sum := sha256.Sum256([]byte(k.Rule + "\x00" + k.Key))
	return hex.EncodeToString(sum[:16])
}

// write puts an exception in the place of the one that the count had.
func (w *granting) write(ctx context.Context, e *Exception, at weir.StateKey) error {
	held, there, err := w.heldBy(ctx, e, at)
	if err != nil {
		return err
	}
	if w.domain.Review {
		o := Override{Domain: e.Domain, Until: e.Until, Author: e.Author, Reason: e.Reason}
		if err := w.review(ctx, &held, &o, held.Percent == 0); err != nil {
			return err
		}
		e.Author, e.Second, e.Unreviewed = o.Author, o.Second, o.Unreviewed
		w.alone = w.alone || e.Unreviewed
	}
	if !there {
		if err := w.roomForException(ctx); err != nil {
			return err
		}
		e.ID = strings.ToLower(rand.Text()[:16])
		w.made++
	}
	if known := (weir.StateKey{Rule: at.Rule, Key: e.Limit}); !w.known[known] {
		var some int
		err := w.QueryRowContext(ctx, `SELECT 1 FROM exceptions WHERE limit_of = $1 LIMIT 1`, countID(known)).Scan(&some)
		if err != nil && !isNone(err) {
			return err
		}
		w.known[known], w.news = true, w.news || err != nil
	}
	entries, err := json.Marshal(e.Entries)
	if err != nil {
		return err
	}
	err = w.exec(ctx, `
		INSERT INTO exceptions (count, id, domain, rule, place, key, entries, name, of_limit, limit_text, limit_of, made, ends, author, reason, second, unreviewed, revision, early, deletion, kept)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, 0, 0, 0)
		ON CONFLICT (count) DO UPDATE SET entries = excluded.entries, name = excluded.name, of_limit = excluded.of_limit, limit_text = excluded.limit_text, limit_of = excluded.limit_of,
			made = excluded.made, ends = excluded.ends, author = excluded.author, reason = excluded.reason, second = excluded.second,
			unreviewed = excluded.unreviewed, revision = excluded.revision, early = 0, deletion = 0, kept = 0`,
		countID(at), e.ID, e.Domain, e.Rule, at.Rule, hex.EncodeToString([]byte(at.Key)), string(entries), e.SortName(), e.Of, e.Limit, countID(weir.StateKey{Rule: at.Rule, Key: e.Limit}),
		w.at, e.Until.UnixMicro(), e.Author, e.Reason, e.Second, number(e.Unreviewed), w.revision)
	if err != nil || !held.Unreviewed {
		return err
	}
	return w.cutUnreviewed(ctx, e.Domain, held.Author)
}

// heldBy is the exception that the count has, as review knows overrides: its Percent is 0 if it has the same limit. there is whether
// the table has one, also one that has ended; then e has its ID.
func (w *granting) heldBy(ctx context.Context, e *Exception, at weir.StateKey) (held Override, there bool, err error) {
	var ends int64
	var limit string
	err = w.QueryRowContext(ctx, `SELECT id, limit_text, ends, author, second, unreviewed FROM exceptions WHERE count = $1`, countID(at)).
		Scan(&e.ID, &limit, &ends, &held.Author, &held.Second, &held.Unreviewed)
	switch {
	case isNone(err):
		return Override{}, false, nil
	case err != nil:
		return held, false, err
	case ends <= w.clock:
		return Override{}, true, nil
	}
	held.Until = moment(ends)
	held.Percent = number(limit != e.Limit)
	return held, true, nil
}

// roomForException refuses one more than there may be, when those that have ended make no place.
func (w *granting) roomForException(ctx context.Context) error {
	if w.made < w.room {
		return nil
	}
	gone, err := w.forgetExceptions(ctx, w.clock)
	if err != nil {
		return err
	}
	if w.room += gone; w.made < w.room {
		return nil
	}
	return &Error{Kind: Quota, Field: "exception", Text: fmt.Sprintf("there are %d exceptions, and may not be more; end some, or write rules for them", MaxExceptions)}
}

// forgetExceptions drops those that had ended at a time. Nodes that have not heard of their last changes read all anew.
func (t *tx) forgetExceptions(ctx context.Context, ended int64) (gone int64, err error) {
	var floor int64
	if err := t.QueryRowContext(ctx, `SELECT COALESCE(MAX(revision), 0) FROM exceptions WHERE ends <= $1 AND deletion = 0`, ended).Scan(&floor); err != nil {
		return 0, err
	}
	done, err := t.ExecContext(ctx, `DELETE FROM exceptions WHERE ends <= $1 AND deletion = 0`, ended)
	if err != nil {
		return 0, err
	}
	if gone, err = done.RowsAffected(); err != nil || gone == 0 {
		return 0, err
	}
	return gone, t.exec(ctx, `UPDATE counters SET exceptions = exceptions - $1, exceptions_floor = CASE WHEN exceptions_floor < $2 THEN $2 ELSE exceptions_floor END`, gone, floor)
}

// end is behind the last of n exceptions that a change has made.
func (w *granting) end(ctx context.Context, a attempt, last *Exception, n int) error {
	if err := w.exec(ctx, `UPDATE counters SET exceptions = exceptions + $1`, w.made); err != nil {
		return err
	}
	if _, err := w.forgetExceptions(ctx, w.clock-forgetEnded.Microseconds()); err != nil {
		return err
	}
	if w.news {
		var limits int64
		if err := w.QueryRowContext(ctx, `SELECT COUNT(DISTINCT limit_of) FROM exceptions`).Scan(&limits); err != nil {
			return err
		}
		if limits > MaxExceptionLimits {
			return &Error{Kind: Quota, Field: "limit", Text: fmt.Sprintf("exceptions have %d different limits, and may not have more; write one that another exception of the rule has", MaxExceptionLimits)}
		}
	}
	v := a.event("")
	v.Team = w.domain.Team
	v.Reason = fmt.Sprintf("%s: %s", counted(int64(n), "exception"), a.reason)
	if a.action == exceptionSet {
		v.Rule, v.Team = last.Rule, w.teams[last.Rule]
		v.Reason = fmt.Sprintf("%s, %s until %s: %s", last.ID, last.Limit, last.Until.Format(time.RFC3339), a.reason)
		if last.Second != "" {
			v.Reason = fmt.Sprintf("%s, %s until %s, by %s and %s: %s", last.ID, last.Limit, last.Until.Format(time.RFC3339), last.Author, last.Second, a.reason)
		}
	}
	if w.alone {
		v.Action += ".unreviewed"
	}
	w.done = append(w.done, v)
	return nil
}

// EndException ends an exception before its time. It takes the role Publish for the rule's team or the domain's.
func (s *Store) EndException(ctx context.Context, by Actor, id, reason string) (Exception, error) {
	e, err := s.Exception(ctx, id)
	if err != nil {
		return e, err
	}
	a := attempt{action: exceptionEnd, domain: e.Domain, rule: e.Rule, reason: reason}
	var ended int64
	err = s.change(ctx, by, a, func(t *tx) error {
		if err := checkReason(reason, true); err != nil {
			return err
		}
		d, err := t.domain(ctx, e.Domain)
		if err != nil {
			return err
		}
		r, err := t.rule(ctx, e.Domain, e.Rule)
		if err != nil {
			return err
		}
		if err := by.need(Publish, "end an exception of rule "+nameOf(e.Rule), r.Team, d.Team); err != nil {
			return err
		}
		n, err := t.endExceptions(ctx, `id = $3`, printable(id, MaxName))
		if err != nil {
			return err
		}
		if ended = t.clock; n == 0 {
			return notFound("exception %s has ended already", clip(id))
		}
		if e.Unreviewed {
			if err := t.cutUnreviewed(ctx, e.Domain, e.Author); err != nil {
				return err
			}
		}
		v := a.event("")
		v.Team, v.Reason = r.Team, fmt.Sprintf("%s, %s: %s", e.ID, e.Limit, reason)
		t.done = append(t.done, v)
		return nil
	})
	if err == nil {
		e.Until = moment(ended)
	}
	return e, err
}

// endExceptions ends those that a condition tells, whose first argument is $3, and says how many did not have ended.
func (t *tx) endExceptions(ctx context.Context, where string, args ...any) (int64, error) {
	done, err := t.ExecContext(ctx, `UPDATE exceptions SET ends = $1, early = 1, revision = $2 WHERE ends > $1 AND `+where, append([]any{t.clock, t.revision}, args...)...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// keepExceptions ends those of a domain that is taken away, to be brought back with it.
func (t *tx) keepExceptions(ctx context.Context, domain string) error {
	return t.exec(ctx, `UPDATE exceptions SET kept = ends, deletion = $2, ends = $1, early = 1, revision = $2 WHERE ends > $1 AND domain = $3`, t.clock, t.revision, domain)
}

// bringBackExceptions brings back those that would not have ended meanwhile.
func (t *tx) bringBackExceptions(ctx context.Context, deletion int64) error {
	return t.exec(ctx, `UPDATE exceptions SET ends = kept, deletion = 0, kept = 0, early = 0, revision = $2 WHERE deletion = $3 AND kept > $1`, t.clock, t.revision, deletion)
}

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

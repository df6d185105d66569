package rulestore

import (
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
	MaxExceptionBatch = 100_000
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
		some, faults, err := w.prepare(ctx, []Exception{e})
		if err == nil {
			err = faults[0]
		}
		if err != nil {
			return err
		}
		if err := w.write(ctx, some); err != nil {
			return err
		}
		done = some[0].Exception
		v := a.event("")
		v.Rule, v.Team = done.Rule, w.teams[done.Rule]
		people := ""
		if done.Second != "" {
			people = ", by " + done.By()
		}
		v.Reason = fmt.Sprintf("%s, %s until %s%s: %s", done.ID, done.Limit, done.Until.Format(time.RFC3339), people, a.reason)
		return w.end(ctx, v)
	})
	return done, err
}

// granting makes exceptions of one domain, in one change, or looks whether that can be.
type granting struct {
	*tx

	dry    bool  // nothing is changed
	now    int64 // exceptions end behind this
	domain Domain
	active *rules.Set
	teams  map[string]string // of rules, by ID
	limits map[string]*weir.Limit
	known  map[weir.StateKey]bool // limits (as Key) that exceptions of a rule have
	fresh  int64                  // how many that none had before
	made   int64
	room   int64 // how many more there may be
	// alone is what the actor does alone in a domain under review, some exceptions of these; nil: nothing was yet.
	alone *unreviewed
	some  int
	// past are the authors of what they did alone, in whose place there is something else now.
	past map[string]bool
}

// grant is an exception that is to be set.
type grant struct {
	Exception

	state weir.StateKey // its count
	count string        // what the table calls that
	held  Override      // the exception that the count has, as review knows overrides: Percent is 0 if it has the same limit
	there bool          // the table has one of the count, also one that has ended
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
	w := &granting{tx: t, now: t.at, domain: d, teams: map[string]string{}, limits: map[string]*weir.Limit{}, known: map[weir.StateKey]bool{}, past: map[string]bool{}}
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

// prepare finds what exceptions would be, some of which may be wrong: faults says why, by their places, and the others are in its
// order. None is of the same key as another.
func (w *granting) prepare(ctx context.Context, list []Exception) (some []grant, faults []error, err error) {
	faults = make([]error, len(list))
	var places []int
	// wrong is whether err is of the i-th, and not of all.
	wrong := func(i int, err error) bool {
		bad, ok := err.(*Error) //nolint:errorlint // as check and reviewed give it
		if ok = ok && bad.Kind != Unavailable; ok {
			faults[i] = err
		}
		return ok
	}
	for i, e := range list {
		g, err := w.check(ctx, e)
		switch {
		case err == nil:
			some, places = append(some, g), append(places, i)
		case !wrong(i, err):
			return nil, nil, err
		}
	}
	if err := w.look(ctx, some); err != nil {
		return nil, nil, err
	}
	good := some[:0]
	for j := range some {
		err := w.reviewed(ctx, &some[j])
		switch {
		case err == nil:
			good = append(good, some[j])
		case !wrong(places[j], err):
			return nil, nil, err
		}
	}
	return good, faults, w.fit(ctx, good)
}

// check is whether an exception can be, by itself.
func (w *granting) check(ctx context.Context, e Exception) (grant, error) {
	if err := checkReason(e.Reason, true); err != nil {
		return grant{}, err
	}
	until := e.Until.UnixMicro()
	switch {
	case until <= w.now:
		return grant{}, invalid("until", "is over already; write a time to come")
	case e.Until.Sub(moment(w.at)) > MaxException:
		return grant{}, invalid("until", "is more than %d days away; write a rule for it instead", MaxException/(24*time.Hour))
	}
	if err := checkEntries(e.Entries); err != nil {
		return grant{}, err
	}
	limit, err := w.limit(e.Limit)
	if err != nil {
		return grant{}, err
	}
	r, key, err := w.active.Grantable(w.domain.Name, e.Request(), e.Of)
	if err != nil {
		return grant{}, &Error{Kind: NotFound, Field: "entries", Text: err.Error()}
	}
	if err := r.Bears(limit); err != nil {
		return grant{}, invalid("limit", "%v", err)
	}
	e.Domain, e.Rule, e.Limit = w.domain.Name, r.Path[0].ID(), limit.String()
	e.Until, e.Made, e.Author = moment(until), moment(w.at), w.by.Name
	g := grant{Exception: e, state: r.State(key)}
	g.count = countID(g.state)
	return g, w.mayGrant(ctx, e.Rule)
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

// look finds what the counts of exceptions have.
func (w *granting) look(ctx context.Context, some []grant) error {
	at := make(map[string]*grant, len(some))
	marks, args := make([]string, len(some)), make([]any, len(some))
	for i := range some {
		g := &some[i]
		g.held, g.there, g.ID = Override{}, false, ""
		at[g.count], marks[i], args[i] = g, fmt.Sprintf("$%d", i+1), g.count
	}
	if len(some) == 0 {
		return nil
	}
	return each(ctx, w, func(found row) error {
		var count, id, limit string
		var ends int64
		var held Override
		if err := found.Scan(&count, &id, &limit, &ends, &held.Author, &held.Second, &held.Unreviewed); err != nil {
			return err
		}
		g := at[count]
		if g.ID, g.there = id, true; ends > w.clock {
			held.Until, held.Percent = moment(ends), number(limit != g.Limit)
			g.held = held
		}
		return nil
	}, `SELECT count, id, limit_text, ends, author, second, unreviewed FROM exceptions WHERE count IN (`+strings.Join(marks, ", ")+`)`, args...)
}

// reviewed is whether an exception may be in a domain under review, and who stands behind it.
func (w *granting) reviewed(ctx context.Context, g *grant) (err error) {
	if !w.domain.Review {
		return nil
	}
	o := Override{Domain: g.Domain, Until: g.Until, Author: g.Author, Reason: g.Reason}
	w.stand(&g.held, &o, g.held.Percent == 0)
	if o.Unreviewed {
		if w.alone == nil {
			if w.alone, err = w.doneAlone(ctx, g.Domain); err != nil {
				return err
			}
		}
		if err := w.alone.add(o.Until); err != nil {
			return err
		}
		w.some++
	}
	g.Author, g.Second, g.Unreviewed = o.Author, o.Second, o.Unreviewed
	return nil
}

// fit refuses more exceptions, or more limits of them, than there may be.
func (w *granting) fit(ctx context.Context, some []grant) error {
	more := int64(0)
	for i := range some {
		if g := &some[i]; !g.there {
			more++
		}
	}
	if w.made+more > w.room {
		gone, err := w.makeRoom(ctx)
		if err != nil {
			return err
		}
		if w.room += gone; gone > 0 && !w.dry { // what has ended is not there any more
			if err := w.look(ctx, some); err != nil {
				return err
			}
			more = 0
			for i := range some {
				more += 1 - number(some[i].there)
			}
		}
		if w.made+more > w.room {
			return &Error{Kind: Quota, Field: "exception", Text: fmt.Sprintf("there may be %d exceptions, and these would be more; end some, or write rules for them", MaxExceptions)}
		}
	}
	w.made += more
	for i := range some {
		known := weir.StateKey{Rule: some[i].state.Rule, Key: some[i].Limit}
		if w.known[known] {
			continue
		}
		var one int
		err := w.QueryRowContext(ctx, `SELECT 1 FROM exceptions WHERE limit_of = $1 LIMIT 1`, countID(known)).Scan(&one)
		if err != nil && !isNone(err) {
			return err
		}
		w.known[known] = true
		if w.fresh += number(err != nil); w.fresh > MaxExceptionLimits {
			return tooManyLimits()
		}
	}
	return nil
}

func tooManyLimits() error {
	return &Error{Kind: Quota, Field: "limit", Text: fmt.Sprintf("exceptions may have %d different limits, and with these they would have more; write one that another exception of the rule has", MaxExceptionLimits)}
}

// makeRoom forgets the exceptions that have ended, or only counts them.
func (w *granting) makeRoom(ctx context.Context) (gone int64, err error) {
	if w.dry {
		return count(ctx, w, "exceptions", ` WHERE ends <= $1 AND deletion = 0`, w.clock)
	}
	return w.forgetExceptions(ctx, w.clock)
}

// exceptionRows is how many exceptions one statement writes: SQLite's library compares each value's number with those of all before it.
const exceptionRows = 8

// write puts exceptions in the place of those that their counts had.
func (w *granting) write(ctx context.Context, some []grant) error {
	for part := range slices.Chunk(some, exceptionRows) {
		args := []any{w.domain.Name, w.revision, w.at}
		var values strings.Builder
		for i := range part {
			g := &part[i]
			if !g.there {
				g.ID = strings.ToLower(rand.Text()[:16])
			}
			if g.held.Unreviewed {
				w.past[g.held.Author] = true
			}
			entries, err := json.Marshal(g.Entries)
			if err != nil {
				return err
			}
			if i > 0 {
				values.WriteString(", ")
			}
			values.WriteString("($1, $2, $3, 0, 0, 0")
			for _, value := range []any{
				g.count, g.ID, g.Rule, g.state.Rule, hex.EncodeToString([]byte(g.state.Key)), string(entries), g.SortName(), g.Of, g.Limit,
				countID(weir.StateKey{Rule: g.state.Rule, Key: g.Limit}), g.Until.UnixMicro(), g.Author, g.Reason, g.Second, number(g.Unreviewed),
			} {
				args = append(args, value)
				fmt.Fprintf(&values, ", $%d", len(args))
			}
			values.WriteString(")")
		}
		err := w.exec(ctx, `
			INSERT INTO exceptions (domain, revision, made, early, deletion, kept, count, id, rule, place, key, entries, name, of_limit, limit_text, limit_of, ends, author, reason, second, unreviewed)
			VALUES `+values.String()+`
			ON CONFLICT (count) DO UPDATE SET entries = excluded.entries, name = excluded.name, of_limit = excluded.of_limit, limit_text = excluded.limit_text, limit_of = excluded.limit_of,
				made = excluded.made, ends = excluded.ends, author = excluded.author, reason = excluded.reason, second = excluded.second,
				unreviewed = excluded.unreviewed, revision = excluded.revision, early = 0, deletion = 0, kept = 0`, args...)
		if err != nil {
			return err
		}
	}
	return nil
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

// end is behind the last exception that a change makes, which v tells of in the audit.
func (w *granting) end(ctx context.Context, v Event) error {
	if w.alone != nil {
		if err := w.countUnreviewed(ctx, w.alone); err != nil {
			return err
		}
		v.Action += ".unreviewed"
	}
	for author := range w.past {
		if err := w.cutUnreviewed(ctx, w.domain.Name, author); err != nil {
			return err
		}
	}
	if err := w.exec(ctx, `UPDATE counters SET exceptions = exceptions + $1`, w.made); err != nil {
		return err
	}
	if _, err := w.forgetExceptions(ctx, w.clock-forgetEnded.Microseconds()); err != nil {
		return err
	}
	w.done = append(w.done, v)
	return w.limitsFit(ctx)
}

// limitsFit refuses more different limits than there may be, by all that are in the table. Those that are to come count beside them.
func (w *granting) limitsFit(ctx context.Context) error {
	if w.fresh == 0 {
		return nil
	}
	var limits int64
	if err := w.QueryRowContext(ctx, `SELECT COUNT(DISTINCT limit_of) FROM exceptions`).Scan(&limits); err != nil {
		return err
	}
	if w.dry {
		limits += w.fresh
	}
	if limits > MaxExceptionLimits {
		return tooManyLimits()
	}
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

package rulestore

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"
)

// Event is a line of the audit: a change, or one that was refused. The API gives it as it is.
type Event struct {
	Seq      int64     `json:"seq"`                // 1, 2, 3 …
	Revision int64     `json:"revision,omitempty"` // of the change; 0: it changed no rule
	At       time.Time `json:"at"`                 // UTC, in microseconds
	Actor    string    `json:"actor"`
	Token    string    `json:"token,omitempty"` // Token.ID; empty: none was shown
	Team     string    `json:"team,omitempty"`  // whose thing it was; empty: nobody's
	Action   string    `json:"action"`          // as create, publish, token.revoke
	Domain   string    `json:"domain,omitempty"`
	Rule     string    `json:"rule,omitempty"`    // empty: the domain, or what stands before its rules
	Version  int64     `json:"version,omitempty"` // 0: none
	Reason   string    `json:"reason,omitempty"`
	Refused  string    `json:"refused,omitempty"` // why it was refused; empty: it was done
}

func (a *attempt) event(refused string) Event {
	return Event{Action: a.action, Team: a.team, Domain: a.domain, Rule: a.rule, Version: a.version, Reason: a.reason, Refused: refused}
}

// maxRefused is how much of a refusal the audit keeps, in bytes.
const maxRefused = 1000

// audit adds a line.
func (t *tx) audit(ctx context.Context, e Event) error {
	if err := t.exec(ctx, `UPDATE counters SET audited = audited + 1`); err != nil {
		return err
	}
	return t.exec(ctx, `
		INSERT INTO audit (seq, revision, at, actor, token, team, action, domain, rule, version, reason, refused)
		SELECT audited, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11 FROM counters`,
		t.revision, t.at, t.by.Name, t.by.Token, e.Team, e.Action, e.Domain, e.Rule, e.Version, e.Reason, e.Refused)
}

// auditTime is how long a refusal may take to come into the audit.
const auditTime = 5 * time.Second

// Refused audits what was refused before the store was asked, as by a guard; also when the caller
// has not waited for the answer.
func (s *Store) Refused(ctx context.Context, by Actor, e Event) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), auditTime)
	defer stop()
	e.Action, e.Domain, e.Rule, e.Reason = printable(e.Action, MaxName), printable(e.Domain, MaxName), printable(e.Rule, MaxID), printable(e.Reason, MaxReason)
	e.Refused, by.Name, e.Team = printable(e.Refused, maxRefused), printable(by.Name, MaxName), printable(e.Team, MaxName)
	return s.failed(transact(ctx, s.write, func(raw *sql.Tx) error {
		t := &tx{Tx: raw, by: by, at: time.Now().UnixMicro()}
		return t.audit(ctx, e)
	}))
}

// Audited asks for lines of the audit.
type Audited struct {
	Behind  int64  // lines with a Seq over this; 0: from the first
	Before  int64  // lines with a Seq under this, the newest first; 0: the oldest first
	Domain  string // of this domain; empty: of all, and of none
	Rule    string // of this rule of Domain; empty: of all
	Changes bool   // only what was done to rules
	Limit   int    // at most so many; 0: MaxPage
}

// MaxPage is how many things are listed at a time.
const MaxPage = 1000

// page is a number of things to list.
func page(limit int) int {
	if limit <= 0 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// Audit lists lines of the audit.
func (s *Store) Audit(ctx context.Context, q Audited) (list []Event, err error) {
	where, args := []string{"seq > $1"}, []any{q.Behind}
	add := func(condition string, value any) { // only what is asked for, so that an index is found
		args = append(args, value)
		where = append(where, condition+"$"+strconv.Itoa(len(args)))
	}
	order := " ORDER BY seq"
	if q.Before > 0 {
		add("seq < ", q.Before)
		order += " DESC"
	}
	if q.Domain != "" {
		add("domain = ", printable(q.Domain, MaxName+1))
	}
	if q.Rule != "" {
		add("rule = ", printable(q.Rule, MaxID+1))
	}
	if q.Changes {
		where = append(where, "revision > 0")
	}
	list, err = find(ctx, s.read, scanEvent, `
		SELECT seq, revision, at, actor, token, team, action, domain, rule, version, reason, refused FROM audit
		WHERE `+strings.Join(where, " AND ")+order+` LIMIT `+strconv.Itoa(page(q.Limit)), args...)
	return list, s.failed(err)
}

func scanEvent(found row) (e Event, err error) {
	var at int64
	err = found.Scan(&e.Seq, &e.Revision, &at, &e.Actor, &e.Token, &e.Team, &e.Action, &e.Domain, &e.Rule, &e.Version, &e.Reason, &e.Refused)
	e.At = moment(at)
	return e, err
}

// moment is the time of microseconds since 1970.
func moment(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// number is a bool as the database has it.
func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

package rulestore

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"
)

// Event is a line of the audit: what was done, or was refused. Lines are a chain: each has the hash of the one before. The API gives it as it is.
type Event struct {
	Seq      int64     `json:"seq"`                // 1, 2, 3 …
	Revision int64     `json:"revision,omitempty"` // of the change; 0: it changed no rule
	At       time.Time `json:"at"`                 // UTC, in microseconds, by the clock of the node
	Actor    string    `json:"actor"`              // empty: nobody who is known
	Token    string    `json:"token,omitempty"`    // Token.ID; empty: none was shown
	Teams    []string  `json:"actor_teams,omitempty"`
	Address  string    `json:"address,omitempty"` // Actor.Address
	Team     string    `json:"team,omitempty"`    // whose thing it was; empty: nobody's
	Action   string    `json:"action"`            // one of Actions
	Domain   string    `json:"domain,omitempty"`
	Rule     string    `json:"rule,omitempty"`    // empty: the domain, or what stands before its rules
	Version  int64     `json:"version,omitempty"` // 0: none
	Reason   string    `json:"reason,omitempty"`
	Refused  string    `json:"refused,omitempty"`  // why it was refused; empty: it was done
	Withheld bool      `json:"withheld,omitempty"` // Reason names a client, and is left out for this reader: see Withhold
	Prior    string    `json:"prior,omitempty"`    // Hash of the line before; empty: it is the first
	Hash     string    `json:"hash"`
}

// The actions that are no changes of the store.
const (
	Reset         = "reset"           // the count of a client was reset
	SignIn        = "sign-in"         // at the pages
	SignOut       = "sign-out"        // there
	SignInRefused = "sign-in.refused" // wrong tokens, of some time together
	Forget        = "cluster.forget"  // a member of the cluster was given up
	Held          = "enforce.held"    // a version would have denied too much, or nobody knew how much: the guard refused to enforce it
	commented     = "comment"         // on a version; Event.Reason is what was said
)

// Actions are all that Event.Action can be.
func Actions() []string {
	all := []string{
		"domain.create", "domain.update", "domain.delete", "domain.restore", "import", "open", "open.unreviewed", "tighten", "tighten.unreviewed", "override.end", "disable.asked", "team.quota",
		exceptionSet, exceptionSet + ".unreviewed", exceptionImport, exceptionImport + ".unreviewed", exceptionEnd, "token.create", "token.revoke", "webhook.set", "webhook.renew", "webhook.retry", "webhook.remove",
		Reset, SignIn, SignOut, SignInRefused, Forget, Held, commented,
	}
	for _, to := range []State{Draft, Shadow, Enforced, Disabled, Withdrawn} {
		all = append(all, Action(to, false), Action(to, true))
	}
	return all
}

// By is the event as an actor's.
func (e Event) By(a Actor) Event {
	e.Actor, e.Token, e.Teams, e.Address = a.Name, a.Token, a.Teams, a.Address
	return e
}

// Withhold leaves the reasons out of lines that name clients of rules which the reader may not read about.
func Withhold(list []Event, reads func(domain, rule string) bool) {
	for i := range list {
		e := &list[i]
		if e.Action == Reset && e.Reason != "" && !reads(e.Domain, e.Rule) {
			e.Reason, e.Withheld = "", true
		}
	}
}

func (a *attempt) event(refused string) Event {
	return Event{Action: a.action, Team: a.team, Domain: a.domain, Rule: a.rule, Version: a.version, Reason: a.reason, Refused: refused}
}

// audit adds a line about what this change has done.
func (t *tx) audit(ctx context.Context, e Event) error {
	e.Revision, e.At = t.revision, moment(t.at)
	return t.append(ctx, e.By(t.by))
}

// append adds a line behind the last one.
func (t *tx) append(ctx context.Context, e Event) error {
	// The transaction that has changed this row is alone until its end: nobody else adds a line.
	if err := t.QueryRowContext(ctx, `UPDATE counters SET audited = audited + 1 RETURNING audited`).Scan(&e.Seq); err != nil {
		return err
	}
	if t.head == (Head{}) {
		err := t.QueryRowContext(ctx, `SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1`).Scan(&t.head.Seq, &t.head.Hash)
		if err != nil && !isNone(err) {
			return err
		}
	}
	e.Prior = t.head.Hash
	e.Hash = e.sum()
	t.head = e.Head()
	return t.exec(ctx, `
		INSERT INTO audit (seq, revision, at, actor, token, teams, address, team, action, domain, rule, version, reason, refused, prior, hash)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)`,
		e.Seq, e.Revision, e.At.UnixMicro(), e.Actor, e.Token, strings.Join(e.Teams, " "), e.Address, e.Team, e.Action, e.Domain, e.Rule, e.Version, e.Reason, e.Refused, e.Prior, e.Hash)
}

// auditTime is how long a refusal may take to come into the audit.
const auditTime = 5 * time.Second

// Refused audits what was refused before the store was asked, as by a guard; also when the caller
// has not waited for the answer.
func (s *Store) Refused(ctx context.Context, by Actor, e Event) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), auditTime)
	defer stop()
	e.At = time.Now()
	return s.Record(ctx, []Event{e.By(by)})
}

// Record audits what was not done by a change of the store, each with its actor and time, all or none. When the answer of the database
// is lost they may be there.
func (s *Store) Record(ctx context.Context, list []Event) error {
	return s.failed(transact(ctx, s.write, func(raw *sql.Tx) error {
		t := &tx{Tx: raw}
		for i := range list {
			if err := t.append(ctx, list[i].printable()); err != nil {
				return err
			}
		}
		return nil
	}))
}

// maxRefused is how much of a refusal the audit keeps, in bytes.
const maxRefused = 1000

// printable is the event as a database can keep it.
func (e Event) printable() Event {
	e.At = moment(e.At.UnixMicro())
	e.Actor, e.Token, e.Address = printable(e.Actor, MaxName), printable(e.Token, MaxName), printable(e.Address, MaxName)
	e.Team, e.Action, e.Domain, e.Rule = printable(e.Team, MaxName), printable(e.Action, MaxName), printable(e.Domain, MaxName), printable(e.Rule, MaxID)
	e.Reason, e.Refused = printable(e.Reason, MaxReason), printable(e.Refused, maxRefused)
	return e
}

// Audited asks for lines of the audit.
type Audited struct {
	Behind  int64  // lines with a Seq over this; 0: from the first
	Before  int64  // lines with a Seq under this, the newest first; 0: the oldest first
	Domain  string // of this domain; empty: of all, and of none
	Rule    string // of this rule of Domain; empty: of all
	Changes bool   // only what was done to rules
	History bool   // only what was done to rules, or refused
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

const eventColumns = `seq, revision, at, actor, token, teams, address, team, action, domain, rule, version, reason, refused, prior, hash`

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
	if q.History {
		add("action <> ", Reset)
	}
	list, err = find(ctx, s.read, scanEvent, `
		SELECT `+eventColumns+` FROM audit
		WHERE `+strings.Join(where, " AND ")+order+` LIMIT `+strconv.Itoa(page(q.Limit)), args...)
	return list, s.failed(err)
}

func scanEvent(found row) (e Event, err error) {
	var at int64
	var teams string
	err = found.Scan(&e.Seq, &e.Revision, &at, &e.Actor, &e.Token, &teams, &e.Address, &e.Team, &e.Action, &e.Domain, &e.Rule, &e.Version, &e.Reason, &e.Refused, &e.Prior, &e.Hash)
	e.At, e.Teams = moment(at), strings.Fields(teams)
	if teams == "" {
		e.Teams = nil
	}
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

package rulestore

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Deletion is a domain that was taken away, by which it can be restored as it was. The API gives it as it is.
type Deletion struct {
	Domain   string    `json:"domain"`
	Revision int64     `json:"revision"` // of the change that took it away: which deletion it is
	At       time.Time `json:"at"`       // UTC, in microseconds
	Actor    string    `json:"actor"`
	Reason   string    `json:"reason"`
	// The domain had these.
	Team   string `json:"team"`
	Shared bool   `json:"shared"`
	Review bool   `json:"review"`
	Public bool   `json:"public"`
	Rules  int64  `json:"rules"` // active or proposed
	// Again is whether there is a domain of this name now. It has to go before this one can be restored.
	Again bool `json:"again"`
}

// MaxDeletions is how many deletions of a domain are kept. The oldest is forgotten, and then only the history has its rules.
const MaxDeletions = 10

// Removal says which domain is to be taken away.
type Removal struct {
	Domain string
	// Confirm is the name of the domain once more, as the person typed it that takes it away with all its rules.
	Confirm string
	Match   int64 // the Domain.Revision that was seen
	Reason  string
}

// DeleteDomain takes a domain away with all its rules. Its history stays, and RestoreDomain brings it back. A
// domain that is made under this name again goes on with its history, whichever team owns it then. It takes
// the role Admin for its team.
func (s *Store) DeleteDomain(ctx context.Context, by Actor, p Removal) error {
	a := attempt{action: "domain.delete", domain: p.Domain, reason: p.Reason}
	return s.change(ctx, by, a, func(t *tx) error {
		d, err := t.domainAt(ctx, p.Domain, p.Match)
		if err != nil {
			return err
		}
		if err := by.need(Admin, "take a domain away", d.Team); err != nil {
			return err
		}
		if p.Confirm != d.Name {
			is := "is missing"
			if p.Confirm != "" {
				is = fmt.Sprintf("is %q", clip(p.Confirm))
			}
			return invalid("confirm", "%s; domain %s goes away with its %s: write its name, %s, to take it away", is, d.Name, counted(d.Rules, "rule"), d.Name)
		}
		if err := checkReason(p.Reason, true); err != nil {
			return err
		}
		if err := t.keep(ctx, &d); err != nil {
			return err
		}
		if err := t.empty(ctx, d.Name); err != nil {
			return err
		}
		e := a.event("")
		e.Team = d.Team
		t.done = append(t.done, e)
		return nil
	})
}

func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// keep writes down what a domain is, to be restored.
func (t *tx) keep(ctx context.Context, d *Domain) error {
	err := t.exec(ctx, `
		INSERT INTO deletions (revision, domain, at, actor, reason, team, shared, review, public, indent, bytes, rules)
		SELECT $2, name, $3, $4, $5, team, shared, review, public, indent, bytes, $6 FROM domains WHERE name = $1`,
		d.Name, t.revision, t.at, t.by.Name, t.reason, d.Rules)
	if err != nil {
		return err
	}
	err = t.exec(ctx, `
		INSERT INTO deleted_rules (deletion, rule, team, draft, shadow, enforced, disabled, gone)
		SELECT $2, id, team, draft, shadow, enforced, disabled, gone FROM rules
		WHERE domain = $1 AND (draft > 0 OR shadow > 0 OR enforced > 0)`, d.Name, t.revision)
	if err != nil {
		return err
	}
	var oldest int64
	err = t.QueryRowContext(ctx, `SELECT revision FROM deletions WHERE domain = $1 ORDER BY revision DESC LIMIT 1 OFFSET $2`, d.Name, MaxDeletions).Scan(&oldest)
	if isNone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return t.forgetDeletion(ctx, oldest)
}

func (t *tx) forgetDeletion(ctx context.Context, revision int64) error {
	for _, q := range []string{`DELETE FROM deleted_rules WHERE deletion = $1`, `UPDATE exceptions SET deletion = 0 WHERE deletion = $1`} {
		if err := t.exec(ctx, q, revision); err != nil {
			return err
		}
	}
	return t.exec(ctx, `DELETE FROM deletions WHERE revision = $1`, revision)
}

// empty takes all rules of a domain away, and the domain.
func (t *tx) empty(ctx context.Context, name string) error {
	if err := t.keepExceptions(ctx, name); err != nil {
		return err
	}
	for _, q := range []string{
		`UPDATE versions SET state = 'superseded' WHERE domain = $1 AND state IN ('enforced', 'disabled')`,
		`UPDATE versions SET state = 'withdrawn' WHERE domain = $1 AND state IN ('draft', 'shadow')`,
		`DELETE FROM overrides WHERE domain = $1`,
	} {
		if err := t.exec(ctx, q, name); err != nil {
			return err
		}
	}
	err := t.exec(ctx, `UPDATE rules SET draft = 0, shadow = 0, enforced = 0, disabled = 0, gone = 1, disabling = '', disabling_reason = '', revision = $2 WHERE domain = $1`, name, t.revision)
	if err != nil {
		return err
	}
	return t.exec(ctx, `UPDATE domains SET deleted = 1, bytes = 0, revision = $2 WHERE name = $1`, name, t.revision)
}

// RestoreDomain brings a domain back as it was when it was taken away at a revision, or at 0 the last time: its owner, what it let others do, and
// all its rules, active, disabled, in shadow and drafts, and exceptions that have not ended meanwhile. Overrides don't come back. It takes the role
// Admin for the team that owned it, and fails as Exists when there is a domain of this name again.
func (s *Store) RestoreDomain(ctx context.Context, by Actor, name string, revision int64, reason string) (Domain, error) {
	var now Domain
	a := attempt{action: "domain.restore", domain: name, reason: reason}
	err := s.change(ctx, by, a, func(t *tx) (err error) {
		now, err = t.restore(ctx, name, revision)
		return err
	})
	return now, err
}

func (t *tx) restore(ctx context.Context, name string, revision int64) (Domain, error) {
	x, err := t.deletion(ctx, name, revision)
	if err != nil {
		return Domain{}, err
	}
	if err := t.by.need(Admin, "restore a domain", x.Team); err != nil {
		return Domain{}, err
	}
	if err := checkReason(t.reason, true); err != nil {
		return Domain{}, err
	}
	if x.Again {
		return Domain{}, &Error{Kind: Exists, Field: "domain", Text: fmt.Sprintf(
			"there is a domain %s again, and it stays as it is; to restore the one that was taken away, take this one away first, and then name revision %d", name, x.Revision)}
	}
	if err := t.alike(ctx, name); err != nil {
		return Domain{}, err
	}
	if err := t.roomForDomain(ctx); err != nil {
		return Domain{}, err
	}
	if err := t.inherit(ctx, &Domain{Name: name, Team: x.Team}); err != nil {
		return Domain{}, err
	}
	if err := t.bringBack(ctx, &x); err != nil {
		return Domain{}, err
	}
	if err := t.bringBackExceptions(ctx, x.Revision); err != nil {
		return Domain{}, err
	}
	if err := t.bearable(ctx, &x); err != nil {
		return Domain{}, err
	}
	if err := t.forgetDeletion(ctx, x.Revision); err != nil {
		return Domain{}, err
	}
	t.done = append(t.done, Event{Action: "domain.restore", Domain: name, Team: x.Team, Reason: t.reason})
	return t.domain(ctx, name)
}

// bringBack makes the rows of a domain what they were.
func (t *tx) bringBack(ctx context.Context, x *Deletion) error {
	err := t.exec(ctx, `
		UPDATE domains SET team = x.team, shared = x.shared, review = x.review, public = x.public, indent = x.indent, bytes = x.bytes, revision = $3, deleted = 0
		FROM deletions x WHERE domains.name = $1 AND x.revision = $2`, x.Domain, x.Revision, t.revision)
	if err != nil {
		return err
	}
	err = t.exec(ctx, `
		UPDATE rules SET team = x.team, draft = x.draft, shadow = x.shadow, enforced = x.enforced, disabled = x.disabled, gone = x.gone, revision = $3
		FROM deleted_rules x WHERE rules.domain = $1 AND x.deletion = $2 AND x.rule = rules.id`, x.Domain, x.Revision, t.revision)
	if err != nil {
		return err
	}
	return t.exec(ctx, `
		UPDATE versions SET state = CASE
			WHEN number = r.draft THEN 'draft'
			WHEN number = r.shadow THEN 'shadow'
			WHEN r.disabled > 0 THEN 'disabled'
			ELSE 'enforced' END
		FROM rules r WHERE versions.domain = $1 AND r.domain = $1 AND r.id = versions.rule AND number IN (r.draft, r.shadow, r.enforced)`, x.Domain)
}

// bearable refuses a domain that came back and that there is no room for any more.
func (t *tx) bearable(ctx context.Context, x *Deletion) error {
	teams, err := find(ctx, t, func(found row) (team string, err error) {
		err = found.Scan(&team)
		return team, err
	}, `SELECT DISTINCT team FROM deleted_rules WHERE deletion = $1 AND rule <> '' AND gone = 0 ORDER BY team`, x.Revision)
	if err != nil {
		return err
	}
	for _, team := range teams {
		has, quota, err := t.holds(ctx, team)
		if err != nil {
			return err
		}
		if has > quota {
			return &Error{Kind: Quota, Field: "team", Text: fmt.Sprintf("team %s would have %d rules with domain %s, and may have %d; take some away, or ask an administrator for more",
				team, has, x.Domain, quota)}
		}
	}
	return t.roomForBytes(ctx)
}

const deletionColumns = `x.domain, x.revision, x.at, x.actor, x.reason, x.team, x.shared, x.review, x.public, x.rules,
	EXISTS (SELECT 1 FROM domains d WHERE d.name = x.domain AND d.deleted = 0) FROM deletions x`

func scanDeletion(found row) (x Deletion, err error) {
	var at int64
	err = found.Scan(&x.Domain, &x.Revision, &at, &x.Actor, &x.Reason, &x.Team, &x.Shared, &x.Review, &x.Public, &x.Rules, &x.Again)
	x.At = moment(at)
	return x, err
}

// deletion is the one of a domain at a revision, or at 0 the last.
func (t *tx) deletion(ctx context.Context, name string, revision int64) (Deletion, error) {
	x, err := scanDeletion(t.QueryRowContext(ctx, `SELECT `+deletionColumns+` WHERE x.domain = $1 AND (CAST($2 AS BIGINT) = 0 OR x.revision = $2) ORDER BY x.revision DESC LIMIT 1`,
		printable(name, MaxName+1), revision))
	switch {
	case isNone(err) && revision != 0:
		return x, notFound("domain %s was not taken away at revision %d, or that is forgotten; the list of deletions has what can be restored", clip(name), revision)
	case isNone(err):
		return x, notFound("no domain %s was taken away; the list of deletions has what can be restored", clip(name))
	}
	return x, err
}

// Deletions lists domains that were taken away, the last first: those before a revision (0: from the last), at most limit (0: MaxPage). With
// a domain only its own.
func (s *Store) Deletions(ctx context.Context, domain string, before int64, limit int) (list []Deletion, err error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	list, err = find(ctx, s.read, scanDeletion, `SELECT `+deletionColumns+` WHERE x.revision < $1 AND ($2 = '' OR x.domain = $2) ORDER BY x.revision DESC LIMIT $3`,
		before, printable(domain, MaxName+1), page(limit))
	return list, s.failed(err)
}

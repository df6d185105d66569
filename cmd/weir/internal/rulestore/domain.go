package rulestore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-limit/weir/rules"
)

// Domain is a team's set of rules.
type Domain struct {
	Name   string
	Team   string // that owns it, and its rules but for those with an owner
	Shared bool   // other teams may add rules of their own
	Review bool   // it takes two people to enforce a version, to disable one, and to open or tighten limits for long
	Public bool   // every token may read which clients its rules deny: Store.Scope
	// Rules is how many are active or proposed, Bytes how long the file in force
	// may be at most. Revision is that of the last change in it.
	Rules, Bytes, Revision int64
}

// Frame is the ID of what stands before a domain's first rule.
const Frame = ""

// NewDomain is a domain to be made.
type NewDomain struct {
	Name, Team string
	// Shared and Review are those of Domain. Nil: as the domain of this name had them that Team took away, so that nobody has
	// to remember that it was under review; false if there was none.
	Shared, Review *bool
	Public         bool // as of Domain; a domain that is made again begins without
}

// CreateDomain makes a domain without rules. It takes the role Admin for its
// team, and fails as Exists when there is one of this name.
func (s *Store) CreateDomain(ctx context.Context, by Actor, n NewDomain, reason string) (Domain, error) {
	var made Domain
	err := s.change(ctx, by, attempt{action: "domain.create", domain: n.Name, reason: reason}, func(t *tx) (err error) {
		made, err = t.create(ctx, n)
		return err
	})
	return made, err
}

func (t *tx) create(ctx context.Context, n NewDomain) (Domain, error) {
	d := Domain{Name: n.Name, Team: n.Team, Public: n.Public}
	if err := checkName("domain", d.Name); err != nil {
		return d, err
	}
	if err := checkReason(t.reason, true); err != nil {
		return d, err
	}
	if err := t.team(ctx, d.Team); err != nil {
		return d, err
	}
	if err := t.by.need(Admin, "make a domain", d.Team); err != nil {
		return d, err
	}
	switch old, err := t.domain(ctx, d.Name); {
	case err == nil:
		return d, &Error{Kind: Exists, Field: "domain", Text: fmt.Sprintf("there is a domain %s of team %s; change that one, or take another name", d.Name, old.Team)}
	case !IsKind(err, NotFound):
		return d, err
	}
	if err := t.alike(ctx, d.Name); err != nil {
		return d, err
	}
	if err := t.roomForDomain(ctx); err != nil {
		return d, err
	}
	head, err := newHead(d.Name)
	if err != nil {
		return d, err
	}
	if err := t.inherit(ctx, &d); err != nil {
		return d, err
	}
	if n.Shared != nil {
		d.Shared = *n.Shared
	}
	if n.Review != nil {
		d.Review = *n.Review
	}
	const indent = 2
	err = t.exec(ctx, `
		INSERT INTO domains (name, team, shared, review, public, indent, bytes, revision, deleted) VALUES ($1, $2, $3, $4, $5, $6, 0, $7, 0)
		ON CONFLICT (name) DO UPDATE SET team = excluded.team, shared = excluded.shared, review = excluded.review, public = excluded.public,
			indent = excluded.indent, bytes = 0, revision = excluded.revision, deleted = 0`,
		d.Name, d.Team, number(d.Shared), number(d.Review), number(d.Public), indent, t.revision)
	if err != nil {
		return d, err
	}
	made, err := t.domain(ctx, d.Name)
	if err != nil {
		return d, err
	}
	frame, err := t.rule(ctx, d.Name, Frame)
	if err != nil {
		return d, err
	}
	if err := t.write(ctx, &frame, Version{Text: head, Team: d.Team, place: gap}); err != nil {
		return d, err
	}
	if err := t.enforce(ctx, &made, &frame, frame.Latest); err != nil {
		return d, err
	}
	t.done = append(t.done, Event{Action: "domain.create", Domain: d.Name, Team: d.Team, Version: frame.Latest, Reason: t.reason})
	return made, t.save(ctx, &frame)
}

// alike refuses a name that differs from that of another domain by case only: people would take one for the
// other. Domains that are there already stay.
func (t *tx) alike(ctx context.Context, name string) error {
	names, err := find(ctx, t, func(found row) (old string, err error) { return old, found.Scan(&old) },
		`SELECT name FROM domains WHERE deleted = 0 AND LENGTH(name) = $1`, len(name))
	if err != nil {
		return err
	}
	for _, old := range names {
		if strings.EqualFold(old, name) { // not in the database: its case depends on its locale
			return invalid("domain", "%q looks like the domain %s, which differs by case only; write %s, or take another name", clip(name), clip(old), clip(old))
		}
	}
	return nil
}

// inherit makes what is left of a domain of this name the owner's of d. If that had it before, d lets others do what it did.
func (t *tx) inherit(ctx context.Context, d *Domain) error {
	var before Domain
	err := t.QueryRowContext(ctx, `SELECT team, shared, review FROM domains WHERE name = $1`, d.Name).Scan(&before.Team, &before.Shared, &before.Review)
	switch {
	case isNone(err):
		return nil
	case err != nil:
		return err
	case before.Team == d.Team:
		d.Shared, d.Review = before.Shared, before.Review
		return nil
	}
	return t.giveRules(ctx, d.Name, before.Team, d.Team)
}

// newHead is a file without rules.
func newHead(domain string) (string, error) {
	head := "domain: " + domain + "\ndescriptors:\n"
	if set, err := rules.Parse(domain, []byte(head)); err == nil && set.Domains()[0] == domain {
		return head, nil
	}
	head = fmt.Sprintf("domain: %q\ndescriptors:\n", domain) // it means something else to YAML
	if _, err := rules.Parse(domain, []byte(head)); err != nil {
		return "", refused(err)
	}
	return head, nil
}

func (t *tx) roomForDomain(ctx context.Context) error {
	n, err := count(ctx, t, "domains", " WHERE deleted = 0")
	if err == nil && n >= MaxDomains {
		err = &Error{Kind: Quota, Field: "domain", Text: fmt.Sprintf("there are %d domains, and may not be more; take one away", n)}
	}
	return err
}

// UpdateDomain changes the owner of a domain and what it lets others do. match is
// the Domain.Revision that was seen. It takes the role Admin for the team
// before and the one after, and room in the quota of that one for the rules that it gets.
func (s *Store) UpdateDomain(ctx context.Context, by Actor, d Domain, match int64, reason string) (Domain, error) {
	var now Domain
	a := attempt{action: "domain.update", domain: d.Name, reason: reason}
	err := s.change(ctx, by, a, func(t *tx) error {
		old, err := t.domainAt(ctx, d.Name, match)
		if err != nil {
			return err
		}
		if err := checkReason(reason, true); err != nil {
			return err
		}
		if err := t.team(ctx, d.Team); err != nil {
			return err
		}
		for _, team := range []string{old.Team, d.Team} {
			if err := by.need(Admin, "change a domain", team); err != nil {
				return err
			}
		}
		if err := t.handOver(ctx, d.Name, old.Team, d.Team); err != nil {
			return err
		}
		err = t.exec(ctx, `UPDATE domains SET team = $1, shared = $2, review = $3, public = $4, revision = $5 WHERE name = $6`,
			d.Team, number(d.Shared), number(d.Review), number(d.Public), t.revision, d.Name)
		if err != nil {
			return err
		}
		// For who wants it back as it was.
		err = t.exec(ctx, `INSERT INTO settings (revision, team, shared, review, public) VALUES ($1, $2, $3, $4, $5)`,
			t.revision, old.Team, number(old.Shared), number(old.Review), number(old.Public))
		if err != nil {
			return err
		}
		e := a.event("")
		e.Team = d.Team
		if d.Review != old.Review {
			e.Reason = fmt.Sprintf("review %s: %s", map[bool]string{true: "on", false: "off"}[d.Review], reason)
		}
		t.done = append(t.done, e)
		now, err = t.domain(ctx, d.Name)
		return err
	})
	return now, err
}

// handOver makes the rules of a domain another team's, with all their versions, but
// for those whose text says whose they are. It fails as Quota when that team may not have as many.
func (t *tx) handOver(ctx context.Context, domain, from, to string) error {
	if from == to {
		return nil
	}
	had, _, err := t.holds(ctx, to)
	if err != nil {
		return err
	}
	if err := t.giveRules(ctx, domain, from, to); err != nil {
		return err
	}
	has, quota, err := t.holds(ctx, to)
	if err == nil && has > had && has > quota {
		err = &Error{Kind: Quota, Field: "team", Text: fmt.Sprintf("team %s has %d rules, would get %d with domain %s, and may have %d; take some away, or ask an administrator for more",
			to, had, has-had, domain, quota)}
	}
	return err
}

func (t *tx) giveRules(ctx context.Context, domain, from, to string) error {
	stay, err := t.owned(ctx, domain, from)
	if err != nil {
		return err
	}
	for _, q := range []string{
		`UPDATE versions SET team = $1 WHERE domain = $2 AND team = $3`,
		`UPDATE rules SET team = $1 WHERE domain = $2 AND team = $3`,
	} {
		if err := t.exec(ctx, q, to, domain, from); err != nil {
			return err
		}
	}
	for _, v := range stay {
		if err := t.exec(ctx, `UPDATE versions SET team = $1 WHERE domain = $2 AND rule = $3 AND number = $4`, from, domain, v.Rule, v.Number); err != nil {
			return err
		}
		if err := t.exec(ctx, `UPDATE rules SET team = $1 WHERE domain = $2 AND id = $3 AND team = $4
			AND CASE WHEN enforced > 0 THEN enforced ELSE latest END = $5`, from, domain, v.Rule, to, v.Number); err != nil {
			return err
		}
	}
	return nil
}

// owned is the versions of a domain whose text says that they are a team's.
func (t *tx) owned(ctx context.Context, domain, team string) (list []Version, err error) {
	list, err = versions(ctx, t, `FROM versions v WHERE v.domain = $1 AND v.team = $2 AND v.text LIKE '%owner%'`, domain, team)
	return slices.DeleteFunc(list, func(v Version) bool {
		it, err := readItem(domain, v.Text)
		return err != nil || it.owner == "" // what can't be read says nothing
	}), err
}

const domainColumns = `name, team, shared, review, public, bytes, revision,
	(SELECT COUNT(*) FROM rules r WHERE r.domain = d.name AND r.id <> '' AND r.gone = 0)`

func (d *Domain) fields() []any {
	return []any{&d.Name, &d.Team, &d.Shared, &d.Review, &d.Public, &d.Bytes, &d.Revision, &d.Rules}
}

func scanDomain(found row) (d Domain, err error) {
	err = found.Scan(d.fields()...)
	return d, err
}

func findDomain(ctx context.Context, q queryer, name string) (Domain, error) {
	d, err := scanDomain(q.QueryRowContext(ctx, `SELECT `+domainColumns+` FROM domains d WHERE name = $1 AND deleted = 0`, printable(name, MaxName+1)))
	if !isNone(err) {
		return d, err
	}
	kept, err := count(ctx, q, "deletions", " WHERE domain = $1", printable(name, MaxName+1))
	switch {
	case err != nil:
		return d, err
	case kept > 0:
		return d, notFound("there is no domain %s in the rule database: it was taken away, and can be restored", clip(name))
	}
	return d, notFound("there is no domain %s in the rule database", clip(name))
}

func (t *tx) domain(ctx context.Context, name string) (Domain, error) {
	return findDomain(ctx, t, name)
}

// domainAt is a domain that was not changed since match.
func (t *tx) domainAt(ctx context.Context, name string, match int64) (Domain, error) {
	d, err := t.domain(ctx, name)
	if err == nil && d.Revision != match {
		err = stale("domain "+name, d.Revision)
	}
	return d, err
}

// Domain is the domain of this name. It fails as NotFound.
func (s *Store) Domain(ctx context.Context, name string) (Domain, error) {
	d, err := findDomain(ctx, s.read, name)
	return d, s.failed(err)
}

// Domains lists domains by name, those behind a name, at most limit (0:
// MaxPage). With a team only what it owns.
func (s *Store) Domains(ctx context.Context, team, behind string, limit int) (list []Domain, err error) {
	list, err = find(ctx, s.read, scanDomain, `SELECT `+domainColumns+` FROM domains d
		WHERE deleted = 0 AND name > $1 AND ($2 = '' OR team = $2) ORDER BY name LIMIT $3`, printable(behind, MaxName+1), printable(team, MaxName+1), page(limit))
	return list, s.failed(err)
}

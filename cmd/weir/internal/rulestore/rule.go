package rulestore

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// State is what a version of a rule is at present.
type State string

// The states. A version begins as Draft; those that are open are Draft and Shadow.
const (
	Draft      State = "draft"      // proposed; nothing comes of it
	Shadow     State = "shadow"     // runs beside the active version: decided and reported
	Enforced   State = "enforced"   // in force
	Disabled   State = "disabled"   // was active, and is left out until it is enforced again
	Superseded State = "superseded" // was active before another
	Withdrawn  State = "withdrawn"  // was never in force, and will not be
)

// proposed is for Listing.State: rules of which no version is active or disabled.
const proposed = "proposed"

// Rule is an item of a domain's descriptors, with numbers of its versions; 0 is
// none.
type Rule struct {
	Domain string
	ID     string // "key" or "key=value", with % and = of a key as %25 and %3D
	Team   string // that may change it, beside the domain's
	// Latest is the last version there is. Draft and Shadow are those proposed,
	// Enforced is the one in force, or Disabled.
	Latest, Draft, Shadow, Enforced int64

	Disabled bool  // Enforced is left out
	Gone     bool  // it was taken away, and none is proposed
	Revision int64 // of its last change: Match of the next

	// Disabling is the person that asks to disable Enforced, in a domain under review; another one has to do it. Empty: nobody does.
	Disabling, DisablingReason string

	// Text is the active or disabled rule, else the newest that is proposed. Rule
	// lists and Store.Rule have it; empty: it was taken away, if something is proposed
	// since or not.
	Text string
}

// Active is whether the rule decides: a version is enforced, and has not taken it away. Text must have been read.
func (r *Rule) Active() bool { return r.Enforced != 0 && !r.Disabled && r.Text != "" }

// Version is what a rule was proposed to be. It never changes, but for its State,
// and for Reason and Team as they say. The API gives it as it is.
type Version struct {
	Domain   string    `json:"domain"`
	Rule     string    `json:"rule"`
	Number   int64     `json:"number"` // 1, 2, 3 … of this rule
	State    State     `json:"state"`
	Text     string    `json:"text"`           // empty: the rule is taken away
	Base     int64     `json:"base,omitempty"` // version in force when it was made, to compare with; 0: none
	Author   string    `json:"author"`
	Team     string    `json:"team"`     // of the rule with this text; with the domain it goes over to another
	Reason   string    `json:"reason"`   // it was made for, or of a draft without one that of its first step
	Made     time.Time `json:"made"`     // UTC, in microseconds
	Revision int64     `json:"revision"` // that made it

	place int64 // rules of a file stand in the order of their places
}

// gap is the room between the places of two rules, for others to come between.
const gap = 1 << 32

const ruleColumns = `r.domain, r.id, r.team, r.latest, r.draft, r.shadow, r.enforced, r.disabled, r.gone, r.revision, r.disabling, r.disabling_reason`

func (r *Rule) fields() []any {
	return []any{&r.Domain, &r.ID, &r.Team, &r.Latest, &r.Draft, &r.Shadow, &r.Enforced, &r.Disabled, &r.Gone, &r.Revision, &r.Disabling, &r.DisablingReason}
}

// rule is a rule's row, or a rule that is to come.
func (t *tx) rule(ctx context.Context, domain, id string) (Rule, error) {
	var r Rule
	err := t.QueryRowContext(ctx, `SELECT `+ruleColumns+` FROM rules r WHERE r.domain = $1 AND r.id = $2`,
		printable(domain, MaxName+1), printable(id, MaxID+1)).Scan(r.fields()...)
	if isNone(err) {
		return Rule{Domain: domain, ID: id, Gone: true}, nil
	}
	return r, err
}

// save writes a rule's row, and marks its domain as changed.
func (t *tx) save(ctx context.Context, r *Rule) error {
	r.Revision = t.revision
	err := t.exec(ctx, `
		INSERT INTO rules (domain, id, team, latest, draft, shadow, enforced, disabled, gone, revision, disabling, disabling_reason)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (domain, id) DO UPDATE SET team = excluded.team, latest = excluded.latest, draft = excluded.draft, shadow = excluded.shadow,
			enforced = excluded.enforced, disabled = excluded.disabled, gone = excluded.gone, revision = excluded.revision,
			disabling = excluded.disabling, disabling_reason = excluded.disabling_reason`,
		r.Domain, r.ID, r.Team, r.Latest, r.Draft, r.Shadow, r.Enforced, number(r.Disabled), number(r.Gone), r.Revision, r.Disabling, r.DisablingReason)
	if err != nil {
		return err
	}
	return t.exec(ctx, `UPDATE domains SET revision = $1 WHERE name = $2`, t.revision, r.Domain)
}

// write adds a version to r, as its draft. The draft before it is withdrawn.
func (t *tx) write(ctx context.Context, r *Rule, v Version) error {
	if r.Draft != 0 {
		if err := t.mark(ctx, r, r.Draft, Withdrawn); err != nil {
			return err
		}
	}
	if r.Gone {
		r.Team = v.Team
	}
	r.Latest++
	r.Draft, r.Gone = r.Latest, false
	return t.exec(ctx, `
		INSERT INTO versions (domain, rule, number, state, text, place, base, author, team, reason, made, revision)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
		r.Domain, r.ID, r.Latest, Draft, v.Text, v.place, r.Enforced, t.by.Name, v.Team, t.reason, t.at, t.revision)
}

// mark changes the state of a version.
func (t *tx) mark(ctx context.Context, r *Rule, version int64, s State) error {
	return t.exec(ctx, `UPDATE versions SET state = $1 WHERE domain = $2 AND rule = $3 AND number = $4`, s, r.Domain, r.ID, version)
}

const versionColumns = `v.domain, v.rule, v.number, v.state, v.text, v.base, v.author, v.team, v.reason, v.made, v.revision, v.place`

// versions is those that a query finds, which begins with FROM and calls them v.
func versions(ctx context.Context, q queryer, from string, args ...any) ([]Version, error) {
	return find(ctx, q, scanVersion, `SELECT `+versionColumns+` `+from, args...)
}

func scanVersion(found row) (v Version, err error) {
	var made int64
	err = found.Scan(&v.Domain, &v.Rule, &v.Number, &v.State, &v.Text, &v.Base, &v.Author, &v.Team, &v.Reason, &made, &v.Revision, &v.place)
	v.Made = moment(made)
	return v, err
}

func findVersion(ctx context.Context, q queryer, domain, rule string, number int64) (Version, error) {
	v, err := scanVersion(q.QueryRowContext(ctx, `SELECT `+versionColumns+` FROM versions v WHERE v.domain = $1 AND v.rule = $2 AND v.number = $3`,
		printable(domain, MaxName+1), printable(rule, MaxID+1), number))
	if isNone(err) {
		return v, notFound("rule %s of domain %s has no version %d", nameOf(rule), clip(domain), number)
	}
	return v, err
}

// nameOf is a rule's ID as messages say it.
func nameOf(id string) string {
	if id == Frame {
		return "(before the first rule)"
	}
	return clip(id)
}

// Proposal is a new version of a rule.
type Proposal struct {
	Domain string
	// Rule is the ID that Text must have; empty: whichever it has.
	Rule string
	// Text is the rule as people write it: an item of descriptors, its - at the
	// left. Empty: Rule is taken away.
	Text string
	// Before is the rule that a new one stands before in the file, where patterns
	// are tried in order. Empty: it stands last.
	Before string
	// Match is the Rule.Revision that was seen; 0: there is no such rule.
	Match int64
	// To is how far it goes at once: Draft, Shadow or Enforced. Empty: Draft.
	To     State
	Reason string // needed but for a Draft
	// Forced tells the audit that a guard was overruled.
	Forced bool
	Dry    bool // nothing is changed, nor a refusal audited
}

// Propose makes a version. It takes the role Propose, for Enforced Publish, for
// the rule's team or the domain's.
func (s *Store) Propose(ctx context.Context, by Actor, p Proposal) (Version, error) {
	var made Version
	a := attempt{action: Action(p.To, p.Forced), domain: p.Domain, rule: p.Rule, reason: p.Reason, dry: p.Dry}
	err := s.change(ctx, by, a, func(t *tx) (err error) {
		made, err = t.propose(ctx, p)
		return err
	})
	return made, err
}

// Action is what the audit calls a step to a state. To what is no state a version is proposed, and refused.
func Action(to State, forced bool) string {
	a := map[State]string{Shadow: "shadow", Enforced: "enforce", Disabled: "disable", Withdrawn: "withdraw"}[to]
	if a == "" {
		a = "propose"
	}
	if forced {
		a += ".forced"
	}
	return a
}

func (t *tx) propose(ctx context.Context, p Proposal) (Version, error) {
	if err := checkReason(p.Reason, p.To != Draft && p.To != ""); err != nil {
		return Version{}, err
	}
	d, err := t.domain(ctx, p.Domain)
	if err != nil {
		return Version{}, err
	}
	it := item{id: p.Rule}
	if p.Text != "" {
		if it, err = readItem(d.Name, p.Text); err != nil {
			return Version{}, err
		}
		if p.Rule != "" && p.Rule != it.id {
			if err := it.checkNames(nil); err != nil { // it looks the same
				return Version{}, err
			}
			return Version{}, invalid("text", "is the rule %s, not %s; counts belong to a rule's key and value, so take %s away and propose the other", it.id, nameOf(p.Rule), nameOf(p.Rule))
		}
	}
	r, err := t.ruleAt(ctx, &d, it.id, p.Match)
	if err != nil {
		return Version{}, err
	}
	if p.Text == "" && (r.Enforced == 0 || it.id == Frame) {
		return Version{}, notFound("there is no active rule %s in domain %s; withdraw the proposed version", nameOf(it.id), d.Name)
	}
	if err := t.checkNames(ctx, &r, &it); err != nil {
		return Version{}, err
	}
	v := Version{Text: it.text, Team: teamOf(&d, &r, &it)}
	if v.place, err = t.placeFor(ctx, &r, p.Before); err != nil {
		return Version{}, err
	}
	if err := t.add(ctx, &d, &r, v); err != nil {
		return Version{}, err
	}
	if err := t.step(ctx, &d, &r, r.Latest, p.To, p.Forced); err != nil {
		return Version{}, err
	}
	return findVersion(ctx, t, r.Domain, r.ID, r.Latest)
}

// checkNames refuses names of an item that the rule does not have already.
func (t *tx) checkNames(ctx context.Context, r *Rule, it *item) error {
	bad := it.checkNames(nil)
	if bad == nil || r.Latest == 0 {
		return bad
	}
	v, err := findVersion(ctx, t, r.Domain, r.ID, r.shown())
	if err != nil {
		return err
	}
	old, err := readItem(r.Domain, v.Text)
	if err != nil { // it was taken away
		return bad
	}
	return it.checkNames(old.names)
}

// teamOf is whose a rule is with a text: a rule that is taken away stays whose
// it was.
func teamOf(d *Domain, r *Rule, it *item) string {
	switch {
	case it.owner != "":
		return it.owner
	case it.text == "" && r.Team != "":
		return r.Team
	}
	return d.Team
}

// ruleAt is a rule that was not changed since match, or at 0 one that is to come.
func (t *tx) ruleAt(ctx context.Context, d *Domain, id string, match int64) (Rule, error) {
	r, err := t.rule(ctx, d.Name, id)
	switch {
	case err != nil:
		return r, err
	case r.Gone && match == 0, r.Revision == match:
		return r, nil
	case r.Revision == 0:
		return r, notFound("there is no rule %s in domain %s", nameOf(id), d.Name)
	}
	if match == 0 {
		return r, &Error{Kind: Exists, Field: "rule", Text: fmt.Sprintf("there is a rule %s in domain %s; change that one, at revision %d", nameOf(id), d.Name, r.Revision)}
	}
	return r, stale(fmt.Sprintf("rule %s of domain %s", nameOf(id), d.Name), r.Revision)
}

// add writes a version, if the actor may and there is room.
func (t *tx) add(ctx context.Context, d *Domain, r *Rule, v Version) error {
	if err := t.mayPropose(d, r, v.Team); err != nil {
		return err
	}
	if err := t.roomFor(ctx, d, r, v.Team); err != nil {
		return err
	}
	return t.write(ctx, r, v)
}

// mayPropose is whether the actor may give a rule a version that makes it team's.
func (t *tx) mayPropose(d *Domain, r *Rule, team string) error {
	switch {
	case !r.Gone:
		if err := t.by.need(Propose, "change rule "+nameOf(r.ID), r.Team, d.Team); err != nil {
			return err
		}
		if team == r.Team {
			return nil
		}
	case !d.Shared:
		if err := t.by.need(Propose, "add a rule to domain "+d.Name, d.Team); err != nil {
			return err
		}
	}
	// The rule counts against the quota of its team.
	if err := t.by.need(Propose, "make a rule of team "+team, team); err != nil {
		return &Error{Kind: Forbidden, Field: "owner", Text: err.Error() + "; leave owner out, or let that team propose it"}
	}
	return nil
}

// placeFor is where a rule stands: where it stood, before another, or last.
func (t *tx) placeFor(ctx context.Context, r *Rule, before string) (place int64, err error) {
	if before == "" {
		// A version that was withdrawn, and what it moved, is nowhere.
		if stood := cmp.Or(r.Draft, r.Shadow, r.Enforced); stood > 0 && !r.Gone {
			v, err := findVersion(ctx, t, r.Domain, r.ID, stood)
			return v.place, err
		}
		err = t.QueryRowContext(ctx, `SELECT COALESCE(MAX(place), 0) FROM versions WHERE domain = $1`, r.Domain).Scan(&place)
		return place + gap, err
	}
	var next, last int64
	err = t.QueryRowContext(ctx, `SELECT v.place FROM rules r JOIN versions v ON v.domain = r.domain AND v.rule = r.id
			AND v.number = CASE WHEN r.enforced > 0 THEN r.enforced WHEN r.shadow > 0 THEN r.shadow ELSE r.draft END
		WHERE r.domain = $1 AND r.id = $2 AND r.gone = 0`, r.Domain, printable(before, MaxID+1)).Scan(&next)
	if isNone(err) {
		return 0, notFound("there is no rule %s in domain %s to stand before", nameOf(before), r.Domain)
	}
	if err != nil {
		return 0, err
	}
	if err := t.QueryRowContext(ctx, `SELECT COALESCE(MAX(place), 0) FROM versions WHERE domain = $1 AND place < $2`, r.Domain, next).Scan(&last); err != nil {
		return 0, err
	}
	if next-last < 2 {
		return 0, invalid("before", "no room is left before rule %s; give the whole file, which makes room again", nameOf(before))
	}
	return last + (next-last)/2, nil
}

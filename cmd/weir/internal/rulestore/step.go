package rulestore

import (
	"context"
	"fmt"
	"strings"

	"github.com/weir-limit/weir/rules"
)

// Step is a step of a version to another state.
type Step struct {
	Domain, Rule string
	Version      int64
	// To is Shadow or Withdrawn for a version that is open; Enforced also for one
	// that was active before, which rolls back; Disabled for the one in force.
	To     State
	Match  int64 // the Rule.Revision that was seen
	Reason string
	Forced bool // a guard was overruled: for the audit
	Dry    bool // nothing is changed, nor a refusal audited
}

// Move takes a version a step. It takes the role Propose for Shadow and
// Withdrawn, and Publish else, for the rule's team or the domain's. In a domain under review it takes two people
// to disable a version: the first only asks for it, which takes the role Propose, and Rule.Disabling tells; Withdrawn of the active version takes that back.
func (s *Store) Move(ctx context.Context, by Actor, p Step) (Rule, error) {
	var now Rule
	a := attempt{action: Action(p.To, p.Forced), domain: p.Domain, rule: p.Rule, version: p.Version, reason: p.Reason, dry: p.Dry}
	err := s.change(ctx, by, a, func(t *tx) error {
		if err := checkReason(p.Reason, p.To != Withdrawn); err != nil {
			return err
		}
		d, err := t.domain(ctx, p.Domain)
		if err != nil {
			return err
		}
		if now, err = t.ruleAt(ctx, &d, p.Rule, p.Match); err != nil {
			return err
		}
		if p.To == Draft || p.To == "" {
			return invalid("to", "is %q; write shadow, enforced, disabled or withdrawn", p.To)
		}
		if err := t.step(ctx, &d, &now, p.Version, p.To, p.Forced); err != nil {
			return err
		}
		v, err := findVersion(ctx, t, now.Domain, now.ID, now.shown())
		now.Text = v.Text
		return err
	})
	return now, err
}

// shown is the version that people see of a rule.
func (r *Rule) shown() int64 {
	if r.Enforced != 0 {
		return r.Enforced
	}
	return r.Latest
}

// step takes a version of r to a state, and saves r.
func (t *tx) step(ctx context.Context, d *Domain, r *Rule, version int64, to State, forced bool) error {
	var err error
	action := Action(to, forced)
	switch to {
	case Draft, "":
	case Shadow:
		err = t.shadow(ctx, d, r, version)
	case Enforced:
		if err = t.mayPublish(ctx, d, r, version); err == nil {
			err = t.enforce(ctx, d, r, version)
		}
	case Disabled:
		var asked bool
		if asked, err = t.disable(ctx, d, r, version); asked {
			action = "disable.asked"
		}
	case Withdrawn:
		err = t.withdraw(ctx, d, r, version)
	case Superseded:
		err = invalid("to", "is superseded; enforce another version")
	default:
		err = invalid("to", "%q is no state; write draft, shadow, enforced, disabled or withdrawn", clip(string(to)))
	}
	if err != nil {
		return err
	}
	// A draft needs no reason: what it is for is said when it goes on.
	if err := t.exec(ctx, `UPDATE versions SET reason = $1 WHERE domain = $2 AND rule = $3 AND number = $4 AND reason = ''`, t.reason, r.Domain, r.ID, version); err != nil {
		return err
	}
	t.done = append(t.done, Event{Action: action, Domain: r.Domain, Rule: r.ID, Team: r.Team, Version: version, Reason: t.reason})
	return t.save(ctx, r)
}

// stillOpen refuses a version that is neither a draft nor in shadow.
func (t *tx) stillOpen(ctx context.Context, d *Domain, r *Rule, version int64) error {
	if err := t.by.need(Propose, "change rule "+nameOf(r.ID), r.Team, d.Team); err != nil {
		return err
	}
	v, err := findVersion(ctx, t, r.Domain, r.ID, version)
	if err == nil && v.State != Draft && v.State != Shadow {
		err = invalid("version", "%d is %s; propose its text again", version, v.State)
	}
	return err
}

// unpropose takes a version out of those that are proposed.
func (r *Rule) unpropose(version int64) {
	if r.Draft == version {
		r.Draft = 0
	}
	if r.Shadow == version {
		r.Shadow = 0
	}
}

func (t *tx) shadow(ctx context.Context, d *Domain, r *Rule, version int64) error {
	if r.ID == Frame {
		return invalid("to", "the text before the rules has no shadow; enforce it")
	}
	if err := t.stillOpen(ctx, d, r, version); err != nil {
		return err
	}
	if r.Shadow != 0 && r.Shadow != version {
		if err := t.mark(ctx, r, r.Shadow, Withdrawn); err != nil {
			return err
		}
	}
	r.unpropose(version)
	r.Shadow = version
	return t.mark(ctx, r, version, Shadow)
}

func (t *tx) withdraw(ctx context.Context, d *Domain, r *Rule, version int64) error {
	if r.Disabling != "" && version == r.Enforced {
		r.Disabling, r.DisablingReason = "", "" // what was asked for, not the version
		return t.by.need(Propose, "change rule "+nameOf(r.ID), r.Team, d.Team)
	}
	if err := t.stillOpen(ctx, d, r, version); err != nil {
		return err
	}
	r.unpropose(version)
	if err := t.mark(ctx, r, version, Withdrawn); err != nil {
		return err
	}
	return t.settle(ctx, r)
}

// disable leaves a version out, or in a domain under review asks a second person to do it.
func (t *tx) disable(ctx context.Context, d *Domain, r *Rule, version int64) (asked bool, err error) {
	first := d.Review && (r.Disabling == "" || samePerson(r.Disabling, t.by.Name))
	role := Publish
	if first {
		role = Propose
	}
	if err := t.by.need(role, "disable rule "+nameOf(r.ID), r.Team, d.Team); err != nil {
		return false, err
	}
	if r.ID == Frame || version != r.Enforced || r.Disabled || version == 0 {
		return false, invalid("version", "%d of rule %s is not active; only an active version can be disabled", version, nameOf(r.ID))
	}
	switch {
	case first && r.Disabling != "":
		return false, forbidden("domain %s wants a second person: %s asks to disable version %d, so another person must disable it", d.Name, r.Disabling, version)
	case first:
		r.Disabling, r.DisablingReason = t.by.Name, t.reason
		return true, nil
	}
	v, err := findVersion(ctx, t, r.Domain, r.ID, version)
	if err != nil {
		return false, err
	}
	r.Disabled, r.Disabling, r.DisablingReason = true, "", ""
	if err := t.mark(ctx, r, version, Disabled); err != nil {
		return false, err
	}
	return false, t.weigh(ctx, d, v.Text, "")
}

// mayPublish is whether the actor may put a version in force.
func (t *tx) mayPublish(ctx context.Context, d *Domain, r *Rule, version int64) error {
	teams := []string{r.Team, d.Team}
	if r.Gone && !d.Shared { // it would be added to the domain
		teams = teams[1:]
	}
	if err := t.by.need(Publish, "enforce rule "+nameOf(r.ID), teams...); err != nil {
		return err
	}
	v, err := findVersion(ctx, t, r.Domain, r.ID, version)
	switch {
	case err != nil:
		return err
	case v.Team != r.Team:
		if err := t.by.need(Publish, "make a rule of team "+v.Team, v.Team, d.Team); err != nil {
			return err
		}
	}
	switch v.State {
	case Withdrawn:
		return invalid("version", "%d is withdrawn; propose its text again", version)
	case Enforced:
		return invalid("version", "%d is active already", version)
	case Draft, Shadow:
		// A version that was active before had its second person then. Ann is ann.
		if d.Review && samePerson(v.Author, t.by.Name) {
			return forbidden("domain %s wants a second person: %s wrote version %d, so another person must enforce it", d.Name, v.Author, version)
		}
	case Disabled, Superseded:
		// A removal was meant for the rule as it was then.
		if d.Review && v.Text == "" {
			return forbidden("domain %s wants a second person: propose to take rule %s away, and let another person enforce that", d.Name, nameOf(r.ID))
		}
	}
	return nil
}

// enforce puts a version in force, in place of the one before.
func (t *tx) enforce(ctx context.Context, d *Domain, r *Rule, version int64) error {
	v, err := findVersion(ctx, t, r.Domain, r.ID, version)
	if err != nil {
		return err
	}
	before := ""
	if r.Enforced != 0 {
		old, err := findVersion(ctx, t, r.Domain, r.ID, r.Enforced)
		if err != nil {
			return err
		}
		if !r.Disabled {
			before = old.Text
		}
		if err := t.mark(ctx, r, r.Enforced, Superseded); err != nil {
			return err
		}
	}
	if v.Text == "" {
		if _, err := t.endExceptions(ctx, `domain = $3 AND rule = $4`, d.Name, r.ID); err != nil {
			return err
		}
	}
	if v.Text != "" {
		if err := t.bears(ctx, d, r.ID, v.Text); err != nil {
			return err
		}
		if err := t.roomFor(ctx, d, r, v.Team); err != nil {
			return err
		}
	}
	r.Enforced, r.Disabled, r.Team = version, false, v.Team
	r.Disabling, r.DisablingReason = "", ""
	r.unpropose(version)
	if err := t.mark(ctx, r, version, Enforced); err != nil {
		return err
	}
	if err := t.settle(ctx, r); err != nil {
		return err
	}
	return t.weigh(ctx, d, before, v.Text)
}

// settle finds whether a rule is still there.
func (t *tx) settle(ctx context.Context, r *Rule) error {
	r.Gone = false
	if r.Draft != 0 || r.Shadow != 0 {
		return nil
	}
	if r.Enforced == 0 {
		r.Gone = true
		return nil
	}
	v, err := findVersion(ctx, t, r.Domain, r.ID, r.Enforced)
	r.Gone = v.Text == ""
	return err
}

// weight is the most bytes that a text has in a file.
func weight(text string) int64 { return int64(len(text) + maxIndent*strings.Count(text, "\n")) }

// weigh keeps the length of a domain's file, and refuses what is too long.
func (t *tx) weigh(ctx context.Context, d *Domain, before, after string) error {
	d.Bytes += weight(after) - weight(before)
	if err := t.exec(ctx, `UPDATE domains SET bytes = $1 WHERE name = $2`, d.Bytes, d.Name); err != nil {
		return err
	}
	if len(after) <= len(before) {
		return nil
	}
	if d.Bytes > MaxFile {
		return &Error{Kind: Quota, Field: "text", Text: fmt.Sprintf("the file of domain %s would have %d bytes; it may have %d: begin another domain", d.Name, d.Bytes, MaxFile)}
	}
	return t.roomForBytes(ctx)
}

// roomForBytes refuses more than all domains together may have.
func (t *tx) roomForBytes(ctx context.Context) error {
	var all int64
	if err := t.QueryRowContext(ctx, `SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM domains`).Scan(&all); err != nil {
		return err
	}
	const marks = MaxDomains * 256 // what an export puts between the domains
	if all > rules.MaxFileSize-marks {
		return &Error{Kind: Quota, Field: "text", Text: fmt.Sprintf("all rules together would have %d bytes; they may have %d", all, rules.MaxFileSize-marks)}
	}
	return nil
}

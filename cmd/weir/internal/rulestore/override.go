package rulestore

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Override is what holds in an incident for a stated time, in place of the
// limits of a rule or of a whole domain. It ends by itself, on every node. As JSON it stands in its
// domain, and so without Domain: in an answer of the API, and in the copy of the rules that a node
// keeps on disk, as part of a Document. There Document.Name is the domain, and Domain is empty.
type Override struct {
	Domain string `json:"-"`
	Rule   string `json:"rule,omitempty"` // empty: all rules of Domain
	// Percent is how much of each limit passes, 1…99: they are tightened. 0: they
	// are open, decided and reported but not enforced.
	Percent int64     `json:"percent"`
	Until   time.Time `json:"until"`
	Author  string    `json:"author"`
	Reason  string    `json:"reason"`
	// Second is the person that confirmed what Author did, in a domain under review; empty: nobody did.
	Second string `json:"second,omitempty"`
	// Unreviewed is whether Author did it alone in a domain under review.
	Unreviewed bool `json:"unreviewed,omitempty"`
}

// Overrides are those of one domain.
type Overrides []Override

// Active are those that have not ended.
func (all Overrides) Active(now time.Time) (active Overrides) {
	for _, o := range all {
		if o.Until.After(now) {
			active = append(active, o)
		}
	}
	return active
}

// Of gives the one that holds for a rule, nil when none does: its own goes before that of the domain.
func (all Overrides) Of(rule string, now time.Time) (of *Override) {
	for i, o := range all {
		if o.Until.After(now) && (o.Rule == rule || o.Rule == "" && of == nil) {
			of = &all[i]
		}
	}
	return of
}

// MaxOverride is the longest time that an override may hold.
const MaxOverride = 7 * 24 * time.Hour

// Override opens or tightens a rule or a domain until o.Until, in place of any
// override that it had; an o.Until that is over ends it. It takes the role
// Publish for the rule's team or the domain's. In a domain under review one person alone can do it for
// MaxUnreviewed; another person that does the same confirms it, for as long as that person says.
func (s *Store) Override(ctx context.Context, by Actor, o Override) error {
	action := "open"
	switch {
	case !o.Until.After(time.Now()):
		action = "override.end"
	case o.Percent > 0:
		action = "tighten"
	}
	a := attempt{action: action, domain: o.Domain, rule: o.Rule, reason: o.Reason}
	return s.change(ctx, by, a, func(t *tx) error {
		if err := o.bounded(moment(t.at)); err != nil {
			return err
		}
		return errors.Join(checkReason(o.Reason, true), t.override(ctx, o, o.Until.UnixMicro(), a))
	})
}

// Check fails for an override that nobody may make at a time, as for want of a reason.
func (o *Override) Check(now time.Time) error {
	return errors.Join(o.bounded(now), checkReason(o.Reason, true))
}

func (o *Override) bounded(now time.Time) error {
	switch {
	case o.Percent < 0 || o.Percent > 99:
		return invalid("percent", "is %d; write 1…99 to tighten, 0 to open", o.Percent)
	case o.Until.Sub(now) > MaxOverride:
		return invalid("until", "is more than %d days away; change the rule instead", MaxOverride/(24*time.Hour))
	}
	return nil
}

func (t *tx) override(ctx context.Context, o Override, until int64, a attempt) error {
	d, err := t.domain(ctx, o.Domain)
	if err != nil {
		return err
	}
	teams := []string{d.Team}
	if o.Rule != "" {
		r, err := t.rule(ctx, o.Domain, o.Rule)
		if err != nil {
			return err
		}
		if r.Gone {
			return notFound("there is no rule %s in domain %s", nameOf(o.Rule), d.Name)
		}
		teams = append(teams, r.Team)
	}
	if err := t.by.need(Publish, a.action+" limits of domain "+d.Name, teams...); err != nil {
		return err
	}
	o.Author, o.Until = t.by.Name, moment(until)
	held, err := t.held(ctx, &o)
	if err != nil {
		return err
	}
	if until > t.at {
		if err := t.canOverride(ctx, &d, o); err != nil {
			return err
		}
		if d.Review {
			if err := t.review(ctx, &held, &o, held.Percent == o.Percent); err != nil {
				return err
			}
		}
	}
	err = t.exec(ctx, `
		INSERT INTO overrides (domain, rule, percent, ends, author, reason, second, unreviewed) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
		ON CONFLICT (domain, rule) DO UPDATE SET percent = excluded.percent, ends = excluded.ends, author = excluded.author, reason = excluded.reason,
			second = excluded.second, unreviewed = excluded.unreviewed`,
		o.Domain, o.Rule, o.Percent, until, o.Author, o.Reason, o.Second, number(o.Unreviewed))
	if err != nil {
		return err
	}
	if held.Unreviewed {
		if err := t.cutUnreviewed(ctx, o.Domain, held.Author); err != nil {
			return err
		}
	}
	if err := t.exec(ctx, `UPDATE domains SET revision = $1 WHERE name = $2`, t.revision, o.Domain); err != nil {
		return err
	}
	e := a.event("")
	e.Team = teams[len(teams)-1]
	if until > t.at {
		e.Reason = fmt.Sprintf("until %s, %s: %s", moment(until).Format(time.RFC3339), o.words(), o.Reason)
	}
	if o.Unreviewed {
		e.Action += ".unreviewed"
	}
	t.done = append(t.done, e)
	return nil
}

// canOverride refuses what could not be done to the active rules.
func (t *tx) canOverride(ctx context.Context, d *Domain, o Override) error {
	list, err := t.inForce(ctx, d.Name)
	if err != nil {
		return err
	}
	for _, v := range list {
		if v.Rule == Frame || o.Rule != "" && o.Rule != v.Rule {
			continue
		}
		if _, err := overridden(v.Text, o.Percent); err != nil {
			return named(err, v.Rule)
		}
	}
	return nil
}

// bears refuses the text of a rule to which the override that holds for it can't be
// done: the domain would not change on any node until that ends.
func (t *tx) bears(ctx context.Context, d *Domain, rule, text string) error {
	if rule == Frame {
		return nil
	}
	held := map[string]*Document{d.Name: {}}
	if err := readOverrides(ctx, t, held, d.Name); err != nil {
		return err
	}
	for _, o := range held[d.Name].Overrides {
		if o.Until.UnixMicro() <= t.at || o.Rule != "" && o.Rule != rule {
			continue
		}
		if _, err := overridden(text, o.Percent); err != nil {
			return invalid("text", "can't be opened or tightened as its rule is until %s: %v; or end that first", o.Until.Format(time.RFC3339), err)
		}
	}
	return nil
}

func (o *Override) words() string {
	words := "open"
	if o.Percent != 0 {
		words = fmt.Sprintf("%d %% of each limit", o.Percent)
	}
	if o.Second != "" {
		words += fmt.Sprintf(", by %s and %s", o.Author, o.Second)
	}
	return words
}

// OverridesOf is the active overrides of the domains of a list that is sorted by them, by domain.
func OverridesOf[T any](ctx context.Context, s *Store, list []T, domain func(*T) string) (map[string]Overrides, error) {
	at := map[string]Overrides{}
	if len(list) == 0 {
		return at, nil
	}
	err := eachOverride(ctx, s.read, func(o Override) { at[o.Domain] = append(at[o.Domain], o) },
		`domain >= $1 AND domain <= $2 AND ends > $3`, domain(&list[0]), domain(&list[len(list)-1]), time.Now().UnixMicro())
	return at, s.failed(err)
}

// readOverrides adds the overrides of documents.
func readOverrides(ctx context.Context, q queryer, at map[string]*Document, only string) error {
	return eachOverride(ctx, q, func(o Override) {
		if d := at[o.Domain]; d != nil {
			d.Overrides = append(d.Overrides, o)
		}
	}, `$1 = '' OR domain = $1`, only)
}

func eachOverride(ctx context.Context, q queryer, add func(Override), where string, args ...any) error {
	return each(ctx, q, func(found row) error {
		var o Override
		var ends int64
		err := found.Scan(&o.Domain, &o.Rule, &o.Percent, &ends, &o.Author, &o.Reason, &o.Second, &o.Unreviewed)
		o.Until = moment(ends)
		add(o)
		return err
	}, `SELECT domain, rule, percent, ends, author, reason, second, unreviewed FROM overrides WHERE `+where+` ORDER BY domain, rule`, args...)
}

package rulestore

import (
	"context"
	"time"
)

const (
	// MaxUnreviewed is for how long one person alone may open or tighten limits of a domain under review, within
	// unreviewedIn. An override beyond it is refused, until another person confirms the one that holds.
	MaxUnreviewed = time.Hour
	unreviewedIn  = 24 * time.Hour
	// minUnreviewed is as how long an override counts at least, so that few have to be remembered.
	minUnreviewed = time.Minute
)

// held is what holds for the rule or domain of o at present; zero: nothing does.
func (t *tx) held(ctx context.Context, o *Override) (held Override, err error) {
	var ends int64
	err = t.QueryRowContext(ctx, `SELECT percent, ends, author, second, unreviewed FROM overrides WHERE domain = $1 AND rule = $2 AND ends > $3`,
		o.Domain, printable(o.Rule, MaxID+1), t.at).Scan(&held.Percent, &ends, &held.Author, &held.Second, &held.Unreviewed)
	if isNone(err) {
		return held, nil
	}
	held.Until = moment(ends)
	return held, err
}

// review finds whether two people stand behind o, in a domain under review, in place of what is held, and else counts the time for
// which its author does it alone. alike is whether both do the same.
func (t *tx) review(ctx context.Context, held, o *Override, alike bool) error {
	if t.stand(held, o, alike); !o.Unreviewed {
		return nil
	}
	u, err := t.doneAlone(ctx, o.Domain)
	if err != nil {
		return err
	}
	if err := u.add(o.Until); err != nil {
		return err
	}
	return t.countUnreviewed(ctx, u)
}

// stand says who stands behind o: two people, or its author alone.
func (t *tx) stand(held, o *Override, alike bool) {
	same := !held.Until.IsZero() && alike
	switch {
	case same && !held.Unreviewed && !o.Until.After(held.Until): // it ends earlier
		o.Author, o.Second = held.Author, held.Second
	case same && held.Unreviewed && !samePerson(held.Author, t.by.Name):
		o.Author, o.Second = held.Author, t.by.Name
	default:
		o.Unreviewed = true
	}
}

// span is a time during which overrides of one actor alone hold in a domain.
type span struct{ began, ends int64 }

// unreviewed is what one person has done and does alone in a domain. Time for which several overrides hold counts once.
type unreviewed struct {
	domain, name, person string
	at, used             int64 // used of the last unreviewedIn, until at
	now                  span  // that goes on from at
}

// doneAlone is what the actor has done alone in a domain.
func (t *tx) doneAlone(ctx context.Context, domain string) (*unreviewed, error) {
	u := &unreviewed{domain: domain, name: t.by.Name, person: personOf(t.by.Name), at: t.at, now: span{began: t.at}}
	spans, err := t.spans(ctx, domain, u.person)
	for _, s := range spans {
		u.used += max(min(s.ends, t.at)-max(s.began, t.at-unreviewedIn.Microseconds()), 0)
		if s.ends >= t.at { // it goes on
			u.now = span{s.began, max(u.now.ends, s.ends)}
		}
	}
	return u, err
}

// add is that something is done alone until a time, or why it may not be.
func (u *unreviewed) add(until time.Time) error {
	ends := max(u.now.ends, until.UnixMicro())
	left := MaxUnreviewed - time.Duration(u.used)*time.Microsecond
	if time.Duration(ends-u.at)*time.Microsecond > left {
		return forbidden("domain %s wants a second person: one person alone may open or tighten limits there for %d min in %d h, and %s has %v left; "+
			"take no longer, and let another person do the same, who can choose a longer time",
			u.domain, MaxUnreviewed/time.Minute, unreviewedIn/time.Hour, u.name, max(left, 0).Truncate(time.Second))
	}
	u.now.ends = ends
	return nil
}

// countUnreviewed writes down what is done alone.
func (t *tx) countUnreviewed(ctx context.Context, u *unreviewed) error {
	if err := t.exec(ctx, `DELETE FROM unreviewed WHERE ends <= $1`, t.at-unreviewedIn.Microseconds()); err != nil {
		return err
	}
	return t.exec(ctx, `INSERT INTO unreviewed (domain, actor, began, ends) VALUES ($1, $2, $3, $4) ON CONFLICT (domain, actor, began) DO UPDATE SET ends = excluded.ends`,
		u.domain, u.person, u.now.began, max(u.now.ends, u.now.began+minUnreviewed.Microseconds()))
}

func (t *tx) spans(ctx context.Context, domain, actor string) ([]span, error) {
	return find(ctx, t, func(found row) (s span, err error) {
		err = found.Scan(&s.began, &s.ends)
		return s, err
	}, `SELECT began, ends FROM unreviewed WHERE domain = $1 AND actor = $2 ORDER BY began`, domain, actor)
}

// cutUnreviewed ends the time that counts for an author when nothing that was done alone holds any more.
func (t *tx) cutUnreviewed(ctx context.Context, domain, author string) error {
	actor := personOf(author)
	var holds int64
	err := t.QueryRowContext(ctx, `SELECT COALESCE(MAX(ends), 0) FROM (
		SELECT ends, author FROM overrides WHERE domain = $1 AND unreviewed = 1 UNION ALL SELECT ends, author FROM exceptions WHERE domain = $1 AND unreviewed = 1
	) x WHERE LOWER(author) IN ($2, $3)`, domain, actor, People+"/"+actor).Scan(&holds)
	if err != nil {
		return err
	}
	spans, err := t.spans(ctx, domain, actor)
	if err != nil || len(spans) == 0 {
		return err
	}
	last := spans[len(spans)-1]
	ends := max(holds, t.at, last.began+minUnreviewed.Microseconds())
	if ends >= last.ends {
		return nil
	}
	return t.exec(ctx, `UPDATE unreviewed SET ends = $1 WHERE domain = $2 AND actor = $3 AND began = $4`, ends, domain, actor, last.began)
}

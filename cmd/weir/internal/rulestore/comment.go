package rulestore

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Comment is what somebody said about a version of a rule. It is a line of the audit: nobody can change it or take it away.
// The API gives it as it is.
type Comment struct {
	Line   int64     `json:"line"` // Event.Seq
	At     time.Time `json:"at"`   // UTC, in microseconds
	Author string    `json:"author"`
	Text   string    `json:"text"` // MaxReason bytes at most
}

// MaxComments is how many comments a version may have.
const MaxComments = 100

// Comment adds a comment to a version of a rule, in whatever state it is. It takes the role Propose for the rule's team or the domain's. It
// fails as Quota when there are MaxComments.
func (s *Store) Comment(ctx context.Context, by Actor, domain, rule string, version int64, text string) (Comment, error) {
	var made *tx
	a := attempt{action: commented, domain: domain, rule: rule, version: version, reason: text, people: true}
	err := s.change(ctx, by, a, func(t *tx) error {
		made = t
		if strings.TrimSpace(text) == "" {
			return invalid("text", "is empty; write what you have to say of the version")
		}
		if err := checkProse("text", text); err != nil {
			return err
		}
		d, err := t.domain(ctx, domain)
		if err != nil {
			return err
		}
		r, err := t.rule(ctx, domain, rule)
		if err != nil {
			return err
		}
		if _, err := findVersion(ctx, t, domain, rule, version); err != nil {
			return err
		}
		if err := by.need(Propose, "comment on rule "+nameOf(rule), r.Team, d.Team); err != nil {
			return err
		}
		n, err := count(ctx, t, "audit c", " WHERE c.domain = $1 AND c.rule = $2 AND c.version = $3 AND "+isComment, domain, rule, version)
		if err != nil {
			return err
		}
		if n >= MaxComments {
			return &Error{Kind: Quota, Text: fmt.Sprintf("version %d has %d comments, and may not have more; propose the rule again, or go on elsewhere", version, n)}
		}
		e := a.event("")
		e.Team = r.Team
		t.done = append(t.done, e)
		return nil
	})
	if err != nil {
		return Comment{}, err
	}
	return Comment{made.head.Seq, moment(made.at), by.Name, text}, nil
}

// isComment finds lines of the audit, called c, that are comments. It is the condition of an index.
const isComment = `c.action = 'comment' AND c.refused = ''`

// Comments are those on a version of a rule, the oldest first. It has none where there is no such version.
func (s *Store) Comments(ctx context.Context, domain, rule string, version int64) (list []Comment, err error) {
	list, err = find(ctx, s.read, func(found row) (c Comment, err error) {
		var at int64
		err = found.Scan(&c.Line, &at, &c.Author, &c.Text)
		c.At = moment(at)
		return c, err
	}, `SELECT c.seq, c.at, c.actor, c.reason FROM audit c WHERE c.domain = $1 AND c.rule = $2 AND c.version = $3 AND `+isComment+` ORDER BY c.seq`,
		printable(domain, MaxName+1), printable(rule, MaxID+1), version)
	return list, s.failed(err)
}

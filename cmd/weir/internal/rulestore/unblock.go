package rulestore

import (
	"context"
	"fmt"
	"time"
)

const (
	// resetLife is how long nodes hear of a reset. One that is away for longer keeps its count.
	resetLife = time.Minute
	// MaxResets is how many there may be in that time. A further one is refused.
	MaxResets = 1000
)

// Unblock is a client whose counts are to be reset.
type Unblock struct {
	Domain string
	Files  bool   // the domain comes from files, so that it belongs to no team
	Item   string // ID of the rule, whose team may do it, too
	Rule   string // name of the rule, as nodes find it
	Client []byte // name of the client, as the rule's nodes have it
	Reason string
}

// Unblocked is a client whose counts a node is to reset.
type Unblocked struct {
	ID           int64 // it grows
	Domain, Rule string
	Client       []byte
}

// Unblock has all nodes reset the counts of a client of a rule, and audits it. It takes the role Publish for the rule's team or the
// domain's, and of files for all teams. id is for LateNodes.
func (s *Store) Unblock(ctx context.Context, by Actor, u Unblock) (id int64, err error) {
	what := printable(fmt.Sprintf("%s of %s", u.Rule, u.Client), MaxReason)
	a := attempt{action: Reset, domain: printable(u.Domain, MaxName), rule: printable(u.Item, MaxID), reason: what + ": " + u.Reason, people: true}
	err = s.change(ctx, by, a, func(t *tx) error {
		if err := checkReason(u.Reason, true); err != nil {
			return err
		}
		e, teams := a.event(""), []string(nil)
		if !u.Files {
			d, err := t.domain(ctx, u.Domain)
			if err != nil {
				return err
			}
			r, err := t.rule(ctx, u.Domain, u.Item)
			if err != nil {
				return err
			}
			teams = []string{d.Team}
			if !r.Gone {
				teams = append(teams, r.Team)
			}
			e.Team = teams[len(teams)-1]
		}
		if err := by.need(Publish, "unblock clients of domain "+printable(u.Domain, MaxName), teams...); err != nil {
			return err
		}
		n, err := count(ctx, t, "resets", fmt.Sprintf(" WHERE id > %s - $1", s.clock), resetLife.Microseconds())
		if err != nil {
			return err
		}
		if n >= MaxResets {
			return &Error{Kind: Quota, Text: fmt.Sprintf("%d clients were unblocked in the last minute; wait, or change the rule", n)}
		}
		t.done = append(t.done, e)
		var last int64
		if err := t.QueryRowContext(ctx, `SELECT COALESCE(MAX(id), 0), `+s.clock+` FROM resets`).Scan(&last, &id); err != nil {
			return err
		}
		var done int64 // by nodes, also when the database has lost its resets and its clock went back
		if err := t.QueryRowContext(ctx, `SELECT COALESCE(MAX(reset), 0) FROM nodes`).Scan(&done); err != nil {
			return err
		}
		id = max(id, last+1, done+1)
		return t.exec(ctx, `INSERT INTO resets (id, domain, rule, client) VALUES ($1, $2, $3, $4)`,
			id, printable(u.Domain, MaxName), printable(u.Rule, MaxID), u.Client)
	})
	return id, err
}

// DoneResets says that a node has done all resets up to an ID. known is whether the node is listed: else nobody waits for it.
func (s *Store) DoneResets(ctx context.Context, node string, id int64) (known bool, err error) {
	result, err := s.write.ExecContext(ctx, `UPDATE nodes SET reset = $1 WHERE name = $2`, id, printable(node, MaxName))
	if err != nil {
		return false, s.failed(err)
	}
	n, err := result.RowsAffected()
	return n > 0, s.failed(err)
}

// LateNodes is, of the nodes that were heard since so long ago, those that have not done a reset, and how many have.
func (s *Store) LateNodes(ctx context.Context, id int64, heard time.Duration) (done int, late []string, err error) {
	err = each(ctx, s.read, func(found row) error {
		var name string
		var has bool
		err := found.Scan(&name, &has)
		if has {
			done++
		} else {
			late = append(late, name)
		}
		return err
	}, fmt.Sprintf(`SELECT name, reset >= $1 FROM nodes WHERE seen > %s - $2 ORDER BY name LIMIT %d`, s.clock, MaxPage), id, heard.Microseconds())
	return done, late, s.failed(err)
}

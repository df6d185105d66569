package rulestore

import (
	"context"
	"fmt"
)

// Team is a team as the store knows it. It is made when it is first named. The API gives it as it is.
type Team struct {
	Name  string `json:"name"`
	Quota int64  `json:"quota"` // rules it may have
	Rules int64  `json:"rules"` // it has
}

// DefaultQuota is how many rules a team may have unless it is told otherwise.
const DefaultQuota = 1000

// MaxQuota is the most that a team may be given.
const MaxQuota = 1_000_000

// team makes a team unless it is there.
func (t *tx) team(ctx context.Context, name string) error {
	if err := checkName("team", name); err != nil {
		return err
	}
	return t.exec(ctx, `INSERT INTO teams (name, quota) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`, name, DefaultQuota)
}

// roomFor refuses one rule more than a team or a domain may have: r, if it comes
// anew, or over to a team.
func (t *tx) roomFor(ctx context.Context, d *Domain, r *Rule, team string) error {
	if r.ID == Frame || !r.Gone && r.Team == team {
		return nil
	}
	if err := t.team(ctx, team); err != nil {
		return err
	}
	has, quota, err := t.holds(ctx, team)
	if err != nil {
		return err
	}
	if has >= quota {
		return &Error{Kind: Quota, Field: "team", Text: fmt.Sprintf("team %s has %d rules, and may have %d; take one away, or ask an administrator for more", team, has, quota)}
	}
	if !r.Gone { // the domain has it already
		return nil
	}
	if d.Rules >= MaxRules {
		return &Error{Kind: Quota, Field: "domain", Text: fmt.Sprintf("domain %s has %d rules, and may not have more; take one away, or begin another domain", d.Name, d.Rules)}
	}
	d.Rules++
	return nil
}

// holds is how many rules a team has, and how many it may.
func (t *tx) holds(ctx context.Context, team string) (has, quota int64, err error) {
	err = t.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM rules WHERE team = $1 AND id <> '' AND gone = 0), quota FROM teams WHERE name = $1`, team).Scan(&has, &quota)
	return has, quota, err
}

// SetQuota says how many rules a team may have, 0…MaxQuota. The rules that it has stay. It takes
// the role Admin for all teams.
func (s *Store) SetQuota(ctx context.Context, by Actor, team string, quota int64, reason string) error {
	a := attempt{action: "team.quota", team: team, reason: fmt.Sprintf("%d rules: %s", quota, reason), people: true}
	return s.change(ctx, by, a, func(t *tx) error {
		if quota < 0 || quota > MaxQuota {
			return invalid("quota", "is %d; it must be 0…%d", quota, MaxQuota)
		}
		if err := checkReason(reason, true); err != nil {
			return err
		}
		if err := by.need(Admin, "change a quota"); err != nil {
			return err
		}
		if err := t.team(ctx, team); err != nil {
			return err
		}
		return t.exec(ctx, `UPDATE teams SET quota = $1 WHERE name = $2`, quota, team)
	})
}

// Teams lists teams by name, those behind a name, at most limit (0: MaxPage).
func (s *Store) Teams(ctx context.Context, behind string, limit int) (list []Team, err error) {
	list, err = find(ctx, s.read, func(found row) (t Team, err error) {
		err = found.Scan(&t.Name, &t.Quota, &t.Rules)
		return t, err
	}, `SELECT name, quota, (SELECT COUNT(*) FROM rules r WHERE r.team = t.name AND r.id <> '' AND r.gone = 0)
		FROM teams t WHERE name > $1 ORDER BY name LIMIT $2`, printable(behind, MaxName+1), page(limit))
	return list, s.failed(err)
}

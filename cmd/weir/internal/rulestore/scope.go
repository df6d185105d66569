package rulestore

import (
	"context"
	"slices"
)

// Scope is the rules whose clients an actor may read of: names and counts of those that they deny,
// explanations, and reports of versions in shadow.
type Scope struct {
	All     bool     // of all rules, those of files too: the actor stands for all teams
	Domains []string // of whole domains: those of its teams, and public ones
	Rules   []RuleOf // of rules of its teams in other domains
}

// RuleOf is a rule in a domain.
type RuleOf struct{ Domain, ID string }

// Scope is whose clients an actor may read of, whatever its role.
func (s *Store) Scope(ctx context.Context, by Actor) (Scope, error) {
	if slices.Contains(by.Teams, AllTeams) {
		return Scope{All: true}, nil
	}
	mine, teams := by.among(Read, nil)
	var found Scope
	var err error
	found.Domains, err = find(ctx, s.read, func(r row) (name string, err error) {
		err = r.Scan(&name)
		return name, err
	}, `SELECT name FROM domains WHERE deleted = 0 AND (public = 1 OR team`+mine+`)`, teams...)
	if err != nil {
		return Scope{}, s.failed(err)
	}
	found.Rules, err = find(ctx, s.read, func(r row) (one RuleOf, err error) {
		err = r.Scan(&one.Domain, &one.ID)
		return one, err
	}, `SELECT r.domain, r.id FROM rules r JOIN domains d ON d.name = r.domain
		WHERE d.deleted = 0 AND d.team <> r.team AND r.gone = 0 AND r.id <> '' AND r.team`+mine, teams...)
	return found, s.failed(err)
}

// Reads is whether the scope has a rule of a domain.
func (s *Scope) Reads(domain, rule string) bool {
	return s.All || slices.Contains(s.Domains, domain) || slices.Contains(s.Rules, RuleOf{domain, rule})
}

package rulestore

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testScope: an actor may read of the clients of its teams' domains and rules, and of public
// domains, whatever its role; an actor of all teams of all.
func testScope(t *testing.T, s *Store) {
	ctx := t.Context()
	domain := func(d Domain) Domain {
		t.Helper()
		made, err := s.CreateDomain(ctx, root(), NewDomain{Name: d.Name, Team: d.Team, Public: d.Public}, "a test")
		if err != nil {
			t.Fatal(err)
		}
		if made.Public != d.Public {
			t.Errorf("%+v is public: %v", d, made.Public)
		}
		return made
	}
	domain(Domain{Name: "mail", Team: "mail"})
	open := domain(Domain{Name: "open", Team: "pay", Public: true})
	put(t, s, "- key: newsletter\n  owner: mail\n  limits: [1/s]\n")
	put(t, s, rule("user", "1/s"))
	reads := func(teams ...string) Scope {
		t.Helper()
		found, err := s.Scope(ctx, as("ann", Read, teams...))
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(found.Domains)
		return found
	}
	of := []RuleOf{{"shop", "newsletter"}}
	for _, c := range []struct {
		teams []string
		want  Scope
	}{
		{[]string{"mail"}, Scope{Domains: []string{"mail", "open"}, Rules: of}},
		{[]string{"shop"}, Scope{Domains: []string{"open", "shop"}}},
		{[]string{"shop", "mail"}, Scope{Domains: []string{"mail", "open", "shop"}, Rules: of}},
		{[]string{"nobody' OR 1 = 1 --"}, Scope{Domains: []string{"open"}}},
		{nil, Scope{Domains: []string{"open"}}},
		{[]string{"shop", AllTeams}, Scope{All: true}},
	} {
		if d := cmp.Diff(c.want, reads(c.teams...)); d != "" {
			t.Errorf("%v:\n%s", c.teams, d)
		}
	}
	refusedAs(t, second(s.UpdateDomain(ctx, as("mal", Admin, "mail"), Domain{Name: "shop", Team: "shop", Public: true}, file(t, s).Revision, "let me see")), Forbidden)
	open.Public = false
	open, err := s.UpdateDomain(ctx, root(), open, open.Revision, "not any more")
	if err != nil || open.Public {
		t.Fatal(open, err)
	}
	if got := reads("shop"); !slices.Equal(got.Domains, []string{"shop"}) {
		t.Error(got)
	}
	// A domain that was public is not so when it is made again.
	shown := domain(Domain{Name: "shown", Team: "pay", Public: true})
	if err := s.DeleteDomain(ctx, root(), Removal{Domain: "shown", Confirm: "shown", Match: shown.Revision, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	if got := reads("shop", "pay"); !slices.Equal(got.Domains, []string{"open", "shop"}) {
		t.Error(got)
	}
	if back, err := s.RestoreDomain(ctx, root(), "shown", 0, "a test"); err != nil || !back.Public {
		t.Error("what was public is restored without:", back, err)
	} else if err := s.DeleteDomain(ctx, root(), Removal{Domain: "shown", Confirm: "shown", Match: back.Revision, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	domain(Domain{Name: "shown", Team: "web"})
	if got := reads("shop"); !slices.Equal(got.Domains, []string{"shop"}) {
		t.Error(got)
	}
}

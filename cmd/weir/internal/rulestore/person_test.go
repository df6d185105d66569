package rulestore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestNameOf: every person has a name that audit and history can have, that no token can, and that no other person can take by what they choose.
func TestNameOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ email, username, want string }{
		{"Ann@Example.com", "ann", "oidc/ann@example.com"},
		{"", "Ann", "oidc/ann~a9491f4c1b"},
		{"", "ann@example.com", "oidc/ann@example.com~a9491f4c1b"},
		{"o'brien@example.com", "o'brien", "oidc/o-brien~a9491f4c1b"},
		{"", "", "oidc/~a9491f4c1b"},
		{"", "аnn", "oidc/-nn~a9491f4c1b"},
	} {
		if got := NameOf("subject", c.email, c.username); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	rapid.Check(t, func(q *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z@~/.]{0,300}`))
		email, username := text.Draw(q, "email"), text.Draw(q, "username")
		name := NameOf("one", email, username)
		if err := checkName("actor", name); err != nil || !strings.HasPrefix(name, "oidc/") {
			q.Fatal(name, err)
		}
		if other := NameOf("other", "", text.Draw(q, "other")); other == name {
			q.Fatal("two people are called ", name)
		}
	})
}

// TestAs: a person has for each team the strongest role that was granted for it, or for all teams, and no other.
func TestAs(t *testing.T) {
	t.Parallel()
	teams := []string{"shop", "mail", "stock", AllTeams, "ä", "", "a b"}
	rapid.Check(t, func(q *rapid.T) {
		var grants []Grant
		for range rapid.IntRange(0, 6).Draw(q, "grants") {
			grants = append(grants, Grant{Role(rapid.IntRange(0, int(Admin)).Draw(q, "role")), rapid.SampledFrom(teams).Draw(q, "team")})
		}
		p := Person{Name: "oidc/ann"}
		by, err := p.As(grants)
		may := func(role Role, team string) bool {
			return slices.ContainsFunc(grants, func(g Grant) bool { return g.Role >= role && (g.Team == team || g.Team == AllTeams) })
		}
		some := false
		for _, team := range []string{"shop", "mail", "stock", AllTeams} {
			for role := Read; role <= Admin; role++ {
				if got := err == nil && by.May(role, team); got != may(role, team) {
					q.Fatalf("%v for %q: %v", role, team, got)
				}
				if err == nil && team != AllTeams && (by.need(role, "do it", team) == nil) != may(role, team) {
					q.Fatalf("%v for %q: %v", role, team, by.need(role, "do it", team))
				}
				some = some || may(role, team)
			}
		}
		if (err == nil) != some || err != nil && !IsKind(err, Unknown) {
			q.Fatal(by, err)
		}
		if err == nil && by.May(Admin) != may(Admin, AllTeams) {
			q.Fatal("for what belongs to no team: ", by)
		}
	})
	var many []Grant
	for i := range maxTeams + 1 {
		many = append(many, Grant{Publish, fmt.Sprint("team", i)})
	}
	p := Person{Name: "oidc/ann"}
	if _, err := p.As(many[:maxTeams]); err != nil {
		t.Error(err)
	}
	if _, err := p.As(many); !IsKind(err, Quota) {
		t.Error(err)
	}
	if by, err := p.As(append(many, Grant{Admin, AllTeams})); err != nil || len(by.Teams) != 1 {
		t.Error(by, err)
	}
}

// testPeople: what a person may do is told for each team, also where somebody else's token has the name; the two are one person under review.
func testPeople(t *testing.T, s *Store) {
	ctx := t.Context()
	p := Person{Issuer: "https://login.example.com", Subject: "subject", Name: "oidc/ann@example.com", Groups: []string{"Shop leads", "dev-mail"}, Hint: strings.Repeat("x", MaxHint)}
	ann, err := p.As([]Grant{{Propose, "shop"}, {Admin, "mail"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateDomain(ctx, ann, NewDomain{Name: "mail", Team: "mail"}, "a test"); err != nil {
		t.Error(err)
	}
	if _, err := s.CreateDomain(ctx, ann, NewDomain{Name: "shop2", Team: "shop"}, "a test"); kindOf(err) != int(Forbidden) || !strings.Contains(err.Error(), "takes the role admin for team shop") {
		t.Error(err)
	}
	v, err := s.Propose(ctx, ann, Proposal{Domain: "shop", Text: rule("user", "10/s"), To: Shadow, Reason: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Move(ctx, ann, Step{Domain: "shop", Rule: "user", Version: 1, To: Enforced, Match: v.Revision, Reason: "a test"}); kindOf(err) != int(Forbidden) {
		t.Error("a weaker role counts as the strongest:", err)
	}
	for _, name := range []string{"oidc", "OIDC/ann@example.com", p.Name} {
		if _, _, err := s.CreateToken(ctx, root(), Token{Actor: name, Role: Read, Teams: []string{"shop"}}, "a test"); kindOf(err) != int(Invalid) {
			t.Errorf("a token of %s: %v", name, err)
		}
	}
	// A token that has her address is hers, under review.
	k, _, err := s.CreateToken(ctx, root(), Token{Actor: "Ann@example.com", Role: Publish, Teams: []string{"shop"}}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	hers, err := k.holder(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Domain(ctx, "shop")
	if d.Review = true; err == nil {
		_, err = s.UpdateDomain(ctx, root(), d, d.Revision, "a test")
	}
	if err != nil {
		t.Fatal(err)
	}
	// It waits for others, and for her as a publisher of mail alone it does not.
	for by, n := range map[*Actor]int64{&hers: 0, &ann: 0, {Name: "bob", Role: Publish, Teams: []string{"shop"}}: 1} {
		if got, err := s.InboxCount(ctx, *by); err != nil || got != n {
			t.Errorf("%d wait for %s, not %d: %v", got, by.Name, n, err)
		}
	}
	if _, err := s.Move(ctx, hers, Step{Domain: "shop", Rule: "user", Version: 1, To: Enforced, Match: v.Revision, Reason: "a test"}); kindOf(err) != int(Forbidden) {
		t.Error("she reviews herself by a token:", err)
	}

	one := Session{ID: SessionID("hers"), Person: p}
	if err := s.BeginSession(ctx, one); err != nil {
		t.Fatal(err)
	}
	found, by, err := s.Session(ctx, one.ID)
	if err != nil || by.Name != "" || found.Person.Name != p.Name || found.Person.Issuer != p.Issuer || !slices.Equal(found.Person.Groups, p.Groups) || found.Person.Hint != p.Hint {
		t.Errorf("%+v %+v %v", found, by, err)
	}
}

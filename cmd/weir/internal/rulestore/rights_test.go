package rulestore

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// testRights: who may do what, to whose rules.
func testRights(t *testing.T, s *Store) {
	ctx := t.Context()
	d, err := s.Domain(ctx, "shop")
	if err != nil {
		t.Fatal(err)
	}
	ann, bob, web := as("ann", Publish, "shop"), as("bob", Publish, "shop"), as("wes", Publish, "web")
	owned := func(team string) string { return "- key: of-" + team + "\n  owner: " + team + "\n  limits: [1/s]\n" }
	propose := func(by Actor, text string, to State) error {
		_, err := s.Propose(ctx, by, Proposal{Domain: "shop", Text: text, To: to, Reason: "a test"})
		return err
	}
	refusedAs(t, propose(as("eve", Read, "shop"), rule("a", "1/s"), Draft), Forbidden)
	refusedAs(t, propose(as("ann", Propose, "shop"), rule("a", "1/s"), Enforced), Forbidden)
	refusedAs(t, propose(web, owned("web"), Draft), Forbidden) // the domain is not shared
	d.Shared, d.Review = true, true
	refusedAs(t, second(s.UpdateDomain(ctx, ann, d, d.Revision, "for all")), Forbidden)
	if d, err = s.UpdateDomain(ctx, root(), d, d.Revision, "for all"); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, propose(web, owned("shop"), Draft), Forbidden) // a rule of another team
	if err := propose(web, owned("web"), Shadow); err != nil {
		t.Error(err)
	}
	r, err := s.Rule(ctx, "shop", "of-web")
	if err != nil || r.Team != "web" || r.Shadow != 1 {
		t.Fatal(r, err)
	}
	move := func(by Actor, to State, version int64) error {
		now, err := s.Move(ctx, by, Step{Domain: "shop", Rule: r.ID, Version: version, To: to, Match: r.Revision, Reason: "a test"})
		if err == nil {
			r = now
		}
		return err
	}
	refusedAs(t, move(web, Enforced, 1), Forbidden) // who wrote it: a second person is wanted
	refusedAs(t, move(as("eve", Admin, "other"), Enforced, 1), Forbidden)
	for _, next := range []struct {
		by      Actor
		to      State
		version int64
	}{{ann, Enforced, 1}, {web, Disabled, 1}, {ann, Disabled, 1}, {web, Enforced, 1}} { // what was in force has had its second person
		if err := move(next.by, next.to, next.version); err != nil {
			t.Errorf("%s to %s: %v", next.by.Name, next.to, err)
		}
	}
	refusedAs(t, move(ann, Enforced, 1), Invalid) // it is already
	refusedAs(t, move(ann, Withdrawn, 1), Invalid)
	// A rule is given away by who stands for the other team: it counts there.
	toOther := Proposal{Domain: "shop", Rule: r.ID, Text: "- key: of-web\n  owner: other\n  limits: [1/s]\n", Match: r.Revision}
	for _, by := range []Actor{web, bob} {
		_, err := s.Propose(ctx, by, toOther)
		refusedAs(t, err, Forbidden)
		if bad, ok := errors.AsType[*Error](err); !ok || bad.Field != "owner" && by.Name == "bob" {
			t.Error(err)
		}
	}
	if v, err := s.Propose(ctx, as("bob", Publish, "shop", "other"), toOther); err != nil || v.Team != "other" {
		t.Error(v, err)
	}
	refusedAs(t, s.SetQuota(ctx, as("eve", Admin, "shop"), "shop", 5, "more"), Forbidden)
}

// testQuota: a team has no more rules than it may, whichever way they come, and
// one that is taken away makes place.
func testQuota(t *testing.T, s *Store) {
	ctx := t.Context()
	if err := s.SetQuota(ctx, root(), "shop", 2, "few"); err != nil {
		t.Fatal(err)
	}
	put(t, s, rule("a", "1/s"))
	b := put(t, s, rule("b", "1/s"))
	_, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Text: rule("c", "1/s")})
	refusedAs(t, err, Quota)
	var text strings.Builder
	text.WriteString("domain: shop\ndescriptors:\n")
	for i := range 3 {
		fmt.Fprintf(&text, "- {key: k%d, limits: [1/s]}\n", i)
	}
	_, _, err = s.Import(ctx, root(), Import{Text: text.String(), Match: file(t, s).Revision, To: Draft, Reason: "a test"})
	refusedAs(t, err, Quota)
	// Nor does it have them as those of others, whether there are such or not.
	ghosts := strings.ReplaceAll(text.String(), "limits", "owner: ghost, limits")
	_, _, err = s.Import(ctx, as("ann", Publish, "shop"), Import{Text: ghosts, Match: file(t, s).Revision, To: Draft, Reason: "a test"})
	refusedAs(t, err, Forbidden)
	if _, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Rule: "b", Match: b.Revision, To: Enforced, Reason: "away"}); err != nil {
		t.Fatal(err)
	}
	put(t, s, rule("c", "1/s"))
	teams, err := s.Teams(ctx, "", 0)
	if err != nil || len(teams) != 1 || teams[0] != (Team{"shop", 2, 2}) {
		t.Error(teams, err)
	}
}

// testDisabled: what is disabled or opened is not in force, and comes back as it
// was; a file that lacks it leaves it alone.
func testDisabled(t *testing.T, s *Store) {
	ctx := t.Context()
	v := put(t, s, rule("a", "1/s"))
	put(t, s, rule("b", "1/s"))
	r, err := s.Move(ctx, root(), Step{Domain: "shop", Rule: "a", Version: 1, To: Disabled, Match: v.Revision, Reason: "a test"})
	if err != nil || !r.Disabled {
		t.Fatal(r, err)
	}
	d := file(t, s)
	if d.File != "domain: shop\ndescriptors:\n  - key: b\n    limits: [1/s]\n" {
		t.Error(d.File)
	}
	if _, changes, err := s.Import(ctx, root(), Import{Text: d.File, Match: d.Revision, To: Enforced, Reason: "the same"}); err != nil || len(changes) != 0 {
		t.Error(changes, err)
	}
	list, err := s.Rules(ctx, Listing{State: Disabled})
	if err != nil || len(list) != 1 || list[0].ID != "a" || list[0].Text != rule("a", "1/s") {
		t.Error(list, err)
	}
	if _, err = s.Move(ctx, root(), Step{Domain: "shop", Rule: "a", Version: 1, To: Enforced, Match: list[0].Revision, Reason: "again"}); err != nil {
		t.Error(err)
	}
	if got := file(t, s).File; got != "domain: shop\ndescriptors:\n  - key: a\n    limits: [1/s]\n  - key: b\n    limits: [1/s]\n" {
		t.Error(got)
	}
	if _, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Text: rule("c", "1/s"), Before: "b", To: Enforced, Reason: "in between"}); err != nil {
		t.Error(err)
	}
	if got := file(t, s).File; got != "domain: shop\ndescriptors:\n  - key: a\n    limits: [1/s]\n  - key: c\n    limits: [1/s]\n  - key: b\n    limits: [1/s]\n" {
		t.Error(got)
	}
	_, text, err := s.CreateToken(ctx, root(), Token{Actor: "ann", Role: Read, Teams: []string{"shop"}, Expires: time.Now().Add(30 * time.Millisecond)}, "short")
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		_, err = s.Authenticate(ctx, text)
	}
	refusedAs(t, err, Unknown)
}

func refusedAs(t *testing.T, err error, want Kind) {
	t.Helper()
	if !IsKind(err, want) {
		t.Errorf("%v, want kind %d", err, want)
	}
}

func second[T any](_ T, err error) error { return err }

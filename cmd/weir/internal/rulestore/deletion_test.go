package rulestore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// shopOfAll has rules in every state in the domain shop, which is shared and under review.
func shopOfAll(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	const flush = "# The shop's.\ndomain: shop\ndescriptors:\n# People.\n- key: a\n  limits: [1/s]\n- key: b\n  limits: [2/s]\n- key: c\n  limits: [3/s]\n- key: d\n  limits: [4/s]\n"
	if _, _, err := s.Import(ctx, root(), Import{Text: flush, Match: file(t, s).Domain.Revision, To: Enforced, Reason: "the first"}); err != nil {
		t.Fatal(err)
	}
	d := file(t, s).Domain
	d.Shared, d.Review = true, true
	if _, err := s.UpdateDomain(ctx, root(), d, d.Revision, "for all, by two"); err != nil {
		t.Fatal(err)
	}
	ann, bob := as("ann", Publish, "shop"), as("bob", Publish, "shop")
	propose := func(by Actor, p Proposal) {
		t.Helper()
		if r, err := s.Rule(ctx, "shop", p.Rule); err == nil {
			p.Match = r.Revision
		}
		p.Domain, p.Reason = "shop", "a test"
		if _, err := s.Propose(ctx, by, p); err != nil {
			t.Fatal(err)
		}
	}
	move := func(by Actor, rule string, to State, version int64) {
		t.Helper()
		r, err := s.Rule(ctx, "shop", rule)
		if err == nil {
			_, err = s.Move(ctx, by, Step{Domain: "shop", Rule: rule, Version: version, To: to, Match: r.Revision, Reason: "a test"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	propose(ann, Proposal{Rule: "a", Text: rule("a", "5/s"), To: Shadow})
	propose(ann, Proposal{Rule: "a", Text: rule("a", "6/s"), To: Draft})
	propose(ann, Proposal{Rule: "b", Text: rule("b", "7/s"), To: Shadow})
	move(bob, "b", Enforced, 2)
	move(ann, "c", Disabled, 1)
	move(bob, "c", Disabled, 1)
	propose(ann, Proposal{Rule: "d", To: Draft})
	move(bob, "d", Enforced, 2)
	propose(ann, Proposal{Rule: "e", Text: rule("e", "1/s"), To: Shadow, Before: "b"})
	propose(as("wes", Propose, "web"), Proposal{Rule: "f", Text: "- key: f\n  owner: web\n  limits: [1/s]\n", To: Draft})
}

// stateOf is all that there is of the domain shop, without the revisions of its changes.
func stateOf(t *testing.T, s *Store) (d Document, list []Rule, versions []Version) {
	t.Helper()
	d = file(t, s)
	list, err := s.Rules(t.Context(), Listing{Domain: "shop", Gone: true})
	if err != nil {
		t.Fatal(err)
	}
	frame, err := s.Rule(t.Context(), "shop", Frame)
	if err != nil {
		t.Fatal(err)
	}
	list = append(list, frame)
	for i := range list {
		all, err := s.Versions(t.Context(), "shop", list[i].ID, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		versions = append(versions, all...)
		list[i].Revision = 0
	}
	d.Revision, d.Overrides = 0, nil
	return d, list, versions
}

func away(t *testing.T, s *Store) {
	t.Helper()
	if err := s.DeleteDomain(t.Context(), root(), Removal{Domain: "shop", Confirm: "shop", Match: file(t, s).Revision, Reason: "the wrong one"}); err != nil {
		t.Fatal(err)
	}
}

// testRestored: a domain that was taken away comes back as it was, in every part, and nodes are told.
func testRestored(t *testing.T, s *Store) {
	ctx := t.Context()
	shopOfAll(t, s)
	if err := s.Override(ctx, root(), Override{Domain: "shop", Until: time.Now().Add(time.Minute), Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	d, rules, versions := stateOf(t, s)
	away(t, s)
	_, err := s.Domain(ctx, "shop")
	if refusedAs(t, err, NotFound); !strings.Contains(err.Error(), "it was taken away, and can be restored") {
		t.Error(err)
	}
	list, err := s.Deletions(ctx, "", 0, 0)
	want := []Deletion{{Domain: "shop", Actor: "root", Reason: "the wrong one", Team: "shop", Shared: true, Review: true, Rules: d.Rules}}
	if diff := cmp.Diff(want, list, cmpopts.IgnoreFields(Deletion{}, "Revision", "At")); err != nil || diff != "" {
		t.Fatal(err, diff)
	}
	before, err := s.Published(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	now, err := s.RestoreDomain(ctx, as("ida", Admin, "shop"), "shop", 0, "it was the right one")
	if err != nil || now.Rules != d.Rules || !now.Review || !now.Shared || now.Bytes != d.Bytes {
		t.Fatal(now, err)
	}
	back, rulesNow, versionsNow := stateOf(t, s)
	if diff := cmp.Diff(d, back) + cmp.Diff(rules, rulesNow) + cmp.Diff(versions, versionsNow, cmpopts.IgnoreUnexported(Version{})); diff != "" {
		t.Error(diff)
	}
	if o := file(t, s).Overrides; len(o) != 0 {
		t.Error("what was open is open again:", o)
	}
	told, err := s.Published(ctx, before.Revision)
	if err != nil || len(told.Changed) != 1 || told.Changed[0].File != d.File || len(told.Deleted) != 0 {
		t.Error(told, err)
	}
	if list, err := s.Deletions(ctx, "", 0, 0); err != nil || len(list) != 0 {
		t.Error("what was restored is listed still:", list, err)
	}
	refusedAs(t, second(s.RestoreDomain(ctx, root(), "shop", 0, "again")), NotFound)
	// Work goes on where it was.
	if _, err := s.Move(ctx, as("bob", Publish, "shop"), Step{Domain: "shop", Rule: "e", Version: 1, To: Enforced, Match: now.Revision, Reason: "x"}); err != nil {
		t.Error(err)
	}
}

// testRestoreRefused: a domain is taken away by its name, and restored by the administrators of its team, if there is room for it and no other has its place.
func testRestoreRefused(t *testing.T, s *Store) {
	ctx := t.Context()
	shopOfAll(t, s)
	first := file(t, s)
	for _, confirm := range []string{"", "Shop", "shop "} {
		err := s.DeleteDomain(ctx, root(), Removal{Domain: "shop", Confirm: confirm, Match: first.Revision, Reason: "x"})
		if refusedAs(t, err, Invalid); err == nil || !strings.Contains(err.Error(), "goes away with its 5 rules: write its name, shop") {
			t.Error(err)
		}
	}
	refusedAs(t, s.DeleteDomain(ctx, as("eve", Admin, "web"), Removal{Domain: "shop", Confirm: "shop", Match: first.Revision, Reason: "x"}), Forbidden)
	away(t, s)
	refused := func(by Actor, name string, revision int64, reason string, want Kind, says string) {
		t.Helper()
		_, err := s.RestoreDomain(ctx, by, name, revision, reason)
		if refusedAs(t, err, want); err == nil || !strings.Contains(err.Error(), says) {
			t.Error(err)
		}
	}
	refused(as("ann", Publish, "shop"), "shop", 0, "x", Forbidden, "takes the role admin")
	refused(as("eve", Admin, "web"), "shop", 0, "x", Forbidden, "stand for team shop")
	refused(root(), "shop", 0, "", Invalid, "say why")
	refused(root(), "shop", 7777, "x", NotFound, "was not taken away at revision 7777")
	refused(root(), "none", 0, "x", NotFound, "no domain none was taken away")
	for team, quota := range map[string]int64{"shop": 3, "web": 0} {
		if err := s.SetQuota(ctx, root(), team, quota, "x"); err != nil {
			t.Fatal(err)
		}
		refused(root(), "shop", 0, "x", Quota, "team "+team+" would have")
		if err := s.SetQuota(ctx, root(), team, 10, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.CreateDomain(ctx, root(), NewDomain{Name: "shop", Team: "mail"}, "another one"); err != nil {
		t.Fatal(err)
	}
	put(t, s, rule("mine", "1/s"))
	refused(root(), "shop", 0, "x", Exists, "there is a domain shop again")
	made := file(t, s)
	list, err := s.Deletions(ctx, "shop", 0, 0)
	if err != nil || len(list) != 1 || !list[0].Again {
		t.Fatal(list, err)
	}
	// When that one is gone, either can be had.
	away(t, s)
	if _, err := s.RestoreDomain(ctx, root(), "shop", list[0].Revision, "the first"); err != nil || file(t, s).File != first.File || file(t, s).Team != "shop" {
		t.Error(err, file(t, s))
	}
	if r, err := s.Rule(ctx, "shop", "mine"); err != nil || !r.Gone {
		t.Error(r, err)
	}
	away(t, s)
	left, err := s.Deletions(ctx, "shop", 0, 0)
	if err != nil || len(left) != 2 {
		t.Fatal(left, err)
	}
	if _, err := s.RestoreDomain(ctx, root(), "shop", left[1].Revision, "the second"); err != nil || file(t, s).File != made.File || file(t, s).Team != "mail" {
		t.Error(err, file(t, s))
	}
	for range MaxDeletions + 2 {
		away(t, s)
		if _, err := s.CreateDomain(ctx, root(), NewDomain{Name: "shop", Team: "shop"}, "again"); err != nil {
			t.Fatal(err)
		}
	}
	if list, err = s.Deletions(ctx, "", 0, 0); err != nil || len(list) != MaxDeletions {
		t.Error(len(list), err)
	}
	refused(root(), "shop", left[0].Revision, "x", NotFound, "or that is forgotten")
	if n, err := count(ctx, s.read, "deleted_rules", ""); err != nil || n != MaxDeletions {
		t.Error("rules of deletions that are forgotten are kept:", n, err)
	}
}

// testMadeAgain: a domain that its team makes anew is under review as it was, unless somebody says otherwise; another team's begins afresh.
func testMadeAgain(t *testing.T, s *Store) {
	ctx := t.Context()
	shopOfAll(t, s)
	no := false
	for name, c := range map[string]struct {
		d      NewDomain
		review bool
	}{
		"as it was":      {NewDomain{Name: "shop", Team: "shop"}, true},
		"on purpose":     {NewDomain{Name: "shop", Team: "shop", Review: &no, Shared: &no}, false},
		"another team's": {NewDomain{Name: "shop", Team: "mail"}, false},
	} {
		away(t, s)
		d, err := s.CreateDomain(ctx, root(), c.d, "anew")
		if err != nil || d.Review != c.review || d.Shared != c.review || d.Rules != 0 {
			t.Error(name, d, err)
		}
		d.Team, d.Review, d.Shared = "shop", true, true
		if _, err := s.UpdateDomain(ctx, root(), d, d.Revision, "as before"); err != nil {
			t.Fatal(err)
		}
	}
	away(t, s)
	const flush = "domain: shop\ndescriptors:\n  - key: a\n    limits: [1/s]\n"
	_, _, err := s.Import(ctx, as("ida", Admin, "shop"), Import{Text: flush, Team: "shop", To: Enforced, Reason: "around the review"})
	if bad, ok := errors.AsType[*Error](err); !ok || bad.Kind != Forbidden || !strings.Contains(bad.Text, "second person") {
		t.Error("a file of one person is active in a domain that was under review:", err)
	}
}

package rulestore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// order is the keys of the rules in the file in force.
func order(t *testing.T, s *Store) string {
	t.Helper()
	var keys []string
	for line := range strings.Lines(file(t, s).File) {
		if _, key, ok := strings.Cut(line, "- key: "); ok {
			keys = append(keys, strings.TrimSpace(key))
		}
	}
	return strings.Join(keys, " ")
}

// testPlaces: what was withdrawn moves nothing, neither its rule nor one that is put
// before it.
func testPlaces(t *testing.T, s *Store) {
	ctx := t.Context()
	for _, key := range []string{"a", "b", "c"} {
		put(t, s, rule(key, "1/s"))
	}
	r, err := s.Rule(ctx, "shop", "c")
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Text: rule("c", "2/s"), Before: "a", Match: r.Revision})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Move(ctx, root(), Step{Domain: "shop", Rule: "c", Version: v.Number, To: Withdrawn, Match: v.Revision}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Text: rule("d", "1/s"), Before: "c", To: Enforced, Reason: "before c"}); err != nil {
		t.Fatal(err)
	}
	if got := order(t, s); got != "a b d c" {
		t.Error("one before c:", got)
	}
	put(t, s, rule("c", "3/s"))
	if got := order(t, s); got != "a b d c" {
		t.Error("c again:", got)
	}
}

// testHandedOver: a domain that goes to another team takes its rules along, with
// what is proposed and what was in force before, but for rules that say whose they
// are.
func testHandedOver(t *testing.T, s *Store) {
	ctx := t.Context()
	put(t, s, rule("plain", "1/s"))
	put(t, s, "- key: said\n  owner: shop\n  limits: [1/s]\n")
	put(t, s, rule("plain", "2/s"))
	r, err := s.Rule(ctx, "shop", "plain")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Text: rule("plain", "3/s"), Match: r.Revision}); err != nil {
		t.Fatal(err)
	}
	d := file(t, s).Domain
	d.Team = "web"
	if _, err := s.UpdateDomain(ctx, root(), d, d.Revision, "it is theirs"); err != nil {
		t.Fatal(err)
	}
	teams := func() string {
		var said []string
		for _, id := range []string{"plain", "said"} {
			r, err := s.Rule(ctx, "shop", id)
			if err != nil {
				t.Fatal(err)
			}
			said = append(said, id+" "+r.Team)
		}
		return strings.Join(said, ", ")
	}
	if got := teams(); got != "plain web, said shop" {
		t.Error(got)
	}
	for _, number := range []int64{1, 3} { // back, and to the draft
		if r, err = s.Rule(ctx, "shop", "plain"); err != nil {
			t.Fatal(err)
		}
		// Who stands for the team that had it has nothing to do with it any more.
		refusedAs(t, second(s.Move(ctx, as("ann", Publish, "shop"), Step{Domain: "shop", Rule: "plain", Version: number, To: Enforced, Match: r.Revision, Reason: "mine"})), Forbidden)
		if _, err := s.Move(ctx, as("wes", Publish, "web"), Step{Domain: "shop", Rule: "plain", Version: number, To: Enforced, Match: r.Revision, Reason: "a test"}); err != nil {
			t.Error(err)
		}
		if got := teams(); got != "plain web, said shop" {
			t.Errorf("version %d: %s", number, got)
		}
	}
}

// testHandedOverQuota: a domain goes to no team that may not have as many rules. What says whose
// it is does not go, and so does not count; nor does what the team has anyway.
func testHandedOverQuota(t *testing.T, s *Store) {
	ctx := t.Context()
	put(t, s, rule("a", "1/s"))
	put(t, s, rule("b", "1/s"))
	put(t, s, "- key: said\n  owner: shop\n  limits: [1/s]\n")
	give := func(domain string) error {
		d, err := s.Domain(ctx, domain)
		if err != nil {
			t.Fatal(err)
		}
		d.Team = "web"
		_, err = s.UpdateDomain(ctx, root(), d, d.Revision, "it is theirs")
		return err
	}
	quota := func(n int64) {
		t.Helper()
		if err := s.SetQuota(ctx, root(), "web", n, "a test"); err != nil {
			t.Fatal(err)
		}
	}
	quota(1)
	err := give("shop")
	refusedAs(t, err, Quota)
	if err != nil && !strings.Contains(err.Error(), "team web has 0 rules, would get 2 with domain shop, and may have 1") {
		t.Error(err)
	}
	for _, id := range []string{"a", "b", Frame} {
		if r, err := s.Rule(ctx, "shop", id); err != nil || r.Team != "shop" {
			t.Errorf("%q is of team %s, %v", id, r.Team, err)
		}
	}
	quota(2)
	if err := give("shop"); err != nil {
		t.Error(err)
	}
	quota(0)
	if _, err := s.CreateDomain(ctx, root(), NewDomain{Name: "empty", Team: "shop"}, "a test"); err != nil {
		t.Fatal(err)
	}
	if err := give("empty"); err != nil {
		t.Error("of a team that has too many, a domain without rules:", err)
	}
	refusedAs(t, second(s.CreateDomain(ctx, root(), NewDomain{Name: "empty", Team: "shop"}, "a test")), Exists)
	refusedAs(t, second(s.CreateDomain(ctx, root(), NewDomain{Name: "Empty", Team: "shop"}, "a test")), Invalid)
}

// testAway: a rule that was taken away and is proposed anew is not in force.
func testAway(t *testing.T, s *Store) {
	ctx := t.Context()
	v := put(t, s, rule("a", "1/s"))
	v, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Rule: "a", Match: v.Revision, To: Enforced, Reason: "away"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Text: rule("a", "2/s"), Match: v.Revision}); err != nil {
		t.Fatal(err)
	}
	for state, want := range map[State]int{Enforced: 0, proposed: 1, Draft: 1, Disabled: 0} {
		if list, err := s.Rules(ctx, Listing{State: state}); err != nil || len(list) != want {
			t.Errorf("%s: %v %v", state, list, err)
		}
	}
}

// testReason: a draft needs none; why it is there is said when it goes on, and its
// history tells.
func testReason(t *testing.T, s *Store) {
	ctx := t.Context()
	v, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Text: rule("a", "1/s")})
	if err != nil || v.Reason != "" {
		t.Fatal(v, err)
	}
	match := v.Revision
	for _, to := range []State{Shadow, Enforced, Disabled} {
		r, err := s.Move(ctx, root(), Step{Domain: "shop", Rule: "a", Version: 1, To: to, Match: match, Reason: "for " + string(to)})
		if err != nil {
			t.Fatal(err)
		}
		match = r.Revision
		if v, err = s.Version(ctx, "shop", "a", 1); err != nil || v.Reason != "for shadow" {
			t.Error(to, v.Reason, err)
		}
	}
}

// testBears: what is put in force while its domain is tightened can be tightened, or
// is refused; and what was begun can be ended, whatever the rules are by then.
func testBears(t *testing.T, s *Store) {
	ctx := t.Context()
	const odd = "- key: a\n  metadata: {x: &x 4/s}\n  limits: [*x]\n"
	put(t, s, rule("a", "4/s"))
	now := time.Now()
	hold := Override{Domain: "shop", Percent: 50, Until: now.Add(time.Hour), Reason: "too much"}
	if err := s.Override(ctx, root(), hold); err != nil {
		t.Fatal(err)
	}
	r, err := s.Rule(ctx, "shop", "a")
	if err != nil {
		t.Fatal(err)
	}
	p := Proposal{Domain: "shop", Text: odd, Match: r.Revision, To: Enforced, Reason: "a test"}
	_, err = s.Propose(ctx, root(), p)
	refusedAs(t, err, Invalid)
	if err == nil || !strings.Contains(err.Error(), "or end that first") {
		t.Error(err)
	}
	d := file(t, s)
	if text, _, err := d.InForce(now); err != nil || !strings.Contains(text, "limits: [2/s]") {
		t.Error(text, err)
	}
	// It is there all the same, of an older Weir.
	if _, err := s.write.ExecContext(ctx, `UPDATE versions SET text = $1 WHERE rule = 'a'`, odd); err != nil {
		t.Fatal(err)
	}
	hold.Until = now
	if err := s.Override(ctx, root(), hold); err != nil {
		t.Error("it can't be ended:", err)
	}
	if _, err := s.Propose(ctx, root(), p); err != nil {
		t.Error(err)
	}
}

// testKnownNames: a rule that was stored when its name was taken can be changed,
// opened and taken away, and its file given again; a new one of such a name is
// refused, and so is a new name in it.
func testKnownNames(t *testing.T, s *Store) {
	ctx := t.Context()
	const known, other = "us\u0435r", "\u0441\u043e\u0440\u0443" // both with Cyrillic letters
	v := put(t, s, rule("user", "4/s"))
	for _, q := range []string{`UPDATE rules SET id = $1 WHERE id = 'user'`, `UPDATE versions SET rule = $1, text = REPLACE(text, 'user', $1) WHERE rule = 'user'`} {
		if _, err := s.write.ExecContext(ctx, q, known); err != nil {
			t.Fatal(err)
		}
	}
	v, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Text: rule(known, "6/s"), Match: v.Revision, To: Enforced, Reason: "more"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Propose(ctx, root(), Proposal{Domain: "shop", Text: rule(known, "6/s") + "  rate_limit: {name: " + other + ", unit: second, requests_per_unit: 1}\n", Match: v.Revision})
	refusedAs(t, err, Invalid)
	_, err = s.Propose(ctx, root(), Proposal{Domain: "shop", Text: rule(other, "1/s")})
	refusedAs(t, err, Invalid)
	if err := s.Override(ctx, root(), Override{Domain: "shop", Percent: 50, Until: time.Now().Add(time.Hour), Reason: "too much"}); err != nil {
		t.Fatal(err)
	}
	d := file(t, s)
	if text, _, err := d.InForce(time.Now()); err != nil || !strings.Contains(text, "limits: [3/s]") {
		t.Error(text, err)
	}
	again := Import{Text: d.File + "  - key: next\n    limits: [1/s]\n", Match: d.Revision, To: Enforced, Reason: "one more"}
	d.Domain, _, err = s.Import(ctx, root(), again)
	if err != nil {
		t.Fatal(err)
	}
	again.Text, again.Match = again.Text+"  - key: "+other+"\n    limits: [1/s]\n", d.Revision
	_, _, err = s.Import(ctx, root(), again)
	refusedAs(t, err, Invalid)
	if _, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Rule: known, Match: v.Revision, To: Enforced, Reason: "away"}); err != nil {
		t.Error(err)
	}
}

// testGoneRefused: a refusal is in the audit also when who asked has gone.
func testGoneRefused(t *testing.T, s *Store) {
	ctx, leave := context.WithCancel(t.Context())
	err := s.change(ctx, as("eve", Read, "shop"), attempt{action: "enforce", domain: "shop"}, func(*tx) error {
		leave()
		return forbidden("no")
	})
	refusedAs(t, err, Forbidden)
	list, err := s.Audit(t.Context(), Audited{Before: 1 << 62, Limit: 1})
	if err != nil || len(list) != 1 || list[0].Actor != "eve" || list[0].Refused != "no" {
		t.Error(list, err)
	}
}

// testRoom: a rule that goes over to another team is no more in its domain, however
// many there are, and counts for its team.
func testRoom(t *testing.T, s *Store) {
	ctx := t.Context()
	if err := s.SetQuota(ctx, root(), "full", 0, "none"); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, c := range map[string]struct {
		r    Rule
		team string
	}{
		"one more": {Rule{ID: "a", Gone: true}, "shop"}, "over": {Rule{ID: "a", Team: "web"}, "shop"}, "the same": {Rule{ID: "a", Team: "shop"}, "shop"},
		"over, but full": {Rule{ID: "a", Team: "web"}, "full"},
	} {
		err := s.try(ctx, root(), attempt{action: "a test"}, func(t *tx) error {
			return t.roomFor(ctx, &Domain{Name: "shop", Rules: MaxRules}, &c.r, c.team)
		})
		got[name] = strings.TrimSpace(fmt.Sprint(err))
	}
	want := map[string]string{
		"over": "<nil>", "the same": "<nil>",
		"one more":       "domain: domain shop has 10000 rules, and may not have more; take one away, or begin another domain",
		"over, but full": "team: team full has 0 rules, and may have 0; take one away, or ask an administrator for more",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// testNodes: nodes tell what they have in force, are listed with how long they have
// been silent, and are left out when they have gone or said nothing for an hour.
func testNodes(t *testing.T, s *Store) {
	ctx := t.Context()
	for _, n := range []Node{{Name: "b", Version: "v2", Revision: 7}, {Name: "a", Version: "v1", Revision: 6}, {Name: "a", Version: "v1", Revision: -1}, {Name: "c"}, {Name: "gone"}} {
		if err := s.Tell(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	ago := func(name string, d time.Duration) {
		if _, err := s.write.ExecContext(ctx, `UPDATE nodes SET seen = seen - $1 WHERE name = $2`, d.Microseconds(), name); err != nil {
			t.Fatal(err)
		}
	}
	ago("a", 30*time.Minute)
	ago("c", 61*time.Minute)
	if err := s.Leave(ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	if err := s.Tell(ctx, Node{Name: "b", Version: "v2", Revision: 8}); err != nil {
		t.Fatal(err)
	}
	list, err := s.Nodes(ctx)
	if err != nil || len(list) != 2 || list[0].Silent < 30*time.Minute || list[0].Silent > 40*time.Minute || list[1].Silent > 10*time.Minute {
		t.Fatal(list, err)
	}
	list[0].Silent, list[1].Silent = 0, 0
	if diff := cmp.Diff([]Node{{Name: "a", Version: "v1", Revision: -1}, {Name: "b", Version: "v2", Revision: 8}}, list); diff != "" {
		t.Error(diff)
	}
}

// testGoneRules: a rule that was taken away comes back by who may add one to its domain,
// and of a domain that another team has made anew its rules are that team's.
func testGoneRules(t *testing.T, s *Store) {
	ctx := t.Context()
	web := as("wes", Publish, "web")
	back := func(by Actor, domain string) error {
		t.Helper()
		r, err := s.Rule(ctx, domain, "of-web")
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Move(ctx, by, Step{Domain: domain, Rule: "of-web", Version: 1, To: Enforced, Match: r.Revision, Reason: "it was good"})
		return err
	}
	v := put(t, s, "- key: of-web\n  owner: web\n  limits: [1/s]\n")
	if _, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Rule: "of-web", Match: v.Revision, To: Enforced, Reason: "away"}); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, back(web, "shop"), Forbidden)
	d := file(t, s).Domain
	d.Shared = true
	if _, err := s.UpdateDomain(ctx, root(), d, d.Revision, "for all"); err != nil {
		t.Fatal(err)
	}
	if err := back(web, "shop"); err != nil {
		t.Error(err)
	}

	put(t, s, rule("plain", "1/s"))
	if err := s.DeleteDomain(ctx, root(), Removal{Domain: "shop", Confirm: "shop", Match: file(t, s).Domain.Revision, Reason: "over"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateDomain(ctx, root(), NewDomain{Name: "shop", Team: "mail"}, "another one"); err != nil {
		t.Fatal(err)
	}
	refusedAs(t, back(web, "shop"), Forbidden)
	r, err := s.Rule(ctx, "shop", "plain")
	if err != nil {
		t.Fatal(err)
	}
	step := Step{Domain: "shop", Rule: "plain", Version: 1, To: Enforced, Match: r.Revision, Reason: "it was ours"}
	_, err = s.Move(ctx, as("ann", Publish, "shop"), step)
	refusedAs(t, err, Forbidden)
	if r, err = s.Move(ctx, as("mia", Publish, "mail"), step); err != nil || r.Team != "mail" {
		t.Error(r, err)
	}
}

// testMargin: who may not publish in a domain does nothing to its file, not even to its
// margin, by giving the same rules again.
func testMargin(t *testing.T, s *Store) {
	ctx := t.Context()
	put(t, s, rule("a", "1/s"))
	d := file(t, s).Domain
	d.Shared = true
	d, err := s.UpdateDomain(ctx, root(), d, d.Revision, "for all")
	if err != nil {
		t.Fatal(err)
	}
	const flush = "domain: shop\ndescriptors:\n- key: a\n  limits: [1/s]\n"
	before := file(t, s).File
	same := Import{Text: flush, Match: d.Revision, To: Enforced, Reason: "a test"}
	_, _, err = s.Import(ctx, as("eve", Read, "shop"), same)
	refusedAs(t, err, Forbidden)
	if _, changes, err := s.Import(ctx, as("wes", Publish, "web"), same); err != nil || len(changes) != 0 {
		t.Error(changes, err)
	}
	if after := file(t, s).File; after != before {
		t.Error(after)
	}
	if now, _, err := s.Import(ctx, as("ann", Publish, "shop"), same); err != nil || now.Revision == d.Revision {
		t.Error(now, err)
	}
	if after := file(t, s).File; after != flush {
		t.Error(after)
	}
}

// testTried: the audit tells what somebody was refused to do with teams and tokens, as
// it tells what was done.
func testTried(t *testing.T, s *Store) {
	ctx := t.Context()
	for _, by := range []Actor{as("eve", Admin, "shop"), root()} {
		quota := s.SetQuota(ctx, by, "mail", 5000, "more")
		_, _, token := s.CreateToken(ctx, by, Token{Actor: "mal", Role: Admin, Teams: []string{AllTeams}}, "for all")
		if want := by.Name == "root"; (quota == nil) != want || (token == nil) != want {
			t.Error(quota, token)
		}
	}
	list, err := s.Audit(ctx, Audited{Before: 1 << 62, Limit: 4})
	if err != nil || len(list) != 4 {
		t.Fatal(list, err)
	}
	for i, e := range list {
		_, reason, _ := strings.Cut(e.Reason, " ") // the ID of a token
		want, team := "for mal, admin of [*]: for all", ""
		if e.Action == "team.quota" {
			reason, want, team = e.Reason, "5000 rules: more", "mail"
		}
		if reason != want || e.Team != team || (e.Refused == "") != (i < 2) {
			t.Errorf("%+v", e)
		}
	}
}

package rulestore

import (
	"strings"
	"testing"
	"time"
)

// reviewed puts the rules user and ip into the domain shop, and the domain under review.
func reviewed(t *testing.T, s *Store) {
	t.Helper()
	put(t, s, rule("user", "1/s"))
	put(t, s, rule("ip", "1/s"))
	d := file(t, s).Domain
	d.Review = true
	if _, err := s.UpdateDomain(t.Context(), root(), d, d.Revision, "two see more"); err != nil {
		t.Fatal(err)
	}
}

// testTwoDisable: in a domain under review one person asks to disable a rule and another one does it, whatever is forced; what was asked for is
// taken back, and goes when another version is active.
func testTwoDisable(t *testing.T, s *Store) {
	ctx := t.Context()
	reviewed(t, s)
	ann, bob, cid := as("ann", Publish, "shop"), as("bob", Publish, "shop"), as("cid", Propose, "shop")
	step := func(by Actor, to State, version int64) (Rule, error) {
		t.Helper()
		r, err := s.Rule(ctx, "shop", "user")
		if err != nil {
			t.Fatal(err)
		}
		return s.Move(ctx, by, Step{Domain: "shop", Rule: "user", Version: version, To: to, Match: r.Revision, Reason: "for " + by.Name, Forced: true})
	}
	active := func(want bool) {
		t.Helper()
		if is := strings.Contains(file(t, s).File, "user"); is != want {
			t.Error("the rule is active:", is)
		}
	}
	if _, err := step(as("eve", Read, "shop"), Disabled, 1); !IsKind(err, Forbidden) {
		t.Error(err)
	}
	for _, by := range []Actor{ann, cid} {
		r, err := step(by, Disabled, 1)
		if err != nil || r.Disabled || r.Disabling != by.Name || r.DisablingReason != "for "+by.Name {
			t.Error(r, err)
		}
		again := by
		again.Name = strings.ToUpper(by.Name)
		for _, same := range []Actor{by, again} {
			_, err := step(same, Disabled, 1)
			if refusedAs(t, err, Forbidden); err == nil || !strings.Contains(err.Error(), by.Name+" asks to disable version 1, so another person") {
				t.Error(err)
			}
		}
		active(true)
		if r, err = step(bob, Withdrawn, 1); err != nil || r.Disabling != "" || r.Enforced != 1 {
			t.Error(r, err)
		}
		active(true)
	}
	if _, err := step(ann, Disabled, 1); err != nil {
		t.Fatal(err)
	}
	_, err := step(cid, Disabled, 1)
	refusedAs(t, err, Forbidden) // whoever does it publishes
	if r, err := step(bob, Disabled, 1); err != nil || !r.Disabled || r.Disabling != "" {
		t.Error(r, err)
	}
	active(false)
	if _, err := step(ann, Enforced, 1); err != nil { // it was reviewed, and limits again
		t.Error(err)
	}
	if _, err := step(ann, Disabled, 1); err != nil {
		t.Fatal(err)
	}
	v, err := s.Propose(ctx, ann, Proposal{Domain: "shop", Rule: "user", Text: rule("user", "2/s"), Match: file(t, s).Revision, To: Draft})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := step(bob, Enforced, v.Number); err != nil || r.Disabling != "" {
		t.Error("what was asked for an older version stands:", r, err)
	}
	active(true)
	list, err := s.Audit(ctx, Audited{Domain: "shop", Rule: "user"})
	if err != nil {
		t.Fatal(err)
	}
	var done []string
	for _, e := range list {
		if strings.HasPrefix(e.Action, "disable") && e.Refused == "" {
			done = append(done, e.Action+" "+e.Actor)
		}
	}
	if got := strings.Join(done, ", "); got != "disable.asked ann, disable.asked cid, disable.asked ann, disable.forced bob, disable.asked ann" {
		t.Error(got)
	}
}

// testRemovedAgain: a removal of old is no way around the second person.
func testRemovedAgain(t *testing.T, s *Store) {
	ctx := t.Context()
	put(t, s, rule("user", "1/s"))
	r, err := s.Rule(ctx, "shop", "user")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Propose(ctx, root(), Proposal{Domain: "shop", Rule: "user", Match: r.Revision, To: Enforced, Reason: "away"}); err != nil {
		t.Fatal(err)
	}
	reviewed(t, s)
	if r, err = s.Rule(ctx, "shop", "user"); err != nil || r.Enforced != 3 {
		t.Fatal(r, err)
	}
	_, err = s.Move(ctx, as("ann", Publish, "shop"), Step{Domain: "shop", Rule: "user", Version: 2, To: Enforced, Match: r.Revision, Reason: "around", Forced: true})
	if refusedAs(t, err, Forbidden); !strings.Contains(file(t, s).File, "user") {
		t.Error("one person has taken the rule away")
	}
	if _, err := s.Move(ctx, as("ann", Publish, "shop"), Step{Domain: "shop", Rule: "user", Version: 1, To: Enforced, Match: r.Revision, Reason: "as it was"}); err != nil {
		t.Error("a rule can't be rolled back:", err)
	}
}

// openShop opens the domain shop or a rule of it.
func openShop(t *testing.T, s *Store, by Actor, rule string, percent int64, long time.Duration) error {
	t.Helper()
	return s.Override(t.Context(), by, Override{Domain: "shop", Rule: rule, Percent: percent, Until: time.Now().Add(long), Reason: "a test"})
}

// heldNow is the overrides that hold in the domain shop.
func heldNow(t *testing.T, s *Store) (list []Override) {
	t.Helper()
	for _, o := range file(t, s).Overrides {
		if o.Until.After(time.Now()) {
			list = append(list, o)
		}
	}
	return list
}

// testTwoOpen: in a domain under review one person alone opens or tightens for an hour at most, and another person who does the same confirms it for
// longer. To go beyond that takes two again.
func testTwoOpen(t *testing.T, s *Store) {
	reviewed(t, s)
	ann, bob := as("ann", Publish, "shop"), as("bob", Publish, "shop")
	one := func(want Override, hours float64) {
		t.Helper()
		list := heldNow(t, s)
		if len(list) != 1 || list[0].Author != want.Author || list[0].Second != want.Second || list[0].Unreviewed != want.Unreviewed || list[0].Percent != want.Percent {
			t.Fatalf("%+v", list)
		}
		if left := time.Until(list[0].Until).Hours(); left > hours || left < hours-0.1 {
			t.Errorf("it holds for %v h, not %v", left, hours)
		}
	}
	refused := func(by Actor, percent int64, long time.Duration) {
		t.Helper()
		err := openShop(t, s, by, "", percent, long)
		if refusedAs(t, err, Forbidden); err == nil || !strings.Contains(err.Error(), "wants a second person: one person alone may open or tighten limits there for 60 min in 24 h") {
			t.Error(err)
		}
	}
	do := func(by Actor, percent int64, long time.Duration) {
		t.Helper()
		if err := openShop(t, s, by, "", percent, long); err != nil {
			t.Fatal(err)
		}
	}
	refused(ann, 0, 2*time.Hour)
	refused(as("ada", Admin, AllTeams), 0, MaxOverride)
	refused(ann, 50, 61*time.Minute)
	do(ann, 0, 30*time.Minute)
	one(Override{Author: "ann", Unreviewed: true}, 0.5)
	refused(ann, 0, 2*time.Hour)
	refused(as("ANN", Publish, "shop"), 0, 2*time.Hour)
	refused(bob, 50, 2*time.Hour) // which is not the same
	do(bob, 0, 8*time.Hour)
	one(Override{Author: "ann", Second: "bob"}, 8)
	refused(ann, 0, 9*time.Hour)
	refused(bob, 0, 9*time.Hour)
	do(ann, 0, 5*time.Hour) // it ends earlier
	one(Override{Author: "ann", Second: "bob"}, 5)
	do(bob, 50, 30*time.Minute)
	one(Override{Author: "bob", Unreviewed: true, Percent: 50}, 0.5)
	do(ann, 50, MaxOverride-time.Minute)
	one(Override{Author: "bob", Second: "ann", Percent: 50}, 7*24)
	list, err := s.Audit(t.Context(), Audited{Domain: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	var done []string
	for _, e := range list {
		if e.Refused == "" && (strings.HasPrefix(e.Action, "open") || strings.HasPrefix(e.Action, "tighten")) {
			done = append(done, e.Actor+" "+e.Action)
		}
	}
	if got := strings.Join(done, ", "); got != "ann open.unreviewed, bob open, ann open, bob tighten.unreviewed, ann tighten" {
		t.Error(got)
	}
}

// testAlone: what one person did alone in 24 hours is counted, over all rules of the domain: an hour is not had twice by opening again, by ending it, by
// another rule, or by another way to write the name.
func testAlone(t *testing.T, s *Store) {
	reviewed(t, s)
	ann := as("ann", Publish, "shop")
	past := func(d time.Duration) { // as if so much time had passed
		t.Helper()
		for _, q := range []string{`UPDATE unreviewed SET began = began - $1, ends = ends - $1`, `UPDATE overrides SET ends = ends - $1`} {
			if _, err := s.write.ExecContext(t.Context(), q, d.Microseconds()); err != nil {
				t.Fatal(err)
			}
		}
	}
	do := func(rule string, percent int64, long time.Duration) {
		t.Helper()
		if err := openShop(t, s, ann, rule, percent, long); err != nil {
			t.Fatal(err)
		}
	}
	left := func(want string, by Actor, rule string, long time.Duration) {
		t.Helper()
		err := openShop(t, s, by, rule, 0, long)
		if refusedAs(t, err, Forbidden); err == nil || !strings.Contains(err.Error(), by.Name+" has "+want) {
			t.Error(err)
		}
	}
	do("user", 0, 40*time.Minute)
	do("ip", 0, 40*time.Minute) // at the same time: it counts once
	past(20 * time.Minute)
	left("39m", ann, "", 41*time.Minute)
	do("", 10, 39*time.Minute)
	past(10 * time.Minute)
	do("user", 0, -time.Second)
	do("ip", 0, -time.Second)
	do("", 0, -time.Second) // all are ended: 30 minutes are left
	past(time.Hour)
	left("29m", ann, "user", 31*time.Minute)
	left("29m", as("Ann", Publish, "shop"), "user", 31*time.Minute)
	do("user", 0, 29*time.Minute)
	past(2 * time.Hour)
	left("59s", ann, "ip", 10*time.Minute)
	left("59s", ann, "", 2*time.Minute)
	if err := openShop(t, s, as("bob", Publish, "shop"), "ip", 0, 59*time.Minute); err != nil { // who has an hour, too
		t.Error(err)
	}
	past(23 * time.Hour)
	do("", 0, 59*time.Minute)
	if n, err := count(t.Context(), s.read, "unreviewed", " WHERE actor = 'ann'"); err != nil || n > 2 {
		t.Error("times of yesterday are kept:", n, err)
	}
}

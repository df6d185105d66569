package rulestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weir-limit/weir/internal/postgrestest"
)

// open opens a store that is closed when the test ends.
func open(t testing.TB, place string) *Store {
	t.Helper()
	s, err := Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestStores holds both databases to the same.
func TestStores(t *testing.T) {
	tests := []struct {
		name string
		test func(*testing.T, *Store)
	}{
		{"life", testLife},
		{"editors", testEditors},
		{"wait", testWait},
		{"tokens", testTokens},
		{"certificates", testCertificates},
		{"overrides", testOverrides},
		{"rights", testRights},
		{"exceptions", testExceptions},
		{"exceptions under review", testExceptionReview},
		{"exceptions in parts", testExceptionParts},
		{"exceptions, clocks", testExceptionClocks},
		{"quota", testQuota},
		{"disabled", testDisabled},
		{"places", testPlaces},
		{"handed over", testHandedOver},
		{"handed over, quota", testHandedOverQuota},
		{"away", testAway},
		{"reason", testReason},
		{"bears", testBears},
		{"known names", testKnownNames},
		{"gone refused", testGoneRefused},
		{"room", testRoom},
		{"nodes", testNodes},
		{"gone rules", testGoneRules},
		{"margin", testMargin},
		{"restored", testRestored},
		{"restored, refused", testRestoreRefused},
		{"made again", testMadeAgain},
		{"two disable", testTwoDisable},
		{"removed again", testRemovedAgain},
		{"two open", testTwoOpen},
		{"alone", testAlone},
		{"tried", testTried},
		{"tallies", testTallies},
		{"append-only", testAppendOnly},
		{"tampered", testTampered},
		{"lines", testLines},
		{"names of actors", testNames},
		{"traffic", testTraffic},
		{"scope", testScope},
		{"sessions", testSessions},
		{"sessions, clocks", testSessionClocks},
		{"people", testPeople},
		{"notices", testNotices},
		{"many sessions", testManySessions},
		{"person alone", testPersonAlone},
		{"names of groups", testGroupNames},
		{"clients unsaid", testClientsUnsaid},
		{"inbox", testInbox},
		{"inbox, tokens", testInboxTokens},
		{"inbox, full", testInboxFull},
		{"inbox, mixed roles", testInboxMixed},
		{"comments", testComments},
		{"undo", testUndo},
		{"undo, not", testUndoNot},
		{"limited", testLimited},
		{"unblock", testUnblock},
		{"unblock rights", testUnblockRights},
		{"webhooks", testWebhooks},
		{"outbox", testOutbox},
		{"outbox, long", testOutboxLong},
		{"outbox, made anew", testOutboxMadeAnew},
		{"notices of limits", testLimitNotices},
		{"lease", testLease},
	}
	t.Run("SQLite", func(t *testing.T) {
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				s := shop(t, t.TempDir())
				test.test(t, s)
				known(t, s)
			})
		}
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		server := postgrestest.Start(t)
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) { test.test(t, shop(t, server.Database(t))) })
		}
	})
}

// known fails for an action in the audit that Actions does not tell of, and so no page has words for.
func known(t *testing.T, s *Store) {
	t.Helper()
	actions, err := find(t.Context(), s.read, func(found row) (action string, err error) {
		err = found.Scan(&action)
		return action, err
	}, `SELECT DISTINCT action FROM audit`)
	for _, a := range actions {
		if !slices.Contains(Actions(), a) && !strings.Contains(a, " ") { // those of tests have spaces
			t.Errorf("the audit has the action %q", a)
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// shop opens a store with a domain shop.
func shop(t testing.TB, place string) *Store {
	t.Helper()
	s := open(t, place)
	if _, err := s.CreateDomain(t.Context(), root(), NewDomain{Name: "shop", Team: "shop"}, "a test"); err != nil {
		t.Fatal(err)
	}
	return s
}

func root() Actor { return Actor{Name: "root", Role: Admin, Teams: []string{AllTeams}} }

func as(name string, role Role, teams ...string) Actor {
	return Actor{Name: name, Role: role, Teams: teams}
}

func rule(key, limit string) string {
	return fmt.Sprintf("- key: %s\n  limits: [%s]\n", key, limit)
}

// put enforces a rule of the domain shop, as it is now.
func put(t testing.TB, s *Store, text string) Version {
	t.Helper()
	it, err := readItem("shop", text)
	if err != nil {
		t.Fatal(err)
	}
	match := int64(0)
	if r, err := s.Rule(t.Context(), "shop", it.id); err == nil {
		match = r.Revision
	}
	v, err := s.Propose(t.Context(), root(), Proposal{Domain: "shop", Text: text, Match: match, To: Enforced, Reason: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func file(t testing.TB, s *Store) Document {
	t.Helper()
	d, err := s.Document(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// kindOf is the kind of an error, as -1 when there is none.
func kindOf(err error) int {
	if bad, ok := errors.AsType[*Error](err); ok {
		return int(bad.Kind)
	}
	return -1
}

// testLife: a rule from its draft to its end, and what its history and the audit
// then say.
func testLife(t *testing.T, s *Store) {
	ctx := t.Context()
	ann, bob := as("ann", Propose, "shop"), as("bob", Publish, "shop")
	v1, err := s.Propose(ctx, ann, Proposal{Domain: "shop", Text: rule("user", "10/s")})
	if err != nil {
		t.Fatal(err)
	}
	if got := file(t, s); got.File != "domain: shop\ndescriptors:\n" || got.Candidate != "" {
		t.Errorf("a draft is in the file: %+v", got)
	}
	r, err := s.Move(ctx, ann, Step{Domain: "shop", Rule: "user", Version: v1.Number, To: Shadow, Match: v1.Revision, Reason: "to see"})
	if err != nil {
		t.Fatal(err)
	}
	want := "domain: shop\ndescriptors:\n  - key: user\n    limits: [10/s]\n"
	if got := file(t, s); got.File != "domain: shop\ndescriptors:\n" || got.Candidate != want || len(got.Trials) != 1 {
		t.Errorf("in shadow: %+v", got)
	}
	if _, err := s.Move(ctx, ann, Step{Domain: "shop", Rule: "user", Version: 1, To: Enforced, Match: r.Revision, Reason: "it is fine"}); kindOf(err) != int(Forbidden) {
		t.Errorf("who may propose enforces: %v", err)
	}
	if r, err = s.Move(ctx, bob, Step{Domain: "shop", Rule: "user", Version: 1, To: Enforced, Match: r.Revision, Reason: "it is fine"}); err != nil {
		t.Fatal(err)
	}
	if got := file(t, s); got.File != want || got.Candidate != "" {
		t.Errorf("enforced: %+v", got)
	}
	v2, err := s.Propose(ctx, bob, Proposal{Domain: "shop", Rule: "user", Text: "# fewer\n" + rule("user", "5/s"), Match: r.Revision, To: Enforced, Reason: "too many"})
	if err != nil {
		t.Fatal(err)
	}
	if got := file(t, s).File; got != "domain: shop\ndescriptors:\n  # fewer\n  - key: user\n    limits: [5/s]\n" {
		t.Error(got)
	}
	if r, err = s.Move(ctx, bob, Step{Domain: "shop", Rule: "user", Version: 1, To: Enforced, Match: v2.Revision, Reason: "back"}); err != nil {
		t.Fatal(err)
	}
	if got := file(t, s).File; got != want {
		t.Error(got)
	}
	gone, err := s.Propose(ctx, bob, Proposal{Domain: "shop", Rule: "user", Match: r.Revision, To: Enforced, Reason: "not needed"})
	if err != nil || gone.Text != "" || gone.Base != 1 {
		t.Error(gone, err)
	}
	if got := file(t, s); got.File != "domain: shop\ndescriptors:\n" || got.Rules != 0 || got.Bytes < int64(len(got.File)) {
		t.Errorf("taken away: %+v", got)
	}
	versions, err := s.Versions(ctx, "shop", "user", 0, 0)
	var states []string
	for _, v := range versions {
		states = append(states, fmt.Sprintf("%d %s by %s: %s", v.Number, v.State, v.Author, v.Reason))
	}
	if diff := cmp.Diff([]string{"3 enforced by bob: not needed", "2 superseded by bob: too many", "1 superseded by ann: to see"}, states); err != nil || diff != "" {
		t.Error(err, diff)
	}
	var lines []string
	events, err := s.Audit(ctx, Audited{Domain: "shop", Rule: "user"})
	for _, e := range events {
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%s %s %d %s", e.Actor, e.Action, e.Version, e.Refused), " "))
	}
	refused := "ann enforce 1 to enforce rule user takes the role publish; ann has propose: ask an actor with that role"
	if diff := cmp.Diff([]string{"ann propose 1", "ann shadow 1", refused, "bob enforce 1", "bob enforce 2", "bob enforce 1", "bob enforce 3"}, lines); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// testEditors: 100 editors change 1,000 rules, each at any time: none loses a
// change, and no reader sees half of one.
func testEditors(t *testing.T, s *Store) {
	const editors, rules, each = 100, 1000, 15 // rules of an editor, a third of them of two
	var text strings.Builder
	text.WriteString("domain: shop\ndescriptors:\n")
	for i := range rules {
		text.WriteString(rule(fmt.Sprintf("key%d", i), "1/s, 1/h fixed-window"))
	}
	d, _, err := s.Import(t.Context(), root(), Import{Text: text.String(), Match: file(t, s).Revision, To: Enforced, Reason: "a test"})
	if err != nil || d.Rules != rules {
		t.Fatal(d, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var readers, writers sync.WaitGroup
	readers.Go(func() {
		for last := int64(0); ; {
			now, err := s.Wait(ctx, last)
			if err != nil {
				return // the writers have ended
			}
			const some = 20 // changes between two looks
			if now < last+some {
				last = now
				continue
			}
			last = now
			got, err := s.Document(t.Context(), "shop")
			if err != nil {
				t.Error(err)
				return
			}
			for line := range strings.Lines(got.File) {
				var a, b int
				if n, _ := fmt.Sscanf(line, "  limits: [%d/s, %d/h fixed-window]", &a, &b); n == 2 && a != b {
					t.Errorf("half of a change: %s", line)
				}
			}
		}
	})
	for e := range editors {
		writers.Go(func() {
			for i := range each {
				increment(t, s, fmt.Sprintf("key%d", (e*rules/editors+i)%rules))
			}
		})
	}
	writers.Wait()
	stop()
	readers.Wait()
	end := file(t, s).File
	once, twice := strings.Count(end, "limits: [2/s, 2/h fixed-window]"), strings.Count(end, "limits: [3/s, 3/h fixed-window]")
	if lost := editors*each - once - 2*twice; lost != 0 {
		t.Errorf("%d changes of %d are lost: %d rules have one, %d have two", lost, editors*each, once, twice)
	}
}

// increment raises the limits of a rule by one, trying until nobody is before it.
func increment(t *testing.T, s *Store, key string) {
	for {
		r, err := s.Rule(t.Context(), "shop", key)
		if err != nil {
			t.Error(err)
			return
		}
		var n int
		_, limits, _ := strings.Cut(r.Text, "[")
		if _, err := fmt.Sscanf(limits, "%d/s", &n); err != nil {
			t.Error(err)
			return
		}
		_, err = s.Propose(t.Context(), root(), Proposal{
			Domain: "shop", Text: rule(key, fmt.Sprintf("%d/s, %d/h fixed-window", n+1, n+1)), Match: r.Revision, To: Enforced, Reason: "more",
		})
		switch kindOf(err) {
		case -1:
			return
		case int(Stale):
		default:
			t.Error(err)
			return
		}
	}
}

// testWait: a change wakes those who wait, and the feed has what was changed.
func testWait(t *testing.T, s *Store) {
	before, err := s.Published(t.Context(), 0)
	if err != nil || len(before.Changed) != 1 {
		t.Fatal(before, err)
	}
	done := make(chan int64)
	go func() {
		now, err := s.Wait(t.Context(), before.Revision)
		if err != nil {
			t.Error(err)
		}
		done <- now
	}()
	put(t, s, rule("user", "1/s"))
	after, err := s.Published(t.Context(), before.Revision)
	if now := <-done; err != nil || now != after.Revision || len(after.Changed) != 1 || !strings.Contains(after.Changed[0].File, "key: user") {
		t.Error(now, after, err)
	}
	if err := s.DeleteDomain(t.Context(), root(), Removal{Domain: "shop", Confirm: "shop", Match: after.Changed[0].Domain.Revision, Reason: "over"}); err != nil {
		t.Fatal(err)
	}
	last, err := s.Published(t.Context(), after.Revision)
	if err != nil || len(last.Changed) != 0 || cmp.Diff([]string{"shop"}, last.Deleted) != "" {
		t.Error(last, err)
	}
}

// testCertificates: a certificate stands for one token at a time, which has no text,
// for as long as that counts.
func testCertificates(t *testing.T, s *Store) {
	ctx := t.Context()
	const ci = "spiffe://example.org/ci"
	create := func(actor, uri string, expires time.Time) (Token, error) {
		k, text, err := s.CreateToken(ctx, root(), Token{Actor: actor, Role: Propose, Teams: []string{"shop"}, Certificate: uri, Expires: expires}, "a test")
		if text != "" && uri != "" {
			t.Error("a certificate's token has a text")
		}
		return k, err
	}
	k, err := create("ci", ci, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if by, err := s.AuthenticateCertificate(ctx, ci); err != nil || by.Name != "ci" || by.Role != Propose || by.Token != k.ID || by.Teams[0] != "shop" {
		t.Error(by, err)
	}
	list, _, err := s.Tokens(ctx, root(), "", 0)
	if err != nil || len(list) != 1 || list[0].Certificate != ci {
		t.Error(list, err)
	}
	for _, text := range []string{"weir_" + k.ID + "_", "weir_" + k.ID + "_x", ci} {
		refusedAs(t, second(s.Authenticate(ctx, text)), Unknown)
	}
	_, err = create("eve", ci, time.Time{})
	refusedAs(t, err, Invalid)
	if !strings.Contains(err.Error(), "stands for ci already, by token "+k.ID) {
		t.Error(err)
	}
	for _, uri := range []string{"ci", "/ci", "spiffe:", "spiffe://", "spiffe://ex ample/ci", "spiffe://example.org/c\u0456", "spiffe://example.org/%zz", "spiffe://example.org/ci\x00", "SPIFFE://example.org/ci", "spiffe://example.org/" + strings.Repeat("x", 2048)} {
		_, err := create("ci", uri, time.Time{})
		refusedAs(t, err, Invalid)
	}
	for _, uri := range []string{"", "spiffe://example.org/", ci + "/", "spiffe://example.org/CI", "spiffe://example.org/c%69", strings.Repeat("x", 5000)} {
		refusedAs(t, second(s.AuthenticateCertificate(ctx, uri)), Unknown)
	}
	if err := s.RevokeToken(ctx, root(), k.ID, "over"); err != nil {
		t.Error(err)
	}
	if _, err = s.AuthenticateCertificate(ctx, ci); !IsKind(err, Unknown) || !strings.Contains(err.Error(), "was revoked") {
		t.Error(err)
	}
	next, err := create("ci2", ci, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range []int64{1, next.Made.UnixMicro()} { // 1: by a node whose clock is behind
		if _, err := s.write.ExecContext(ctx, `UPDATE tokens SET made = $1 WHERE id = $2`, made, next.ID); err != nil {
			t.Fatal(err)
		}
		if by, err := s.AuthenticateCertificate(ctx, ci); err != nil || by.Token != next.ID {
			t.Error(by, err)
		}
	}
	if _, err := s.write.ExecContext(ctx, `UPDATE tokens SET expires = $1 WHERE id = $2`, time.Now().Add(-time.Second).UnixMicro(), next.ID); err != nil {
		t.Fatal(err)
	}
	if _, err = s.AuthenticateCertificate(ctx, ci); !IsKind(err, Unknown) || !strings.Contains(err.Error(), "has expired") {
		t.Error(err)
	}
	if _, err := create("ci3", ci, time.Time{}); err != nil {
		t.Error("one that has expired is in the way:", err)
	}
	// A token without a certificate is nobody's by an empty one.
	if _, err := create("ann", "", time.Time{}); err != nil {
		t.Error(err)
	}
	refusedAs(t, second(s.AuthenticateCertificate(ctx, "")), Unknown)
}

// testTokens: who shows a token is who it was made for, until it ends.
func testTokens(t *testing.T, s *Store) {
	ctx := t.Context()
	first, err := s.FirstToken(ctx)
	if err != nil || !strings.HasPrefix(first, "weir_") {
		t.Fatal(first, err)
	}
	if again, err := s.FirstToken(ctx); again != "" || err != nil {
		t.Error("a second first token", err)
	}
	admin, err := s.Authenticate(ctx, first)
	if err != nil || admin.Role != Admin || admin.Teams[0] != AllTeams {
		t.Fatal(admin, err)
	}
	k, text, err := s.CreateToken(ctx, admin, Token{Actor: "ann", Role: Propose, Teams: []string{"shop"}, Expires: time.Now().Add(time.Hour)}, "she asked")
	if err != nil {
		t.Fatal(err)
	}
	if ann, err := s.Authenticate(ctx, text); err != nil || ann.Name != "ann" || ann.Role != Propose || ann.Token != k.ID {
		t.Error(ann, err)
	}
	used := func() time.Time {
		t.Helper()
		list, _, err := s.Tokens(ctx, admin, "", 0)
		if err != nil || len(list) != 2 || list[1].ID != k.ID { // by actor: admin, ann
			t.Fatal(list, err)
		}
		behind, _, err := s.Tokens(ctx, admin, list[0].ID, 0)
		if err != nil || len(behind) != 1 || behind[0].ID != k.ID {
			t.Fatal(behind, err)
		}
		return list[1].Used
	}
	if at := used(); time.Since(at) > time.Minute {
		t.Errorf("used %v", at)
	}
	for ago, written := range map[time.Duration]bool{usedEvery - time.Minute: false, usedEvery + time.Minute: true} {
		before := time.Now().Add(-ago).UnixMicro()
		if _, err := s.write.ExecContext(ctx, `UPDATE tokens SET used = $1 WHERE id = $2`, before, k.ID); err != nil {
			t.Fatal(err)
		}
		if ann, err := s.Authenticate(ctx, text); err != nil || !ann.EndsSoon(time.Now()) || ann.EndsSoon(ann.Expires) {
			t.Error(ann, err)
		}
		if at := used(); (at.UnixMicro() != before) != written {
			t.Errorf("used %v ago, and then %v", ago, at)
		}
	}
	if n, err := s.TokensEnding(ctx, time.Now()); err != nil || n != 1 {
		t.Error(n, "tokens end soon,", err)
	}
	for _, wrong := range []string{"", "weir_", "weir__", text[:len(text)-1], text + "x", strings.Replace(text, k.ID, "abcdefghij", 1), "weir_" + strings.Repeat("x", 1000) + "_y"} {
		if _, err := s.Authenticate(ctx, wrong); kindOf(err) != int(Unknown) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if err := s.RevokeToken(ctx, as("eve", Admin, "other"), k.ID, "to harm"); kindOf(err) != int(Forbidden) {
		t.Error(err)
	}
	if err := s.RevokeToken(ctx, admin, k.ID, "she left"); err != nil {
		t.Error(err)
	}
	if _, err := s.Authenticate(ctx, text); kindOf(err) != int(Unknown) || !strings.Contains(err.Error(), "revoked") {
		t.Error(err)
	}
	events, err := s.Audit(ctx, Audited{})
	if err != nil || strings.Contains(fmt.Sprint(events), strings.Split(text, "_")[2]) {
		t.Error("a token's text is in the audit", err)
	}
}

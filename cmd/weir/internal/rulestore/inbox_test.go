package rulestore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inboxOf is an actor's inbox in words, and its count.
func inboxOf(t *testing.T, s *Store, by Actor) string {
	t.Helper()
	in, err := s.Inbox(t.Context(), by)
	if err != nil {
		t.Fatal(err)
	}
	n, err := s.InboxCount(t.Context(), by)
	if err != nil || n != int64(len(in.ForMe)) {
		t.Errorf("%s: %d things are counted, of %d: %v", by.Name, n, len(in.ForMe), err)
	}
	var words []string
	for _, side := range [][]Waiting{in.ForMe, in.ForOthers} {
		var list []string
		for _, w := range side {
			if time.Since(w.Since) > time.Minute && w.Kind != ToRenew {
				t.Error("it waits since", w.Since)
			}
			list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %d %s by %s", w.Kind, w.Rule, w.Version, w.State, w.Actor)))
		}
		words = append(words, strings.Join(list, ", "))
	}
	return words[0] + " | " + words[1]
}

// testInbox: each thing waits for those who may do it, and not for the person that asks for it, until it is done.
func testInbox(t *testing.T, s *Store) {
	ctx := t.Context()
	reviewed(t, s)
	ann, bob, cid := as("ann", Publish, "shop"), as("Bob", Publish, AllTeams), as("cid", Propose, "shop")
	eve, read := as("eve", Admin, "mail"), as("ro", Read, "shop")
	check := func(want map[string]string) {
		t.Helper()
		for _, by := range []Actor{ann, bob, cid, eve, read} {
			is, ok := want[by.Name]
			if !ok {
				is = " | "
			}
			if got := inboxOf(t, s, by); got != is {
				t.Errorf("%s: %s, not %s", by.Name, got, is)
			}
		}
	}
	change := func(by Actor, id string, do func(r Rule) error) {
		t.Helper()
		r, err := s.Rule(ctx, "shop", id)
		if err != nil {
			t.Fatal(err)
		}
		if err := do(r); err != nil {
			t.Fatal(by.Name, err)
		}
	}
	propose := func(by Actor, text string, to State) {
		t.Helper()
		change(by, "user", func(r Rule) error {
			return second(s.Propose(ctx, by, Proposal{Domain: "shop", Rule: "user", Text: text, Match: r.Revision, To: to, Reason: "for " + by.Name}))
		})
	}
	move := func(by Actor, id string, version int64, to State) {
		t.Helper()
		change(by, id, func(r Rule) error {
			return second(s.Move(ctx, by, Step{Domain: "shop", Rule: id, Version: version, To: to, Match: r.Revision, Reason: "a test"}))
		})
	}
	check(nil)
	propose(ann, rule("user", "2/s"), Shadow)
	propose(cid, "", Draft)
	check(map[string]string{
		"ann": "publish user 3 draft by cid | publish user 2 shadow by ann",
		"Bob": "publish user 2 shadow by ann, publish user 3 draft by cid | ",
		"cid": " | publish user 3 draft by cid",
	})
	in, err := s.Inbox(ctx, bob)
	if err != nil || in.ForMe[0].Before != rule("user", "1/s") || in.ForMe[0].After != rule("user", "2/s") || in.ForMe[1].After != "" || in.ForMe[0].Reason != "for ann" {
		t.Errorf("%+v %v", in, err)
	}
	move(bob, "user", 2, Enforced)
	move(ann, "user", 3, Withdrawn) // sent back
	move(cid, "ip", 1, Disabled)
	if err := openShop(t, s, as("BOB", Publish, AllTeams), "", 50, time.Hour); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{
		"ann": "disable ip 1 enforced by cid, confirm  0  by BOB | ",
		"Bob": "disable ip 1 enforced by cid | confirm  0  by BOB",
		"cid": " | disable ip 1 enforced by cid",
	})
	if err := openShop(t, s, ann, "", 50, 2*time.Hour); err != nil {
		t.Fatal(err)
	}
	move(ann, "ip", 1, Disabled)
	check(nil)
	for _, by := range []Actor{ann, bob} {
		e, err := s.SetException(ctx, by, granting4711("100/s", 30*time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if by.Name == "Bob" {
			break
		}
		check(map[string]string{"ann": " | confirm user 0  by ann", "Bob": "confirm user 0  by ann | "})
		if in, err := s.Inbox(ctx, bob); err != nil || in.ForMe[0].Exception != e.ID {
			t.Errorf("%+v %v", in, err)
		}
	}
	check(nil)

	// Without review nothing waits but what the guard refused, and a refusal of another kind is none.
	d := file(t, s).Domain
	d.Review = false
	if _, err := s.UpdateDomain(ctx, root(), d, d.Revision, "alone again"); err != nil {
		t.Fatal(err)
	}
	propose(cid, rule("user", "3/s"), Shadow)
	change(cid, "user", func(r Rule) error {
		_, err := s.Move(ctx, cid, Step{Domain: "shop", Rule: "user", Version: 4, To: Enforced, Match: r.Revision, Reason: "a test"})
		refusedAs(t, err, Forbidden)
		return nil
	})
	check(nil)
	if err := s.Refused(ctx, ann, Event{Action: Held, Domain: "shop", Rule: "user", Version: 4, Reason: "now", Refused: "it would deny 10 %"}); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{"ann": "publish user 4 shadow by cid | ", "Bob": "publish user 4 shadow by cid | ", "cid": " | publish user 4 shadow by cid"})
	if in, err = s.Inbox(ctx, ann); err != nil || in.ForMe[0].Held != "it would deny 10 %" {
		t.Errorf("%+v %v", in, err)
	}
	move(bob, "user", 4, Enforced)
	check(nil)
}

// testInboxTokens: a token that ends soon waits for administrators of its teams and its holder, until the holder has another one like it.
func testInboxTokens(t *testing.T, s *Store) {
	token := func(actor string, long time.Duration) {
		t.Helper()
		if _, _, err := s.CreateToken(t.Context(), root(), Token{Actor: actor, Role: Propose, Teams: []string{"shop"}, Expires: time.Now().Add(long)}, "a test"); err != nil {
			t.Fatal(err)
		}
	}
	token("ann", time.Hour)
	token("ci", EndNotice+time.Hour)
	for by, want := range map[*Actor]string{
		{Name: "root", Role: Admin, Teams: []string{AllTeams}}: "token  0  by ann | ",
		{Name: "adi", Role: Admin, Teams: []string{"shop"}}:    "token  0  by ann | ",
		{Name: "mia", Role: Admin, Teams: []string{"mail"}}:    " | ",
		{Name: "pub", Role: Publish, Teams: []string{"shop"}}:  " | ",
		{Name: "Ann", Role: Propose, Teams: []string{"shop"}}:  " | token  0  by ann",
	} {
		if got := inboxOf(t, s, *by); got != want {
			t.Errorf("%s: %s", by.Name, got)
		}
	}
	token("ann", 2*EndNotice)
	if got := inboxOf(t, s, root()); got != " | " {
		t.Error("the holder has another token:", got)
	}
}

// testInboxFull: a list has a bound, shows what has waited longest, and says that there is more.
func testInboxFull(t *testing.T, s *Store) {
	reviewed(t, s)
	var text strings.Builder
	text.WriteString("domain: shop\ndescriptors:\n")
	for i := range MaxInbox + 5 {
		fmt.Fprintf(&text, "  - {key: k%03d, limits: [1/s]}\n", i)
	}
	d := file(t, s).Domain
	if _, _, err := s.Import(t.Context(), as("ann", Propose, "shop"), Import{Text: text.String(), Match: d.Revision, To: Shadow, Reason: "many"}); err != nil {
		t.Fatal(err)
	}
	in, err := s.Inbox(t.Context(), root())
	if err != nil || len(in.ForMe) != MaxInbox || !in.More || in.ForMe[0].Rule != "ip" && in.ForMe[0].Rule != "k000" {
		t.Errorf("%d things, %v, %v", len(in.ForMe), in.More, err)
	}
	if n, err := s.InboxCount(t.Context(), root()); err != nil || n != MaxInbox+1 {
		t.Error(n, err)
	}
}

// testComments: what people say of a version stays, in the audit and in its order, up to a bound; who may not change the rule says nothing.
func testComments(t *testing.T, s *Store) {
	ctx := t.Context()
	put(t, s, rule("user", "1/s"))
	cid := as("cid", Propose, "shop")
	cid.Token = "7fq2tbyx5a"
	long := strings.Repeat("ö", MaxReason/2)
	for _, text := range []string{"why so few?\n<b>", long} {
		c, err := s.Comment(ctx, cid, "shop", "user", 1, text)
		if err != nil || c.Text != text || c.Author != "cid" || c.Line == 0 || time.Since(c.At) > time.Minute {
			t.Fatal(c, err)
		}
		list, err := s.Comments(ctx, "shop", "user", 1)
		if err != nil || !cmp.Equal(list[len(list)-1], c) {
			t.Error(list, err)
		}
		line, err := s.Audit(ctx, Audited{Behind: c.Line - 1, Limit: 1})
		if err != nil || line[0].Action != "comment" || line[0].Reason != text || line[0].Team != "shop" || line[0].Version != 1 || line[0].Token != cid.Token || line[0].Revision != 0 {
			t.Errorf("%+v %v", line, err)
		}
	}
	before := file(t, s).Revision
	for _, c := range []struct {
		by      Actor
		rule    string
		version int64
		text    string
		kind    Kind
	}{
		{cid, "user", 1, " \n", Invalid},
		{cid, "user", 1, long + "x", Invalid},
		{cid, "user", 1, "a\u202eb", Invalid},
		{cid, "user", 1, "a\xffb", Invalid},
		{cid, "user", 2, "none", NotFound},
		{cid, "none", 1, "none", NotFound},
		{as("ro", Read, "shop"), "user", 1, "look", Forbidden},
		{as("eve", Admin, "mail"), "user", 1, "look", Forbidden},
	} {
		_, err := s.Comment(ctx, c.by, "shop", c.rule, c.version, c.text)
		refusedAs(t, err, c.kind)
	}
	for n := 2; n < MaxComments; n++ {
		if _, err := s.Comment(ctx, cid, "shop", "user", 1, fmt.Sprint("number ", n)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Comment(ctx, cid, "shop", "user", 1, "one too many")
	refusedAs(t, err, Quota)
	list, err := s.Comments(ctx, "shop", "user", 1)
	if err != nil || len(list) != MaxComments || list[2].Text != "number 2" {
		t.Error(len(list), err)
	}
	if v, err := s.Verify(ctx, nil); err != nil || len(v.Faults) > 0 || file(t, s).Revision != before {
		t.Error("a comment is no change, and a line of the chain:", v, err)
	}
}

// testInboxMixed: a version that was held up waits for those who may publish it there; its author, who may only propose there, sees that it does,
// whatever they may do for other teams.
func testInboxMixed(t *testing.T, s *Store) {
	ctx := t.Context()
	maxi := Actor{Name: "max", Role: Publish, Teams: []string{"mail", "shop"}, Roles: map[string]Role{"mail": Publish, "shop": Propose}}
	v, err := s.Propose(ctx, maxi, Proposal{Domain: "shop", Text: rule("user", "1/s"), To: Shadow, Reason: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Refused(ctx, as("ann", Publish, "shop"), Event{Action: Held, Domain: "shop", Rule: "user", Version: v.Number, Reason: "now", Refused: "too few"}); err != nil {
		t.Fatal(err)
	}
	const held = "publish user 1 shadow by max"
	if got := inboxOf(t, s, maxi); got != " | "+held {
		t.Errorf("max: %s", got)
	}
	maxi.Roles["shop"] = Publish
	for _, by := range []Actor{maxi, as("ann", Publish, "shop")} {
		if got := inboxOf(t, s, by); got != held+" | " {
			t.Errorf("%s: %s", by.Name, got)
		}
	}
}

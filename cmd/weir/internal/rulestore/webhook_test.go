package rulestore

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// hook makes a webhook of the team shop, for some kinds.
func hook(t *testing.T, s *Store, team string, kinds ...string) Webhook {
	t.Helper()
	w, err := s.SetWebhook(t.Context(), root(), Webhook{Team: team, URL: "https://hooks.example/T0/hidden", Form: JSON, Kinds: kinds}, "a test")
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// outbox is what a webhook is to be told, in short, and delivers it.
func outbox(t *testing.T, s *Store, id string) (list []string) {
	t.Helper()
	for range 1000 {
		w, err := s.WebhookToTell(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		messages, err := s.Outbox(t.Context(), &w)
		if err != nil {
			t.Fatal(err)
		}
		if len(messages) == 0 {
			return list
		}
		m := &messages[0]
		list = append(list, m.Kind+" "+m.Text)
		if m.ID == "" || m.At.IsZero() {
			t.Errorf("%+v", m)
		}
		if err := s.Delivered(t.Context(), &w, m, Delivery{Message: m.ID, Kind: m.Kind, At: time.Now(), Status: 200, Tries: 1}); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("it never ends")
	return nil
}

// testWebhooks: who may make webhooks, what is wrong with one, and that its secret and URL are shown once.
func testWebhooks(t *testing.T, s *Store) {
	ctx := t.Context()
	ada := as("ada", Admin, "shop")
	good := Webhook{Team: "shop", URL: "https://hooks.example/T0/hidden", Form: Slack, Kinds: []string{TellPublish}}
	made, err := s.SetWebhook(ctx, ada, good, "ours")
	if err != nil || !strings.HasPrefix(made.Secret, "whsec_") || len(made.Secret) < 40 || made.URL != "https://hooks.example/…" {
		t.Fatal(made, err)
	}
	for _, by := range []Actor{as("ann", Publish, "shop"), as("eve", Admin, "mail")} {
		_, err := s.SetWebhook(ctx, by, good, "mine")
		refusedAs(t, err, Forbidden)
		_, err = s.SetWebhook(ctx, by, Webhook{ID: made.ID, Form: JSON}, "mine")
		refusedAs(t, err, Forbidden)
		_, err = s.RenewWebhook(ctx, by, made.ID, "mine")
		refusedAs(t, err, Forbidden)
		refusedAs(t, s.RemoveWebhook(ctx, by, made.ID, "mine"), Forbidden)
		_, err = s.Webhook(ctx, by, made.ID)
		refusedAs(t, err, Forbidden)
		_, err = s.Deliveries(ctx, by, made.ID)
		refusedAs(t, err, Forbidden)
	}
	if list, err := s.Webhooks(ctx, as("eve", Admin, "mail")); err != nil || len(list) > 0 {
		t.Error(list, err)
	}
	for name, change := range map[string]func(*Webhook){
		"all teams": func(w *Webhook) { w.Team = AllTeams }, "no URL": func(w *Webhook) { w.URL = "hooks" }, "ftp": func(w *Webhook) { w.URL = "ftp://a/b" },
		"a user": func(w *Webhook) { w.URL = "https://u:p@a/b" }, "form": func(w *Webhook) { w.Form = "xml" }, "kind": func(w *Webhook) { w.Kinds = []string{"all"} },
		"twice": func(w *Webhook) { w.Kinds = []string{TellPublish, TellPublish} }, "long": func(w *Webhook) { w.URL = "https://a/" + strings.Repeat("x", maxWebhookURL) },
		"odd": func(w *Webhook) { w.URL = "https://a/\nb" },
	} {
		w := good
		change(&w)
		if _, err := s.SetWebhook(ctx, ada, w, "x"); err == nil {
			t.Error(name, "is taken")
		}
	}
	renewed, err := s.RenewWebhook(ctx, ada, made.ID, "leaked")
	if err != nil || renewed.Secret == made.Secret || len(renewed.Keys(time.Now())) != 2 || len(renewed.Keys(time.Now().Add(oldSecret+time.Minute))) != 1 {
		t.Error(renewed.ID, err)
	}
	changed, err := s.SetWebhook(ctx, ada, Webhook{ID: made.ID, Form: JSON, Disabled: true}, "broken")
	if err != nil || changed.Secret != "" || !changed.Disabled || changed.Target() != good.URL || changed.Team != "shop" {
		t.Errorf("%+v %v", changed.Team, err)
	}
	list, err := s.Webhooks(ctx, ada)
	if err != nil || len(list) != 1 || list[0].Secret != "" {
		t.Error(len(list), err)
	}
	lines, err := s.Audit(ctx, Audited{})
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprint(lines); strings.Contains(text, "whsec_") || strings.Contains(text, "T0") || !strings.Contains(text, "webhook.renew") {
		t.Error("the audit:", text)
	}
	if err := s.RemoveWebhook(ctx, ada, made.ID, "over"); err != nil {
		t.Error(err)
	}
	if lines, err = s.Audit(ctx, Audited{}); err != nil {
		t.Fatal(err)
	}
	for _, e := range lines {
		if strings.Contains(e.Reason, made.ID) && e.Team != "shop" {
			t.Errorf("a line about a webhook of the shop is of team %q: %+v", e.Team, e)
		}
	}
	_, err = s.Webhook(ctx, ada, made.ID)
	refusedAs(t, err, NotFound)
	for range MaxWebhooks {
		hook(t, s, "shop")
	}
	_, err = s.SetWebhook(ctx, ada, good, "one too many")
	refusedAs(t, err, Quota)
}

// testOutboxMadeAnew: a team that makes a domain anew, or is given it, is told nothing of what was before; the team before still is.
func testOutboxMadeAnew(t *testing.T, s *Store) {
	ctx := t.Context()
	old, heir := hook(t, s, "shop", TellPublish, TellOverride, TellLimit), hook(t, s, "mail", TellPublish, TellOverride, TellLimit)
	put(t, s, rule("user", "1/s"))
	if err := openShop(t, s, root(), "", 50, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := s.NoticeLimits(ctx, []Notice{{Kind: Denying, Domain: "shop", Rule: "shop/user"}}, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteDomain(ctx, root(), Removal{Domain: "shop", Confirm: "shop", Match: file(t, s).Domain.Revision, Reason: "over"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateDomain(ctx, root(), NewDomain{Name: "shop", Team: "mail"}, "anew"); err != nil {
		t.Fatal(err)
	}
	put(t, s, rule("client", "2/s"))
	want := "publish root published version 1 of rule client of domain shop: a test"
	if got := strings.Join(outbox(t, s, heir.ID), "\n"); got != want {
		t.Errorf("the heir is told:\n%s", got)
	}
	got := strings.Join(outbox(t, s, old.ID), "\n")
	for _, says := range []string{"published version 1 of rule user", "tightened limits of domain shop", "took domain shop away", "requests are denied"} {
		if !strings.Contains(got, says) {
			t.Errorf("the team that had it is not told %q:\n%s", says, got)
		}
	}
	if strings.Contains(got, "rule client") {
		t.Error("the team that had it is told of what is not its own:", got)
	}
}

// testOutbox: a webhook is told of what happens to its team's domains from then on, in order, each once, and of nothing else.
func testOutbox(t *testing.T, s *Store) {
	ctx := t.Context()
	put(t, s, rule("user", "1/s"))
	all, few, mail := hook(t, s, AllTeams), hook(t, s, "shop", TellReview, TellComment), hook(t, s, "mail")
	put(t, s, rule("user", "2/s"))
	r, err := s.Rule(ctx, "shop", "user")
	if err != nil {
		t.Fatal(err)
	}
	move := func(by Actor, version int64, to State) {
		t.Helper()
		r, err := s.Rule(ctx, "shop", "user")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Move(ctx, by, Step{Domain: "shop", Rule: "user", Version: version, To: to, Match: r.Revision, Reason: "as it was"}); err != nil {
			t.Fatal(err)
		}
	}
	move(root(), r.Enforced-1, Enforced)
	if err := s.Refused(ctx, as("ann", Publish, "shop"), Event{Action: Held, Domain: "shop", Rule: "user", Version: 2, Reason: "now", Refused: "too few"}); err != nil {
		t.Fatal(err)
	}
	now, err := s.Rule(ctx, "shop", "user")
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Propose(ctx, as("eve", Read, "shop"), Proposal{Domain: "shop", Rule: "user", Text: rule("user", "9/s"), Match: now.Revision})
	refusedAs(t, err, Forbidden)
	if _, err := s.Comment(ctx, as("ann", Propose, "shop"), "shop", "user", 2, "why <b>?"); err != nil {
		t.Fatal(err)
	}
	d := file(t, s).Domain
	d.Review = true
	if _, err := s.UpdateDomain(ctx, root(), d, d.Revision, "two"); err != nil {
		t.Fatal(err)
	}
	move(as("ann", Publish, "shop"), 1, Disabled)
	if err := openShop(t, s, as("ann", Publish, "shop"), "", 50, time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := openShop(t, s, as("ann", Publish, "shop"), "", 50, -time.Second); err != nil {
		t.Fatal(err)
	}
	e, err := s.SetException(ctx, as("ann", Publish, "shop"), granting4711("100/s", time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.EndException(ctx, as("ann", Publish, "shop"), e.ID, "it is over"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"publish root published version 2 of rule user of domain shop: a test",
		"publish root rolled back to version 1 of rule user of domain shop: as it was",
		"guard ann tried to publish version 2 of rule user of domain shop, and the guard refused it: now. It was refused: too few",
		"comment ann says of version 2 of rule user of domain shop: why <b>?",
		"review ann asks to disable version 1 of rule user of domain shop; another person has to do it: as it was",
		"override ann tightened limits of domain shop alone; another person has to confirm it: until ",
		"override ann ended what was opened or tightened of domain shop: a test",
		"override ann set an exception of rule user of domain shop alone; another person has to confirm it: ",
		"override ann ended an exception of rule user of domain shop: ",
	}
	got := outbox(t, s, all.ID)
	for i := range want {
		if len(got) != len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatal(strings.Join(got, "\n"))
		}
	}
	if got := outbox(t, s, all.ID); len(got) > 0 {
		t.Error("it is told twice:", got)
	}
	if got := strings.Join(outbox(t, s, few.ID), "\n"); strings.Count(got, "\n") != 3 || !strings.Contains(got, "review ann tightened") || !strings.Contains(got, "review ann set an exception") {
		t.Error(got)
	}
	if got := outbox(t, s, mail.ID); len(got) > 0 {
		t.Error("another team is told:", got)
	}
	list, err := s.Deliveries(ctx, root(), all.ID)
	if err != nil || len(list) != len(want) || list[0].Status != 200 {
		t.Error(list, err)
	}
}

// testOutboxLong: lines that are not for a webhook are passed over, however many, and none that is for it is left out.
func testOutboxLong(t *testing.T, s *Store) {
	w := hook(t, s, "shop", TellReview, TellOverride)
	const lines = 2000
	var batch []Event
	for i := range lines {
		e := Event{Action: "propose", Domain: "shop", Rule: "user", Version: 1, Reason: "no review", At: time.Now(), Actor: "ann"}
		if i%200 == 7 {
			e = Event{Action: "override.end", Domain: "shop", Team: "shop", Reason: fmt.Sprint(i), At: time.Now(), Actor: "ann"}
		}
		batch = append(batch, e)
	}
	if err := s.Record(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	got := outbox(t, s, w.ID)
	t.Log(lines, "lines take", time.Since(start))
	if len(got) != 10 || !strings.HasSuffix(got[9], ": 1807") {
		t.Error(got)
	}
}

// testLimitNotices: a limit that is near or denies is told of once, and again when it was quiet, an hour later at the earliest; a token that ends is told of once.
func testLimitNotices(t *testing.T, s *Store) {
	ctx := t.Context()
	now := time.Now()
	near := func(at time.Duration) {
		t.Helper()
		if err := s.NoticeLimits(ctx, []Notice{{Kind: NearLimit, Domain: "shop", Rule: "shop/user"}, {Kind: Denying, Domain: "files", Rule: "files/ip"}}, now.Add(at)); err != nil {
			t.Fatal(err)
		}
	}
	near(0) // nobody is told
	w, all := hook(t, s, "shop"), hook(t, s, AllTeams, TellLimit)
	for i, c := range []struct {
		at   time.Duration
		told int
	}{{0, 1}, {10 * time.Second, 0}, {20 * time.Minute, 0}, {59 * time.Minute, 0}, {65 * time.Minute, 0}, {76 * time.Minute, 1}, {77 * time.Minute, 0}} {
		near(c.at)
		if got := outbox(t, s, w.ID); len(got) != c.told || c.told > 0 && got[0] != "limit rule shop/user of domain shop: requests have used over 80 % of a limit" {
			t.Errorf("%d: at %v it is told %q", i, c.at, got)
		}
	}
	if got := strings.Join(outbox(t, s, all.ID), "; "); !strings.Contains(got, "rule files/ip of domain files: requests are denied") {
		t.Error(got)
	}
	if _, _, err := s.CreateToken(ctx, root(), Token{Actor: "ann", Role: Propose, Teams: []string{"shop"}, Expires: now.Add(time.Hour)}, "x"); err != nil {
		t.Fatal(err)
	}
	put(t, s, rule("user", "1/s"))
	if err := openShop(t, s, root(), "", 50, time.Hour); err != nil {
		t.Fatal(err)
	}
	outbox(t, s, w.ID)
	if _, err := s.write.ExecContext(ctx, `UPDATE overrides SET ends = $1`, now.Add(-time.Minute).UnixMicro()); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := s.NoticeEnds(ctx, time.Now()); err != nil {
			t.Fatal(err)
		}
		got := strings.Join(outbox(t, s, w.ID), "; ")
		if first := strings.Contains(got, "token ") && strings.Contains(got, "ann has it until") && strings.Contains(got, "override domain shop: limits are as they are written again"); first != (i == 0) || i > 0 && got != "" {
			t.Errorf("%d: %s", i, got)
		}
	}
}

// testLease: one holds it, until it ends it or is silent.
func testLease(t *testing.T, s *Store) {
	ask := func(holder string, want bool) {
		t.Helper()
		if held, err := s.Lease(t.Context(), "x", holder, time.Minute); err != nil || held != want {
			t.Error(holder, held, err)
		}
	}
	ask("a", true)
	ask("b", false)
	ask("a", true)
	if err := s.EndLease(t.Context(), "x", "b"); err != nil {
		t.Fatal(err)
	}
	ask("b", false)
	if err := s.EndLease(t.Context(), "x", "a"); err != nil {
		t.Fatal(err)
	}
	ask("b", true)
	if _, err := s.write.ExecContext(t.Context(), `UPDATE leases SET until = 1`); err != nil {
		t.Fatal(err)
	}
	ask("a", true)
}

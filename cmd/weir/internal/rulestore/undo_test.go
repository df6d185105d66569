package rulestore

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// undoHouse is a domain that somebody changes and changes back.
type undoHouse struct {
	t      *testing.T
	s      *Store
	domain string
}

// state is what a domain decides by, and whose it is; revisions of changes are left out.
func (h *undoHouse) state() string {
	d, err := h.s.Document(h.t.Context(), h.domain)
	if IsKind(err, NotFound) {
		return "none"
	}
	if err != nil {
		h.t.Fatal(err)
	}
	var held []string
	for _, o := range d.Overrides.Active(time.Now()) {
		held = append(held, fmt.Sprint(o.Rule, o.Percent))
	}
	return fmt.Sprint(d.File, d.Team, d.Shared, d.Review, d.Public, held)
}

func (h *undoHouse) rule(id string) Rule {
	r, err := h.s.Rule(h.t.Context(), h.domain, id)
	if err != nil && !IsKind(err, NotFound) {
		h.t.Fatal(err)
	}
	return r
}

// last is the newest line of the audit, and what undoes it.
func (h *undoHouse) last() (Event, Undo) {
	list, err := h.s.Audit(h.t.Context(), Audited{Domain: h.domain, Before: math.MaxInt64, Limit: 1})
	if err != nil {
		h.t.Fatal(err)
	}
	found, err := h.s.Undos(h.t.Context(), root(), list)
	if err != nil {
		h.t.Fatal(err)
	}
	return list[0], found[list[0].Seq]
}

// take takes the step that undoes a line, as a person does with the form.
func (h *undoHouse) take(e *Event, u Undo) error {
	ctx, s := h.t.Context(), h.s
	reason := fmt.Sprint("undoes audit line ", e.Seq)
	step := func(to State) error {
		return second(s.Move(ctx, root(), Step{Domain: h.domain, Rule: e.Rule, Version: u.Version, To: to, Match: h.rule(e.Rule).Revision, Reason: reason}))
	}
	switch u.To {
	case UndoEnforce:
		return step(Enforced)
	case UndoDisable:
		return step(Disabled)
	case UndoRemove:
		return second(s.Propose(ctx, root(), Proposal{Domain: h.domain, Rule: e.Rule, Match: h.rule(e.Rule).Revision, To: Enforced, Reason: reason}))
	case UndoOverride:
		return s.Override(ctx, root(), Override{Domain: h.domain, Rule: e.Rule, Until: time.Now(), Reason: reason})
	case UndoSettings:
		d, err := s.Domain(ctx, h.domain)
		if err != nil {
			return err
		}
		return second(s.UpdateDomain(ctx, root(), u.Was, d.Revision, reason))
	case UndoRemoval:
		return second(s.RestoreDomain(ctx, root(), h.domain, u.Revision, reason))
	}
	return fmt.Errorf("nothing undoes line %d, %s: %s", e.Seq, e.Action, u.Why)
}

// change makes a change of one kind that can be undone; false: it can't be made now.
func (h *undoHouse) change(kind, id string, n int) bool {
	ctx, s, by := h.t.Context(), h.s, root()
	d, err := s.Domain(ctx, h.domain)
	if err != nil {
		h.t.Fatal(err)
	}
	r := h.rule(id)
	switch kind {
	case "publish":
		_, err = s.Propose(ctx, by, Proposal{Domain: h.domain, Text: rule(id, fmt.Sprint(n+1, "/s")), Match: r.Revision, To: Enforced, Reason: "x", Forced: n%2 == 0})
	case "remove":
		if !r.Active() {
			return false
		}
		_, err = s.Propose(ctx, by, Proposal{Domain: h.domain, Rule: id, Match: r.Revision, To: Enforced, Reason: "x"})
	case "disable":
		if !r.Active() {
			return false
		}
		_, err = s.Move(ctx, by, Step{Domain: h.domain, Rule: id, Version: r.Enforced, To: Disabled, Match: r.Revision, Reason: "x"})
	case "open":
		if !r.Active() || len(mustDocument(h.t, s, h.domain).Overrides.Active(time.Now())) > 0 {
			return false // undone, it would be as it is written, and not as it was opened before
		}
		err = s.Override(ctx, by, Override{Domain: h.domain, Rule: []string{"", id}[n%2], Percent: int64(n % 3 * 40), Until: time.Now().Add(time.Hour), Reason: "x"})
	case "settings":
		d.Team, d.Shared, d.Public = []string{"shop", "mail"}[n%2], n%3 == 0, n%5 == 0
		_, err = s.UpdateDomain(ctx, by, d, d.Revision, "x")
	case "delete":
		if len(mustDocument(h.t, s, h.domain).Overrides.Active(time.Now())) > 0 {
			return false // overrides don't come back
		}
		err = s.DeleteDomain(ctx, by, Removal{Domain: h.domain, Confirm: h.domain, Match: d.Revision, Reason: "x"})
	}
	if err != nil {
		h.t.Fatal(kind, err)
	}
	return true
}

func mustDocument(t *testing.T, s *Store, domain string) Document {
	t.Helper()
	d, err := s.Document(t.Context(), domain)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// testUndo: whatever was changed before, the step that undoes the newest line brings back what was there, and of an older line of the same thing it is
// said that a newer one came after.
func testUndo(t *testing.T, s *Store) {
	number := 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		h := &undoHouse{t, s, fmt.Sprint("undo", number)}
		if _, err := s.CreateDomain(t.Context(), root(), NewDomain{Name: h.domain, Team: "shop"}, "a test"); err != nil {
			t.Fatal(err)
		}
		before := map[string]int64{} // the last line of a thing
		for i := range rapid.IntRange(1, 5).Draw(rt, "changes") {
			kind := rapid.SampledFrom([]string{"publish", "publish", "publish", "remove", "disable", "open", "settings", "delete"}).Draw(rt, "kind")
			id := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "rule")
			was := h.state()
			if !h.change(kind, id, rapid.IntRange(0, 29).Draw(rt, "n")) {
				continue
			}
			e, u := h.last()
			if older, ok := before[e.Rule]; ok && strings.HasPrefix(e.Action, "enforce") {
				list, err := s.Audit(t.Context(), Audited{Behind: older - 1, Limit: 1})
				if err != nil {
					t.Fatal(err)
				}
				found, err := s.Undos(t.Context(), root(), list)
				if want := fmt.Sprintf("a newer change came after, line %d", e.Seq); err != nil || found[older].Why != want || found[older].To != "" {
					t.Fatalf("line %d: %+v, not %q, %v", older, found[older], want, err)
				}
			}
			if kind != "delete" && rapid.Bool().Draw(rt, "stay") {
				if strings.HasPrefix(e.Action, "enforce") {
					before[e.Rule] = e.Seq
				}
				continue
			}
			if err := h.take(&e, u); err != nil {
				t.Fatal(i, kind, err)
			}
			if diff := cmp.Diff(was, h.state()); diff != "" {
				t.Fatalf("%s of %s is undone by %+v: %s", kind, id, u, diff)
			}
			clear(before)
		}
	})
}

// testUndoNot: what can't be undone says why, and nobody is offered what they may not do.
func testUndoNot(t *testing.T, s *Store) {
	ctx := t.Context()
	put(t, s, rule("user", "1/s"))
	h := &undoHouse{t, s, "shop"}
	published, _ := h.last()
	why := func(e Event, by Actor) string {
		t.Helper()
		found, err := s.Undos(ctx, by, []Event{e})
		if err != nil {
			t.Fatal(err)
		}
		if u, ok := found[e.Seq]; ok {
			return string(u.To) + u.Why
		}
		return "not offered"
	}
	for by, want := range map[*Actor]string{
		{Name: "ann", Role: Publish, Teams: []string{"shop"}}: "remove",
		{Name: "cid", Role: Propose, Teams: []string{"shop"}}: "not offered",
		{Name: "eve", Role: Admin, Teams: []string{"mail"}}:   "not offered",
	} {
		if got := why(published, *by); got != want {
			t.Errorf("%s: %s", by.Name, got)
		}
	}
	if err := openShop(t, s, root(), "user", 50, time.Hour); err != nil {
		t.Fatal(err)
	}
	tightened, _ := h.last()
	if got := why(published, root()); got != "remove" {
		t.Error("an override is another thing:", got)
	}
	if _, err := s.write.ExecContext(ctx, `UPDATE overrides SET ends = 1`); err != nil {
		t.Fatal(err)
	}
	if got := why(tightened, root()); got != "it has ended by itself" {
		t.Error(got)
	}
	d := file(t, s).Domain
	d.Public = true
	if _, err := s.UpdateDomain(ctx, root(), d, d.Revision, "x"); err != nil {
		t.Fatal(err)
	}
	changed, _ := h.last()
	if got := why(changed, as("ann", Publish, "shop")); got != "not offered" {
		t.Error(got)
	}
	d = file(t, s).Domain
	if err := s.DeleteDomain(ctx, root(), Removal{Domain: "shop", Confirm: "shop", Match: d.Revision, Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	deleted, _ := h.last()
	for _, e := range []Event{published, tightened} {
		if got := why(e, root()); got != "the domain was taken away since" {
			t.Error(e.Action, got)
		}
	}
	if got := why(changed, root()); got != fmt.Sprintf("a newer change came after, line %d", deleted.Seq) {
		t.Error(got)
	}
	if _, err := s.CreateDomain(ctx, root(), NewDomain{Name: "shop", Team: "shop"}, "anew"); err != nil {
		t.Fatal(err)
	}
	if got := why(deleted, root()); got != "there is a domain of this name again" {
		t.Error(got)
	}
	if got := why(published, root()); got != "the domain was made anew since" {
		t.Error(got)
	}
	refused := published
	refused.Refused = "no"
	if got := why(refused, root()); got != "not offered" {
		t.Error(got)
	}
}

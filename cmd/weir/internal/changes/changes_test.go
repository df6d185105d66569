package changes_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/rules"
)

// house is a gate before a rule database in which domain shop has the rule user.
type house struct {
	*changes.Gate

	store   *rulestore.Store
	report  *shadow.Report // of any version in shadow; nil: this node has none
	limited int
}

func newHouse(t *testing.T) *house {
	t.Helper()
	s, err := rulestore.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &house{store: s}
	h.Gate, err = changes.New(changes.Options{
		InFiles: func(domain string) bool { return domain == "files" },
		Check: func(set *rules.Set) error {
			return set.Fits(weir.Traits{Unfit: func(l *weir.Limit) string {
				if l.Algorithm() == weir.WarmUp {
					return "no warm limits here"
				}
				return ""
			}})
		},
		Reports: h.reports, Limited: func() { h.limited++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Import(t.Context(), ann(), rulestore.Import{Text: file("10/s"), Team: "shop", To: rulestore.Enforced, Reason: "a test"}); err != nil {
		t.Fatal(err)
	}
	return h
}

// reports gives each version in shadow of a domain the report of the house.
func (h *house) reports(ctx context.Context, domain string) (all []*shadow.Report) {
	d, err := h.store.Document(ctx, domain)
	if err != nil || h.report == nil {
		return nil
	}
	for _, t := range d.Trials {
		r := *h.report
		r.Key = shadow.Key{Domain: domain, Rule: t.Rule, Version: t.Version, Over: t.Beside}
		all = append(all, &r)
	}
	return all
}

func file(limit string) string {
	return "domain: shop\ndescriptors:\n  - key: user\n    limits: [" + limit + "]\n"
}

func rule(limit string) string { return "- key: user\n  limits: [" + limit + "]\n" }

func ann() rulestore.Actor {
	return rulestore.Actor{Name: "ann", Role: rulestore.Admin, Teams: []string{rulestore.AllTeams}}
}

func (h *house) revision(t *testing.T) int64 {
	t.Helper()
	r, err := h.store.Rule(t.Context(), "shop", "user")
	if err != nil {
		t.Fatal(err)
	}
	return r.Revision
}

func (h *house) inForce(t *testing.T) string {
	t.Helper()
	d, err := h.store.Document(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	return d.File
}

// refusals is how many lines of the audit tell of something refused.
func (h *house) refusals(t *testing.T) (n int) {
	t.Helper()
	list, err := h.store.Audit(t.Context(), rulestore.Audited{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Refused != "" {
			n++
		}
	}
	return n
}

// TestGuard: whichever way a limit comes into force, it has run in shadow and denied
// few, or it is forced. What was in force before, and what takes a rule away, is free.
func TestGuard(t *testing.T) {
	good := &shadow.Report{Counts: shadow.Counts{BothPass: 1000}}
	bad := &shadow.Report{Counts: shadow.Counts{BothPass: 900, OnlyCandidate: 100}}
	moveTo := func(limit string, shadowed, forced bool) func(t *testing.T, h *house) error {
		return func(t *testing.T, h *house) error {
			t.Helper()
			p := rulestore.Proposal{Domain: "shop", Rule: "user", Text: rule(limit), Match: h.revision(t), Reason: "tighter"}
			if shadowed {
				p.To = rulestore.Shadow
			}
			v, err := h.Propose(t.Context(), h.store, ann(), p)
			if err != nil {
				t.Fatal(err)
			}
			_, err = h.Move(t.Context(), h.store, ann(), rulestore.Step{Domain: "shop", Rule: "user", Version: v.Number, To: rulestore.Enforced, Match: h.revision(t), Reason: "it is time", Forced: forced})
			return err
		}
	}
	move := func(shadowed, forced bool) func(t *testing.T, h *house) error { return moveTo("5/s", shadowed, forced) }
	propose := func(text string, forced bool) func(t *testing.T, h *house) error {
		return func(t *testing.T, h *house) error {
			t.Helper()
			_, err := h.Propose(t.Context(), h.store, ann(), rulestore.Proposal{Domain: "shop", Rule: "user", Text: text, Match: h.revision(t), To: rulestore.Enforced, Reason: "at once", Forced: forced})
			return err
		}
	}
	wholeOf := func(limit string, forced bool) func(t *testing.T, h *house) error {
		return func(t *testing.T, h *house) error {
			t.Helper()
			d, err := h.store.Domain(t.Context(), "shop")
			if err != nil {
				t.Fatal(err)
			}
			_, err = h.Import(t.Context(), h.store, ann(), "shop", rulestore.Import{Text: file(limit), Match: d.Revision, To: rulestore.Enforced, Reason: "a file", Forced: forced})
			return err
		}
	}
	whole := func(forced bool) func(t *testing.T, h *house) error { return wholeOf("5/s", forced) }
	for name, c := range map[string]struct {
		report *shadow.Report
		do     func(*testing.T, *house) error
		held   string // empty: it comes into force
	}{
		"ran well":                {good, move(true, false), ""},
		"denied much":             {bad, move(true, false), "10 % of the requests"},
		"denied much, forced":     {bad, move(true, true), ""},
		"nobody knows":            {nil, move(true, false), "yet to hear"},
		"looser, a draft":         {nil, moveTo("12/s", false, false), ""},
		"looser, at once":         {nil, propose(rule("12/s"), false), ""},
		"looser, a file":          {nil, wholeOf("12/s", false), ""},
		"other windows":           {nil, propose(rule("1200/h"), false), "does not run in shadow"},
		"few have met it":         {&shadow.Report{Counts: shadow.Counts{BothPass: 99}}, move(true, false), "only 99 requests"},
		"none has met it":         {&shadow.Report{}, move(true, false), "no request has met it"},
		"a draft":                 {good, move(false, false), "does not run in shadow"},
		"a draft, forced":         {good, move(false, true), ""},
		"at once":                 {good, propose(rule("5/s"), false), "does not run in shadow"},
		"at once, forced":         {nil, propose(rule("5/s"), true), ""},
		"taken away":              {nil, propose("", false), ""},
		"a file that did not run": {good, whole(false), "does not run in shadow"},
		"a file, forced":          {nil, whole(true), ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.report = c.report
			before := h.inForce(t)
			err := c.do(t, h)
			held, is := errors.AsType[*changes.Held](err)
			switch {
			case c.held == "" && (err != nil || h.inForce(t) == before || h.refusals(t) != 0):
				t.Error(err, h.inForce(t), h.refusals(t))
			case c.held != "" && (!is || !strings.Contains(held.Why, c.held) || h.inForce(t) != before || h.refusals(t) != 1):
				t.Error(err, h.inForce(t), h.refusals(t))
			}
		})
	}
}

// TestGuardJudgesOwnOnly: a version that somebody may not publish is refused before it is judged, by the rule of the store: the audit and the inbox
// do not say that it was held up.
func TestGuardJudgesOwnOnly(t *testing.T) {
	h := newHouse(t)
	v, err := h.Propose(t.Context(), h.store, ann(), rulestore.Proposal{Domain: "shop", Rule: "user", Text: rule("5/s"), Match: h.revision(t)})
	if err != nil {
		t.Fatal(err)
	}
	mallory := rulestore.Actor{Name: "mallory", Role: rulestore.Publish, Teams: []string{"mail"}}
	mixed := rulestore.Actor{Name: "max", Role: rulestore.Publish, Teams: []string{"mail", "shop"}, Roles: map[string]rulestore.Role{"mail": rulestore.Publish, "shop": rulestore.Propose}}
	for _, by := range []rulestore.Actor{mallory, mixed} {
		_, moved := h.Move(t.Context(), h.store, by, rulestore.Step{Domain: "shop", Rule: "user", Version: v.Number, To: rulestore.Enforced, Match: h.revision(t), Reason: "a try"})
		_, proposed := h.Propose(t.Context(), h.store, by, rulestore.Proposal{Domain: "shop", Rule: "user", Text: rule("4/s"), Match: h.revision(t), To: rulestore.Enforced, Reason: "a try"})
		for i, err := range []error{moved, proposed} {
			if _, held := errors.AsType[*changes.Held](err); held || !rulestore.IsKind(err, rulestore.Forbidden) {
				t.Error(by.Name, i, err)
			}
		}
	}
	list, err := h.store.Audit(t.Context(), rulestore.Audited{})
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, e := range list {
		if e.Action == rulestore.Held {
			t.Errorf("the audit says that a version was held up: %+v", e)
		}
		if e.Action == "enforce" && e.Refused != "" {
			refused++
		}
	}
	if n := h.refusals(t); n != 4 || refused != 4 {
		t.Errorf("%d refusals, of which %d to publish", n, refused)
	}
	in, err := h.store.Inbox(t.Context(), ann())
	if err != nil || len(in.ForMe) > 0 {
		t.Errorf("%+v %v", in, err)
	}
}

// TestRollBack is not held up.
func TestRollBack(t *testing.T) {
	h := newHouse(t)
	if _, err := h.Propose(t.Context(), h.store, ann(), rulestore.Proposal{Domain: "shop", Rule: "user", Text: rule("5/s"), Match: h.revision(t), To: rulestore.Enforced, Reason: "at once", Forced: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Move(t.Context(), h.store, ann(), rulestore.Step{Domain: "shop", Rule: "user", Version: 1, To: rulestore.Enforced, Match: h.revision(t), Reason: "back"}); err != nil || !strings.Contains(h.inForce(t), "10/s") {
		t.Error(err, h.inForce(t))
	}
}

// TestPlan tells what an import would do, and whether it is held up, and does nothing.
func TestPlan(t *testing.T) {
	h := newHouse(t)
	before, d := h.inForce(t), rulestore.Import{Text: file("5/s"), To: rulestore.Enforced, Reason: "a file"}
	domain, err := h.store.Domain(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	d.Match = domain.Revision
	planned, err := h.Plan(t.Context(), h.store, ann(), "shop", d)
	if err != nil || len(planned.Changes) != 1 || !strings.Contains(planned.Held, "does not run in shadow") {
		t.Error(planned, err)
	}
	d.Forced = true
	if planned, err = h.Plan(t.Context(), h.store, ann(), "shop", d); err != nil || planned.Held != "" {
		t.Error(planned, err)
	}
	d.Forced, d.Match = false, d.Match-1
	if _, err := h.Plan(t.Context(), h.store, ann(), "shop", d); !rulestore.IsKind(err, rulestore.Stale) || h.refusals(t) != 0 {
		t.Error(err, h.refusals(t))
	}
	if _, err := h.Import(t.Context(), h.store, ann(), "shop", d); !rulestore.IsKind(err, rulestore.Stale) || h.refusals(t) != 1 {
		t.Error("a refused import is not in the audit:", err, h.refusals(t))
	}
	if h.inForce(t) != before {
		t.Error(h.inForce(t))
	}
}

// TestUnfit: what can't be in force here is not taken, as a draft neither.
func TestUnfit(t *testing.T) {
	h := newHouse(t)
	warm := "10/s warm-up 10s"
	_, err := h.Propose(t.Context(), h.store, ann(), rulestore.Proposal{Domain: "shop", Rule: "user", Text: rule(warm), Match: h.revision(t)})
	bad, ok := errors.AsType[*rules.Error](err)
	if !ok || bad.Findings[0].Line != 2 || !strings.Contains(bad.Findings[0].Text, "no warm limits here") {
		t.Error(err)
	}
	imported := rulestore.Import{Text: file(warm), Match: 1, Reason: "x"}
	if _, err := h.Import(t.Context(), h.store, ann(), "shop", imported); err == nil || !strings.Contains(err.Error(), "no warm limits here") {
		t.Error(err)
	}
	imported.Text = file("1/s")
	if _, err := h.Import(t.Context(), h.store, ann(), "mail", imported); err == nil || !strings.Contains(err.Error(), `of domain "shop", and was sent to "mail"`) {
		t.Error(err)
	}
}

// TestFromFiles: a domain that files have is not made in the database.
func TestFromFiles(t *testing.T) {
	h := newHouse(t)
	_, made := h.CreateDomain(t.Context(), h.store, ann(), rulestore.NewDomain{Name: "files", Team: "shop"}, "x")
	_, proposed := h.Propose(t.Context(), h.store, ann(), rulestore.Proposal{Domain: "files", Text: rule("1/s")})
	_, imported := h.Import(t.Context(), h.store, ann(), "files", rulestore.Import{Text: file("1/s"), Team: "shop"})
	_, planned := h.Plan(t.Context(), h.store, ann(), "files", rulestore.Import{Text: file("1/s"), Team: "shop"})
	for i, err := range []error{made, proposed, imported, planned} {
		if _, ok := errors.AsType[*changes.FromFiles](err); !ok {
			t.Error(i, err)
		}
	}
}

// TestPace: who asks for too much waits, and nobody else does.
func TestPace(t *testing.T) {
	h := newHouse(t)
	bob := rulestore.Actor{Name: "bob", Token: "b"}
	passed := 0
	for {
		err := h.Admit(t.Context(), bob)
		if err == nil {
			passed++
			continue
		}
		if many, ok := errors.AsType[*changes.Limited](err); !ok || many.Actor != "bob" || many.Seconds() != 1 {
			t.Fatal(passed, "pass, then:", err)
		}
		break
	}
	if passed < 500 || h.limited != 1 {
		t.Error(passed, h.limited)
	}
	if err := h.Admit(t.Context(), rulestore.Actor{Name: "bob", Token: "another"}); err != nil {
		t.Error(err)
	}
}

// TestRefusedIsAudited: what can't be in force here is in the audit when somebody has
// tried it, by whichever way, and looking what it would do is not.
func TestRefusedIsAudited(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	const warm = "10/s warm-up 10s"
	elsewhere := strings.Replace(file("1/s"), "shop", "files", 1)
	for name, try := range map[string]func() error{
		"a domain of files": func() error {
			_, err := h.CreateDomain(ctx, h.store, ann(), rulestore.NewDomain{Name: "files", Team: "shop"}, "a test")
			return err
		},
		"a rule of a domain of files": func() error {
			_, err := h.Propose(ctx, h.store, ann(), rulestore.Proposal{Domain: "files", Text: rule("1/s")})
			return err
		},
		"a rule that the store can't keep": func() error {
			_, err := h.Propose(ctx, h.store, ann(), rulestore.Proposal{Domain: "shop", Rule: "user", Text: rule(warm), Match: h.revision(t)})
			return err
		},
		"a file of a domain of files": func() error {
			_, err := h.Import(ctx, h.store, ann(), "files", rulestore.Import{Text: elsewhere, Team: "shop", To: rulestore.Shadow, Reason: "a test"})
			return err
		},
		"a file that the store can't keep": func() error {
			_, err := h.Import(ctx, h.store, ann(), "shop", rulestore.Import{Text: file(warm), Match: 1, To: rulestore.Shadow, Reason: "a test"})
			return err
		},
	} {
		before := h.refusals(t)
		if err := try(); err == nil {
			t.Errorf("%s is taken", name)
		}
		if n := h.refusals(t) - before; n != 1 {
			t.Errorf("%s: %d lines in the audit", name, n)
		}
	}
	before := h.refusals(t)
	if _, err := h.Plan(ctx, h.store, ann(), "shop", rulestore.Import{Text: file(warm), Match: 1, To: rulestore.Shadow}); err == nil || h.refusals(t) != before {
		t.Error("a plan is in the audit:", err)
	}
}

// TestSeconds: who waits as long as is said has waited long enough, and not a second
// more.
func TestSeconds(t *testing.T) {
	for wait, want := range map[time.Duration]int64{time.Microsecond: 1, time.Second: 1, time.Second + 1: 2, 90 * time.Second: 90} {
		if l := (&changes.Limited{RetryAfter: wait}); l.Seconds() != want {
			t.Errorf("%v: %d s", wait, l.Seconds())
		}
	}
}

// TestNoReport: a version that this node does not run yet is held up, and one that it does not compare because limits hold for a time.
func TestNoReport(t *testing.T) {
	h := newHouse(t)
	ctx := t.Context()
	v, err := h.Propose(ctx, h.store, ann(), rulestore.Proposal{Domain: "shop", Rule: "user", Text: rule("1/s"), Match: h.revision(t), To: rulestore.Shadow, Reason: "much less"})
	if err != nil {
		t.Fatal(err)
	}
	for name, enforce := range map[string]func() error{
		"a version": func() error {
			_, err := h.Move(ctx, h.store, ann(), rulestore.Step{Domain: "shop", Rule: "user", Version: v.Number, To: rulestore.Enforced, Match: h.revision(t), Reason: "it ran"})
			return err
		},
		"a file": func() error {
			d, err := h.store.Domain(ctx, "shop")
			if err != nil {
				t.Fatal(err)
			}
			_, err = h.Import(ctx, h.store, ann(), "shop", rulestore.Import{Text: file("1/s"), Match: d.Revision, To: rulestore.Enforced, Reason: "it ran"})
			return err
		},
	} {
		heldFor := func(why string) {
			t.Helper()
			before := h.inForce(t)
			if held, is := errors.AsType[*changes.Held](enforce()); !is || !strings.Contains(held.Why, why) || h.inForce(t) != before {
				t.Errorf("%s comes into force, or another reason is told: %v", name, held)
			}
		}
		h.report = nil
		heldFor("ask again in a second")
		hold := rulestore.Override{Domain: "shop", Percent: 50, Until: time.Now().Add(time.Hour), Reason: "too much"}
		if err := h.store.Override(ctx, ann(), hold); err != nil {
			t.Fatal(err)
		}
		heldFor("end it first")
		hold.Until = time.Time{}
		if err := h.store.Override(ctx, ann(), hold); err != nil {
			t.Fatal(err)
		}
		h.report = &shadow.Report{Counts: shadow.Counts{BothPass: 1000}}
		if err := enforce(); err != nil {
			t.Error(name, err)
		}
		if _, err := h.Propose(ctx, h.store, ann(), rulestore.Proposal{Domain: "shop", Rule: "user", Text: rule("10/s"), Match: h.revision(t), To: rulestore.Enforced, Reason: "as before", Forced: true}); err != nil {
			t.Fatal(err)
		}
		if v, err = h.Propose(ctx, h.store, ann(), rulestore.Proposal{Domain: "shop", Rule: "user", Text: rule("1/s"), Match: h.revision(t), To: rulestore.Shadow, Reason: "again"}); err != nil {
			t.Fatal(err)
		}
	}
}

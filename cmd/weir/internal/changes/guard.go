package changes

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// Held is a change that would deny more of the traffic than a change may, or nobody
// knows how much. It is in the audit, and can be forced.
type Held struct{ Why string }

// Error says why, and what to do instead.
func (h *Held) Error() string { return h.Why }

// enforcing is a rule that is to be enforced.
type enforcing struct {
	domain, rule string // no rule: several, of a file, or one whose ID is not known
	text         string
	version      int64
	reason       string
}

// guard holds a rule up, or does not. It judges what the actor may do: may asks the store whether that is so. Else anybody could have the audit and
// the inbox say that a version of another team was held up.
func (g *Gate) guard(ctx context.Context, s *rulestore.Store, by rulestore.Actor, e enforcing, may func() error) error {
	if err := may(); err != nil {
		return refuse(ctx, s, by, rulestore.Event{Action: rulestore.Action(rulestore.Enforced, false), Domain: e.domain, Rule: e.rule, Version: e.version, Reason: e.reason}, err)
	}
	d, err := document(ctx, s, e.domain)
	if err != nil {
		return err
	}
	if why := g.judge(ctx, d, e); why != "" {
		return hold(ctx, s, by, e, why)
	}
	return nil
}

// document is that of a domain; empty: there is none yet, which others tell better.
func document(ctx context.Context, s *rulestore.Store, domain string) (rulestore.Document, error) {
	d, err := s.Document(ctx, domain)
	if rulestore.IsKind(err, rulestore.NotFound) {
		return rulestore.Document{Domain: rulestore.Domain{Name: domain}}, nil
	}
	return d, err
}

// judge is why rules are held up; empty: they are not.
func (g *Gate) judge(ctx context.Context, d rulestore.Document, e enforcing) string {
	if v := g.verdict(ctx, d, e.rule, e.text); v.Refused {
		return v.Why
	}
	return ""
}

func hold(ctx context.Context, s *rulestore.Store, by rulestore.Actor, e enforcing, why string) error {
	err := s.Refused(ctx, by, rulestore.Event{
		Action: rulestore.Held, Domain: e.domain, Rule: e.rule, Version: e.version, Reason: e.reason, Refused: why,
	})
	if err != nil {
		return err
	}
	return &Held{why}
}

// Planned is what an import does, or would do.
type Planned struct {
	Domain  rulestore.Domain
	Changes []rulestore.Changed
	// Held is why it would be held up; empty: it would not. The caller can force it.
	Held string
	// Barred is why this actor may not enforce it, forced or not, though it may run it in shadow; empty: it may. Changes are then those of
	// a run in shadow.
	Barred string
}

// Plan is what Import would do with a file of a domain, without doing it. A file that this actor may not enforce, as where a second
// person has to, is planned as far as it may go.
func (g *Gate) Plan(ctx context.Context, s *rulestore.Store, by rulestore.Actor, domain string, p rulestore.Import) (Planned, error) {
	if err := g.fileFits(domain, p.Text); err != nil {
		return Planned{}, err
	}
	planned, err := g.plan(ctx, s, by, domain, p)
	if p.To != rulestore.Enforced || !rulestore.IsKind(err, rulestore.Forbidden) {
		return planned, err
	}
	why := err.Error()
	p.To = rulestore.Shadow
	planned, err = g.plan(ctx, s, by, domain, p)
	planned.Barred = why
	return planned, err
}

// Import is that of the store, for a file of a domain.
func (g *Gate) Import(ctx context.Context, s *rulestore.Store, by rulestore.Actor, domain string, p rulestore.Import) (Planned, error) {
	attempt := rulestore.Event{Action: "import", Domain: domain, Reason: p.Reason}
	if err := g.fileFits(domain, p.Text); err != nil {
		return Planned{}, refuse(ctx, s, by, attempt, err)
	}
	if p.To == rulestore.Enforced {
		planned, err := g.plan(ctx, s, by, domain, p)
		if err != nil {
			return Planned{}, refuse(ctx, s, by, attempt, err)
		}
		if planned.Held != "" {
			return Planned{}, hold(ctx, s, by, enforcing{domain: domain, reason: p.Reason}, planned.Held)
		}
	}
	d, made, err := s.Import(ctx, by, p)
	return Planned{Domain: d, Changes: made}, err
}

// refuse audits what somebody was refused before the store was asked to do it.
func refuse(ctx context.Context, s *rulestore.Store, by rulestore.Actor, e rulestore.Event, why error) error {
	if rulestore.IsKind(why, rulestore.Unavailable) {
		return why
	}
	e.Refused = why.Error()
	return errors.Join(s.Refused(ctx, by, e), why) // as the store does it
}

func (g *Gate) plan(ctx context.Context, s *rulestore.Store, by rulestore.Actor, domain string, p rulestore.Import) (Planned, error) {
	d, made, err := s.Plan(ctx, by, p)
	if err != nil {
		return Planned{}, err
	}
	planned := Planned{Domain: d, Changes: made}
	if p.To == rulestore.Enforced && !p.Forced { // the store wants a reason and audits it
		planned.Held, err = g.judgeFile(ctx, s, domain, made)
	}
	return planned, err
}

// fileFits refuses a file that package rules or the store of the counts refuses, or of
// another domain.
func (g *Gate) fileFits(domain, text string) error {
	if err := g.free(domain); err != nil {
		return err
	}
	if err := rulestore.CheckSize(text); err != nil {
		return err
	}
	set, err := rules.Parse("file", []byte(text))
	if err == nil {
		err = g.options.Check(set)
	}
	if err != nil {
		return err
	}
	if is := set.Domains()[0]; is != domain {
		return &rulestore.Error{
			Kind: rulestore.Invalid, Field: "domain",
			Text: "the file is of domain " + strconv.QuoteToGraphic(is) + ", and was sent to " + strconv.QuoteToGraphic(domain),
		}
	}
	return nil
}

// judgeFile is judge for each rule that an import changes. Where it only takes rules away or moves them, nothing is
// held up.
func (g *Gate) judgeFile(ctx context.Context, s *rulestore.Store, domain string, changes []rulestore.Changed) (string, error) {
	changes = slices.DeleteFunc(slices.Clone(changes), func(ch rulestore.Changed) bool {
		return ch.Rule == rulestore.Frame || ch.Before == ch.After || ch.After == ""
	})
	if len(changes) == 0 {
		return "", nil
	}
	d, err := document(ctx, s, domain)
	if err != nil {
		return "", err
	}
	for _, ch := range changes {
		if why := g.judge(ctx, d, enforcing{domain: domain, rule: ch.Rule, text: ch.After}); why != "" {
			return "rule " + ch.Rule + ": " + why, nil
		}
	}
	return "", nil
}

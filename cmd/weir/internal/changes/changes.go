// Package changes is what each change of rules passes, whichever listener it comes by:
// the page and the API. It holds up rules that would deny too much of the traffic. It refuses rules
// that can't be active here, and callers that ask for more changes than a token may.
//
// guard.go holds up what would deny too much, and inbox.go says how large the changes are that wait for somebody.
package changes

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// Pace is how many changes the caller with a token may ask for: so many at once, and then some each
// second. A change beyond it is refused.
const Pace = "20/s burst 500"

// maxActors is how many of these callers are told apart.
const maxActors = 16 << 10

// Options are what a gate goes by. All but Reach and Limited must be there.
type Options struct {
	// InFiles is whether a domain comes from files, so that the database can't
	// have it.
	InFiles func(domain string) bool
	// Check refuses rules by failing, such as rules.Set.Fits.
	Check func(*rules.Set) error
	// Reports is how each rule that is in shadow in a domain differs from what is active, by the requests of all nodes.
	Reports func(ctx context.Context, domain string) []*shadow.Report
	// Reach says why nothing would be sent to the URL of a webhook, by failing. Nil: something would to all.
	Reach func(ctx context.Context, url string) error
	// Limited is called when a change is refused because of Pace. Nil: nobody is told.
	Limited func()
}

// Gate lets changes through to a store. It is made by New. Its methods fail as those
// of the store do, and with a *Held, *Limited, *FromFiles or *rules.Error.
type Gate struct {
	options Options
	pace    *weir.Limiter
}

// New makes a gate.
func New(o Options) (*Gate, error) {
	limit, err := weir.ParseLimit(Pace)
	if err != nil {
		return nil, fmt.Errorf("limit changes of rules: %w", err)
	}
	if o.Limited == nil {
		o.Limited = func() {}
	}
	return &Gate{o, weir.NewLimiter(memstore.New(memstore.Options{MaxKeys: maxActors}), "changes", limit)}, nil
}

// Limited is a change more than an actor may ask for.
type Limited struct {
	Actor      string
	RetryAfter time.Duration
}

// Error says what to do instead.
func (l *Limited) Error() string {
	return l.Actor + " asks for more changes than " + Pace + "; wait, or give whole files"
}

// Seconds is RetryAfter for people and headers, rounded up.
func (l *Limited) Seconds() int64 { return int64((l.RetryAfter + time.Second - 1) / time.Second) }

// Admit counts a change that an actor asks for, or something that costs as much, and
// refuses it when there are too many.
func (g *Gate) Admit(ctx context.Context, by rulestore.Actor) error {
	answer, err := g.pace.Ask(ctx, weir.Request{Key: by.Token + " " + by.Name, Cost: 1})
	if err != nil || answer.Outcome == weir.Allowed {
		return err
	}
	g.options.Limited()
	return &Limited{by.Name, answer.RetryAfter}
}

// FromFiles is a change of a domain that files have.
type FromFiles struct{ Domain string }

// Error says what to do instead.
func (f *FromFiles) Error() string {
	return fmt.Sprintf("%q comes from the files of --rules; change it there, or take it out of them first", f.Domain)
}

func (g *Gate) free(domain string) error {
	if g.options.InFiles(domain) {
		return &FromFiles{domain}
	}
	return nil
}

// CreateDomain is that of the store.
func (g *Gate) CreateDomain(ctx context.Context, s *rulestore.Store, by rulestore.Actor, d rulestore.NewDomain, reason string) (rulestore.Domain, error) {
	if err := g.free(d.Name); err != nil {
		return rulestore.Domain{}, refuse(ctx, s, by, rulestore.Event{Action: "domain.create", Domain: d.Name, Reason: reason}, err)
	}
	return s.CreateDomain(ctx, by, d, reason)
}

// RestoreDomain is that of the store.
func (g *Gate) RestoreDomain(ctx context.Context, s *rulestore.Store, by rulestore.Actor, domain string, revision int64, reason string) (rulestore.Domain, error) {
	if err := g.free(domain); err != nil {
		return rulestore.Domain{}, refuse(ctx, s, by, rulestore.Event{Action: "domain.restore", Domain: domain, Reason: reason}, err)
	}
	return s.RestoreDomain(ctx, by, domain, revision, reason)
}

// SetException is that of the store. It refuses a limit that the store of the counts can't keep.
func (g *Gate) SetException(ctx context.Context, s *rulestore.Store, by rulestore.Actor, e rulestore.Exception) (rulestore.Exception, error) {
	if err := g.mayGrant(e.Domain, e.Limit); err != nil {
		return e, refuse(ctx, s, by, rulestore.Event{Action: "exception.set", Domain: e.Domain, Reason: e.Reason}, err)
	}
	return s.SetException(ctx, by, e)
}

// SetExceptions is that of the store, likewise.
func (g *Gate) SetExceptions(ctx context.Context, s *rulestore.Store, by rulestore.Actor, p rulestore.ExceptionBatch) (rulestore.ExceptionsSet, error) {
	if err := g.free(p.Domain); err != nil {
		return rulestore.ExceptionsSet{}, refuse(ctx, s, by, rulestore.Event{Action: "exception.import", Domain: p.Domain, Reason: p.Reason}, err)
	}
	p.Fits = func(limit string) error { return g.mayGrant(p.Domain, limit) }
	return s.SetExceptions(ctx, by, p)
}

// SetWebhook is that of the store. It refuses a URL to which nothing would be sent.
func (g *Gate) SetWebhook(ctx context.Context, s *rulestore.Store, by rulestore.Actor, w rulestore.Webhook, reason string) (rulestore.Webhook, error) {
	if w.URL != "" && g.options.Reach != nil && by.Role >= rulestore.Admin { // the store refuses others, who are told nothing of names
		if err := g.options.Reach(ctx, w.URL); err != nil {
			err = &rulestore.Error{Kind: rulestore.Invalid, Field: "url", Text: err.Error()}
			return rulestore.Webhook{}, refuse(ctx, s, by, rulestore.Event{Action: "webhook.set", Team: w.Team, Reason: reason}, err)
		}
	}
	return s.SetWebhook(ctx, by, w, reason)
}

// mayGrant refuses an exception that could not hold here. The rule store says better what is wrong with the limit's text.
func (g *Gate) mayGrant(domain, limit string) error {
	if err := g.free(domain); err != nil {
		return err
	}
	err := g.fits(domain, fmt.Sprintf("- key: exception\n  limits: [%q]\n", limit))
	if bad, ok := err.(*rules.Error); ok && len(bad.Findings) > 0 { //nolint:errorlint // as Fits gives it
		return &rulestore.Error{Kind: rulestore.Invalid, Field: "limit", Text: bad.Findings[0].Text}
	}
	return err
}

// Propose calls Propose of the store. A version that is to be enforced at once was compared with
// nothing, so the caller has to force it, unless it is looser than what is active. A version that removes the rule needs no force.
func (g *Gate) Propose(ctx context.Context, s *rulestore.Store, by rulestore.Actor, p rulestore.Proposal) (rulestore.Version, error) {
	if err := g.possible(p); err != nil {
		return rulestore.Version{}, refuse(ctx, s, by, rulestore.Event{Action: rulestore.Action(p.To, p.Forced), Domain: p.Domain, Rule: p.Rule, Reason: p.Reason}, err)
	}
	if p.Text != "" && p.To == rulestore.Enforced && !p.Forced {
		e := enforcing{domain: p.Domain, rule: p.Rule, text: p.Text, reason: p.Reason}
		err := g.guard(ctx, s, by, e, func() error {
			dry := p
			dry.Dry = true
			_, err := s.Propose(ctx, by, dry)
			return err
		})
		if err != nil {
			return rulestore.Version{}, err
		}
	}
	return s.Propose(ctx, by, p)
}

// possible refuses what can't be active here. Rules that the database has of a domain can still
// change when the domain has come into files, so that an author can remove them.
func (g *Gate) possible(p rulestore.Proposal) error {
	if p.Rule == "" {
		if err := g.free(p.Domain); err != nil {
			return err
		}
	}
	if p.Text == "" {
		return nil
	}
	return g.fits(p.Domain, p.Text)
}

// fits refuses a rule that the store of the counts can't keep. It lets a text pass that is no rule
// at all: the rule store refuses it with a better message.
func (g *Gate) fits(domain, text string) error {
	set, err := rules.Parse("rule", []byte(ruleFile(domain, text)))
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	err = g.options.Check(set)
	if bad, ok := err.(*rules.Error); ok { //nolint:errorlint // as Fits gives it
		for i := range bad.Findings {
			bad.Findings[i].Line = max(bad.Findings[i].Line-above, 1)
		}
	}
	return err
}

// Move calls Move of the store. It does not hold up a version that was active before, or one that
// removes the rule.
func (g *Gate) Move(ctx context.Context, s *rulestore.Store, by rulestore.Actor, p rulestore.Step) (rulestore.Rule, error) {
	if p.To == rulestore.Enforced && !p.Forced {
		v, err := s.Version(ctx, p.Domain, p.Rule, p.Version)
		if err != nil {
			return rulestore.Rule{}, err
		}
		if v.Text != "" && (v.State == rulestore.Draft || v.State == rulestore.Shadow) {
			err := g.guard(ctx, s, by, enforcing{p.Domain, p.Rule, v.Text, p.Version, p.Reason}, func() error {
				dry := p
				dry.Dry = true
				_, err := s.Move(ctx, by, dry)
				return err
			})
			if err != nil {
				return rulestore.Rule{}, err
			}
		}
	}
	return s.Move(ctx, by, p)
}

// Verdict is whether a version of a domain may come into force.
func (g *Gate) Verdict(ctx context.Context, d rulestore.Document, v rulestore.Version) shadow.Verdict {
	return g.verdict(ctx, d, v.Rule, v.Text)
}

// verdict is whether a text of a rule may come into force: one that takes the rule away, or is looser than what is active, without
// a trial, and else what runs in shadow as it is. ctx bounds how long the nodes are asked.
func (g *Gate) verdict(ctx context.Context, d rulestore.Document, rule, text string) shadow.Verdict {
	if text == "" {
		return shadow.Verdict{Why: "it takes limits away, so it is not tried"}
	}
	at := slices.IndexFunc(d.Trials, func(t rulestore.Trial) bool { return t.Rule == rule && t.Text == text })
	if at >= 0 {
		key := shadow.Key{Domain: d.Name, Rule: rule, Version: d.Trials[at].Version, Over: d.Trials[at].Beside}
		for _, r := range g.options.Reports(ctx, d.Name) {
			if r.Key == key {
				return shadow.Judge(r, shadow.UsualShare)
			}
		}
	}
	switch {
	case looser(d, text):
		return shadow.Looser()
	case at < 0:
		return shadow.Judge(nil, shadow.UsualShare)
	}
	for _, o := range d.Overrides.Active(time.Now()) {
		return shadow.Verdict{Refused: true, Why: "limits of the domain are opened or tightened until " + o.Until.UTC().Format("2006-01-02 15:04 MST") +
			", and what runs in shadow is not compared until then; end it first, or force it with a reason"}
	}
	return shadow.Verdict{Refused: true, Why: "this node has yet to hear that it runs in shadow, or it can't be active here; ask again in a second, or force it with a reason"}
}

// looser is whether a text of a rule is at least as loose as the rule that is active.
func looser(d rulestore.Document, text string) bool {
	next, err := rules.Parse("rule", []byte(ruleFile(d.Name, text)))
	if err != nil {
		return false
	}
	items := next.Items(d.Name)
	active, err := rules.Parse("active", []byte(d.File))
	if err != nil || len(items) != 1 {
		return false
	}
	return items[0].Covers(active.Item(d.Name, items[0].Entry()))
}

// above is how many lines ruleFile puts above a rule.
const above = 2

// ruleFile is a file with a rule alone.
func ruleFile(domain, text string) string {
	return fmt.Sprintf("domain: %q\ndescriptors:\n%s", domain, text)
}

package ruleapi

import (
	"maps"
	"net/http"

	"github.com/weir-limit/weir/internal/rulestore"
	"github.com/weir-limit/weir/internal/shadow"
)

// guarded is rules that are to be enforced.
type guarded struct {
	domain, rule string // no rule: the whole file
	version      int64
	shadowed     bool // they run in shadow as they are
	force        bool
	reason       string
}

// guard refuses what would deny more of the traffic than a change may, or nobody
// knows how much, unless it is forced. The refusal is in the audit.
func (c *call) guard(g guarded) error {
	if why := c.judge(g); why != "" {
		return c.hold(g, why)
	}
	return nil
}

// judge is why the guard refuses a change; empty: it does not.
func (c *call) judge(g guarded) string {
	if g.force || c.by.Role < rulestore.Publish {
		return "" // the store wants a reason and audits it, or refuses
	}
	var report *shadow.Report
	if g.shadowed {
		report = c.options.Report(g.domain)
	}
	if v := shadow.Judge(report, shadow.UsualShare, ""); v.Refused {
		return v.Why
	}
	return ""
}

// hold refuses a change, and audits that.
func (c *call) hold(g guarded, why string) error {
	err := c.store.Refused(c.r.Context(), c.by, rulestore.Event{
		Action: "enforce", Domain: g.domain, Rule: g.rule, Version: g.version, Reason: g.reason, Refused: why,
	})
	if err != nil {
		return err
	}
	return &problem{Status: http.StatusConflict, Field: "force", Detail: why}
}

// judgeFile is judge for an import: what runs in shadow must be what it changes,
// no more and no less. Where it only takes rules away or moves them, nothing is
// held up.
func (c *call) judgeFile(g guarded, changes []rulestore.Changed) (string, error) {
	after, denies := map[string]string{}, false
	for _, ch := range changes {
		if ch.Rule != rulestore.Frame && ch.Before != ch.After {
			after[ch.Rule] = ch.After
			denies = denies || ch.After != ""
		}
	}
	if !denies {
		return "", nil
	}
	d, err := c.store.Document(c.r.Context(), g.domain)
	if err != nil && !rulestore.IsKind(err, rulestore.NotFound) { // it may be new
		return "", err
	}
	tried := map[string]string{}
	for _, t := range d.Trials {
		tried[t.Rule] = t.Text
	}
	g.shadowed = len(tried) > 0 && maps.Equal(after, tried)
	return c.judge(g), nil
}

// guardVersion is guard for a version. What was in force before, and what takes a
// rule away, is not held up.
func (c *call) guardVersion(s rulestore.Step) error {
	if s.To != rulestore.Enforced {
		return nil
	}
	v, err := c.store.Version(c.r.Context(), s.Domain, s.Rule, s.Version)
	if err != nil {
		return err
	}
	if v.Text == "" || v.State != rulestore.Draft && v.State != rulestore.Shadow {
		return nil
	}
	return c.guard(guarded{s.Domain, s.Rule, s.Version, v.State == rulestore.Shadow, s.Forced, s.Reason})
}

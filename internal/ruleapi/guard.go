package ruleapi

import (
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
	if g.force || c.by.Role < rulestore.Publish {
		return nil // the store wants a reason and audits it, or refuses
	}
	var report *shadow.Report
	if g.shadowed {
		report = c.options.Report(g.domain)
	}
	v := shadow.Judge(report, shadow.UsualShare, "")
	if !v.Refused {
		return nil
	}
	err := c.store.Refused(c.r.Context(), c.by, rulestore.Event{
		Action: "enforce", Domain: g.domain, Rule: g.rule, Version: g.version, Reason: g.reason, Refused: v.Why,
	})
	if err != nil {
		return err
	}
	return &problem{Status: http.StatusConflict, Field: "force", Detail: v.Why}
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

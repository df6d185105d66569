package ruleapi

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// Rule is a rule with the numbers of its versions; none is left out.
type Rule struct {
	Domain   string `json:"domain"`
	ID       string `json:"id"`
	Team     string `json:"team"`
	State    string `json:"state"` // enforced, disabled, proposed or gone
	Text     string `json:"text"`
	Latest   int64  `json:"latest,omitempty"`
	Draft    int64  `json:"draft,omitempty"`
	Shadow   int64  `json:"shadow,omitempty"`
	Enforced int64  `json:"enforced,omitempty"`
	Revision int64  `json:"revision"`
	// Override is what holds for it at present, its own or its domain's.
	Override *rulestore.Override `json:"override,omitempty"`
	// Disabling is that a person asks to disable the active version, in a domain under review; another one has to do it.
	Disabling *Asked `json:"disabling,omitempty"`
}

// Asked is a step that a person asks for.
type Asked struct {
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

func ruleOf(r rulestore.Rule, of rulestore.Overrides) Rule {
	out := Rule{Domain: r.Domain, ID: r.ID, Team: r.Team, Text: r.Text, Latest: r.Latest, Draft: r.Draft, Shadow: r.Shadow, Enforced: r.Enforced, Revision: r.Revision}
	if r.Disabling != "" {
		out.Disabling = &Asked{r.Disabling, r.DisablingReason}
	}
	switch {
	case r.Gone:
		out.State = "gone"
	case r.Disabled:
		out.State = "disabled"
	case r.Active():
		out.State, out.Override = "enforced", of.Of(r.ID, time.Now())
	default:
		out.State = "proposed"
	}
	return out
}

// listRules lists rules of the database. after is DOMAIN/ID, each escaped as in
// a path.
func listRules(c *call) (answer, error) {
	l := rulestore.Listing{
		Domain: c.query["domain"], Team: c.query["team"], State: rulestore.State(c.query["state"]), Search: c.query["search"],
		Gone: c.query["gone"] == "true", Limit: c.limit,
	}
	if domain, id, ok := strings.Cut(c.query["after"], "/"); ok {
		l.BehindDomain, l.Behind = unescaped(domain), unescaped(id)
	}
	found, err := c.store.Rules(c.r.Context(), l)
	if err != nil {
		return answer{}, err
	}
	if len(found) == 0 && l.Domain != "" {
		if err := c.there(l.Domain); err != nil {
			return answer{}, err
		}
	}
	list, err := c.rulesOf(found)
	if err != nil {
		return answer{}, err
	}
	next := func(r *Rule) string { return url.PathEscape(r.Domain) + "/" + url.PathEscape(r.ID) }
	return answer{body: paged(c, "rules", list, next)}, nil
}

// rulesOf is rules that are sorted by their domains, with what holds for each.
func (c *call) rulesOf(found []rulestore.Rule) ([]Rule, error) {
	overrides, err := rulestore.OverridesOf(c.r.Context(), c.store, found, func(r *rulestore.Rule) string { return r.Domain })
	list := make([]Rule, 0, len(found)) // not nil, which would be null
	for _, r := range found {
		list = append(list, ruleOf(r, overrides[r.Domain]))
	}
	return list, err
}

// one answers with one rule.
func (c *call) one(r rulestore.Rule) (answer, error) {
	list, err := c.rulesOf([]rulestore.Rule{r})
	return answer{body: list[0], revision: r.Revision}, err
}

// there refuses a domain that is not in the database, so that nobody takes a wrong
// name for a domain without rules.
func (c *call) there(domain string) error {
	if c.options.InFiles(domain) {
		return &problem{
			Status: http.StatusNotFound, Field: "domain",
			Detail: "domain: " + quote(domain) + " comes from the files of --rules, and has no rules in the database; GET /v1/export has the active ones",
		}
	}
	_, err := c.store.Domain(c.r.Context(), domain)
	if bad, ok := errors.AsType[*rulestore.Error](err); ok && bad.Kind == rulestore.NotFound {
		bad.Field = "domain"
	}
	return err
}

// unescaped is a part of a path; what is no escape stays as it is.
func unescaped(part string) string {
	if text, err := url.PathUnescape(part); err == nil {
		return text
	}
	return part
}

// ruleInput is a rule as it is written.
type ruleInput struct {
	Domain string // of a new rule
	Text   string // an item of descriptors
	Before string // the rule that a new one stands before; empty: it is last
	To     string // draft, shadow or enforced; empty: draft
	Reason string
	Force  bool
}

func createRule(c *call, in ruleInput) (answer, error) {
	if strings.TrimSpace(in.Text) == "" {
		return answer{}, badRequest("text", "is empty; write a rule, as - key: NAME and its limits")
	}
	v, err := c.propose(rulestore.Proposal{Domain: in.Domain}, in)
	at := "/v1/rules/" + url.PathEscape(v.Domain) + "/" + url.PathEscape(v.Rule)
	return answer{status: http.StatusCreated, body: v, revision: v.Revision, location: at}, err
}

func replaceRule(c *call, in ruleInput) (answer, error) {
	domain := c.r.PathValue("domain")
	if in.Domain != "" && in.Domain != domain {
		return answer{}, badRequest("domain", "a rule stays in its domain; leave it out")
	}
	if strings.TrimSpace(in.Text) == "" {
		return answer{}, badRequest("text", "is empty; write a rule, or DELETE it")
	}
	v, err := c.propose(rulestore.Proposal{Domain: domain, Rule: c.r.PathValue("rule"), Match: c.seen}, in)
	return answer{body: v, revision: v.Revision}, err
}

func (c *call) propose(p rulestore.Proposal, in ruleInput) (rulestore.Version, error) {
	p.Text, p.Before, p.To, p.Reason, p.Forced = in.Text, in.Before, rulestore.State(in.To), in.Reason, in.Force
	return c.options.Changes.Propose(c.r.Context(), c.store, c.by, p)
}

func deleteRule(c *call) (answer, error) {
	v, err := c.options.Changes.Propose(c.r.Context(), c.store, c.by, rulestore.Proposal{
		Domain: c.r.PathValue("domain"), Rule: c.r.PathValue("rule"), Match: c.seen,
		To: rulestore.State(c.query["to"]), Reason: c.query["reason"], Forced: c.query["force"] == "true",
	})
	return answer{body: v, revision: v.Revision}, err
}

func getRule(c *call) (answer, error) {
	r, err := c.store.Rule(c.r.Context(), c.r.PathValue("domain"), c.r.PathValue("rule"))
	if err != nil {
		return answer{}, err
	}
	return c.one(r)
}

// step is where a version is to go.
type step struct {
	Version    int64
	To, Reason string
	Force      bool
}

// moveRule takes a version to a state.
func moveRule(c *call, in step) (answer, error) {
	return c.move(rulestore.Step{Version: in.Version, To: rulestore.State(in.To), Reason: in.Reason, Forced: in.Force})
}

func (c *call) move(s rulestore.Step) (answer, error) {
	s.Domain, s.Rule, s.Match = c.r.PathValue("domain"), c.r.PathValue("rule"), c.seen
	r, err := c.options.Changes.Move(c.r.Context(), c.store, c.by, s)
	if err != nil {
		return answer{}, err
	}
	out, err := c.one(r)
	if s.To == rulestore.Disabled && !r.Disabled {
		out.status = http.StatusAccepted // it waits for a second person
	}
	return out, err
}

// rollingBack is what is to be enforced again.
type rollingBack struct {
	Version int64
	Reason  string
}

// rollBack enforces an older version: the one named, else the one that was in
// force before.
func rollBack(c *call, in rollingBack) (answer, error) {
	if in.Version == 0 {
		domain, rule := c.r.PathValue("domain"), c.r.PathValue("rule")
		r, err := c.store.Rule(c.r.Context(), domain, rule)
		if err != nil {
			return answer{}, err
		}
		if in.Version, err = c.before(r); err != nil {
			return answer{}, err
		}
	}
	return c.move(rulestore.Step{Version: in.Version, To: rulestore.Enforced, Reason: in.Reason})
}

// before is the version that was active before the one that is, or of a rule that went away with its domain, the last that was.
func (c *call) before(r rulestore.Rule) (int64, error) {
	at, away := r.Enforced, r.Enforced == 0
	if away {
		if err := c.there(r.Domain); err != nil {
			return 0, err
		}
		at = r.Latest + 1
	}
	for at > 0 {
		found, err := c.store.Versions(c.r.Context(), r.Domain, r.ID, at, 0)
		if err != nil {
			return 0, err
		}
		for _, v := range found {
			if v.State == rulestore.Superseded && (!away || v.Text != "") {
				return v.Number, nil
			}
			at = v.Number
		}
		if len(found) == 0 {
			break
		}
	}
	if away {
		return 0, badRequest("version", "no version of the rule was active yet; enforce one, or withdraw what is proposed")
	}
	return 0, badRequest("version", "no older version was active; remove the rule, or disable it")
}

// history lists versions, the newest first, with what was done to the rule.
func history(c *call) (answer, error) {
	before, err := c.number("before")
	if err != nil {
		return answer{}, err
	}
	domain, rule := c.r.PathValue("domain"), c.r.PathValue("rule")
	found, err := c.store.Versions(c.r.Context(), domain, rule, before, c.limit)
	if err != nil {
		return answer{}, err
	}
	if len(found) == 0 && before == 0 {
		return answer{}, &problem{Status: http.StatusNotFound, Detail: "there is no rule " + quote(rule) + " in domain " + quote(domain)}
	}
	out := paged(c, "versions", found, func(v *rulestore.Version) string { return strconv.FormatInt(v.Number, 10) })
	const newest = 1<<63 - 1
	events, err := c.store.Audit(c.r.Context(), rulestore.Audited{Domain: domain, Rule: rule, Before: newest, History: true, Limit: c.limit})
	out["events"] = append([]rulestore.Event{}, events...) // never null
	return answer{body: out}, err
}

// version is the number of a version in the path.
func (c *call) version() (int64, error) {
	n, err := strconv.ParseInt(c.r.PathValue("version"), 10, 64)
	if err != nil {
		return 0, badRequest("version", quote(c.r.PathValue("version"))+" is no number")
	}
	return n, nil
}

func getVersion(c *call) (answer, error) {
	n, err := c.version()
	if err != nil {
		return answer{}, err
	}
	v, err := c.store.Version(c.r.Context(), c.r.PathValue("domain"), c.r.PathValue("rule"), n)
	return answer{body: v}, err
}

// diffVersions compares two versions, line by line.
func diffVersions(c *call) (answer, error) {
	var texts [2]string
	for i, key := range []string{"from", "to"} {
		n, err := c.number(key)
		if err != nil {
			return answer{}, err
		}
		if n == 0 { // before the first there was nothing
			continue
		}
		v, err := c.store.Version(c.r.Context(), c.r.PathValue("domain"), c.r.PathValue("rule"), n)
		if err != nil {
			return answer{}, err
		}
		texts[i] = v.Text
	}
	return answer{text: changes.Compare(texts[0], texts[1]), kind: "text/plain; charset=utf-8"}, nil
}

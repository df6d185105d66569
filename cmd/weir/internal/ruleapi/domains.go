package ruleapi

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// domainJSON is a domain. A domain of files has a name, a source and rules only.
type domainJSON struct {
	Name     string `json:"name"`
	Source   string `json:"source"` // "database" or "files"
	Team     string `json:"team,omitempty"`
	Shared   bool   `json:"shared"`
	Review   bool   `json:"review"`
	Public   bool   `json:"public"`
	Rules    int64  `json:"rules"`
	Revision int64  `json:"revision,omitempty"`

	Trials    []trialJSON         `json:"trials,omitempty"`
	Overrides rulestore.Overrides `json:"overrides,omitempty"` // that have not ended
}

// trialJSON is a version in shadow.
type trialJSON struct {
	Rule    string `json:"rule"`
	Version int64  `json:"version"`
}

func domainOf(d rulestore.Domain) domainJSON {
	return domainJSON{Name: d.Name, Source: "database", Team: d.Team, Shared: d.Shared, Review: d.Review, Public: d.Public, Rules: d.Rules, Revision: d.Revision}
}

func whole(d rulestore.Document) domainJSON {
	out := domainOf(d.Domain)
	for _, t := range d.Trials {
		out.Trials = append(out.Trials, trialJSON{t.Rule, t.Version})
	}
	out.Overrides = d.Overrides.Active(time.Now())
	return out
}

func whoami(c *call) (answer, error) {
	return answer{body: map[string]any{"actor": c.by.Name, "role": c.by.Role.String(), "teams": c.by.Teams, "token": c.by.Token}}, nil
}

// listDomains lists the domains of the database and of files, by name.
func listDomains(c *call) (answer, error) {
	most := cmp.Or(c.limit, rulestore.MaxPage)
	found, err := c.store.Domains(c.r.Context(), c.query["team"], c.query["after"], most)
	if err != nil {
		return answer{}, err
	}
	list := c.fromFiles(c.query["team"], c.query["after"])
	overrides, err := rulestore.OverridesOf(c.r.Context(), c.store, found, func(d *rulestore.Domain) string { return d.Name })
	if err != nil {
		return answer{}, err
	}
	for _, d := range found {
		if !c.options.InFiles(d.Name) {
			one := domainOf(d)
			one.Overrides = overrides[d.Name]
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b domainJSON) int { return strings.Compare(a.Name, b.Name) })
	next := ""
	switch {
	case len(list) > most:
		list = list[:most]
		next = list[most-1].Name
	case len(found) == most: // files may have all of them
		next = found[most-1].Name
	}
	return answer{body: page("domains", list, next)}, nil
}

// fromFiles is the domains that come from files; they belong to no team.
func (c *call) fromFiles(team, after string) (list []domainJSON) {
	if team != "" {
		return nil
	}
	count := map[string]int64{}
	set := c.options.InForce()
	for _, r := range set.Rules() {
		count[r.Domain]++
	}
	for _, name := range set.Domains() {
		if name > after && c.options.InFiles(name) {
			list = append(list, domainJSON{Name: name, Source: "files", Rules: count[name]})
		}
	}
	return list
}

// paged is a list that the store has found, with what name gives of its last thing
// where there may be more.
func paged[T any](c *call, kind string, found []T, name func(*T) string) map[string]any {
	next := ""
	if n := len(found); n > 0 && (n == c.limit || n == rulestore.MaxPage) {
		next = name(&found[n-1])
	}
	return page(kind, found, next)
}

// page is a list with the name that the next page begins behind.
func page[T any](name string, list []T, next string) map[string]any {
	if list == nil {
		list = []T{}
	}
	out := map[string]any{name: list}
	if next != "" {
		out["next"] = next
	}
	return out
}

// newDomain is a domain to be made.
type newDomain struct {
	Name, Team, Reason string
	Shared, Review     *bool
	Public             bool
}

func createDomain(c *call, in newDomain) (answer, error) {
	d, err := c.options.Changes.CreateDomain(c.r.Context(), c.store, c.by, rulestore.NewDomain{Name: in.Name, Team: in.Team, Shared: in.Shared, Review: in.Review, Public: in.Public}, in.Reason)
	return answer{status: http.StatusCreated, body: domainOf(d), revision: d.Revision, location: "/v1/domains/" + url.PathEscape(d.Name)}, err
}

func getDomain(c *call) (answer, error) {
	name := c.r.PathValue("domain")
	if c.options.InFiles(name) {
		list := c.fromFiles("", "")
		i := slices.IndexFunc(list, func(d domainJSON) bool { return d.Name == name })
		if i >= 0 {
			return answer{body: list[i]}, nil
		}
	}
	d, err := c.store.Document(c.r.Context(), name)
	return answer{body: whole(d), revision: d.Revision}, err
}

// domainUpdate is what a domain is to be; it stays what is left out.
type domainUpdate struct {
	Team, Reason           string
	Shared, Review, Public *bool
}

func updateDomain(c *call, in domainUpdate) (answer, error) {
	d, err := c.store.Domain(c.r.Context(), c.r.PathValue("domain"))
	if err != nil {
		return answer{}, err
	}
	if in.Team != "" {
		d.Team = in.Team
	}
	if in.Shared != nil {
		d.Shared = *in.Shared
	}
	if in.Review != nil {
		d.Review = *in.Review
	}
	if in.Public != nil {
		d.Public = *in.Public
	}
	d, err = c.store.UpdateDomain(c.r.Context(), c.by, d, c.seen, in.Reason)
	return answer{body: domainOf(d), revision: d.Revision}, err
}

func deleteDomain(c *call) (answer, error) {
	err := c.store.DeleteDomain(c.r.Context(), c.by, rulestore.Removal{
		Domain: c.r.PathValue("domain"), Confirm: c.query["confirm"], Match: c.seen, Reason: c.query["reason"],
	})
	return answer{body: map[string]bool{"deleted": true}}, err
}

// listDeletions lists domains that were taken away, the last first.
func listDeletions(c *call) (answer, error) {
	before, err := c.number("before")
	if err != nil {
		return answer{}, err
	}
	found, err := c.store.Deletions(c.r.Context(), c.query["domain"], before, c.limit)
	return answer{body: paged(c, "deletions", found, func(x *rulestore.Deletion) string { return strconv.FormatInt(x.Revision, 10) })}, err
}

// restoring is which deletion of a domain is to be undone.
type restoring struct {
	Revision int64 // of the deletion; 0: the last
	Reason   string
}

// restoreDomain brings a domain back as it was when it was taken away.
func restoreDomain(c *call, in restoring) (answer, error) {
	d, err := c.options.Changes.RestoreDomain(c.r.Context(), c.store, c.by, c.r.PathValue("domain"), in.Revision, in.Reason)
	return answer{body: domainOf(d), revision: d.Revision}, err
}

const yamlType = "application/yaml"

// getFile gives a domain's file as it was written. With ?in_force=true limits are
// as overrides make them at present.
func getFile(c *call) (answer, error) {
	d, err := c.store.Document(c.r.Context(), c.r.PathValue("domain"))
	if err != nil {
		return answer{}, err
	}
	text := d.File
	if c.query["in_force"] == "true" {
		text, _, err = d.InForce(time.Now())
	}
	return answer{text: text, kind: yamlType, revision: d.Revision}, err
}

// Change is what an import does to one rule. An empty rule is what stands
// before the first.
type Change struct {
	Rule    string `json:"rule"`
	Version int64  `json:"version"`
	Action  string `json:"action"` // a rulestore.Effect
	Diff    string `json:"diff"`
}

// putFile puts a file in the place of a domain's rules, or with ?dry_run=true
// tells what that would do, and whether it would be refused.
func putFile(c *call) (answer, error) {
	match, err := c.matchOrNew()
	if err != nil {
		return answer{}, err
	}
	text, err := c.read(rulestore.MaxFile)
	if err != nil {
		return answer{}, err
	}
	do := c.options.Changes.Import
	if c.query["dry_run"] == "true" {
		do = c.options.Changes.Plan
	}
	planned, err := do(c.r.Context(), c.store, c.by, c.r.PathValue("domain"), rulestore.Import{
		Text: string(text), Team: c.query["team"], Match: match, To: rulestore.State(c.query["to"]), Reason: c.query["reason"], Forced: c.query["force"] == "true",
	})
	if err != nil {
		return answer{}, err
	}
	list := []Change{}
	for _, ch := range planned.Changes {
		list = append(list, Change{ch.Rule, ch.Version, string(ch.Effect()), changes.Compare(ch.Before, ch.After)})
	}
	body := map[string]any{"domain": domainOf(planned.Domain), "changes": list}
	if why := cmp.Or(planned.Barred, planned.Held); why != "" {
		body["refused"], body["force"] = why, planned.Barred == ""
	}
	return answer{body: body, revision: planned.Domain.Revision}, nil
}

// overriding is what is to hold for a time.
type overriding struct {
	Mode    string // open, tighten or end
	Percent int64
	Seconds int64
	Reason  string
}

// override opens or tightens a domain or a rule for some time, or ends that.
func override(c *call, in overriding) (answer, error) {
	o := rulestore.Override{Domain: c.r.PathValue("domain"), Rule: c.r.PathValue("rule"), Reason: in.Reason}
	longest := int64(rulestore.MaxOverride / time.Second)
	switch {
	case in.Mode == "end":
	case in.Mode != "open" && in.Mode != "tighten":
		return answer{}, badRequest("mode", quote(in.Mode)+" is none; write open, tighten or end")
	case in.Seconds < 1 || in.Seconds > longest:
		return answer{}, badRequest("seconds", "how long it holds, must be 1…604800")
	case in.Mode == "tighten" && (in.Percent < 1 || in.Percent > 99):
		return answer{}, badRequest("percent", "of each limit that still passes, must be 1…99")
	case in.Mode == "open" && in.Percent != 0:
		return answer{}, badRequest("percent", "an open limit lets all pass; leave it out, or tighten")
	default:
		o.Percent, o.Until = in.Percent, time.Now().Add(time.Duration(in.Seconds)*time.Second)
	}
	if err := c.store.Override(c.r.Context(), c.by, o); err != nil {
		return answer{}, err
	}
	d, err := c.store.Document(c.r.Context(), o.Domain)
	return answer{body: whole(d), revision: d.Revision}, err
}

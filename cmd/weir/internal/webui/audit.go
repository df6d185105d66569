package webui

import (
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// auditPage is what audit.html shows.
type auditPage struct {
	Domain string // empty: all
	Rows   []auditRow
	Next   string
	Head   string // of the whole audit; empty: it is not known here
}

// auditRow is a line, as people read it.
type auditRow struct {
	rulestore.Event

	Did   string
	Teams string // that the token stands for
	Link  string // to the rule; empty: there is none
	Undo  string // to the form that undoes it; empty: there is none
	Stays string // why it can't be undone; empty: it can, or such things never are
}

// rowOf is a line for people.
func rowOf(e *rulestore.Event) auditRow {
	row := auditRow{Event: *e, Did: did(e.Action), Teams: strings.Join(e.Teams, ", ")}
	if slices.Contains(e.Teams, rulestore.AllTeams) {
		row.Teams = "all teams"
	}
	if e.Rule != "" {
		at := "history"
		if e.Action == rulestore.Reset { // the rule may be of a file, which has no history
			at = "rule"
		}
		row.Link = Home + at + "?" + url.Values{"domain": {e.Domain}, "rule": {e.Rule}}.Encode()
	}
	return row
}

// did is an action in words; one of a newer Weir is as it is.
func did(action string) string {
	words, ok := map[string]string{
		"domain.create": "Made the domain", "domain.update": "Changed the domain", "domain.delete": "Took the domain away", "domain.restore": "Restored the domain", "import": "Imported a file",
		"open": "Opened limits", "tighten": "Tightened limits", "override.end": "Ended an override",
		"exception.set": "Set an exception", "exception.import": "Imported exceptions", "exception.end": "Ended an exception",
		"team.quota": "Changed a quota", "token.create": "Made a token", "token.revoke": "Revoked a token", "webhook.set": "Set a webhook", "webhook.renew": "Made a webhook another secret", "webhook.retry": "Retried a webhook", "webhook.remove": "Removed a webhook",
		"propose": "Proposed", "shadow": "Put in shadow", "enforce": "Published", "disable": "Disabled", "disable.asked": "Asked to disable", "withdraw": "Withdrew",
		rulestore.Held: "Tried to publish", "comment": "Commented",
		rulestore.Reset: "Reset counts", rulestore.SignIn: "Signed in", rulestore.SignOut: "Signed out", rulestore.SignInRefused: "Sent wrong tokens", rulestore.Forget: "Gave up a node",
	}[strings.TrimSuffix(strings.TrimSuffix(action, ".forced"), ".unreviewed")]
	switch {
	case !ok:
		return action
	case strings.HasSuffix(action, ".forced"):
		return words + ", forced"
	case strings.HasSuffix(action, ".unreviewed"):
		return words + ", unreviewed"
	}
	return words
}

// audit shows every change, and every one that was refused, the newest first.
func (p *Pages) audit(v *visit) error {
	before, err := strconv.ParseInt(v.query("before"), 10, 64)
	if err != nil {
		before = math.MaxInt64 // from the newest
	}
	page := auditPage{Domain: v.query("domain")}
	lines, err := v.audited(rulestore.Audited{Domain: page.Domain, Before: before, Limit: pageSize + 1})
	if err != nil {
		return err
	}
	if len(lines) > 0 && before == math.MaxInt64 && page.Domain == "" {
		page.Head = lines[0].Head().String()
	}
	for i := range lines[:min(len(lines), pageSize)] {
		page.Rows = append(page.Rows, rowOf(&lines[i]))
	}
	if err := v.undoable(page.Rows); err != nil {
		return err
	}
	if len(lines) > pageSize {
		last := strconv.FormatInt(lines[pageSize-1].Seq, 10)
		page.Next = Home + "audit?" + url.Values{"domain": {page.Domain}, "before": {last}}.Encode()
	}
	return v.show(http.StatusOK, "audit", "Audit", page)
}

// audited lists lines as this visitor may read them.
func (v *visit) audited(q rulestore.Audited) ([]rulestore.Event, error) {
	list, err := v.store.Audit(v.r.Context(), q)
	if err != nil {
		return nil, err
	}
	reads, err := v.scope()
	if err != nil {
		return nil, err
	}
	rulestore.Withhold(list, reads.Item)
	return list, nil
}

// auditFile is the whole audit, an object a line, the oldest first.
func (p *Pages) auditFile(v *visit) error {
	var behind int64
	for first := true; ; first = false {
		list, err := v.audited(rulestore.Audited{Behind: behind})
		if err != nil && first {
			return err
		}
		if first {
			v.attach("application/jsonl", "weir-audit.jsonl")
		}
		if err != nil || len(list) == 0 {
			if err != nil {
				p.options.Log.Error("the audit was cut off", "error", err)
				panic(http.ErrAbortHandler) // so that nobody takes it for the whole
			}
			return nil
		}
		out := json.NewEncoder(v.w)
		for _, e := range list {
			if err := out.Encode(e); err != nil {
				return nil //nolint:nilerr // the browser is gone
			}
			behind = e.Seq
		}
	}
}

// backup tells what can be taken along.
func (p *Pages) backup(v *visit) error {
	return v.show(http.StatusOK, "backup", "Backup", v.store != nil)
}

// rulesFile is all active rules, as rule files.
func (p *Pages) rulesFile(v *visit) error {
	set := p.options.Rules()
	if set == nil {
		return &fault{http.StatusServiceUnavailable, "No rules are loaded yet."}
	}
	v.attach("application/yaml", "weir-rules.yaml")
	_, _ = v.w.Write(set.Export()) // the browser may be gone
	return nil
}

// attach says that a file comes.
func (v *visit) attach(kind, name string) {
	v.w.Header().Set("Content-Type", kind)
	v.w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

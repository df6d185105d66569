package webui

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// auditPage is what audit.html shows.
type auditPage struct {
	Domain string // empty: all
	Rows   []rulestore.Event
	Next   string
}

// audit shows every change, and every one that was refused, the newest first.
func (p *Pages) audit(v *visit) error {
	before, err := strconv.ParseInt(v.query("before"), 10, 64)
	if err != nil {
		before = 1<<63 - 1 // from the newest
	}
	page := auditPage{Domain: v.query("domain")}
	page.Rows, err = v.store.Audit(v.r.Context(), rulestore.Audited{Domain: page.Domain, Before: before, Limit: pageSize + 1})
	if err != nil {
		return err
	}
	if len(page.Rows) > pageSize {
		page.Rows = page.Rows[:pageSize]
		last := strconv.FormatInt(page.Rows[pageSize-1].Seq, 10)
		page.Next = Home + "audit?" + url.Values{"domain": {page.Domain}, "before": {last}}.Encode()
	}
	return v.show(http.StatusOK, "audit", "Audit", page)
}

// auditFile is the whole audit, an object a line, the oldest first.
func (p *Pages) auditFile(v *visit) error {
	var behind int64
	for first := true; ; first = false {
		list, err := v.store.Audit(v.r.Context(), rulestore.Audited{Behind: behind})
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

package webui

import (
	"net/http"
)

// rulePage is what rule.html shows.
type rulePage struct {
	Domain, ID string
	Team       string
	Marks      []mark
	Limits     []limitView // in force
}

// rule shows one rule.
func (p *Pages) rule(v *visit) error {
	at := place{v.query("domain"), v.query("rule")}
	page := rulePage{Domain: at.domain, ID: at.id}
	if all := v.filePlaces(at.domain, "")[at]; all != nil {
		page.Marks, page.Team = []mark{{"files", fromFiles}}, all[0].Owner
		page.Limits = viewsOf(all, v.counts(at.domain), true)
		return v.show(http.StatusOK, "rule", plain(at.id), page)
	}
	if v.store == nil {
		return &fault{http.StatusNotFound, "There is no rule " + plain(at.id) + " in domain " + plain(at.domain) + "."}
	}
	r, err := v.store.Rule(v.r.Context(), at.domain, at.id)
	if err != nil {
		return err
	}
	page.Marks, page.Team = marksOf(&r), r.Team
	page.Limits = viewsOf(readRule(r.Domain, "", r.Text).rules, v.counts(r.Domain), true)
	return v.show(http.StatusOK, "rule", plain(at.id), page)
}

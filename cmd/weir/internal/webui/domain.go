package webui

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// domainForm is the form that makes a domain.
type domainForm struct {
	Name, Team, Reason string
	Shared, Review     bool
	Public             bool
	Was                *rulestore.Deletion // of a domain of this name: it could be restored; nil: there is none, or the person knows
	Faults             map[string]string
}

func (p *Pages) newDomain(v *visit) error {
	return v.show(http.StatusOK, "new-domain", "New domain", domainForm{Team: v.ownTeam()})
}

// ownTeam is the team that an actor stands for, if it is one; else empty.
func (v *visit) ownTeam() string {
	if len(v.actor.Teams) == 1 && v.actor.Teams[0] != rulestore.AllTeams {
		return v.actor.Teams[0]
	}
	return ""
}

// makeDomain makes a domain without rules.
func (p *Pages) makeDomain(v *visit) error {
	form := v.r.PostFormValue
	f := domainForm{
		Name: strings.TrimSpace(form("name")), Team: strings.TrimSpace(form("team")), Reason: form("reason"),
		Shared: form("shared") == "yes", Review: form("review") == "yes", Public: form("public") == "yes",
	}
	if form("anew") != f.Name {
		was, err := v.store.Deletions(v.r.Context(), f.Name, 0, 1)
		if err != nil {
			return err
		}
		if f.Name != "" && len(was) > 0 && !was[0].Again {
			f.Was = &was[0]
			if f.Was.Team == f.Team {
				f.Shared, f.Review = f.Was.Shared, f.Was.Review
			}
			return v.show(http.StatusConflict, "new-domain", "New domain", f)
		}
	}
	d := rulestore.NewDomain{Name: f.Name, Team: f.Team, Shared: &f.Shared, Review: &f.Review, Public: f.Public}
	_, err := p.options.Changes.CreateDomain(v.r.Context(), v.store, v.actor, d, f.Reason)
	if err != nil {
		if f.Faults = faultsOf(err); f.Faults == nil {
			return err
		}
		if bad, ok := errors.AsType[*rulestore.Error](err); ok && bad.Field == "domain" {
			f.Faults = map[string]string{"name": "The name " + bad.Text}
		}
		return v.show(statusOf(err), "new-domain", "New domain", f)
	}
	return v.see(place{domain: f.Name}.home(), "The domain is there. Write its first rule.")
}

// settingsForm is the form that changes whose a domain is and what others may do
// in it, or takes it away.
type settingsForm struct {
	Domain         string
	May            bool // this actor may
	Match          int64
	Team, Reason   string
	Shared, Review bool
	Public         bool
	Rules          int64  // that it has
	Undoes         bool   // it is filled in with what the domain was, to undo a change
	Delete         bool   // the form that was sent takes it away
	Confirm        string // its name, as it was typed to take it away
	Faults         map[string]string
}

// settings is the form of a domain, as it was sent if it was.
func (v *visit) settings(d rulestore.Domain, sent settingsForm) settingsForm {
	if sent.Faults == nil && !sent.Undoes {
		sent = settingsForm{Team: d.Team, Shared: d.Shared, Review: d.Review, Public: d.Public}
	}
	sent.Domain, sent.Match, sent.Rules, sent.May = d.Name, d.Revision, d.Rules, v.may(rulestore.Admin, d.Team)
	return sent
}

// changeDomain takes what the form of a domain has.
func (p *Pages) changeDomain(v *visit) error {
	form, ctx := v.r.PostFormValue, v.r.Context()
	name, match := form("domain"), v.number("match")
	sent := settingsForm{
		Team: strings.TrimSpace(form("team")), Shared: form("shared") == "yes", Review: form("review") == "yes", Public: form("public") == "yes",
		Reason: form("reason"), Delete: form("delete") == "yes", Confirm: form("confirm"),
	}
	said, to, err := "The domain is changed.", place{domain: name}.home(), error(nil)
	if sent.Delete {
		said, to = "The domain "+name+" is taken away, with all its rules. It can be restored as it was.", Home+"deletions"
		err = v.store.DeleteDomain(ctx, v.actor, rulestore.Removal{Domain: name, Confirm: sent.Confirm, Match: match, Reason: sent.Reason})
	} else {
		_, err = v.store.UpdateDomain(ctx, v.actor, rulestore.Domain{Name: name, Team: sent.Team, Shared: sent.Shared, Review: sent.Review, Public: sent.Public}, match, sent.Reason)
	}
	if err == nil {
		return v.see(to, said)
	}
	if sent.Faults = faultsOf(err); sent.Faults == nil {
		return err
	}
	return v.showRules(statusOf(err), rulesPage{Domain: name}, domainForms{settings: sent})
}

// deletionsPage is what deletions.html shows.
type deletionsPage struct {
	Rows []deletionRow
	Next string // of the next page; empty: this is the last
	Sent restoreForm
}

// deletionRow is a domain that was taken away.
type deletionRow struct {
	rulestore.Deletion

	May bool // this actor may restore it
}

// restoreForm is the form that restores a domain, as it was sent.
type restoreForm struct {
	Domain, Reason string
	Revision       int64 // of the deletion
	Faults         map[string]string
}

// deletions lists domains that were taken away.
func (p *Pages) deletions(v *visit) error {
	line, u, err := v.undone(place{})
	if err != nil {
		return err
	}
	sent := restoreForm{}
	if u.To == rulestore.UndoRemoval {
		sent.Revision, sent.Reason = u.Revision, undoes(line)
	}
	return v.showDeletions(http.StatusOK, sent)
}

// restoreDomain brings one of them back as it was.
func (p *Pages) restoreDomain(v *visit) error {
	sent := restoreForm{Domain: v.r.PostFormValue("domain"), Reason: v.r.PostFormValue("reason"), Revision: v.number("revision")}
	d, err := p.options.Changes.RestoreDomain(v.r.Context(), v.store, v.actor, sent.Domain, sent.Revision, sent.Reason)
	if err == nil {
		return v.see(place{domain: d.Name}.home(), "The domain is restored as it was, with "+counted(int(d.Rules), "rule", "rules")+".")
	}
	if sent.Faults = faultsOf(err); sent.Faults == nil {
		return err
	}
	return v.showDeletions(statusOf(err), sent)
}

func (v *visit) showDeletions(status int, sent restoreForm) error {
	before, _ := strconv.ParseInt(v.query("before"), 10, 64) // none: from the last
	list, err := v.store.Deletions(v.r.Context(), "", before, pageSize+1)
	if err != nil {
		return err
	}
	page := deletionsPage{Sent: sent}
	if len(list) > pageSize {
		list = list[:pageSize]
		page.Next = Home + "deletions?before=" + strconv.FormatInt(list[pageSize-1].Revision, 10)
	}
	for _, x := range list {
		page.Rows = append(page.Rows, deletionRow{x, !x.Again && v.may(rulestore.Admin, x.Team)})
	}
	return v.show(status, "deletions", "Domains that were taken away", page)
}

// domainFile is the file of a domain as it was written.
func (p *Pages) domainFile(v *visit) error {
	d, err := v.store.Document(v.r.Context(), v.query("domain"))
	if err != nil {
		return err
	}
	v.attach("application/yaml", fileName(d.Name)+".yaml")
	_, _ = v.w.Write([]byte(d.File)) // the browser may be gone
	return nil
}

// fileName is a domain's name as any system takes it for a file.
func fileName(domain string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("/:|~", r) {
			return '-'
		}
		return r
	}, domain)
}

package webui

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// maxImport is the bytes of a form that brings a file, and maxChanges how many of its
// changes a page shows.
const (
	maxImport  = rulestore.MaxFile + 64<<10
	maxChanges = 100
)

// importPage is what import.html shows: a form for a file, and what that would change.
type importPage struct {
	Domain   string // of the file, or that it was asked for; empty: nobody knows yet
	Text     string
	Short    bool   // Text is short enough to be written on
	New      bool   // there is no such domain yet
	Team     string // that is to own it then
	Reason   string
	Findings []rules.Finding
	Faults   map[string]string

	// The rest is there when there is a plan.
	Planned bool
	Match   int64 // Domain.Revision that it was planned at
	Changes []changedRule
	More    int    // changes that are not shown
	Why     string // the guard would hold it up; empty: it would not
	Held    bool   // it has held it up; it can be forced
	Barred  string // why this actor may not publish it; empty: it may
}

// changedRule is what a file does to one rule.
type changedRule struct {
	Rule, Does string
	Diff       []diffLine
}

// importing shows an empty form for a file.
func (p *Pages) importing(v *visit) error {
	return v.show(http.StatusOK, "import", "Import a file", importPage{Domain: v.query("domain"), Short: true, Team: v.ownTeam()})
}

// importFile plans what a file would change, or does what was planned.
func (p *Pages) importFile(v *visit) error {
	form := v.r.PostFormValue
	text, err := v.sentFile()
	if err != nil {
		return err
	}
	page := &importPage{Text: text, Short: len(text) <= rulestore.MaxText, Team: strings.TrimSpace(form("team")), Reason: form("reason")}
	if text == "" {
		page.Short, page.Faults = true, map[string]string{"text": "Choose a file, or write it here."}
		return v.show(http.StatusBadRequest, "import", "Import a file", page)
	}
	if page.Domain, err = p.domainOf(text); err != nil {
		if page.Faults = faultsOf(err); page.Faults == nil {
			return err
		}
		if bad, ok := errors.AsType[*rules.Error](err); ok {
			page.Findings, page.Faults = bad.Findings, map[string]string{"text": "This file can't be used as it is:"}
		}
		return v.show(http.StatusBadRequest, "import", "Import a file", page)
	}
	if to := rulestore.State(form("to")); slices.Contains([]rulestore.State{rulestore.Draft, rulestore.Shadow, rulestore.Enforced}, to) {
		return v.doImport(page, to, v.number("match"))
	}
	return v.showPlan(http.StatusOK, page)
}

// domainOf is which domain a file is of. It refuses a file that is too large before anything is
// made of it.
func (p *Pages) domainOf(text string) (string, error) {
	if err := rulestore.CheckSize(text); err != nil {
		return "", err
	}
	set, err := rules.Parse("file", []byte(text))
	if err == nil {
		err = p.options.Check(set)
	}
	if err != nil {
		return "", err
	}
	return set.Domains()[0], nil
}

// sentFile is the file that a form brings, or has in its text.
func (v *visit) sentFile() (string, error) {
	text := v.r.PostFormValue("text")
	if v.r.MultipartForm != nil && len(v.r.MultipartForm.File["file"]) > 0 {
		f, err := v.r.MultipartForm.File["file"][0].Open()
		if err != nil {
			return "", fmt.Errorf("open the file of a form: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		all, err := io.ReadAll(f)
		if err != nil {
			return "", fmt.Errorf("read the file of a form: %w", err)
		}
		if len(all) > 0 {
			text = string(all)
		}
	}
	return strings.ReplaceAll(text, "\r\n", "\n"), nil
}

// doImport does what was planned at a revision, or shows a plan of how it is now.
func (v *visit) doImport(page *importPage, to rulestore.State, match int64) error {
	done, err := v.pages.options.Changes.Import(v.r.Context(), v.store, v.actor, page.Domain, rulestore.Import{
		Text: page.Text, Team: page.Team, Match: match, To: to, Reason: page.Reason, Forced: v.r.PostFormValue("force") == "yes",
	})
	if err == nil {
		said := map[rulestore.State]string{rulestore.Draft: "saved as drafts", rulestore.Shadow: "in shadow", rulestore.Enforced: "published"}[to]
		return v.see(place{domain: page.Domain}.home(), fmt.Sprintf("%s of the file %s.", counted(len(done.Changes), "change", "changes"), said))
	}
	status := statusOf(err)
	if held, ok := errors.AsType[*changes.Held](err); ok {
		page.Held, status, page.Faults = true, http.StatusConflict, map[string]string{"": sentence(held.Why)}
	} else if page.Faults = faultsOf(err); page.Faults == nil {
		return err
	}
	return v.showPlan(status, page)
}

// counted is n things, in words.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// showPlan shows what a file would change as things are now.
func (v *visit) showPlan(status int, page *importPage) error {
	ctx := v.r.Context()
	d, err := v.store.Domain(ctx, page.Domain)
	switch {
	case rulestore.IsKind(err, rulestore.NotFound):
		page.New = true
		if page.Team == "" {
			page.Faults = map[string]string{"team": "There is no domain " + plain(page.Domain) + " yet. Name the team that is to own it."}
			return v.show(http.StatusBadRequest, "import", "Import a file", page)
		}
	case err != nil:
		return err
	}
	page.Match = d.Revision
	planned, err := v.pages.options.Changes.Plan(ctx, v.store, v.actor, page.Domain, rulestore.Import{
		Text: page.Text, Team: page.Team, Match: page.Match, To: rulestore.Enforced, Reason: "a plan",
	})
	if err != nil {
		if page.Faults = faultsOf(err); page.Faults == nil {
			return err
		}
		return v.show(statusOf(err), "import", "Import a file", page)
	}
	page.Planned, page.Why, page.Barred = true, planned.Held, strings.TrimSuffix(planned.Barred, ".")
	does := map[rulestore.Effect]string{rulestore.Creates: "new", rulestore.Replaces: "changed", rulestore.Moves: "moved", rulestore.Deletes: "taken away"}
	for i, c := range planned.Changes {
		if i == maxChanges {
			page.More = len(planned.Changes) - maxChanges
			break
		}
		page.Changes = append(page.Changes, changedRule{c.Rule, does[c.Effect()], compare(c.Before, c.After)})
	}
	return v.show(status, "import", "Import a file", page)
}

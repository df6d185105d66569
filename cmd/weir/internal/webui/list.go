package webui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// domainRow is a domain in the list of them.
type domainRow struct {
	Name   string
	Team   string
	Source string
	Rules  int64
	Passed int64
	Denied int64
	Holds  []mark // what operators opened or tightened for a time
}

// Where a domain's rules come from.
const (
	fromDatabase = "rule database"
	fromFiles    = "files"
)

// domainsPage is what domains.html shows.
type domainsPage struct {
	Rows []domainRow
	Next string // of the next page; empty: this is the last
	May  bool   // make a domain
	Gone bool   // there are domains that were taken away
}

// domains lists all domains, of the database and of files.
func (p *Pages) domains(v *visit) error {
	behind := v.query("behind")
	rows, err := v.databaseDomains(behind)
	if err != nil {
		return err
	}
	rows = v.withFiles(rows, behind)
	page := domainsPage{May: v.actor.Role == rulestore.Admin && v.store != nil}
	if v.store != nil {
		gone, err := v.store.Deletions(v.r.Context(), "", 0, 1)
		if err != nil {
			return err
		}
		page.Gone = len(gone) > 0
	}
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		page.Next = Home + "?" + url.Values{"behind": {rows[pageSize-1].Name}}.Encode()
	}
	totals := p.options.Book.Totals(offenders.Filter{}, func(id offenders.ID) string { return id.Domain })
	for i := range rows {
		t := totals[rows[i].Name]
		rows[i].Passed, rows[i].Denied = t.Passed, t.Denied
	}
	page.Rows = rows
	return v.show(http.StatusOK, "domains", "Domains", page)
}

// withFiles adds the domains of files that are behind a name.
func (v *visit) withFiles(rows []domainRow, behind string) []domainRow {
	at := map[string]int{}
	for i, r := range rows {
		at[r.Name] = i
	}
	count := map[string]int64{}
	for _, name := range v.fileDomains() {
		count[name] = 0
	}
	for p := range v.filePlaces("", "") {
		count[p.domain]++
	}
	for name, n := range count {
		if i, both := at[name]; both {
			rows[i].Source = "files; the rule database has it, too"
		} else if name > behind {
			rows = append(rows, domainRow{Name: name, Source: fromFiles, Rules: n})
		}
	}
	slices.SortFunc(rows, func(x, y domainRow) int { return strings.Compare(x.Name, y.Name) })
	return rows
}

func (v *visit) databaseDomains(behind string) (rows []domainRow, err error) {
	if v.store == nil {
		return nil, nil
	}
	list, err := v.store.Domains(v.r.Context(), "", behind, pageSize+1)
	if err != nil {
		return nil, err
	}
	overrides, err := rulestore.OverridesOf(v.r.Context(), v.store, list, func(d *rulestore.Domain) string { return d.Name })
	for _, d := range list {
		rows = append(rows, domainRow{Name: d.Name, Team: d.Team, Source: fromDatabase, Rules: d.Rules, Holds: holdsOf(overrides[d.Name])})
	}
	return rows, err
}

// holdsOf is the mark of what holds for a whole domain, and how many of its rules have an override of their own.
func holdsOf(all rulestore.Overrides) (marks []mark) {
	own := 0
	for _, o := range all {
		if o.Rule == "" {
			marks = append(marks, held(o.Percent, o.Until))
		} else {
			own++
		}
	}
	switch {
	case own == 1:
		marks = append(marks, mark{"held", "1 rule open or tightened"})
	case own > 1:
		marks = append(marks, mark{"held", digits(int64(own)) + " rules open or tightened"})
	}
	return marks
}

// fileDomains is the domains of files.
func (v *visit) fileDomains() []string {
	if set := v.pages.options.Files(); set != nil {
		return set.Domains()
	}
	return nil
}

// inFiles is whether a domain is in files, so that what the database has of it is not
// active.
func (v *visit) inFiles(domain string) bool { return slices.Contains(v.fileDomains(), domain) }

// filePlaces is the rules of files that fit, by their places. An empty domain is
// all.
func (v *visit) filePlaces(domain, search string) map[place][]*rules.Rule {
	places := map[place][]*rules.Rule{}
	set := v.pages.options.Files()
	if set == nil {
		return places
	}
	for _, r := range set.Rules() {
		if domain != "" && r.Domain != domain || len(r.Path) == 0 {
			continue
		}
		at := place{r.Domain, r.Path[0].Key}
		if value := r.Path[0].Value; value != "" {
			at.id += "=" + value
		}
		if strings.Contains(at.id, search) || strings.Contains(at.domain, search) {
			places[at] = append(places[at], r)
		}
	}
	return places
}

// ruleRow is a rule in a list.
type ruleRow struct {
	Domain, ID string
	Team       string
	States     []mark
	Limits     limitList
}

// High is how many lines the row has: one for each limit.
func (r ruleRow) High() int { return max(len(r.Limits.Rows), 1) + min(r.Limits.More, 1) }

// mark is a state of a rule, in a word.
type mark struct{ Class, Text string }

// rulesPage is what rules.html shows.
type rulesPage struct {
	Domain string // empty: of all
	Team   string // that owns it; empty: nobody, or it is of files
	Source string
	Both   bool // of files, and the rule database has it, too
	Search string
	State  string
	Rows   []ruleRow
	Next   string // of the next page; empty: this is the last
	May    bool   // propose one

	// The rest is there for a domain of the database.
	Foreign  bool // it is of a team that this actor does not stand for
	Review   bool // it wants a second person
	Incident incident
	Settings settingsForm
}

// domainForms are those of a domain's page as they were sent, to be mended.
type domainForms struct {
	override overrideForm
	settings settingsForm
}

// rules lists rules: of a domain, or all that are searched for.
func (p *Pages) rules(v *visit) error {
	page := rulesPage{Domain: v.query("domain"), Search: v.query("search"), State: v.query("state")}
	line, u, err := v.undone(place{domain: page.Domain})
	if err != nil {
		return err
	}
	sent := domainForms{override: undoForms(line, &u).override}
	if u.To == rulestore.UndoSettings {
		sent.settings = settingsForm{Undoes: true, Team: u.Was.Team, Shared: u.Was.Shared, Review: u.Was.Review, Public: u.Was.Public, Reason: undoes(line)}
	}
	return v.showRules(http.StatusOK, page, sent)
}

func (v *visit) showRules(status int, page rulesPage, sent domainForms) error {
	rows, err := v.databaseRules(&page, sent)
	if err != nil {
		return err
	}
	rows = append(rows, v.fileRules(&page)...)
	slices.SortFunc(rows, func(x, y ruleRow) int {
		return cmp.Or(strings.Compare(x.Domain, y.Domain), strings.Compare(x.ID, y.ID))
	})
	if len(rows) > pageSize {
		rows = rows[:pageSize]
		last := rows[pageSize-1]
		page.Next = Home + "rules?" + url.Values{
			"domain": {page.Domain}, "search": {page.Search}, "state": {page.State}, "behind_domain": {last.Domain}, "behind": {last.ID},
		}.Encode()
	}
	page.Rows = v.counted(rows)
	if page.Domain != "" && page.Source == "" {
		return &fault{http.StatusNotFound, "There is no domain " + plain(page.Domain) + ". Look at the list of all."}
	}
	title := "Rules"
	if page.Domain != "" {
		title = plain(page.Domain)
	}
	return v.show(status, "rules", title, page)
}

// databaseRules is a page of rules of the database, and one more.
func (v *visit) databaseRules(page *rulesPage, sent domainForms) (rows []ruleRow, err error) {
	if v.store == nil {
		return nil, nil
	}
	if page.Domain != "" {
		d, err := v.store.Document(v.r.Context(), page.Domain)
		if kindOf(err) == rulestore.NotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if page.Both = v.inFiles(page.Domain); page.Both {
			return nil, nil
		}
		page.Team, page.Source, page.Review = d.Team, fromDatabase, d.Review
		page.May = v.may(rulestore.Propose, d.Team) || d.Shared && v.actor.Role >= rulestore.Propose
		page.Foreign = !v.may(rulestore.Read, d.Team)
		page.Incident = v.incident(place{domain: d.Name}, d, sent.override, d.Team)
		page.Settings = v.settings(d.Domain, sent.settings)
	}
	list, err := v.store.Rules(v.r.Context(), rulestore.Listing{
		Domain: page.Domain, State: rulestore.State(page.State), Search: page.Search,
		BehindDomain: v.query("behind_domain"), Behind: v.query("behind"), Limit: pageSize + 1,
	})
	if err != nil {
		return nil, err
	}
	overrides, err := rulestore.OverridesOf(v.r.Context(), v.store, list, func(r *rulestore.Rule) string { return r.Domain })
	if err != nil {
		return nil, err
	}
	for i := range list {
		r := &list[i]
		marks, text := v.marksOf(r), r.Text
		if o := overrides[r.Domain].Of(r.ID, time.Now()); o != nil && r.Active() {
			marks = append(marks, held(o.Percent, o.Until))
			if text, err = o.Applied(r.Text); err != nil {
				return nil, err
			}
		}
		rows = append(rows, ruleRow{r.Domain, r.ID, r.Team, marks, listOf(readRule(r.Domain, "", text, nil).rules, maxListed, nil, "")})
	}
	return rows, nil
}

// counted puts the counts into rows.
func (v *visit) counted(rows []ruleRow) []ruleRow {
	shown := map[place]bool{}
	for _, r := range rows {
		for _, l := range r.Limits.Rows {
			shown[place{r.Domain, l.Name}] = true
		}
	}
	name := func(domain, rule string) string { return domain + "\n" + rule }
	totals := v.pages.options.Book.Totals(offenders.Filter{}, func(id offenders.ID) string {
		if !shown[place{id.Domain, id.Rule}] {
			return ""
		}
		return name(id.Domain, id.Rule)
	})
	for i := range rows {
		for j := range rows[i].Limits.Rows {
			l := &rows[i].Limits.Rows[j]
			total := totals[name(rows[i].Domain, l.Name)]
			l.Passed, l.Denied = total.Passed, total.Denied
		}
	}
	return rows
}

// counts is what the rules of a domain have passed and denied, by their names.
func (v *visit) counts(domain string) map[string]offenders.Total {
	return v.pages.options.Book.Totals(offenders.Filter{Domain: domain}, func(id offenders.ID) string { return id.Rule })
}

// marksOf says how far a rule of the database is.
func (v *visit) marksOf(r *rulestore.Rule) (marks []mark) {
	if v.inFiles(r.Domain) {
		marks = append(marks, mark{"disabled", "not active: its domain is in files"})
	}
	add := func(class, text string, version int64) {
		if version > 0 {
			marks = append(marks, mark{class, text + " v" + strconv.FormatInt(version, 10)})
		}
	}
	switch {
	case r.Disabled:
		add("disabled", "disabled", r.Enforced)
	case r.Text != "": // it was not taken away
		add("enforced", "active", r.Enforced)
	}
	if r.Disabling != "" {
		marks = append(marks, mark{"disabled", "to be disabled"})
	}
	add("shadow", "shadow", r.Shadow)
	add("draft", "draft", r.Draft)
	if r.Gone {
		marks = append(marks, mark{"disabled", "taken away"})
	}
	return marks
}

// fileRules is the rules of files from the page on.
func (v *visit) fileRules(page *rulesPage) (rows []ruleRow) {
	if page.Source == fromDatabase || page.State != "" && page.State != string(rulestore.Enforced) {
		return nil
	}
	if page.Domain != "" && v.inFiles(page.Domain) {
		page.Source = fromFiles
	}
	after := place{v.query("behind_domain"), v.query("behind")}
	for at, all := range v.filePlaces(page.Domain, page.Search) {
		if at.domain < after.domain || at.domain == after.domain && at.id <= after.id {
			continue
		}
		rows = append(rows, ruleRow{at.domain, at.id, all[0].Owner, []mark{{"files", fromFiles}}, listOf(all, maxListed, nil, "")})
	}
	return rows
}

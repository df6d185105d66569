package webui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/scope"
	"github.com/weir-limit/weir/rules"
)

// exceptionsPage is what exceptions.html shows: keys that have a limit of their own.
type exceptionsPage struct {
	Domain, Rule, Search string
	Rows                 []exceptionRow
	Next                 string
	May                  bool // make some, of any rule of the domain
	End                  stepForm
	EndID                string
	List                 listForm
}

// exceptionRow is an exception, and whether this actor may end it.
type exceptionRow struct {
	rulestore.Exception

	May bool
}

// listForm is the form that brings a list, as it was sent.
type listForm struct {
	Text, Reason string
	Faults       map[string]string
	Lines        []rules.Finding // that are wrong
}

// Link is the form that sets another exception of the same client.
func (r exceptionRow) Link() string { return exceptionLink(r.Domain, r.Request()) }

// exceptionLink is the form that sets an exception of the requests with these entries.
func exceptionLink(domain string, entries []rules.Entry) string {
	query := url.Values{"domain": {domain}}
	for _, e := range entries {
		query.Add("entry", e.Key+"="+e.Value)
	}
	return Home + "exception?" + query.Encode()
}

// exceptions lists those of a domain, or of one of its rules.
func (p *Pages) exceptions(v *visit) error {
	return v.showExceptions(http.StatusOK, exceptionsPage{Domain: v.query("domain"), Rule: v.query("rule"), Search: v.query("search")})
}

func (v *visit) showExceptions(status int, page exceptionsPage) error {
	d, err := v.store.Domain(v.r.Context(), page.Domain)
	if err != nil {
		return err
	}
	reads, err := v.scope()
	if err != nil {
		return err
	}
	if !reads.Any(d.Name) {
		return &fault{http.StatusForbidden, notYours(d.Name)}
	}
	list, err := v.exceptionsOf(reads, rulestore.ExceptionList{
		Domain: d.Name, Search: page.Search, BehindName: v.query("behind_name"), Behind: v.query("behind"), Limit: pageSize + 1,
	}, page.Rule)
	if err != nil {
		return err
	}
	if len(list) > pageSize {
		list = list[:pageSize]
		last := list[pageSize-1]
		page.Next = Home + "exceptions?" + url.Values{
			"domain": {d.Name}, "rule": {page.Rule}, "search": {page.Search}, "behind_name": {last.SortName()}, "behind": {last.ID},
		}.Encode()
	}
	page.Rows, page.May = list, v.may(rulestore.Publish, d.Team)
	return v.show(status, "exceptions", "Exceptions of "+plain(d.Name), page)
}

// exceptionsOf is those that this visitor may read of, of one rule or with none of all.
func (v *visit) exceptionsOf(reads *scope.Scope, q rulestore.ExceptionList, rule string) ([]exceptionRow, error) {
	switch {
	case rule != "" && reads.Item(q.Domain, rule):
		q.Rules = []string{rule}
	case rule != "":
		return nil, nil
	case !reads.Domain(q.Domain):
		mine, err := v.store.Scope(v.r.Context(), v.actor)
		if err != nil || !mine.Exceptions(&q) {
			return nil, err
		}
	}
	list, err := v.store.Exceptions(v.r.Context(), q)
	if err != nil {
		return nil, err
	}
	teams := map[string]bool{} // of rules, whether this actor may end theirs
	rows := make([]exceptionRow, len(list))
	for i, e := range list {
		may, known := teams[e.Rule]
		if !known {
			may, _ = v.mayPublish(place{e.Domain, e.Rule}) // the store says when it can't be asked
			teams[e.Rule] = may
		}
		rows[i] = exceptionRow{e, may}
	}
	return rows, nil
}

// exceptionPage is what exception.html shows: the form that makes one.
type exceptionPage struct {
	Domain, Entries, Of, Limit, Hold, Until, Reason string

	Rule   string   // what the requests meet; empty: it is not known
	Usual  string   // the limit there
	Names  []string // of the limits, where there are several
	Has    *rulestore.Exception
	Hidden bool // this visitor may not read whether there is one
	Review bool
	Faults map[string]string
}

// exception shows the form. Its address may tell the domain and the words of the requests: as entry=KEY=VALUE for each, or as the ID
// or name of a rule with the words of a client for each key that the rule leaves open: key=4711.
func (p *Pages) exception(v *visit) error {
	page := exceptionPage{Domain: v.query("domain"), Hold: "1day"}
	query := v.r.URL.Query()
	entries := query["entry"]
	if rule := v.query("rule"); rule != "" && len(entries) == 0 {
		set, err := v.store.ActiveRules(v.r.Context(), page.Domain)
		if err != nil {
			return err
		}
		if entries = entriesOf(set, rule, query["key"]); entries == nil {
			page.Faults = map[string]string{"entries": "These words do not fit the keys of the rule " + plain(rule) + ". Write the requests here."}
		}
	}
	page.Entries = strings.Join(entries, "\n")
	return v.showException(http.StatusOK, page)
}

// entriesOf is requests that meet a rule, by its ID or name, with the words of a key. Nil: the words don't fit.
func entriesOf(set *rules.Set, rule string, words []string) (lines []string) {
	for _, r := range set.Rules() {
		name, _, _ := strings.Cut(r.Name, "#")
		if r.Path[0].ID() != rule && r.Name != rule && name != rule {
			continue
		}
		if entries, fit := r.EntriesOf(words); fit {
			for _, e := range entries {
				lines = append(lines, e.Key+"="+e.Value)
			}
			return lines
		}
	}
	return nil
}

// readEntries reads KEY=VALUE, one a line.
func readEntries(text string) (entries []rules.Entry) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\r\n", "\n")) {
		line = strings.TrimSuffix(line, "\n")
		if key, value, _ := strings.Cut(line, "="); line != "" {
			entries = append(entries, rules.Entry{Key: key, Value: value})
		}
	}
	return entries
}

// showException shows the form, with what is known of the requests in it.
func (v *visit) showException(status int, page exceptionPage) error {
	entries := readEntries(page.Entries)
	if page.Domain != "" && len(entries) > 0 {
		d, err := v.store.Domain(v.r.Context(), page.Domain)
		if err != nil {
			return err
		}
		set, err := v.store.ActiveRules(v.r.Context(), page.Domain)
		if err != nil {
			return err
		}
		page.Review = d.Review
		if err := v.describe(&page, set, entries); err != nil {
			return err
		}
		if page.Has != nil && page.Limit == "" && page.Faults == nil { // to be changed, or confirmed
			page.Limit = page.Has.Limit
		}
	}
	return v.show(status, "exception", "A limit for one client", page)
}

// describe says which rule the requests of a page meet, and what holds for them.
func (v *visit) describe(page *exceptionPage, set *rules.Set, entries []rules.Entry) error {
	met, key := set.Match(page.Domain, &rules.Descriptor{Entries: entries})
	reads, err := v.scope()
	if err != nil || len(met) == 0 || met[0].Unlimited {
		return err
	}
	page.Rule = met[0].Path[0].ID()
	for _, r := range met {
		page.Names = append(page.Names, r.LimitName())
	}
	at := max(slices.Index(page.Names, page.Of), 0)
	page.Usual = met[at].Limit.String()
	if len(met) == 1 {
		page.Names = nil
	}
	if page.Hidden = !reads.Item(page.Domain, page.Rule); page.Hidden {
		return nil
	}
	has, err := v.store.ExceptionOf(v.r.Context(), met[at].State(key))
	if rulestore.IsKind(err, rulestore.NotFound) {
		return nil
	}
	if page.Limit == "" {
		page.Limit = has.Limit
	}
	page.Has = &has
	return err
}

// setException takes the form.
func (p *Pages) setException(v *visit) error {
	form := v.r.PostFormValue
	page := exceptionPage{
		Domain: strings.TrimSpace(form("domain")), Entries: form("entries"), Of: form("of"), Limit: strings.TrimSpace(form("limit")),
		Hold: form("hold"), Until: form("until"), Reason: form("reason"),
	}
	until, why := holdsUntil(page.Hold, page.Until, time.Now())
	if why != "" {
		page.Faults = map[string]string{"until": why}
		return v.showException(http.StatusBadRequest, page)
	}
	made, err := p.options.Changes.SetException(v.r.Context(), v.store, v.actor, rulestore.Exception{
		Domain: page.Domain, Entries: rulestore.Entries(readEntries(page.Entries)), Of: page.Of, Limit: page.Limit, Until: until, Reason: page.Reason,
	})
	if err == nil {
		said := fmt.Sprintf("%s has %s until %s.", plain(made.Name()), made.Limit, when(made.Until))
		if made.Unreviewed {
			said += " You did it alone: another person who does the same confirms it."
		}
		return v.see(Home+"exceptions?"+url.Values{"domain": {made.Domain}}.Encode(), said)
	}
	if page.Faults = exceptionFaults(err); page.Faults == nil {
		return err
	}
	return v.showException(statusOf(err), page)
}

// holdsUntil is when an exception ends by the form, or why that can't be told. A date is taken as UTC: the form says so.
func holdsUntil(hold, until string, now time.Time) (time.Time, string) {
	long := map[string]time.Duration{"1h": time.Hour, "1day": 24 * time.Hour, "7day": 7 * 24 * time.Hour}[hold]
	switch {
	case long > 0:
		return now.Add(long).Truncate(time.Second), ""
	case hold != "until":
		return now, "Choose for how long."
	}
	at, err := time.Parse("2006-01-02T15:04", strings.TrimSuffix(until, ":00"))
	if err != nil {
		at, err = time.Parse("2006-01-02T15:04", until)
	}
	if err != nil {
		return now, "Write when it ends, as 2026-12-24T18:00, in UTC."
	}
	return at, ""
}

// exceptionFaults is what is wrong with a form about exceptions, by the field; nil: it is not the form.
func exceptionFaults(err error) map[string]string {
	bad, ok := errors.AsType[*rulestore.Error](err)
	if ok && slices.Contains([]string{"limit", "entries", "until", "reason"}, bad.Field) {
		text := upper(bad.Text)
		if bad.Field != "entries" {
			text = "The " + bad.Field + " " + bad.Text
		}
		return map[string]string{bad.Field: text}
	}
	if ok && bad.Kind == rulestore.NotFound {
		return map[string]string{"": upper(bad.Text)}
	}
	return faultsOf(err)
}

// endException ends one before its time.
func (p *Pages) endException(v *visit) error {
	page := exceptionsPage{EndID: v.r.PostFormValue("exception"), Domain: v.r.PostFormValue("domain"), End: stepForm{Reason: v.r.PostFormValue("reason")}}
	e, err := v.store.EndException(v.r.Context(), v.actor, page.EndID, page.End.Reason)
	if err == nil {
		return v.see(Home+"exceptions?"+url.Values{"domain": {e.Domain}}.Encode(), plain(e.Name())+" has the limit of its rule again.")
	}
	if page.End.Faults = faultsOf(err); page.End.Faults == nil {
		return err
	}
	return v.showExceptions(statusOf(err), page)
}

// importExceptions takes a list in CSV.
func (p *Pages) importExceptions(v *visit) error {
	text, err := v.sentFile()
	if err != nil {
		return err
	}
	page := exceptionsPage{Domain: v.r.PostFormValue("domain"), List: listForm{Text: text, Reason: v.r.PostFormValue("reason")}}
	batch := rulestore.ReadExceptions(strings.NewReader(text), time.Now())
	batch.Domain, batch.Reason = page.Domain, page.List.Reason
	done, err := p.options.Changes.SetExceptions(v.r.Context(), v.store, v.actor, batch)
	if err == nil {
		said := counted(done.Set, "exception is set", "exceptions are set") + done.By() + "."
		if done.Unreviewed > 0 {
			said += " Another person who imports the same confirms it."
		}
		return v.see(Home+"exceptions?"+url.Values{"domain": {page.Domain}}.Encode(), said)
	}
	if bad, ok := errors.AsType[*rulestore.Error](err); ok {
		page.List.Lines = bad.Findings
	}
	if page.List.Faults = faultsOf(err); page.List.Faults == nil {
		return err
	}
	if len(page.List.Text) > rulestore.MaxText {
		page.List.Text = "" // it was a file
	}
	return v.showExceptions(statusOf(err), page)
}

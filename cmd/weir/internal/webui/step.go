package webui

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/shadow"
)

// stepForm is a form that takes a version a step, as it was sent.
type stepForm struct {
	To, Reason string
	Version    int64
	Faults     map[string]string
	Held       bool // the guard refuses it; it can be forced
}

// removed is the step that takes a rule away.
const removed = "removed"

// step takes a version to another state, or a rule away.
func (p *Pages) step(v *visit) error {
	form := v.r.PostFormValue
	at := place{form("domain"), form("rule")}
	sent := stepForm{To: form("to"), Reason: form("reason"), Version: v.number("version")}
	s := rulestore.Step{
		Domain: at.domain, Rule: at.id, Version: sent.Version, To: rulestore.State(sent.To),
		Match: v.number("match"), Reason: sent.Reason, Forced: form("force") == "yes",
	}
	said, err := v.take(s)
	if held, ok := errors.AsType[*changes.Held](err); ok {
		sent.Held, sent.Faults = true, map[string]string{"": sentence(held.Why)}
		return v.showRule(http.StatusConflict, at, forms{step: sent})
	}
	if err != nil {
		if sent.Faults = faultsOf(err); sent.Faults == nil {
			return err
		}
		if form("page") == "history" {
			return v.showHistory(statusOf(err), at, sent)
		}
		return v.showRule(statusOf(err), at, forms{step: sent})
	}
	return v.see(at.at("rule"), said)
}

// take does a step, if the guard lets it, and says so. In a domain under review it only proposes what a second person has to do.
func (v *visit) take(s rulestore.Step) (said string, err error) {
	if s.To == removed {
		return v.remove(s)
	}
	r, err := v.pages.options.Changes.Move(v.r.Context(), v.store, v.actor, s)
	what := upper(versionName(s.Version))
	switch {
	case s.To == rulestore.Disabled && !r.Disabled:
		return "You ask to disable " + versionName(s.Version) + ". Another person has to do it.", err
	case s.To == rulestore.Withdrawn && s.Version == r.Enforced:
		return what + " stays active.", err
	}
	return what + " " + map[rulestore.State]string{
		rulestore.Enforced: "is active", rulestore.Shadow: "runs in shadow", rulestore.Withdrawn: "is withdrawn",
		rulestore.Disabled: "is left out until it is enforced again",
	}[s.To] + ".", err
}

// remove takes a rule away, or proposes it.
func (v *visit) remove(s rulestore.Step) (said string, err error) {
	d, err := v.store.Domain(v.r.Context(), s.Domain)
	if err != nil {
		return "", err
	}
	said, to := "The rule is taken away.", rulestore.Enforced
	if d.Review {
		said, to = "You propose to take the rule away. Another person has to publish that.", rulestore.Draft
	}
	p := rulestore.Proposal{Domain: s.Domain, Rule: s.Rule, Match: s.Match, To: to, Reason: s.Reason}
	_, err = v.pages.options.Changes.Propose(v.r.Context(), v.store, v.actor, p)
	return said, err
}

// trial is a version in shadow, with what is known of it.
type trial struct {
	rulestore.Version

	Limits  limitList
	Hidden  bool           // how it differs is not for this visitor
	Report  *shadow.Report // nil: nothing is known yet
	Verdict shadow.Verdict
	Denied  []shadow.Client
	Passed  []shadow.Client
}

func (v *visit) trial(d rulestore.Document, x rulestore.Version) (*trial, error) {
	t := &trial{Version: x, Limits: listOf(readRule(x.Domain, "", x.Text, nil).rules, maxLimits, nil, "")}
	reads, err := v.scope()
	if err != nil {
		return nil, err
	}
	if t.Hidden = !reads.Item(x.Domain, x.Rule); t.Hidden {
		return t, nil
	}
	t.Verdict = v.pages.options.Changes.Verdict(v.r.Context(), d, x)
	if t.Report = v.pages.options.Report(v.r.Context(), x.Domain, x.Rule, x.Number); t.Report != nil {
		t.Denied, t.Passed = t.Report.NewlyDenied, t.Report.NewlyPassed
	}
	return t, nil
}

// historyPage is what history.html shows.
type historyPage struct {
	Domain, ID string
	Away       bool // the domain was taken away
	Match      int64
	Publish    bool
	Step       stepForm // that rolls back, as it was sent
	Rows       []historyRow
	Times      []auditRow // when it was opened or tightened for a time, the newest first
	Next       string
}

type historyRow struct {
	rulestore.Version

	Diff []diffLine // from the version that was active when it was made
	Back bool       // it was active, and can be again
	Done []auditRow // what was done to it, or refused, the newest first
}

// historySize is how many versions a page of a history has.
const historySize = 20

// history shows what a rule was.
func (p *Pages) history(v *visit) error {
	at := place{v.query("domain"), v.query("rule")}
	line, u, err := v.undone(at)
	if err != nil {
		return err
	}
	return v.showHistory(http.StatusOK, at, undoForms(line, &u).step)
}

func (v *visit) showHistory(status int, at place, sent stepForm) error {
	ctx := v.r.Context()
	r, err := v.store.Rule(ctx, at.domain, at.id)
	if err != nil {
		return err
	}
	d, err := v.store.Domain(ctx, at.domain)
	if err != nil && kindOf(err) != rulestore.NotFound { // it was taken away, and its history stays
		return err
	}
	before, _ := strconv.ParseInt(v.query("before"), 10, 64) // none: from the newest
	list, err := v.store.Versions(ctx, at.domain, at.id, before, historySize+1)
	if err != nil {
		return err
	}
	page := historyPage{Domain: at.domain, ID: at.id, Away: d.Name == "", Match: r.Revision, Publish: d.Name != "" && v.may(rulestore.Publish, r.Team, d.Team), Step: sent}
	if len(list) > historySize {
		list = list[:historySize]
		page.Next = at.at("history") + "&before=" + strconv.FormatInt(list[historySize-1].Number, 10)
	}
	done, err := v.done(at)
	if err != nil {
		return err
	}
	page.Times = done[0]
	for _, x := range list {
		base := ""
		if x.Base > 0 {
			b, err := v.store.Version(ctx, at.domain, at.id, x.Base)
			if err != nil {
				return err
			}
			base = b.Text
		}
		page.Rows = append(page.Rows, historyRow{x, compare(base, x.Text), x.State == rulestore.Superseded, done[x.Number]})
	}
	return v.show(status, "history", "History of "+plain(at.id), page)
}

// done is what was done to a rule, or refused, by its versions, the newest first: of the last rulestore.MaxPage things. Of version 0 it is
// what was done to all.
func (v *visit) done(at place) (map[int64][]auditRow, error) {
	events, err := v.store.Audit(v.r.Context(), rulestore.Audited{Domain: at.domain, Rule: at.id, Before: math.MaxInt64, History: true})
	done := map[int64][]auditRow{}
	newest := int64(0)                          // that was ever active, so far
	for _, e := range slices.Backward(events) { // the oldest first
		row := rowOf(&e)
		if e.Refused == "" && strings.HasPrefix(e.Action, "enforce") {
			if e.Version < newest {
				row.Did = "Rolled back to it"
				if strings.HasSuffix(e.Action, ".forced") {
					row.Did += ", forced"
				}
			}
			newest = max(newest, e.Version)
		}
		done[e.Version] = append(done[e.Version], row)
	}
	if err != nil {
		return nil, err
	}
	for _, rows := range done {
		slices.Reverse(rows)
		if err := v.undoable(rows); err != nil {
			return nil, err
		}
	}
	return done, nil
}

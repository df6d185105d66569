package webui

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/rules"
)

// tryPage is what try.html shows.
type tryPage struct {
	Domain  string
	Entries string // KEY=VALUE, one a line
	Cost    string
	ID      string // of a denial
	Faults  map[string]string
	Answer  *explained // nil: nothing was asked yet
}

// explained is an explanation for people.
type explained struct {
	*rules.Explanation

	Limits []explainedLimit
}

type explainedLimit struct {
	rules.LimitExplanation

	Name, Limit, Outcome, When string

	Holds []mark // what an operator did for a time
}

// try shows the form, and why a request was denied whose id is asked for, or what would be said of a request that the address has.
func (p *Pages) try(v *visit) error {
	if entries := v.query("entries"); entries != "" {
		return v.explain(tryPage{Domain: v.query("domain"), Entries: entries, Cost: "1"})
	}
	page := tryPage{Domain: v.query("domain"), Entries: example(v.query("rule")), Cost: "1", ID: v.query("id")}
	if page.ID == "" {
		return v.show(http.StatusOK, "try", "Try a request", page)
	}
	x, err := p.options.Explainer.Recall(v.r.Context(), strings.TrimSpace(page.ID))
	return v.showExplanation(page, "id", x, err)
}

// example is a request that meets a rule, as the form has it.
func example(id string) string {
	if id == "" || strings.Contains(id, "=") {
		return strings.ReplaceAll(id, "*", "1")
	}
	return id + "=alice"
}

// explain tells what the rules would say of a request, and why. Nothing is
// charged.
func (p *Pages) explain(v *visit) error {
	form := v.r.PostFormValue
	return v.explain(tryPage{Domain: strings.TrimSpace(form("domain")), Entries: form("entries"), Cost: strings.TrimSpace(form("cost"))})
}

// explain shows what the rules would say of the request of a form.
func (v *visit) explain(page tryPage) error {
	d := rules.Descriptor{Entries: readEntries(page.Entries)}
	var err error
	if d.Cost, err = strconv.ParseInt(page.Cost, 10, 64); err != nil || d.Cost < 0 || d.Cost > weir.MaxCount {
		page.Faults = map[string]string{"cost": fmt.Sprintf("Write a whole number from 0 to %d.", int64(weir.MaxCount))}
		return v.show(http.StatusBadRequest, "try", "Try a request", page)
	}
	x, err := v.pages.options.Explainer.Explain(v.r.Context(), &rules.Request{Domain: page.Domain, Descriptors: []rules.Descriptor{d}})
	return v.showExplanation(page, "entries", x, err)
}

// showExplanation shows an explanation, or beside a field why there is none.
func (v *visit) showExplanation(page tryPage, field string, x *rules.Explanation, err error) error {
	if err == nil {
		reads, err := v.scope()
		if err != nil {
			return err
		}
		if !reads.Explanation(x) {
			page.Faults = map[string]string{field: notYours(x.Domain)}
			return v.show(http.StatusForbidden, "try", "Try a request", page)
		}
		page.Answer = explainedOf(x)
		return v.show(http.StatusOK, "try", "Try a request", page)
	}
	status, text := http.StatusBadRequest, ""
	switch bad, ok := errors.AsType[*rules.RequestError](err); {
	case ok && bad.Field == "domain":
		field, text = "domain", upper("the domain "+bad.Text)
	case ok:
		text = upper(bad.Error())
	case errors.Is(err, rules.ErrForgotten):
		status, text = http.StatusNotFound, upper(err.Error())+". A request can be tried as things stand now."
	case errors.Is(err, rules.ErrNoLook):
		status, text = http.StatusNotImplemented, "The store of this daemon can't be read, so there is no explanation."
	case errors.Is(err, rules.ErrNoRules), errors.Is(err, weir.ErrAway), errors.Is(err, weir.ErrBusy):
		status, text = http.StatusServiceUnavailable, upper(err.Error())+". Try again later."
	default:
		return err
	}
	page.Faults = map[string]string{field: text}
	return v.show(status, "try", "Try a request", page)
}

// notYours says that a visitor may not read which clients a domain denies.
func notYours(domain string) string {
	return "Your token may not read which clients of the domain " + plain(domain) + " are denied. It takes one of the domain's team, or of all teams, which a domain of files takes; or an administrator of the team makes the domain public."
}

func explainedOf(x *rules.Explanation) *explained {
	e := &explained{Explanation: x}
	for i, l := range x.Limits {
		d := x.Answer.Decisions[i]
		one := explainedLimit{
			LimitExplanation: l, Name: d.Rule.Name, Limit: d.Rule.Limit.String(), Outcome: d.Outcome.String(),
			When: passes(l.Passing),
		}
		if l.Grant != nil {
			one.Holds = []mark{{"held", "exception"}}
		}
		if t := d.Rule.Temporary; t != nil {
			one.Holds = append(one.Holds, held(t.Percent, t.Until))
		}
		e.Limits = append(e.Limits, one)
	}
	return e
}

// passes says when something passes; empty: now, or nobody knows.
func passes(p rules.Passing) string {
	switch p.When {
	case rules.PassesLater:
		return "It passes in " + about(p.After) + ", if no other request comes."
	case rules.PassesNever:
		return "It never passes: it is more than the limit gives at once."
	case rules.PassesNow, rules.PassesUnknown:
	}
	return ""
}

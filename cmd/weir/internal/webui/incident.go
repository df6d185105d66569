package webui

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/offenders"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// incident is the forms that open or tighten a rule, or all of a domain, for a time,
// and end that.
type incident struct {
	CSRF       string
	Domain, ID string              // no ID: all rules of the domain
	Holds      rulestore.Overrides // for it, at present
	May        bool                // this actor may
	Review     bool                // alone only for a short time
	Form       overrideForm
}

// overrideForm is the form that opens or tightens something for a time, or ends that,
// as it was sent.
type overrideForm struct {
	Percent, Minutes int64
	Reason           string
	End              bool
	Chosen           bool      // what to do is: Percent 0 opens
	Ask              *question // to be answered before it is done; nil: there is none
	Faults           map[string]string
}

// question says what a form would do, so that nobody does that by a slip.
type question struct {
	Act    string // what the button is called
	Limits []becomes
	More   int // limits that are not shown
	Until  time.Time
}

// becomes is a limit, and what it is for the time; nothing: it denies nobody.
type becomes struct{ Name, Was, Is string }

// maxAsked is how many limits a question shows.
const maxAsked = 8

func (v *visit) incident(at place, d rulestore.Document, sent overrideForm, teams ...string) incident {
	return incident{v.csrf(), at.domain, at.id, overridesOf(d.Overrides, at.id), v.may(rulestore.Publish, teams...), d.Review, sent}
}

// overridesOf is those that hold for a rule, or for a domain those of all its rules.
func overridesOf(all rulestore.Overrides, id string) rulestore.Overrides {
	return slices.DeleteFunc(all.Active(time.Now()), func(o rulestore.Override) bool { return id != "" && o.Rule != "" && o.Rule != id })
}

// held is the mark of what an operator did for a time.
func held(percent int64, until time.Time) mark {
	what := "open"
	if percent > 0 {
		what = fmt.Sprintf("%d %%", percent)
	}
	return mark{"held", what + " until " + until.UTC().Format("2006-01-02 15:04 MST")}
}

// heldRules is what holds for a time of active rules, as counts know them.
func (p *Pages) heldRules() map[offenders.ID]mark {
	all := map[offenders.ID]mark{}
	for _, r := range p.options.Rules().Temporary() {
		all[offenders.ID{Domain: r.Domain, Rule: r.Name, Shadow: r.Shadow}] = held(r.Temporary.Percent, r.Temporary.Until)
	}
	return all
}

// override opens or tightens a rule, or all of a domain, for a time, or ends that.
func (p *Pages) override(v *visit) error {
	form := v.r.PostFormValue
	at := place{form("domain"), form("rule")}
	sent, until := readOverride(form, time.Now())
	if sent.Faults != nil {
		return v.showOverride(http.StatusBadRequest, at, sent)
	}
	o := rulestore.Override{Domain: at.domain, Rule: at.id, Percent: sent.Percent, Until: until, Reason: sent.Reason}
	if !sent.End && form("sure") != "yes" && o.Check(time.Now()) == nil { // else the store says what is wrong
		ask, err := v.ask(&o)
		if err != nil {
			return err
		}
		sent.Ask = ask
		return v.showOverride(http.StatusOK, at, sent)
	}
	err := v.store.Override(v.r.Context(), v.actor, o)
	if err == nil {
		return v.see(at.home(), sent.done(at, until))
	}
	if sent.Faults = faultsOf(err); sent.Faults == nil {
		return err
	}
	return v.showOverride(statusOf(err), at, sent)
}

// ask says what an override would do.
func (v *visit) ask(o *rulestore.Override) (*question, error) {
	q := &question{Act: "Open it", Until: o.Until}
	switch {
	case o.Percent > 0:
		q.Act = fmt.Sprintf("Tighten to %d %%", o.Percent)
	case o.Rule == "":
		q.Act = "Open all limits"
	}
	var list []rulestore.Rule
	var err error
	if o.Rule == "" {
		list, err = v.store.Rules(v.r.Context(), rulestore.Listing{Domain: o.Domain, State: rulestore.Enforced})
	} else {
		var one rulestore.Rule
		one, err = v.store.Rule(v.r.Context(), o.Domain, o.Rule)
		list = append(list, one)
	}
	if err != nil {
		return nil, err
	}
	for i := range list {
		r := &list[i]
		if !r.Active() {
			continue
		}
		was := readRule(r.Domain, "", r.Text, nil).rules
		if len(q.Limits) >= maxAsked {
			q.More += len(was)
			continue
		}
		text, err := o.Applied(r.Text)
		if err != nil {
			continue // the store says so when it is done
		}
		is := readRule(r.Domain, "", text, nil).rules
		for j := range min(len(was), len(is)) {
			if was[j].Unlimited {
				continue
			}
			b := becomes{Name: was[j].Name, Was: was[j].Limit.String()}
			if o.Percent > 0 {
				b.Is = is[j].Limit.String()
			}
			q.Limits = append(q.Limits, b)
		}
	}
	return q, nil
}

// readOverride reads the form, and until when it is to hold. A number that can't be read is a
// fault, not a 0, which would open everything.
func readOverride(form func(string) string, now time.Time) (overrideForm, time.Time) {
	sent := overrideForm{Reason: form("reason"), End: form("end") == "yes"}
	if sent.End {
		return sent, now
	}
	var badPercent, badMinutes error
	sent.Percent, badPercent = strconv.ParseInt(form("percent"), 10, 64)
	sent.Minutes, badMinutes = strconv.ParseInt(form("minutes"), 10, 64)
	sent.Chosen = badPercent == nil
	switch {
	case badPercent != nil:
		sent.Faults = map[string]string{"percent": "Choose whether to open the limits or to tighten them."}
	case badMinutes != nil, sent.Minutes < 1:
		sent.Faults = map[string]string{"until": "Choose for how long."}
	}
	return sent, now.Add(time.Duration(min(sent.Minutes, 1<<20)) * time.Minute).Truncate(time.Second)
}

func (v *visit) showOverride(status int, at place, sent overrideForm) error {
	if at.id == "" {
		return v.showRules(status, rulesPage{Domain: at.domain}, domainForms{override: sent})
	}
	return v.showRule(status, at, forms{override: sent})
}

// done says what was done.
func (f *overrideForm) done(at place, until time.Time) string {
	what := "The rule is"
	if at.id == "" {
		what = "All rules of the domain are"
	}
	switch {
	case f.End:
		return "It has ended. Other changes that hold for a time are listed below."
	case f.Percent == 0:
		return what + " open until " + when(until) + ": requests are decided and reported, and no client is denied."
	}
	return fmt.Sprintf("%s tightened to %d %% until %s.", what, f.Percent, when(until))
}

// home is the page of a rule, or without one that of its domain.
func (p place) home() string {
	if p.id == "" {
		return Home + "rules?" + url.Values{"domain": {p.domain}}.Encode()
	}
	return p.at("rule")
}

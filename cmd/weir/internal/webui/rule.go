package webui

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// rulePage is what rule.html shows.
type rulePage struct {
	Domain, ID string
	Team       string
	Marks      []mark
	Limits     limitList // active; of a rule that is not, none
	Written    limitList // as they are written, while an override holds
	Until      time.Time // when it ends
	FromFiles  bool
	CSRF       string

	// The rest is there for rules of the database.
	Rule     rulestore.Rule
	Stands   bool // a version is active, or disabled
	Trial    *trial
	Draft    *rulestore.Version
	Editor   *editor // nil: this actor may propose nothing
	Publish  bool    // this actor may
	Foreign  bool    // it is of a team that this actor does not stand for
	Step     stepForm
	Incident incident
	Talks    map[int64]*talk // about versions that wait for somebody

	Exceptions []exceptionRow // the first that hold; those of rules whose clients this actor may not read of are not here
	Excepted   int64          // how many hold
}

// at is the address of the page of a rule.
func (p place) at(page string) string {
	return Home + page + "?" + url.Values{"domain": {p.domain}, "rule": {p.id}}.Encode()
}

// rule shows one rule.
func (p *Pages) rule(v *visit) error {
	at := place{v.query("domain"), v.query("rule")}
	if all := v.filePlaces(at.domain, "")[at]; all != nil {
		return v.showFileRule(at, all)
	}
	line, u, err := v.undone(at)
	if err != nil {
		return err
	}
	return v.showRule(http.StatusOK, at, undoForms(line, &u))
}

func (v *visit) showFileRule(at place, all []*rules.Rule) error {
	page := rulePage{
		Domain: at.domain, ID: at.id, Team: all[0].Owner, Marks: []mark{{"files", fromFiles}}, FromFiles: true,
		Limits: listOf(all, maxLimits, v.counts(at.domain), "active"),
	}
	return v.show(http.StatusOK, "rule", plain(at.id), page)
}

// forms are those of a rule's page as they were sent, to be mended; nil: as they
// are at first.
type forms struct {
	editor   *editor
	step     stepForm
	override overrideForm
	comment  commentForm
}

// showRule shows a rule of the database.
func (v *visit) showRule(status int, at place, sent forms) error {
	if v.store == nil {
		return &fault{http.StatusNotFound, "There is no rule " + plain(at.id) + " in domain " + plain(at.domain) + "."}
	}
	ctx := v.r.Context()
	r, err := v.store.Rule(ctx, at.domain, at.id)
	if err != nil {
		return err
	}
	d, err := v.store.Document(ctx, at.domain)
	if err != nil {
		return err
	}
	page := rulePage{
		Domain: at.domain, ID: at.id, Team: r.Team, Marks: v.marksOf(&r), Rule: r, Stands: r.Enforced > 0 && r.Text != "", CSRF: v.csrf(),
		Publish: v.may(rulestore.Publish, r.Team, d.Team), Foreign: !v.may(rulestore.Read, r.Team, d.Team), Step: sent.step,
		Incident: v.incident(at, d, sent.override, r.Team, d.Team),
	}
	if r.Active() {
		text := r.Text
		if hold := page.Incident.Holds.Of(at.id, time.Now()); hold != nil {
			if text, err = hold.Applied(r.Text); err != nil {
				return err
			}
			page.Until, page.Written = hold.Until, listOf(readRule(r.Domain, "", r.Text, nil).rules, maxLimits, nil, "")
		}
		page.Limits = listOf(readRule(r.Domain, "", text, nil).rules, maxLimits, v.counts(r.Domain), "active")
	}
	if err := v.listExcepted(&page); err != nil {
		return err
	}
	proposed := r.Text
	for _, one := range []struct {
		number int64
		show   func(rulestore.Version) error
	}{
		{r.Shadow, func(x rulestore.Version) (err error) {
			page.Trial, err = v.trial(d, x)
			return err
		}},
		{r.Draft, func(x rulestore.Version) error {
			page.Draft = &x
			return nil
		}},
	} {
		if one.number == 0 {
			continue
		}
		x, err := v.store.Version(ctx, r.Domain, r.ID, one.number)
		if err != nil {
			return err
		}
		if err := one.show(x); err != nil {
			return err
		}
		proposed = cmp.Or(x.Text, proposed) // one to take the rule away is nothing to edit
	}
	mayPropose := v.may(rulestore.Propose, r.Team, d.Team)
	waiting := []int64{r.Shadow, r.Draft}
	if r.Disabling != "" {
		waiting = append(waiting, r.Enforced)
	}
	page.Talks = map[int64]*talk{}
	for _, number := range waiting {
		if page.Talks[number], err = v.talk(at, number, mayPropose, sent.comment); err != nil {
			return err
		}
	}
	if mayPropose {
		if page.Editor = sent.editor; page.Editor == nil {
			page.Editor = v.newEditor(at, proposed, r.Revision)
		}
	}
	return v.show(status, "rule", plain(at.id), page)
}

// shownExceptions is how many exceptions the page of a rule lists; another page has all.
const shownExceptions = 5

// listExcepted fills in what exceptions the rule of a page has.
func (v *visit) listExcepted(page *rulePage) (err error) {
	if page.Excepted, err = v.store.ExceptionsHeld(v.r.Context(), page.Domain, page.ID); err != nil || page.Excepted == 0 {
		return err
	}
	reads, err := v.scope()
	if err != nil {
		return err
	}
	page.Exceptions, err = v.exceptionsOf(reads, rulestore.ExceptionList{Domain: page.Domain, Limit: shownExceptions}, page.ID)
	return err
}

// may is whether the actor has a role for one of the teams; without teams, for all.
// The store has the last word: this is for what a page offers.
func (v *visit) may(role rulestore.Role, teams ...string) bool {
	return v.store != nil && v.actor.May(role, teams...)
}

// mayPublish is whether the actor may publish for the team of a rule of the database, or of its domain. The store has the last word.
func (v *visit) mayPublish(at place) (bool, error) {
	d, err := v.store.Domain(v.r.Context(), at.domain)
	if rulestore.IsKind(err, rulestore.NotFound) {
		return false, nil
	}
	if err != nil || v.may(rulestore.Publish, d.Team) {
		return err == nil, err
	}
	r, err := v.store.Rule(v.r.Context(), at.domain, at.id)
	if rulestore.IsKind(err, rulestore.NotFound) {
		return false, nil
	}
	return err == nil && v.may(rulestore.Publish, r.Team), err
}

// csrf is the word that forms of this session bring along.
func (v *visit) csrf() string {
	if v.session == nil {
		return ""
	}
	return v.session.csrf()
}

// number is a number of a form; what is none is 0, which no thing has.
func (v *visit) number(name string) int64 {
	n, err := strconv.ParseInt(v.r.PostFormValue(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

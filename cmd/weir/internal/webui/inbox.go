package webui

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// inboxPage is what inbox.html shows.
type inboxPage struct {
	ForMe, ForOthers []waitingRow
	More             bool
}

// waitingRow is a thing that waits, as people read it.
type waitingRow struct {
	rulestore.Waiting

	What string
	Link string // to where it is done; empty: there is none
	Talk *talk  // about the version; nil: there is none
}

// inbox shows what waits for the visitor, and what of theirs waits for others.
func (p *Pages) inbox(v *visit) error { return v.showInbox(http.StatusOK, commentForm{}) }

func (v *visit) showInbox(status int, sent commentForm) error {
	in, err := changes.Inbox(v.r.Context(), v.store, v.actor)
	if err != nil {
		return err
	}
	page := inboxPage{v.waitingRows(in.ForMe, sent), v.waitingRows(in.ForOthers, sent), in.More}
	return v.show(status, "inbox", "Inbox", page)
}

func (v *visit) waitingRows(list []rulestore.Waiting, sent commentForm) (rows []waitingRow) {
	for _, w := range list {
		row := waitingRow{Waiting: w, What: what(&w)}
		switch {
		case w.Exception != "":
			row.Link = Home + "exceptions?" + url.Values{"domain": {w.Domain}, "rule": {w.Rule}}.Encode()
		case w.Kind != rulestore.ToRenew:
			row.Link = place{w.Domain, w.Rule}.home()
		case v.may(rulestore.Admin):
			row.Link = Home + "tokens"
		}
		if w.Version > 0 {
			at := place{w.Domain, w.Rule}
			row.Talk = &talk{CSRF: v.csrf(), Domain: at.domain, ID: at.id, Version: w.Version, Page: "inbox", Count: w.Comments, May: v.actor.Role >= rulestore.Propose, Sent: sent.of(at, w.Version)}
			if w.Last != nil {
				row.Talk.List = []rulestore.Comment{*w.Last}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// what says what is to be done, for the head of a row.
func what(w *rulestore.Waiting) string {
	switch w.Kind {
	case rulestore.ToPublish:
		if w.After == "" {
			return "Take the rule away, by " + versionName(w.Version)
		}
		return "Publish " + versionName(w.Version) + ", " + map[rulestore.State]string{rulestore.Draft: "a draft", rulestore.Shadow: "in shadow"}[w.State]
	case rulestore.ToDisable:
		return "Disable " + versionName(w.Version)
	case rulestore.ToConfirm:
		if w.Exception != "" {
			return "Confirm the limit of one client"
		}
		if w.Percent > 0 {
			return "Confirm that limits are tightened to " + strconv.FormatInt(w.Percent, 10) + " %"
		}
		return "Confirm that limits are open"
	}
	return "Make another token for " + w.Actor + ": " + w.Token + " ends"
}

// waitingCount is how many things wait for the visitor, in short; empty: nothing, or nobody knows at present.
func (v *visit) waitingCount() string {
	if v.store == nil || v.session == nil {
		return ""
	}
	n, err := v.store.InboxCount(v.r.Context(), v.actor)
	switch {
	case err != nil || n == 0: // the page itself says what is wrong with the database
		return ""
	case n > rulestore.MaxInbox:
		return strconv.Itoa(rulestore.MaxInbox) + "+"
	}
	return strconv.FormatInt(n, 10)
}

// talk is what was said about a version, and the form to say more.
type talk struct {
	CSRF       string
	Domain, ID string
	Version    int64
	Page       string // that the form is on
	List       []rulestore.Comment
	Count      int64 // of all comments
	May        bool  // this actor may say something
	Sent       commentForm
}

// commentForm is a form with a comment, as it was sent.
type commentForm struct {
	at      place
	version int64

	Text   string
	Faults map[string]string
}

// of is the form as it was sent for a version; empty: it was sent for another.
func (f commentForm) of(at place, version int64) commentForm {
	if f.at != at || f.version != version {
		return commentForm{}
	}
	return f
}

// talk is all that was said about a version.
func (v *visit) talk(at place, version int64, may bool, sent commentForm) (*talk, error) {
	list, err := v.store.Comments(v.r.Context(), at.domain, at.id, version)
	return &talk{v.csrf(), at.domain, at.id, version, "rule", list, int64(len(list)), may, sent.of(at, version)}, err
}

// comment says something about a version.
func (p *Pages) comment(v *visit) error {
	form := v.r.PostFormValue
	sent := commentForm{at: place{form("domain"), form("rule")}, version: v.number("version"), Text: strings.ReplaceAll(form("text"), "\r\n", "\n")}
	_, err := v.store.Comment(v.r.Context(), v.actor, sent.at.domain, sent.at.id, sent.version, sent.Text)
	inbox := form("page") == "inbox"
	if err == nil {
		if inbox {
			return v.see(Home+"inbox", "Your comment is there.")
		}
		return v.see(sent.at.home(), "Your comment is there.")
	}
	if sent.Faults = faultsOf(err); sent.Faults == nil {
		return err
	}
	if inbox {
		return v.showInbox(statusOf(err), sent)
	}
	return v.showRule(statusOf(err), sent.at, forms{comment: sent})
}

// undone is the line of the audit that a link says is to be undone, and what undoes it; 0: the page was opened without one.
func (v *visit) undone(at place) (line int64, u rulestore.Undo, err error) {
	asked := v.query("undo")
	if asked == "" || v.store == nil {
		return 0, u, nil
	}
	line, bad := strconv.ParseInt(asked, 10, 64)
	list, err := v.store.Audit(v.r.Context(), rulestore.Audited{Behind: line - 1, Limit: 1})
	if err != nil {
		return 0, u, err
	}
	if bad != nil || len(list) == 0 || list[0].Seq != line || list[0].Domain != at.domain && at.domain != "" || list[0].Rule != at.id {
		return 0, u, &fault{http.StatusNotFound, "There is no line " + plain(asked) + " of the audit about this. Look at the audit."}
	}
	found, err := v.store.Undos(v.r.Context(), v.actor, list)
	if u = found[line]; err == nil && u.To == "" {
		err = &fault{http.StatusConflict, "Line " + strconv.FormatInt(line, 10) + " of the audit can't be undone: " + cmp.Or(u.Why, "your token may not do that, or such things are not undone") + "."}
	}
	return line, u, err
}

// undoes is the reason of a step that undoes a line of the audit.
func undoes(line int64) string { return "undoes audit line " + strconv.FormatInt(line, 10) }

// undoLink is the page with the form that undoes a line.
func undoLink(e *rulestore.Event, u *rulestore.Undo) string {
	at, line := place{e.Domain, e.Rule}, strconv.FormatInt(e.Seq, 10)
	switch u.To {
	case rulestore.UndoEnforce:
		if u.Version != e.Version {
			version := strconv.FormatInt(u.Version, 10)
			return at.at("history") + "&before=" + strconv.FormatInt(u.Version+1, 10) + "&undo=" + line + "#v" + version
		}
		return at.home() + "&undo=" + line + "#end"
	case rulestore.UndoDisable, rulestore.UndoRemove:
		return at.home() + "&undo=" + line + "#end"
	case rulestore.UndoOverride:
		return at.home() + "&undo=" + line + "#held"
	case rulestore.UndoSettings:
		return at.home() + "&undo=" + line + "#settings"
	case rulestore.UndoRemoval:
		revision := strconv.FormatInt(e.Revision, 10)
		return Home + "deletions?before=" + strconv.FormatInt(e.Revision+1, 10) + "&undo=" + line + "#d" + revision
	}
	return ""
}

// undoable says of lines how each is undone, or why it can't be.
func (v *visit) undoable(rows []auditRow) error {
	list := make([]rulestore.Event, len(rows))
	for i := range rows {
		list[i] = rows[i].Event
	}
	found, err := v.store.Undos(v.r.Context(), v.actor, list)
	for i := range rows {
		if u, ok := found[rows[i].Seq]; ok {
			rows[i].Undo, rows[i].Stays = undoLink(&rows[i].Event, &u), u.Why
		}
	}
	return err
}

// forms are those of a rule's page that undo a line of the audit, filled in.
func undoForms(line int64, u *rulestore.Undo) (sent forms) {
	reason := undoes(line)
	switch u.To {
	case rulestore.UndoEnforce:
		sent.step = stepForm{To: string(rulestore.Enforced), Version: u.Version, Reason: reason}
	case rulestore.UndoDisable:
		sent.step = stepForm{To: string(rulestore.Disabled), Version: u.Version, Reason: reason}
	case rulestore.UndoRemove:
		sent.step = stepForm{To: removed, Reason: reason}
	case rulestore.UndoOverride:
		sent.override = overrideForm{End: true, Reason: reason}
	case rulestore.UndoSettings, rulestore.UndoRemoval: // of domains
	}
	return sent
}

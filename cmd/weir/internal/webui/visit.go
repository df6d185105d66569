package webui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/cmd/weir/internal/scope"
	"github.com/weir-limit/weir/rules"
)

// visit is one request of somebody.
type visit struct {
	pages   *Pages
	w       http.ResponseWriter
	r       *http.Request
	session *session // nil: nobody has to sign in, or has
	actor   rulestore.Actor
	store   *rulestore.Store // nil: there is none, or none was reached
}

// fault is a request that can't be answered as it was meant.
type fault struct {
	status int
	text   string // says what to do instead
}

func (f *fault) Error() string { return f.text }

// anyone answers everybody.
func (p *Pages) anyone(show func(*visit) error) http.HandlerFunc {
	return p.visited(func(v *visit) error {
		if err := v.readForm(); err != nil {
			return err
		}
		return show(v)
	})
}

func (p *Pages) visited(show func(*visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, stop := context.WithTimeout(r.Context(), visitTime)
		defer stop()
		v := &visit{pages: p, w: w, r: r.WithContext(ctx)}
		if p.options.Store != nil {
			v.store = p.options.Store()
		}
		if err := show(v); err != nil {
			v.fail(err)
		}
	}
}

// known answers a person that has signed in. It sends any other visitor to sign in, and reads no
// form of theirs. A request that changes something must come from a page of the same session, and
// counts as a change.
func (p *Pages) known(show func(*visit) error) http.HandlerFunc {
	if p.options.SignIn == nil {
		return p.anyone(show)
	}
	return p.visited(func(v *visit) error {
		err := v.find(time.Now())
		if rulestore.IsKind(err, rulestore.Unknown) {
			return v.askToSignIn()
		}
		if err != nil {
			return err
		}
		if v.r.Method == http.MethodPost {
			if err := v.admit(); err != nil {
				return err
			}
		}
		return show(v)
	})
}

// admit reads a form, if it is of this session and not one too many.
func (v *visit) admit() error {
	if err := v.readForm(); err != nil {
		return err
	}
	if !v.session.ours(v.r.PostFormValue("csrf")) {
		return &fault{http.StatusForbidden, "This form is not of your session: it was opened before you signed in, or comes from elsewhere. Go back, load the page again, and send it anew."}
	}
	if v.store == nil || v.r.URL.Path == Home+"sign-out" {
		return nil
	}
	return v.pages.options.Changes.Admit(v.r.Context(), v.actor)
}

// scope is whose clients this visitor may read of.
func (v *visit) scope() (*scope.Scope, error) {
	return v.pages.options.Scope(v.r.Context(), v.actor)
}

// askToSignIn remembers where somebody wanted to go, if that is a page.
func (v *visit) askToSignIn() error {
	to := Home
	if v.r.Method == http.MethodGet {
		to = v.r.URL.RequestURI()
	}
	http.Redirect(v.w, v.r, Home+"sign-in?to="+url.QueryEscape(to), http.StatusSeeOther)
	return nil
}

func (v *visit) readForm() error {
	if v.r.Method != http.MethodPost {
		return nil
	}
	most, read := int64(maxForm), v.r.ParseForm
	if slices.Contains([]string{Home + "import", Home + "exceptions/import"}, v.r.URL.Path) {
		most, read = maxImport, func() error { return v.r.ParseMultipartForm(maxImport) } // none of it in files
	}
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, most)
	err := read()
	if errors.Is(err, http.ErrNotMultipart) { // it was read as it is
		err = nil
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return &fault{http.StatusRequestEntityTooLarge, fmt.Sprintf("The form is too large; a rule may have %d bytes, and a file %d.", rulestore.MaxText, rulestore.MaxFile)}
	}
	if err != nil {
		return &fault{http.StatusBadRequest, "The form can't be read: " + err.Error()}
	}
	return nil
}

// query is a word of the address.
func (v *visit) query(name string) string { return v.r.URL.Query().Get(name) }

// sheet is what the frame of all pages shows.
type sheet struct {
	Title  string
	Nav    []tab
	Who    string // has signed in; empty: nobody has to
	Role   string
	CSRF   string
	Notice string
	Ends   time.Time // when the token ends, if it does soon
	Why    string    // nothing can be changed here; empty: it can
	Sent   bool      // it answers a form: its address alone does not give it again
	Body   any
}

// tab is a link to one of the main pages.
type tab struct {
	Name, Path string
	Here       bool
	Count      string // of things there that wait for the visitor; empty: none
}

// refresh is the field of requests by which an open page follows the counts. One that
// comes between a form and the page after it must not take away what that is to say.
const refresh = "Weir-Refresh"

// show writes a page. It is whole, or not there.
func (v *visit) show(status int, look, title string, body any) error {
	s := sheet{Title: title, Body: body, Nav: v.nav(), Why: v.readOnly(), Sent: v.r.Method == http.MethodPost}
	if v.session != nil {
		s.Who, s.Role, s.CSRF = v.actor.Name, roleOf(&v.actor), v.session.csrf()
		if v.actor.EndsSoon(time.Now()) {
			s.Ends = v.actor.Expires
		}
		if v.r.Header.Get(refresh) == "" { // nobody would read it
			s.Notice = v.told()
		}
	}
	if look == "sign-in" {
		s.Nav, s.Why = nil, ""
	}
	return v.write(status, look, "page", s)
}

func (v *visit) write(status int, look, part string, data any) error {
	var out bytes.Buffer
	if err := v.pages.looks[look].ExecuteTemplate(&out, part, data); err != nil {
		return fmt.Errorf("write the page %s: %w", look, err)
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = out.WriteTo(v.w) // the browser may be gone
	return nil
}

func (v *visit) nav() []tab {
	here := strings.TrimPrefix(v.r.URL.Path, Home)
	tabs := []tab{
		{Name: "Rules", Here: slices.Contains([]string{"", "rules", "rule", "new", "domain", "deletions", "history", "import", "exceptions", "exception"}, here)},
		{Name: "Inbox", Path: "inbox", Count: v.waitingCount()},
		{Name: "Try a request", Path: "try"},
		{Name: "Limited", Path: "limited", Here: here == "unblock"},
		{Name: "Traffic", Path: "traffic"},
		{Name: "Nodes", Path: "nodes"},
		{Name: "Audit", Path: "audit"},
		{Name: "Teams", Path: "teams"},
		{Name: "Tokens", Path: "tokens"},
		{Name: "Webhooks", Path: "webhooks"},
		{Name: "Backup", Path: "backup"},
	}
	tabs = slices.DeleteFunc(tabs, func(t tab) bool {
		needs := slices.Contains([]string{"inbox", "audit", "teams", "tokens", "webhooks"}, t.Path)
		return needs && v.store == nil || (t.Path == "tokens" || t.Path == "webhooks") && v.actor.Role < rulestore.Admin
	})
	for i := range tabs {
		tabs[i].Here = tabs[i].Here || here == tabs[i].Path
		tabs[i].Path = Home + tabs[i].Path
	}
	return tabs
}

// readOnly says why nothing can be changed; empty: it can.
func (v *visit) readOnly() string {
	switch {
	case v.pages.options.Store == nil:
		return "This daemon has no rule database: its rules come from files, and can be read here only. Start it with --data to change rules on this page."
	case v.store == nil:
		return "The rule database was not reached yet: the active rules are a copy, and can't be changed now. The log of the daemon says why."
	case v.actor.Role == rulestore.Read:
		return "You may read. Ask an administrator for a role that may propose or publish."
	}
	return ""
}

func (p *Pages) nowhere(*visit) error {
	return &fault{http.StatusNotFound, "There is no such page. Begin with the list of rules."}
}

// fail says what is wrong.
func (v *visit) fail(err error) {
	status, text := statusOf(err), err.Error()
	if many, ok := errors.AsType[*changes.Limited](err); ok {
		v.w.Header().Set("Retry-After", strconv.FormatInt(many.Seconds(), 10))
		text = fmt.Sprintf("%s has asked for too many changes (%s). Go back, wait %d s, and send it again.", many.Actor, changes.Pace, many.Seconds())
	}
	if status == http.StatusInternalServerError {
		v.pages.options.Log.Error("a page failed", "path", v.r.URL.Path, "error", err)
		text = "This is a bug of the daemon; its log says more."
	}
	if bad := v.show(status, "fault", http.StatusText(status), text); bad != nil {
		v.pages.options.Log.Error("a page failed", "path", v.r.URL.Path, "error", bad)
		http.Error(v.w, text, status)
	}
}

// kindOf is the kind of an error of the store; of others it is Unavailable, and of
// none that, too.
func kindOf(err error) rulestore.Kind {
	if bad, ok := errors.AsType[*rulestore.Error](err); ok {
		return bad.Kind
	}
	return rulestore.Unavailable
}

func statusOf(err error) int {
	if bad, ok := errors.AsType[*fault](err); ok {
		return bad.status
	}
	if _, ok := errors.AsType[*changes.Limited](err); ok {
		return http.StatusTooManyRequests
	}
	if _, ok := errors.AsType[*changes.FromFiles](err); ok {
		return http.StatusConflict
	}
	if _, ok := errors.AsType[*rules.Error](err); ok {
		return http.StatusBadRequest
	}
	if _, ok := errors.AsType[*rulestore.Error](err); !ok {
		return http.StatusInternalServerError
	}
	return map[rulestore.Kind]int{
		rulestore.Invalid: http.StatusBadRequest, rulestore.NotFound: http.StatusNotFound, rulestore.Stale: http.StatusConflict, rulestore.Exists: http.StatusConflict,
		rulestore.Unknown: http.StatusUnauthorized, rulestore.Forbidden: http.StatusForbidden, rulestore.Quota: http.StatusForbidden,
		rulestore.Unavailable: http.StatusServiceUnavailable,
	}[kindOf(err)]
}

// see sends the browser on to another page, to say this there.
func (v *visit) see(path, notice string) error {
	if v.session != nil {
		v.tell(notice)
	}
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// stored refuses what can't be done without the rule database.
func stored(show func(*visit) error) func(*visit) error {
	return func(v *visit) error {
		if v.store == nil {
			return &fault{http.StatusServiceUnavailable, v.readOnly()}
		}
		return show(v)
	}
}

// faultsOf is what is wrong with a form, by the field; nil: it is not the form.
func faultsOf(err error) map[string]string {
	if _, ok := errors.AsType[*rules.Error](err); ok {
		return map[string]string{"text": "This can't be used as it is; what is wrong stands at its line."}
	}
	if files, ok := errors.AsType[*changes.FromFiles](err); ok {
		return map[string]string{"": "The domain " + files.Error()}
	}
	bad, ok := errors.AsType[*rulestore.Error](err)
	if !ok || bad.Kind == rulestore.NotFound || bad.Kind == rulestore.Unknown {
		return nil
	}
	switch {
	case bad.Field == "text" && len(bad.Findings) > 0:
		return map[string]string{"text": "This can't be used as it is; what is wrong stands at its line."}
	case bad.Field == "confirm":
		return map[string]string{"confirm": "The name " + bad.Text}
	case bad.Field == "expires":
		return map[string]string{"expires": "When the token ends " + bad.Text}
	case bad.Field == "rule", bad.Field == "owner":
		return map[string]string{"text": "The " + bad.Field + " " + bad.Text}
	case slices.Contains([]string{"text", "reason", "percent", "until", "team", "teams", "actor", "role", "quota", "url", "form", "kinds"}, bad.Field):
		return map[string]string{bad.Field: "The " + bad.Field + " " + bad.Text}
	}
	return map[string]string{"": upper(bad.Text)}
}

// place is an item of the descriptors of a file, with all that is below it.
type place struct{ domain, id string }

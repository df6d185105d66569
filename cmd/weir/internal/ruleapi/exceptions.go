package ruleapi

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// granting is an exception that is to hold.
type granting struct {
	Domain  string
	Entries []rulestore.Entry // of a descriptor of its requests
	Of      string            // which of several limits it is in place of
	Limit   string
	Seconds int64     // how long it holds; 0: until Until
	Until   time.Time // zero: for Seconds
	Reason  string
}

// setException gives a key a limit of its own for some time.
func setException(c *call, in granting) (answer, error) {
	e := rulestore.Exception{Domain: in.Domain, Entries: in.Entries, Of: in.Of, Limit: in.Limit, Until: in.Until, Reason: in.Reason}
	switch {
	case in.Seconds != 0 && !in.Until.IsZero():
		return answer{}, badRequest("until", "stands beside seconds; give one of them")
	case in.Until.IsZero() && (in.Seconds < 1 || in.Seconds > int64(rulestore.MaxException/time.Second)):
		return answer{}, badRequest("seconds", "how long it holds, must be 1…7948800; or give until")
	case in.Until.IsZero():
		e.Until = time.Now().Add(time.Duration(in.Seconds) * time.Second)
	}
	made, err := c.options.Changes.SetException(c.r.Context(), c.store, c.by, e)
	return answer{status: http.StatusCreated, body: made, location: "/v1/exceptions/" + url.PathEscape(made.ID)}, err
}

// importExceptions sets those of a list in CSV, none if one is wrong.
func importExceptions(c *call) (answer, error) {
	text, err := c.read(rulestore.MaxExceptionCSV)
	if err != nil {
		return answer{}, err
	}
	p := rulestore.ReadExceptions(bytes.NewReader(text), time.Now())
	p.Domain, p.Reason, p.Dry = c.query["domain"], c.query["reason"], c.query["dry_run"] == "true"
	done, err := c.options.Changes.SetExceptions(c.r.Context(), c.store, c.by, p)
	return answer{body: done}, err
}

// listExceptions lists those whose clients the caller may read of.
func listExceptions(c *call) (answer, error) {
	q := rulestore.ExceptionList{Domain: c.query["domain"], Search: c.query["search"], Limit: c.limit}
	if name, id, ok := strings.Cut(c.query["after"], "/"); ok {
		q.BehindName, q.Behind = unescaped(name), unescaped(id)
	}
	scope, err := c.store.Scope(c.r.Context(), c.by)
	if err != nil {
		return answer{}, err
	}
	if q.Domain != "" { // every token reads which domains there are
		if _, err := c.store.Domain(c.r.Context(), q.Domain); err != nil {
			return answer{}, err
		}
	}
	if rule := c.query["rule"]; rule != "" {
		q.Rules = []string{rule}
	}
	if !scope.Exceptions(&q) {
		if q.Domain == "" {
			return answer{}, badRequest("domain", "is missing; name one whose clients you may read about, for only a token of all teams reads about all")
		}
		return answer{}, forbiddenClients(q.Domain)
	}
	found, err := c.store.Exceptions(c.r.Context(), q)
	next := func(e *rulestore.Exception) string { return url.PathEscape(e.SortName()) + "/" + url.PathEscape(e.ID) }
	return answer{body: paged(c, "exceptions", found, next)}, err
}

// forbiddenClients says that the caller may not read about the clients of a domain.
func forbiddenClients(domain string) error {
	return &problem{
		Status: http.StatusForbidden, Field: "domain",
		Detail: "domain: exceptions of " + quote(domain) + " name clients; it takes a token of the domain's team, of the rule's, or of all teams, or a domain that is public",
	}
}

// exception is the one that the path names, if the caller may read of it.
func (c *call) exception() (rulestore.Exception, error) {
	e, err := c.store.Exception(c.r.Context(), c.r.PathValue("exception"))
	if err != nil {
		return e, err
	}
	scope, err := c.store.Scope(c.r.Context(), c.by)
	if err == nil && !scope.Exceptions(&rulestore.ExceptionList{Domain: e.Domain, Rules: []string{e.Rule}}) {
		err = forbiddenClients(e.Domain)
	}
	return e, err
}

func getException(c *call) (answer, error) {
	e, err := c.exception()
	return answer{body: e}, err
}

// endException ends one before its time.
func endException(c *call) (answer, error) {
	e, err := c.store.EndException(c.r.Context(), c.by, c.r.PathValue("exception"), c.query["reason"])
	return answer{body: e}, err
}

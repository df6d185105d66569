package ruleapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-limit/weir/cmd/weir/internal/changes"
	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
	"github.com/weir-limit/weir/rules"
)

// problem is an error as RFC 9457 writes it.
type problem struct {
	Title    string    `json:"title"`
	Status   int       `json:"status"`
	Detail   string    `json:"detail"`
	Field    string    `json:"field,omitempty"`    // of the request, that is at fault
	Findings []Finding `json:"findings,omitempty"` // of a rule's text
}

func (p *problem) Error() string { return p.Detail }

// Finding is a rules.Finding.
type Finding struct {
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Severity string `json:"severity"`
	Text     string `json:"text"`
	Rule     string `json:"rule,omitempty"`
}

func findingsOf(list []rules.Finding) (out []Finding) {
	for _, f := range list {
		out = append(out, Finding{f.Line, f.Column, f.Severity.String(), f.Text, f.Rule})
	}
	return out
}

// send writes p and gives its status.
func send(w http.ResponseWriter, p *problem) int {
	p.Title = http.StatusText(p.Status)
	body, err := json.Marshal(p)
	if err != nil { // it can't be: it is text and numbers
		body = []byte(`{"status":500}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="weir"`)
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client may be gone
	return p.Status
}

// fail answers a call that went wrong. It logs a fault of the daemon itself.
func (c *call) fail(err error) int {
	p := problemOf(err)
	if many, ok := errors.AsType[*changes.Limited](err); ok {
		c.w.Header().Set("Retry-After", strconv.FormatInt(many.Seconds(), 10))
	}
	if p.Status >= http.StatusInternalServerError && c.r.Context().Err() == nil {
		c.options.Log.Error("a call about rules failed", "method", c.r.Method, "path", c.r.URL.Path, "error", err)
	}
	return send(c.w, p)
}

func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if held, ok := errors.AsType[*changes.Held](err); ok {
		return &problem{Status: http.StatusConflict, Field: "force", Detail: held.Why}
	}
	if files, ok := errors.AsType[*changes.FromFiles](err); ok {
		return &problem{Status: http.StatusConflict, Field: "domain", Detail: "domain: " + files.Error()}
	}
	if many, ok := errors.AsType[*changes.Limited](err); ok {
		return &problem{Status: http.StatusTooManyRequests, Detail: many.Error()}
	}
	if bad, ok := errors.AsType[*rules.Error](err); ok {
		detail, _, _ := strings.Cut(bad.Error(), "\n")
		return &problem{Status: http.StatusBadRequest, Field: "text", Detail: "text: is refused: " + detail, Findings: findingsOf(bad.Findings)}
	}
	bad, ok := errors.AsType[*rulestore.Error](err)
	if !ok {
		return &problem{Status: http.StatusInternalServerError, Detail: "the daemon could not do it; its log says why"}
	}
	if bad.Kind == rulestore.Stale && bad.Field == "match" {
		bad.Field = "If-Match"
	}
	p := &problem{Detail: bad.Text, Field: bad.Field, Findings: findingsOf(bad.Findings)}
	if bad.Field != "" {
		p.Detail = bad.Field + ": " + bad.Text
	}
	switch bad.Kind {
	case rulestore.Invalid:
		p.Status = http.StatusBadRequest
	case rulestore.NotFound:
		p.Status = http.StatusNotFound
	case rulestore.Stale:
		p.Status = http.StatusPreconditionFailed
	case rulestore.Unknown:
		p.Status = http.StatusUnauthorized
	case rulestore.Forbidden:
		p.Status = http.StatusForbidden
	case rulestore.Quota, rulestore.Exists:
		p.Status = http.StatusConflict
	case rulestore.Unavailable:
		p.Status = http.StatusServiceUnavailable
	}
	return p
}

// badRequest is about a field, whose name may be the client's.
func badRequest(field, detail string) *problem {
	field = short(field)
	return &problem{Status: http.StatusBadRequest, Field: field, Detail: field + ": " + detail}
}

// quote is text of a client as messages show it.
func quote(text string) string { return strconv.QuoteToGraphic(short(text)) }

// short is text of a client that may be long.
func short(text string) string {
	const most = 128
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

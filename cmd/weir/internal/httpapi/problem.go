package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/weir-limit/weir"
	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/rules"
)

// Values of header fields. They are shared by all answers and never changed.
var (
	answerType  = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	plainType   = []string{"text/plain; charset=utf-8"}
	noStore     = []string{"no-store"}
)

// problem is an error as RFC 9457 writes it. Detail says what to do instead.
type problem struct {
	Status int
	Detail string
}

func (p *problem) Error() string { return p.Detail }

// send writes p and returns its status.
func send(w http.ResponseWriter, p *problem) int {
	b := append(make([]byte, 0, 256), `{"title":`...)
	b = appendString(b, http.StatusText(p.Status))
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.Status), 10)
	b = append(b, `,"detail":`...)
	b = appendString(b, p.Detail)
	b = append(b, "}\n"...)
	h := w.Header()
	h["Content-Type"] = problemType
	h["Cache-Control"] = noStore
	w.WriteHeader(p.Status)
	_, _ = w.Write(b) // the client may be gone
	return p.Status
}

// fail answers a call that went wrong. It logs a fault of the daemon itself.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) int {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError && r.Context().Err() == nil {
		a.options.Log.Error("a call failed", "route", r.URL.Path, "error", err)
	}
	return send(w, p)
}

// problemOf is what to tell the client of an error.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if shut, ok := errors.AsType[*Shut](err); ok {
		return &problem{shut.status(), shut.Text}
	}
	if _, ok := errors.AsType[*rules.RequestError](err); ok {
		return &problem{http.StatusBadRequest, err.Error()}
	}
	if _, ok := errors.AsType[*envoy.RequestError](err); ok {
		return &problem{http.StatusBadRequest, err.Error()}
	}
	if _, ok := errors.AsType[*inputError](err); ok {
		return &problem{http.StatusBadRequest, err.Error()}
	}
	switch {
	case errors.Is(err, errNotOurs):
		return &problem{http.StatusBadRequest, errNotOurs.Error()}
	case errors.Is(err, errElsewhere):
		return &problem{http.StatusBadRequest, errElsewhere.Error()}
	case errors.Is(err, weir.ErrNoPermit):
		return &problem{http.StatusBadRequest, "nothing to renew: the receipt holds no permit; settle it without renew"}
	case errors.Is(err, weir.ErrSettled), errors.Is(err, weir.ErrExpired):
		return &problem{http.StatusConflict, "the receipt was used before or has expired; there is nothing left to settle"}
	case errors.Is(err, errReceiptSize):
		return &problem{http.StatusRequestEntityTooLarge, errReceiptSize.Error()}
	case errors.Is(err, rules.ErrNoRules):
		return &problem{http.StatusServiceUnavailable, "no rules are loaded yet; try again when /readyz says so"}
	case errors.Is(err, rules.ErrNoLook):
		return &problem{http.StatusNotImplemented, "the store of this daemon can't be looked into"}
	case errors.Is(err, rules.ErrForgotten):
		return &problem{http.StatusNotFound, err.Error() + "; POST /v1/explain tells how a request stands now"}
	case errors.Is(err, weir.ErrAway):
		return &problem{http.StatusServiceUnavailable, "the store of the counts is away; try again when /readyz says that it is back"}
	case errors.Is(err, weir.ErrBusy):
		return &problem{http.StatusServiceUnavailable, "too many want the same count at once; try again"}
	case errors.Is(err, weir.ErrFull):
		return &problem{http.StatusServiceUnavailable, "too many receipts of this rule were settled in the last minutes; ask without a receipt, or try again later"}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &problem{http.StatusServiceUnavailable, "the call took too long; try again"}
	}
	return &problem{http.StatusInternalServerError, "the daemon could not decide; its log says why"}
}

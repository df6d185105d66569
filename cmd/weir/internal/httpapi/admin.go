package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/weir-limit/weir/rules"
)

// Explainer is what the admin listener asks; *rules.Limiter is one.
type Explainer interface {
	Explain(context.Context, *rules.Request) (*rules.Explanation, error)
	Recall(ctx context.Context, id string) (*rules.Explanation, error)
	Reset(context.Context, *rules.Request) ([]*rules.Rule, error)
}

// NewAdmin makes the part of the admin listener that is about requests:
// POST /v1/explain and POST /v1/reset, and GET /v1/explain?id=ID for denials. reads is whose
// requests a caller may have explained. A Gate belongs before it, which lets nobody reset who may not.
func NewAdmin(e Explainer, reads Reads, o Options) http.Handler {
	o.fill()
	a := &API{options: o, hint: "ask POST /v1/explain or /v1/reset"}
	explain := route{method: http.MethodPost, path: "/v1/explain", serve: a.answering(func(s *scratch, r *http.Request) error {
		x, err := e.Explain(r.Context(), &s.request)
		if err == nil {
			err = readable(r, x, reads)
		}
		if err == nil {
			s.out = AppendExplanation(s.out[:0], x)
		}
		return err
	})}
	explain.get = func(w http.ResponseWriter, r *http.Request) int { return a.recall(e, reads, w, r) }
	reset := route{method: http.MethodPost, path: "/v1/reset", serve: a.answering(func(s *scratch, r *http.Request) error {
		forgot, err := e.Reset(r.Context(), &s.request)
		if o.Reset != nil && !s.request.Peek {
			o.Reset(r, &s.request, err)
		}
		if err == nil {
			s.out = appendJSON(s.out[:0], map[string]any{"reset": each(forgot, resetOf)})
		}
		return err
	})}
	a.routes = routes(explain, reset)
	return a
}

// recall is GET /v1/explain?id=ID: why a request was denied.
func (a *API) recall(e Explainer, reads Reads, w http.ResponseWriter, r *http.Request) int {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(values) != 1 || len(values["id"]) != 1 {
		return a.fail(w, r, faultf("write GET /v1/explain?id=ID for why a request was denied, or POST /v1/explain with a request"))
	}
	x, err := e.Recall(r.Context(), values.Get("id"))
	if err == nil {
		err = readable(r, x, reads)
	}
	if err != nil {
		return a.fail(w, r, err)
	}
	return sendAnswer(w, AppendExplanation(nil, x))
}

// readable refuses an explanation to a caller that may not read of its client.
func readable(r *http.Request, x *rules.Explanation, reads Reads) error {
	s, err := reads(r)
	if err == nil && !s.Explanation(x) {
		err = notYours(x.Domain)
	}
	return err
}

func sendAnswer(w http.ResponseWriter, answer []byte) int { return sendAs(w, http.StatusOK, answer) }

// sendAs sends an answer with a status.
func sendAs(w http.ResponseWriter, status int, answer []byte) int {
	h := w.Header()
	h["Content-Type"] = answerType
	h["Cache-Control"] = noStore
	w.WriteHeader(status)
	_, _ = w.Write(append(answer, '\n')) // the client may be gone
	return status
}

// answering reads the body of /v1/check and sends what answer makes of it.
func (a *API) answering(answer func(*scratch, *http.Request) error) func(http.ResponseWriter, *http.Request) int {
	return func(w http.ResponseWriter, r *http.Request) int {
		s := a.acquire()
		defer a.release(s)
		if err := s.read(w, r); err != nil {
			return a.fail(w, r, err)
		}
		if err := readCheck(string(s.body), &s.request); err != nil {
			return a.fail(w, r, err)
		}
		if err := answer(s, r); err != nil {
			return a.fail(w, r, err)
		}
		return sendAnswer(w, s.out)
	}
}

// resetRule is a rule whose count was reset.
type resetRule struct {
	Rule  Text   `json:"rule"`
	Limit string `json:"limit"`
}

func resetOf(r *rules.Rule) resetRule { return resetRule{Text(r.Name), r.Limit.String()} }

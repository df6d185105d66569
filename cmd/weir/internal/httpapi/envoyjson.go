package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/weir-limit/weir/cmd/weir/internal/envoy"
	"github.com/weir-limit/weir/rules"
)

// listener hears what its limiter answers.
type listener struct {
	Limiter

	client string
	answer *rules.Answer
}

// CheckInto is that of the limiter.
func (l *listener) CheckInto(ctx context.Context, r *rules.Request, a *rules.Answer) error {
	r.Client, l.answer = l.client, a
	return l.Limiter.CheckInto(ctx, r, a)
}

// envoyJSON is POST /json: Envoy's rate limit service as proto JSON.
func (a *API) envoyJSON(w http.ResponseWriter, r *http.Request) int {
	s := a.acquire()
	defer a.release(s)
	if err := s.read(w, r); err != nil {
		return a.fail(w, r, err)
	}
	var request rls.RateLimitRequest
	if err := envoy.UnmarshalJSON(s.body, &request); err != nil {
		if _, ok := errors.AsType[*envoy.RequestError](err); ok {
			return a.fail(w, r, err)
		}
		return a.fail(w, r, &problem{
			http.StatusBadRequest,
			// protojson varies its spaces, so that nobody compares its texts.
			"not a RateLimitRequest as proto JSON (" + strings.ReplaceAll(err.Error(), "\u00a0", " ") + `); send {"domain": …, "descriptors": [{"entries": [{"key": …, "value": …}]}]}`,
		})
	}
	limiter := &listener{Limiter: a.limiter, client: Neighbourhood(r.RemoteAddr)}
	response, err := envoy.ShouldRateLimit(r.Context(), limiter, &request, a.options.Answers)
	if err != nil {
		return a.fail(w, r, err)
	}
	pretty, err := protojson.Marshal(response)
	if err != nil {
		return a.fail(w, r, err)
	}
	// protojson puts spaces where it likes; without them answers can be compared.
	var out bytes.Buffer
	if err := json.Compact(&out, pretty); err != nil {
		return a.fail(w, r, err)
	}
	status := statusOf(limiter.answer)
	if a.options.Answers.Shadow && !limiter.answer.Allowed {
		a.options.Shadowed()
		status = http.StatusOK
	}
	for _, add := range response.ResponseHeadersToAdd {
		w.Header()[add.Key] = []string{add.Value}
	}
	return sendAs(w, status, out.Bytes())
}

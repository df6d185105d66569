package ruleapi

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-limit/weir/cmd/weir/internal/rulestore"
)

// TestCallTime: no call waits longer for the database than its answer may take.
func TestCallTime(t *testing.T) {
	a := &API{options: Options{Store: func() *rulestore.Store { return new(rulestore.Store) }}}
	served := false
	call := a.route(route{method: http.MethodGet, path: "/v1/whoami", serve: func(c *call) (answer, error) {
		end, ok := c.r.Context().Deadline()
		served = ok && time.Until(end) <= callTime
		return answer{}, nil
	}})
	call.ServeHTTP(httptest.NewRecorder(), As(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/whoami", nil), rulestore.Actor{}))
	if !served {
		t.Error("a call has no end")
	}
}

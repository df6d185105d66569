package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-limit/weir/cmd/weir/internal/overload"
	"github.com/weir-limit/weir/memstore"
	"github.com/weir-limit/weir/rules"
)

// TestSeats: when too many connections ask, those without a seat are told to come
// later, and closed; health is told to all, and receipts are settled.
func TestSeats(t *testing.T) {
	gate := new(overload.Gate)
	refused := 0
	a, err := New(rules.NewLimiter(memstore.New(memstore.Options{}), nil), Options{Gate: gate, Refused: func(string) { refused++ }})
	if err != nil {
		t.Fatal(err)
	}
	gate.SetLimit(1)
	var held overload.Seat
	gate.Take(&held)
	ask := func(method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(ConnContext(t.Context(), nil), method, path, strings.NewReader("{}"))
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		return w
	}
	for _, path := range []string{"/v1/check", "/json"} {
		w := ask(http.MethodPost, path)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" || w.Header().Get("Connection") != "close" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
	}
	if w := ask(http.MethodGet, "/healthz"); w.Code != http.StatusOK {
		t.Errorf("/healthz: %d", w.Code)
	}
	if w := ask(http.MethodPost, "/v1/settle"); w.Code != http.StatusBadRequest {
		t.Errorf("/v1/settle: %d", w.Code)
	}
	gate.SetLimit(0)
	if w := ask(http.MethodPost, "/v1/check"); w.Code != http.StatusBadRequest || refused != 2 {
		t.Errorf("without a limit: %d, %d refused", w.Code, refused)
	}
}
